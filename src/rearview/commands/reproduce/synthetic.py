"""The command that makes a synthetic study: train its arms, print the table, write the page."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rearview.bench import synthetic
from rearview.bench.synthetic import Kept
from rearview.bench.synthetic.study import Study
from rearview.commands.output_folder import check_folder
from rearview.commands.reproduce.synthetic_figures import figures, named
from rearview.core.errors import InputError, collect_warnings
from rearview.report import write
from rearview.report.common import text
from rearview.report.common.tables import Cell, Table
from rearview.report.results.study import StudyFacts, StudySummary


def synthetic_command(
    name: str,
    *,
    out: Path,
    full: bool,
    arms: Sequence[str],
    seeds: int,
    device: str,
    seconds: float | None,
    workers: int,
    changes: Mapping[str, Any] | None,
    only_show: bool,
    command: str,
) -> int:
    """Run what is missing of a study, or with `only_show` nothing; print its table and write its page to `out`."""
    check_folder(out)
    study = synthetic.get(name)
    for arm in arms:
        study.spec(arm)
    warned: list[str] = []
    before = _tables(out, name)
    if not only_show:
        with collect_warnings() as warned:
            synthetic.run(
                name, out=out, full=full, arms=arms, seeds=range(seeds), device=device, seconds=seconds,
                workers=workers, changes=changes, say=_say,
            )  # fmt: skip
    size = "changed" if changes else "full" if full else "reduced"
    runs = shown(study, synthetic.kept(name, out), size, arms, seeds)
    if not runs:
        raise InputError(
            f"{out} holds no {size} run of {name}; leave out --compare to make one"
            f"{'' if full else ', or add --full to see those of the full size'}."
        )
    table = table_of(study, runs)
    sys.stdout.write("\n".join([*_aligned(table), "", verdict(study, runs), ""]))
    written = write(out / f"{name}.html", summary(study, runs, table, command, warned))
    grown = [path for path, size in _tables(out, name).items() if size != before[path]]
    sys.stdout.write(f"Written to {out}: {', '.join(path.name for path in [*grown, written])}\n")
    return 0


def shown(study: Study, runs: Sequence[Kept], size: str, arms: Sequence[str], seeds: int) -> list[Kept]:
    """The runs to show, in the order of the arms; of several of an arm and a seed, the longest, then the last."""
    wanted = [*dict.fromkeys([*study.arms(False), *study.arms(True)])]
    made = sorted(runs, key=lambda run: (run.row.steps, run.row.created))
    found = {(run.row.arm, run.row.seed): run for run in made if run.row.size == size and run.row.seed < seeds}
    chosen = [run for (arm, _), run in found.items() if not arms or arm in arms]
    return sorted(chosen, key=lambda run: (wanted.index(run.row.arm), run.row.seed))


def table_of(study: Study, runs: Sequence[Kept]) -> Table:
    """One line a run: what it came to, what the paper says, what it took."""
    published = study.published()
    columns = {heading: [getattr(run.row, name) for run in runs] for name, heading in study.shown.items()}
    cells = {heading: _cells(values) for heading, values in columns.items()}
    if published:
        cells["published"] = [published.get(run.row.arm, text.ABSENT) for run in runs]
    cells["steps"] = [f"{run.row.steps:,}{'' if run.row.ended == 'steps' else ', cut'}" for run in runs]
    cells["seconds"] = [f"{run.row.train_seconds:,.0f}" for run in runs]
    rows = tuple(
        (Cell(name), *(Cell(column[place]) for column in cells.values())) for place, name in enumerate(named(runs))
    )
    words = frozenset(place for place, heading in enumerate(cells, start=1) if heading == "published")
    return Table(f"{study.title}, {runs[0].row.size} size", ("arm", *cells), rows, words)


def verdict(study: Study, runs: Sequence[Kept]) -> str:
    """What came of it, in a sentence."""
    return _VERDICTS[study.name]([run.row for run in runs])


def summary(study: Study, runs: Sequence[Kept], table: Table, command: str, warned: Sequence[str] = ()) -> StudySummary:
    """Everything on the study's page; `warned` is what rearview warned of while runs were made."""
    rows = [run.row for run in runs]
    first = rows[0]
    cut = [row.arm for row in rows if row.ended != "steps"]
    notes = [f"Time ran out before the last step of {', '.join(cut)}; their rows say how far they came."] if cut else []
    told = (
        ("Study", study.title),
        ("Size", first.size),
        ("Runs", f"{len(rows):,}"),
        ("Seeds", ", ".join(str(seed) for seed in sorted({row.seed for row in rows}))),
        ("Samples", "drawn afresh for every step; test sets are fixed"),
    )
    settings = {
        words: {name: (value, "") for name, value in json.loads(facts).items()}
        for words, facts in (("Data and network", first.settings), ("Training", first.training))
    }
    return StudySummary(
        title=study.title,
        verdict=verdict(study, runs),
        command=command,
        device=first.device,
        seconds=sum(row.total_seconds for row in rows),
        data=StudyFacts(told),
        settings=settings,
        notes=(*notes, *warned),
        tiles=tuple(_tiles(study, rows)),
        table=table,
        figures=figures(study.name, runs),
    )


def _tiles(study: Study, rows: Sequence[Any]) -> list[tuple[str, str, str]]:
    """The best and the worst arm, where all arms were set the same task."""
    if study.name == "components":
        return []
    ordered = sorted(rows, key=lambda row: getattr(row, study.metric), reverse=study.more_is_better)
    heading = study.shown[study.metric]
    ends = {"Best": ordered[0], "Worst": ordered[-1]}
    return [(f"{word}, {heading}", f"{getattr(row, study.metric):.4g}", row.arm) for word, row in ends.items()]


def _flipflop(rows: Sequence[Any]) -> str:
    ordered = sorted(rows, key=lambda row: -row.sparse_late)
    listed = ", ".join(f"{row.arm} {text.percent(row.sparse_late)}" for row in ordered)
    return f"Last reads of sparse strings answered right, on average over the last quarter of training: {listed}."


def _harmonic(rows: Sequence[Any]) -> str:
    best = min(rows, key=lambda row: row.mse)
    sentence = f"{best.arm} leaves a mean squared error of {best.mse:.4f}"
    plain = next((row for row in rows if row.arm == "softmax" and row is not best), None)
    if plain is not None:
        sentence += f", softmax {plain.mse:.4f}, {plain.mse / best.mse:.1f} times as much"
    return f"{sentence}; the best operator that is linear and fixed would leave {best.linear_floor:.4f}."


def _components(rows: Sequence[Any]) -> str:
    parts: dict[str, list[Any]] = {}
    for row in rows:
        parts.setdefault(row.arm.partition("/")[0], []).append(row)
    resting: list[str] = []
    best: list[str] = []
    for part, same in parts.items():
        signal = "all parts" if part == "all" else part
        found = [words for row in same if (words := _most_needed(row))]
        resting += [f"{signal} {words}" for words in found]
        best += [f"{signal} {words}" for words in ([] if found else _best_choice(same))]
    sentences = [f"With every path, the forecast rests: for {'; for '.join(resting)}."] if resting else []
    sentences += [f"Of the choices of paths that were trained, the best is: for {'; for '.join(best)}."] if best else []
    first = next((row for row in rows if row.arm.endswith("/all")), rows[0])
    return " ".join(sentences) or f"{first.arm} has an error of {first.mse:.4f}."


def _most_needed(row: Any) -> str:
    """Which of all paths a network's forecast rests on; empty where it lacks one, or one is not known."""
    lost = {path: getattr(row, f"without_{path}") for path in row.paths.split("+")}
    # Of paths that are not all known, nobody can say which counts most.
    if not row.arm.endswith("/all") or None in lost.values():
        return ""
    path = max(lost, key=lambda each: lost[each])
    return f"most on {path} (error {row.mse:.4f}, {lost[path]:.4f} without)"


def _best_choice(rows: Sequence[Any]) -> list[str]:
    """Which choice of paths has the least error, of one part's networks, beside all paths; nothing if there is one."""
    errors: dict[str, list[float]] = {}
    for row in rows:
        errors.setdefault(row.arm.partition("/")[2], []).append(row.mse)
    if len(errors) == 1:
        return []
    means = {paths: sum(each) / len(each) for paths, each in errors.items()}
    best = min(means, key=lambda paths: means[paths])
    if best == "all":
        return [f"all paths (error {means[best]:.3g})"]
    beside = f", all paths {means['all']:.3g}" if "all" in means else ""
    return [f"{best} (error {means[best]:.3g}{beside})"]


_VERDICTS = {"flipflop": _flipflop, "harmonic": _harmonic, "components": _components}


def _cells(values: Sequence[Any]) -> list[str]:
    if any(isinstance(value, str) for value in values):
        return [str(value) for value in values]
    return text.column([float("nan") if value is None else value for value in values])


def _aligned(table: Table) -> list[str]:
    lines = [table.heads, *(tuple(cell.text for cell in row) for row in table.rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(table.heads))]
    return [
        "  ".join(cell.ljust(width) if place == 0 else cell.rjust(width) for place, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(line, widths, strict=True)) for line in lines)
    ]


def _tables(out: Path, name: str) -> dict[Path, int]:
    """The files of rows and curves, to which runs only ever add, and how long they are."""
    paths = (synthetic.rows_file(out, name), synthetic.looks_file(out, name))
    return {path: path.stat().st_size if path.exists() else 0 for path in paths}


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
