"""The command that makes a paper's experiment again, and the list of all experiments."""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rearview.errors import InputError, SettingsError, did_you_mean
from rearview.jobs.pairing import mechanism


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
    from rearview.bench.sweep import Plan, first_process, sweep

    first = only_compare or first_process(device)
    show = print_lines if first else _keep_quiet
    until = None if seconds is None else time.monotonic() + seconds
    if only_compare and not results.exists():
        raise InputError(f"There is no results file {results} to compare; name one with --results.")
    reached = False
    made: list[Any] = []
    found = [experiments.get(chosen.paper, table) for table in _tables(chosen)]
    if not any(experiment.cells for experiment in found):
        raise SettingsError(_elsewhere(found))
    for experiment in _matching(found, chosen):
        declared = protocols.get(protocol or experiment.protocol)
        cells, out_of_reach = _reachable(experiment, chosen, data_dir)
        if only_compare:
            # Rows can be compared wherever they were made.
            cells, out_of_reach = [cell for cell in experiment.cells if _wanted(cell, chosen)], Counter()
        show([f"{experiment.name}: {experiment.title}", f"protocol {declared.name}: {declared.summary}"])
        show(_reasons(out_of_reach))
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
            _check_some(cells, plan)
            left = None if until is None else max(0.0, until - time.monotonic())
            made += sweep(cells, plan, workers=workers, seconds=left, say=say, over=over)
        if not cells:
            continue
        reached = True
        rows = files.read(results) if results.exists() else []
        show(_table(experiment, cells, rows, declared.name))
    if not reached:
        raise InputError(
            "Nothing of that can be run here, for the reasons above; see `rearview list datasets`, and name the folder "
            "of the data with --data-dir."
        )
    return ended(made, first)


def ended(rows: Sequence[Any], first: bool) -> int:
    """How a command ends that made these rows: badly where every run failed, which the first process alone tells."""
    if not rows or any(row.status != "failed" for row in rows):
        return 0
    if not first:
        return InputError.exit_code
    raise InputError(f"No run came to an end; the first: {rows[0].problem}")


def _check_some(cells: Sequence[Any], plan: Any) -> None:
    """Refuse what no run of a table could begin with; where some can, the others become rows that tell why not."""
    from rearview.bench.failed import settled

    problems = []
    for cell in cells:
        try:
            settled(plan.arguments(cell, plan.seeds[0]))
        except SettingsError as problem:
            problems.append(problem)
        else:
            return
    raise problems[0]


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
    print_lines([f"{name:<{widths[0]}}  {runs:>{widths[1]}}  {title}" for name, runs, title in lines])
    return 0


def _tables(chosen: Chosen) -> list[str]:
    from rearview.bench import experiments
    from rearview.bench.synthetic import NAMES

    papers = [*experiments.papers(), *NAMES]
    if chosen.paper not in papers:
        raise SettingsError(
            f"There is no paper or synthetic study {chosen.paper!r}.{did_you_mean(chosen.paper, papers)} "
            f"Known: {', '.join(papers)}."
        )
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


def _matching(found: Sequence[Any], chosen: Chosen) -> list[Any]:
    """The experiments that hold a cell of the part chosen; a choice that none of them holds is refused."""
    if chosen == Chosen(chosen.paper, chosen.table):
        return list(found)
    matching = [experiment for experiment in found if any(_wanted(cell, chosen) for cell in experiment.cells)]
    if not matching:
        raise SettingsError(_unmatched([cell for experiment in found for cell in experiment.cells], chosen))
    return matching


def _unmatched(cells: Sequence[Any], chosen: Chosen) -> str:
    """Which word of a choice no cell has, or that no cell has all of them."""
    where = chosen.paper if chosen.table is None else f"{chosen.paper}:{chosen.table}"
    asked = {name: getattr(chosen, name) for name in ("dataset", "horizon", "model", "attention")}
    asked = {name: value for name, value in asked.items() if value is not None}
    for name, value in asked.items():
        if not any(_wanted(cell, Chosen(chosen.paper, **{name: value})) for cell in cells):
            known = list(dict.fromkeys(str(_word(cell, name)) for cell in cells if _word(cell, name)))
            listing = ", ".join(known) or "none"
            return f"{where} has no run with --{name} {value}.{did_you_mean(str(value), known)} Known: {listing}."
    flags = " ".join(f"--{name} {value}" for name, value in asked.items())
    return f"{where} has no run with {flags} together, though it has each of them; leave one of them out."


def _word(cell: Any, name: str) -> Any:
    """What a cell has under a flag."""
    return mechanism(cell) if name == "attention" else getattr(cell, name)


def _wanted(cell: Any, chosen: Chosen) -> bool:
    return (
        (chosen.dataset is None or cell.dataset.casefold() == chosen.dataset.casefold())
        and (chosen.horizon is None or cell.horizon == chosen.horizon)
        and (chosen.model is None or cell.model == chosen.model)
        and (chosen.attention is None or mechanism(cell) == chosen.attention)
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
        "memory",
    )  # fmt: skip
    lines = [head, *(_line(comparison) for comparison in found)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    counts = Counter(comparison.verdict for comparison in found if comparison.verdict)
    tally = [f"{count} {verdict}" for verdict, count in counts.items()]
    if short := sum(bool(comparison.shortfall) for comparison in found):
        tally.append(f"{short} of them with a smaller budget than the paper's")
    return [*text, "", ", ".join(tally), RULE, *_waiting(found, rows), ""]


def _waiting(found: Sequence[Any], rows: Sequence[Any]) -> list[str]:
    """A line where seconds that are shown include waiting."""
    from rearview.bench.company import in_company

    shown = {row for comparison in found for row in comparison.rows}
    waited = shown & in_company(rows)
    return (
        [f"seconds: {len(waited)} of {len(shown)} runs shared their device, so theirs include waiting"]
        if waited
        else []
    )


def _line(comparison: Any) -> tuple[str, ...]:
    cell, number = comparison.cell, comparison.number
    seconds = [row.train_seconds for row in comparison.rows]
    memory = [row.peak_memory_bytes for row in comparison.rows if row.peak_memory_bytes is not None]
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
        _verdict(comparison),
        f"{sum(seconds) / len(seconds):.0f}" if seconds else "-",
        f"{max(memory) / 2**20:,.0f} MiB" if memory else "-",
    )


def _verdict(comparison: Any) -> str:
    """A verdict, and in what a run of a smaller budget fell short of the paper's."""
    short = f" (smaller budget: {comparison.shortfall})" if comparison.shortfall else ""
    return f"{comparison.verdict}{short}" or "-"


def _budget(rows: Sequence[Any]) -> str:
    """How long runs may train, and in which portions: what tells runs of one cell apart most often."""
    if not rows:
        return "-"
    import json

    training = json.loads(rows[0].training)
    if not training:
        return "none"
    return f"{training['epochs']} epoch{'s' * (training['epochs'] != 1)} of batch {training['batch']}"


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def say(sentence: str) -> None:
    """A line of progress."""
    sys.stderr.write(f"{sentence}\n")


def _keep_quiet(lines: Sequence[str]) -> None:
    """For the processes of torchrun beside the first, which alone speaks."""


def print_lines(lines: Sequence[str]) -> None:
    """Lines of an answer; nothing where there are none."""
    if lines:
        sys.stdout.write("\n".join(lines) + "\n")
