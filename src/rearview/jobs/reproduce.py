"""The commands that make benchmark runs: one experiment of a paper, or a grid of one's own."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from rearview.errors import InputError, SettingsError


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which part of an experiment to run."""

    paper: str
    table: str | None = None
    dataset: str | None = None
    horizon: int | None = None
    attention: str | None = None
    model: str | None = None


def reproduce_command(
    chosen: Chosen,
    *,
    results: Path,
    seeds: int,
    protocol: str | None,
    data_dir: Path | None,
    device: str,
    training: dict[str, Any] | None,
    workers: int,
    seconds: float | None,
    only_compare: bool,
    over: Any,
) -> int:
    """Make what is missing of an experiment and print ours beside the printed numbers."""
    from rearview.bench import experiments, protocols
    from rearview.bench import results as files
    from rearview.bench.sweep import Plan, sweep

    found = [experiments.get(chosen.paper, table) for table in _tables(chosen)]
    for experiment in found:
        declared = protocols.get(protocol or experiment.protocol)
        cells, out_of_reach = _reachable(experiment, chosen, data_dir)
        _print([f"{experiment.name}: {experiment.title}", f"protocol {declared.name}: {declared.summary}"])
        _print(_reasons(out_of_reach))
        if cells and not only_compare:
            plan = Plan(
                results=results,
                seeds=tuple(range(seeds)),
                protocol=declared.name,
                presets=experiment.presets,
                data_dir=data_dir,
                device=device,
                training=training,
            )
            sweep(cells, plan, workers=workers, seconds=seconds, say=_say, over=over)
        rows = files.read(results) if results.exists() else []
        _print(_table(experiment, cells, rows, declared.name))
    if not any(experiment.cells for experiment in found):
        raise SettingsError(_elsewhere(found))
    return 0


def grid_command(
    *,
    datasets: Sequence[str],
    models: Sequence[str],
    attentions: Sequence[Any],
    horizons: Sequence[int],
    lookbacks: Sequence[int],
    seeds: Sequence[int],
    plan: dict[str, Any],
    workers: int,
    seconds: float | None,
    loss: str | None,
    over: Any,
) -> int:
    """Every combination of what is listed, kept as rows and printed as a table."""
    from rearview import bench
    from rearview.bench.experiments import Cell
    from rearview.bench.sweep import Plan, sweep

    cells = [
        Cell(dataset, lookback, horizon, model, {"name": spec} if isinstance(spec, str) else spec, loss)
        for dataset, lookback, horizon, model, spec in product(datasets, lookbacks, horizons, models, attentions)
    ]
    rows = sweep(cells, Plan(seeds=tuple(seeds), **plan), workers=workers, seconds=seconds, say=_say, over=over)
    _print(bench.table([row for row in rows if row.status == "done"]))
    failed = [row for row in rows if row.status == "failed"]
    if failed and len(failed) == len(rows):
        raise InputError(f"No run came to an end; the first: {failed[0].problem}")
    return 0


def list_experiments(data_dir: Path | None) -> int:
    """Every experiment, and how much of it runs with the data at hand."""
    from rearview.bench import experiments

    lines = []
    for experiment in experiments.every():
        cells, _ = _reachable(experiment, Chosen(experiment.paper), data_dir)
        runs = f"{len(cells)} of {len(experiment.cells)} runs" if experiment.cells else _kind_words(experiment)
        lines.append((experiment.name, runs, experiment.title))
    from rearview.bench import synthetic

    lines += [(name, "generated", f"Synthetic study: rearview reproduce {name}") for name in synthetic.NAMES]
    widths = [max(len(line[column]) for line in lines) for column in (0, 1)]
    _print([f"{name:<{widths[0]}}  {runs:>{widths[1]}}  {title}" for name, runs, title in lines])
    return 0


def _tables(chosen: Chosen) -> list[str]:
    from rearview.bench import experiments

    known = experiments.tables(chosen.paper)
    if chosen.table is not None:
        return [chosen.table]
    # A table of averages is a view of another one's cells: run those once.
    own = [table for table in known if "averages" not in experiments.get(chosen.paper, table).title]
    return own or known


def _reachable(experiment: Any, chosen: Chosen, data_dir: Path | None) -> tuple[list[Any], Counter[str]]:
    """The cells that can be run here, and why the others can't."""
    from rearview import models
    from rearview.data import catalogue

    here = {name.casefold(): name for name in catalogue.available(data_dir)}
    known = {name.casefold() for name in catalogue.names()}
    networks = {*models.names(), *models.borrowed(installed=True)}
    cells, reasons = [], Counter[str]()
    for cell in experiment.cells:
        if not _wanted(cell, chosen):
            continue
        if cell.dataset.casefold() not in known:
            reasons[f"{cell.dataset} is not in the catalogue"] += 1
        elif cell.dataset.casefold() not in here:
            reasons[f"{cell.dataset} is not at hand"] += 1
        elif cell.model not in networks:
            reasons[f"{cell.model} comes with another package (rearview[baselines])"] += 1
        else:
            cells.append(cell)
    return cells, reasons


def _wanted(cell: Any, chosen: Chosen) -> bool:
    name = "" if cell.attention is None else cell.attention["name"]
    return (
        (chosen.dataset is None or cell.dataset.casefold() == chosen.dataset.casefold())
        and (chosen.horizon is None or cell.horizon == chosen.horizon)
        and (chosen.model is None or cell.model == chosen.model)
        and (chosen.attention is None or name == chosen.attention)
    )


def _reasons(reasons: Counter[str]) -> list[str]:
    return [f"not run: {count} cells, {reason}" for reason, count in reasons.items()]


def _kind_words(experiment: Any) -> str:
    words = {"cost": "benchmarks/scaling.py", "classification": "classify", "detection": "detect"}
    kinds = [words.get(kind, kind) for kind in experiment.kinds if kind not in ("summary", "elsewhere")]
    return ", ".join(kinds) or "-"


def _elsewhere(found: Sequence[Any]) -> str:
    names = ", ".join(experiment.name for experiment in found)
    kinds = {kind for experiment in found for kind in experiment.kinds}
    how = {
        "classification": "rearview classify and benchmarks/classification.py",
        "detection": "rearview detect and benchmarks/detection.py",
        "cost": "benchmarks/scaling.py and benchmarks/train_speed.py",
        "synthetic": "rearview reproduce harmonic",
    }
    ways = [how[kind] for kind in how if kind in kinds]
    return f"{names} holds no forecasting runs; it is made by {' and '.join(ways) or 'other commands'}."


def _table(experiment: Any, cells: Sequence[Any], rows: Sequence[Any], protocol: str) -> list[str]:
    from rearview.bench.compare import RULE, compare

    wanted = {id(cell) for cell in cells}
    found = [c for c in compare(experiment, rows, protocol) if id(c.cell) in wanted]
    head = (
        "dataset", "L", "H", "run", "budget", "metric", "ours", "std", "n", "published", "diff", "verdict", "seconds",
    )  # fmt: skip
    lines = [head, *(_line(comparison) for comparison in found)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    counts = Counter(comparison.verdict for comparison in found if comparison.verdict)
    return [*text, "", ", ".join(f"{count} {verdict}" for verdict, count in counts.items()), RULE, ""]


def _line(comparison: Any) -> tuple[str, ...]:
    cell, number = comparison.cell, comparison.number
    seconds = [row.train_seconds for row in comparison.rows]
    return (
        cell.dataset,
        str(cell.lookback),
        str(cell.horizon),
        cell.label,
        _budget(comparison.rows),
        comparison.metric,
        _short(comparison.mean),
        _short(comparison.std),
        str(len(comparison.rows)),
        "-" if number is None else _short(number.value),
        "-" if comparison.difference is None else f"{comparison.difference:+.1f} %",
        comparison.verdict or "-",
        f"{sum(seconds) / len(seconds):.0f}" if seconds else "-",
    )


def _budget(rows: Sequence[Any]) -> str:
    """How long runs may train, and in which portions: what tells runs of one cell apart most often."""
    if not rows:
        return "-"
    import json

    training = json.loads(rows[0].training)
    return f"{training['epochs']} epochs of batch {training['batch']}" if training else "none"


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


def _print(lines: Sequence[str]) -> None:
    if lines:
        sys.stdout.write("\n".join(lines) + "\n")
