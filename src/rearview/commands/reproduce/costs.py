"""What networks cost beside what a paper prints of it, as text: counted on the spot, or read off measured rows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rearview.bench.papers import cost_tables, cost_times
from rearview.bench.papers.cost_tables import COST, COUNTED, MEASURED, CostCell, CostComparison
from rearview.bench.papers.cost_times import Timed
from rearview.commands.reproduce.table import aligned
from rearview.core.errors import UsageError

_HEAD = ("dataset", "L", "H", "C", "run", "metric", "ours", "published", "diff", "verdict", "measured on")
_ALWAYS = ("run", "metric", "ours", "published")


def refuse_training(asked: Sequence[Any], options: Mapping[str, bool]) -> None:
    """Refuse options of training, by flag whether it was given, where nothing asked for is trained."""
    given = [flag for flag, was in options.items() if was]
    if given and asked and all(experiment.task == COST for experiment in asked):
        names = " and ".join(experiment.name for experiment in asked)
        raise UsageError(
            f"{names}: what networks cost is counted, and nothing is trained; leave out {' and '.join(given)}."
        )


def costs(experiment: Any, cells: Sequence[CostCell], results: Path) -> list[str]:
    """A line for each printed number of the cells, how many of the counts agree, by which rule, and why others don't.

    Milliseconds stand beside those in `results`, if that is a file of `benchmarks/scaling.py` or `train_speed.py`.
    """
    metrics = {number.metric for cell in cells for number in cell.numbers}
    timed = not metrics.isdisjoint(MEASURED)
    times, missing = _times(results) if timed else ([], [])
    found = list(cost_tables.compare(cells, times))
    counts = Counter(one.verdict for one in found if one.verdict)
    return [
        f"{experiment.name}: {experiment.title}",
        *filter(None, [cost_tables.note(experiment.paper)]),
        *_table(found),
        "",
        *([", ".join(f"{count} {verdict}" for verdict, count in counts.items())] if counts else []),
        *_reasons(found),
        *([] if metrics.isdisjoint(COUNTED) else [cost_tables.RULE]),
        *([cost_tables.NO_RULE] if timed else []),
        *missing,
        "",
    ]


def in_short(experiment: Any) -> str:
    """How much of a table can be counted, which needs no data."""
    cells = cost_tables.parts(experiment)
    counted = sum(cell.counts for cell in cells)
    return f"{counted} of {len(cells)} counts" if counted else "times alone"


def _times(results: Path) -> tuple[list[Timed], list[str]]:
    """What a file measured, and a line where it measured nothing."""
    if not results.exists():
        why = f"there is no file {results}"
    elif times := cost_times.read(results):
        return times, []
    else:
        why = f"{results} holds no rows of them"
    return [], [
        f"milliseconds: {why}; name the rows of benchmarks/scaling.py (inference) or benchmarks/train_speed.py "
        "(training steps) with --results"
    ]


def _table(found: Sequence[CostComparison]) -> list[str]:
    """The comparisons; a column that says nothing is left out."""
    lines = [_line(one) for one in found]
    head = [name for name in _HEAD if name in _ALWAYS or any(line[name] != "-" for line in lines)]
    return aligned([head, *([line[name] for name in head] for line in lines)])


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


def _reasons(found: Sequence[CostComparison]) -> list[str]:
    """Why counts differ or are not made, where that is known, once for each network."""
    told = [one for one in found if one.verdict in ("differs", "not counted") and one.cell.reason]
    return list(dict.fromkeys(f"{one.cell.model}: {one.cell.reason}" for one in told))
