"""Ours beside the printed numbers of an experiment, as text."""

import json
from collections import Counter
from collections.abc import Sequence

from rearview.bench import protocols
from rearview.bench.analysis import paper_comparison
from rearview.bench.analysis.paper_comparison import Comparison
from rearview.bench.analysis.timing_overlap import find_overlapping
from rearview.bench.papers.catalogue import Cell, Experiment
from rearview.bench.rows.row import RunRow
from rearview.bench.tasks import METRICS
from rearview.commands.console import align

FORECASTING = (
    "dataset", "L", "H", "run", "budget", "metric", "ours", "std", "n", "published", "diff", "verdict", "seconds",
    "memory",
)  # fmt: skip
LABELLED = (
    "dataset", "run", "budget", "metric", "ours", "std", "n", "by chance", "published", "diff", "verdict", "seconds",
)  # fmt: skip
CHANCE = (
    "by chance: the adjusted F1 of as many flags thrown at random; point adjustment edits flags by the labels, so "
    "guessing does well by it"
)


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
    words = {
        "dataset": cell.dataset,
        "L": _lookbacks(comparison),
        "H": str(cell.horizon),
        "run": ", ".join([cell.label, *comparison.apart]),
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


def _lookbacks(comparison: Comparison) -> str:
    """That of a cell, or those of its rows where the best of several was chosen."""
    others = comparison.cell.among
    chosen = comparison.rows if others and comparison.rows else (comparison.cell, *others)
    return "/".join(dict.fromkeys(str(one.lookback) for one in chosen))


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
