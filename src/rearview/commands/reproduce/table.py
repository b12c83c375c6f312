"""Ours beside the printed numbers of an experiment, as text."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

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


def compared(experiment: Any, cells: Sequence[Any], rows: Sequence[Any], protocol: str) -> list[str]:
    """A line for each printed number of the cells, how many of them were reproduced, and by which rule."""
    from rearview.bench.papers import compare, labelled_compare

    wanted = {id(cell) for cell in cells}
    make = labelled_compare.compare if experiment.labelled else compare.compare
    found = [one for one in make(experiment, rows, protocol) if id(one.cell) in wanted]
    if experiment.labelled and experiment.source:
        found = labelled_compare.means(found)
    guessed = any(one.chance is not None for one in found)
    every = LABELLED if experiment.labelled else FORECASTING
    head = tuple(name for name in every if guessed or name != "by chance")
    text = aligned([head, *(_line(one, head) for one in found)])
    counts = Counter(one.verdict for one in found if one.verdict)
    tally = [f"{count} {verdict}" for verdict, count in counts.items()]
    if short := sum(bool(one.shortfall) for one in found):
        tally.append(f"{short} of them with a smaller budget than the paper's")
    otherwise = not experiment.labelled and any(one.apart for one in found)
    rule = [compare.RULE, *([compare.OTHERWISE] if otherwise else []), *([CHANCE] if guessed else [])]
    return [*text, "", *([", ".join(tally)] if tally else []), *rule, *_waiting(found, rows), ""]


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of as many words each, those of a column one below the other."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def _waiting(found: Sequence[Any], rows: Sequence[Any]) -> list[str]:
    """A line where seconds that are shown include waiting."""
    from rearview.bench.analysis.timing_overlap import in_company

    shown = {row for comparison in found for row in comparison.rows}
    waited = shown & in_company(rows)
    return (
        [f"seconds: {len(waited)} of {len(shown)} runs shared their device, so theirs include waiting"]
        if waited
        else []
    )


def _line(comparison: Any, head: Sequence[str]) -> tuple[str, ...]:
    from rearview.bench.rows.tasks import METRICS

    cell, number = comparison.cell, comparison.number
    seconds = [row.train_seconds for row in comparison.rows]
    memory = [row.peak_memory_bytes for row in comparison.rows if getattr(row, "peak_memory_bytes", None) is not None]
    words = {
        "dataset": cell.dataset,
        "L": _lookbacks(comparison),
        "H": str(getattr(cell, "horizon", "")),
        "run": ", ".join([cell.label, *comparison.apart]),
        "budget": _budget(comparison.rows),
        "metric": comparison.metric if "H" in head else METRICS[comparison.metric],
        "ours": _short(comparison.mean),
        "std": _short(comparison.std),
        "n": str(comparison.count),
        "by chance": _short(comparison.chance),
        "published": "-" if number is None else _short(number.value),
        "diff": "-" if comparison.difference is None else f"{comparison.difference:+.1f} %",
        "verdict": _verdict(comparison),
        "seconds": f"{sum(seconds) / len(seconds):.0f}" if seconds else "-",
        "memory": f"{max(memory) / 2**20:,.0f} MiB" if memory else "-",
    }
    return tuple(words[name] for name in head)


def _lookbacks(comparison: Any) -> str:
    """That of a cell, or those that its rows have where the best of several was chosen."""
    others = getattr(comparison.cell, "among", ())
    found = comparison.rows if others and comparison.rows else (comparison.cell, *others)
    return "/".join(dict.fromkeys(str(getattr(one, "lookback", "")) for one in found))


def _verdict(comparison: Any) -> str:
    """A verdict, and in what a run of a smaller budget or a narrower search fell short of the paper's."""
    short = f" (smaller budget: {comparison.shortfall})" if comparison.shortfall else ""
    return f"{comparison.verdict}{short}" or "-"


def _budget(rows: Sequence[Any]) -> str:
    """How long runs may train, and in which portions: what tells runs of one cell apart most often."""
    if not rows:
        return "-"
    training = json.loads(rows[0].training)
    if not training:
        return "none"
    return f"{training['epochs']} epoch{'s' * (training['epochs'] != 1)} of batch {training['batch']}"


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
