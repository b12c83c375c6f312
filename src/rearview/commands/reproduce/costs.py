"""Costs of networks beside those a paper prints, as text: counted on the spot, or read off measured rows."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rearview.bench.papers import costs
from rearview.bench.papers.catalogue import Experiment
from rearview.bench.papers.costs import COUNTED, MEASURED, CostCell, CostComparison, Timed
from rearview.commands.console import align

_HEAD = ("dataset", "L", "H", "C", "run", "metric", "ours", "published", "diff", "verdict", "measured on")
_ALWAYS = ("run", "metric", "ours", "published")


def compare_costs(experiment: Experiment, cells: Sequence[CostCell], results: Path) -> list[str]:
    """A line for each printed number of the cells, how many of the counts agree, by which rule, and why others don't.

    Milliseconds stand beside those in `results`, if that is a file of `benchmarks/scaling.py` or `train_speed.py`.
    """
    metrics = {number.metric for cell in cells for number in cell.numbers}
    timed = not metrics.isdisjoint(MEASURED)
    times, missing = _times(results) if timed else ([], [])
    comparisons = list(costs.compare(cells, times))
    counts = Counter(one.verdict for one in comparisons if one.verdict)
    # Why counts differ or are not made, where that is known, once for each network.
    known = [one.cell for one in comparisons if one.verdict in ("differs", "not counted") and one.cell.reason]
    lines = [_line(one) for one in comparisons]
    head = [name for name in _HEAD if name in _ALWAYS or any(line[name] != "-" for line in lines)]
    return [
        f"{experiment.name}: {experiment.title}",
        *filter(None, [costs.note(experiment.paper)]),
        *align([head, *([line[name] for name in head] for line in lines)]),
        "",
        *([", ".join(f"{count} {verdict}" for verdict, count in counts.items())] if counts else []),
        *dict.fromkeys(f"{cell.model}: {cell.reason}" for cell in known),
        *([] if metrics.isdisjoint(COUNTED) else [costs.RULE]),
        *([costs.NO_RULE] if timed else []),
        *missing,
        "",
    ]


def _times(results: Path) -> tuple[list[Timed], list[str]]:
    """The times that a file holds, and a line where it holds none."""
    if not results.exists():
        why = f"there is no file {results}"
    elif times := costs.read_times(results):
        return times, []
    else:
        why = f"{results} holds no rows of them"
    return [], [
        f"milliseconds: {why}; name the rows of benchmarks/scaling.py (inference) or benchmarks/train_speed.py "
        "(training steps) with --results"
    ]


def _line(one: CostComparison) -> dict[str, str]:
    cell, number = one.cell, one.number
    sizes = {"L": cell.lookback, "H": cell.horizon, "C": cell.channels}
    return {
        "dataset": cell.dataset or "-",
        **{name: "-" if size is None else str(size) for name, size in sizes.items()},
        "run": cell.label,
        "metric": {**COUNTED, **MEASURED}[number.metric],
        "ours": "-" if one.ours is None else f"{one.ours:.5g}",
        "published": "-" if number.value is None else f"{number.value:g}",
        "diff": "-" if one.difference is None else f"{one.difference:+.2f} %",
        "verdict": one.verdict or "-",
        "measured on": one.where or "-",
    }
