"""Ours beside the printed numbers of an experiment, as text: errors of runs, or costs of networks."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rearview.bench import protocols
from rearview.bench.analysis import paper_comparison
from rearview.bench.analysis.leaderboard import find_overlapping
from rearview.bench.analysis.paper_comparison import Comparison
from rearview.bench.papers import costs
from rearview.bench.papers.catalogue import Cell, Experiment
from rearview.bench.papers.costs import COUNTED, MEASURED, CostCell
from rearview.bench.rows.row import RunRow
from rearview.bench.tasks import METRICS
from rearview.core.wording import align

FORECASTING = (
    "dataset", "L", "H", "run", "budget", "metric", "ours", "std", "n", "published", "diff", "verdict", "seconds",
    "memory",
)  # fmt: skip
LABELLED = (
    "dataset", "run", "budget", "metric", "ours", "std", "n", "by chance", "published", "diff", "verdict", "seconds",
)  # fmt: skip
COSTS = ("dataset", "L", "H", "C", "run", "metric", "ours", "published", "diff", "verdict", "memory", "measured on")
CHANCE = (
    "by chance: the adjusted F1 of as many flags thrown at random; point adjustment edits flags by the labels, so "
    "guessing does well by it"
)


def cost_table(experiment: Experiment, cells: Sequence[CostCell], results: Path) -> list[str]:
    """A line for each printed number of the cells, how many of the counts agree, by which rule, and why others don't.

    Milliseconds stand beside those in `results`, if that is a file of `benchmarks/scaling.py` or `train_speed.py`.
    """
    metrics = {number.metric for cell in cells for number in cell.numbers}
    timed = not metrics.isdisjoint(MEASURED)
    times = costs.read_times(results) if timed and results.exists() else []
    comparisons = list(costs.compare(cells, times))
    counts = Counter(one.verdict for one in comparisons if one.verdict)
    # Why counts differ or are not made, where that is known, once for each network.
    known = [one.cell for one in comparisons if one.verdict in ("differs", "not counted") and one.cell.reason]
    lines = [
        {
            "dataset": one.cell.dataset,
            "L": str(one.cell.lookback or ""),
            "H": str(one.cell.horizon or ""),
            "C": str(one.cell.channels or ""),
            "run": one.cell.label,
            "metric": {**COUNTED, **MEASURED}[one.number.metric],
            "ours": "" if one.ours is None else f"{one.ours:.5g}",
            "published": "" if one.number.value is None else f"{one.number.value:g}",
            "diff": "" if one.difference is None else f"{one.difference:+.2f} %",
            "verdict": one.verdict,
            "memory": "" if one.memory is None else f"{one.memory:,.0f} MiB",
            "measured on": one.where,
        }
        for one in comparisons
    ]
    always = ("run", "metric", "ours", "published")
    head = [name for name in COSTS if name in always or any(line[name] for line in lines)]
    missing = f"{results} holds no rows of them" if results.exists() else f"there is no file {results}"
    where = (
        f"milliseconds: {missing}; name the rows of benchmarks/scaling.py (inference) or benchmarks/train_speed.py "
        "(training steps) with --results"
    )
    return [
        f"{experiment.name}: {experiment.title}",
        *filter(None, [costs.note(experiment.paper)]),
        *align([head, *([line[name] or "-" for name in head] for line in lines)]),
        "",
        *([", ".join(f"{count} {verdict}" for verdict, count in counts.items())] if counts else []),
        *dict.fromkeys(f"{cell.model}: {cell.reason}" for cell in known),
        *([] if metrics.isdisjoint(COUNTED) else [costs.RULE]),
        *([costs.NO_RULE] if timed else []),
        *([where] if timed and not times else []),
        "",
    ]


def comparison_table(experiment: Experiment, cells: Sequence[Cell], rows: Sequence[RunRow], protocol: str) -> list[str]:
    """A line for each printed number of the cells, how many of them were reproduced, and by which rule."""
    wanted = {id(cell) for cell in cells}
    forecasts = experiment.task == protocols.FORECASTING
    comparisons = [one for one in paper_comparison.compare(experiment, rows, protocol) if id(one.cell) in wanted]
    if experiment.source and not forecasts:
        comparisons = paper_comparison.average_sets(comparisons)
    guessed = any(one.chance is not None for one in comparisons)
    every = FORECASTING if forecasts else LABELLED
    head = tuple(name for name in every if guessed or name != "by chance")
    counts = Counter(one.verdict for one in comparisons if one.verdict)
    tally = [f"{count} {verdict}" for verdict, count in counts.items()]
    if short := sum(bool(one.shortfall) for one in comparisons):
        tally.append(f"{short} of them with a smaller budget than the paper's")
    otherwise = forecasts and any(one.apart for one in comparisons)
    return [
        *align([head, *(comparison_line(one, head) for one in comparisons)]),
        "",
        *([", ".join(tally)] if tally else []),
        paper_comparison.RULE,
        *([paper_comparison.OTHER_SETTINGS] if otherwise else []),
        *([CHANCE] if guessed else []),
        *waiting_lines(comparisons, rows),
        "",
    ]


def waiting_lines(comparisons: Sequence[Comparison], rows: Sequence[RunRow]) -> list[str]:
    """A line where seconds in the table include waiting."""
    used = {row for one in comparisons for row in one.rows}
    waited = len(used & find_overlapping(rows))
    return [f"seconds: {waited} of {len(used)} runs shared their device, so theirs include waiting"] if waited else []


def comparison_line(comparison: Comparison, head: Sequence[str]) -> tuple[str, ...]:
    """A comparison under the heads of a table."""
    cell, number, rows = comparison.cell, comparison.number, comparison.rows
    seconds = [row.train_seconds for row in rows]
    memory = [row.peak_memory_bytes for row in rows if row.peak_memory_bytes is not None]
    # What tells runs of one cell apart most often.
    training = json.loads(rows[0].training) if rows else {}
    epochs = training.get("epochs")
    budget = f"{epochs} epoch{'s' * (epochs != 1)} of batch {training.get('batch')}" if training else "none"
    short = f" (smaller budget: {comparison.shortfall})" if comparison.shortfall else ""
    # The look-back of a cell, or those of its rows where the best of several was chosen.
    lookbacks = [one.lookback for one in (rows if cell.among and rows else (cell, *cell.among))]
    words = {
        "dataset": cell.dataset,
        "L": "/".join(dict.fromkeys(map(str, lookbacks))),
        "H": str(cell.horizon),
        "run": ", ".join(dict.fromkeys([cell.label, *cell.variant, *comparison.apart])),
        "budget": budget if rows else "-",
        "metric": comparison.metric if "H" in head else METRICS[comparison.metric],
        "ours": _short(comparison.mean),
        "std": _short(comparison.std),
        "n": str(comparison.count),
        "by chance": _short(comparison.chance),
        "published": "-" if number is None else _short(number.value),
        "diff": "-" if comparison.difference is None else f"{comparison.difference:+.1f} %",
        "verdict": f"{comparison.verdict}{short}" or "-",
        "seconds": f"{sum(seconds) / len(seconds):.0f}" if seconds else "-",
        "memory": f"{max(memory) / 2**20:,.0f} MiB" if memory else "-",
    }
    return tuple(words[name] for name in head)


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
