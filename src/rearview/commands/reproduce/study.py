"""`rearview reproduce` of a synthetic study: train its arms, print the table, write the page."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

from rearview.bench import synthetic
from rearview.bench.rows.row import Facts
from rearview.bench.synthetic import StoredRun
from rearview.bench.synthetic.components import ComponentsRow
from rearview.bench.synthetic.flipflop import FlipFlopRow
from rearview.bench.synthetic.harmonic import HarmonicRow
from rearview.bench.synthetic.operators import OperatorsRow
from rearview.bench.synthetic.study import Study
from rearview.commands.console import output, print_lines, say
from rearview.commands.reproduce.study_figures import draw, name_runs
from rearview.commands.sweep import RunOptions
from rearview.core.errors import InputError, collect_warnings
from rearview.core.grouping import group_by
from rearview.core.output_folder import check_place
from rearview.core.wording import align, quantity
from rearview.report.common import text
from rearview.report.common.page import write
from rearview.report.common.summary import FactList, Tile
from rearview.report.common.tables import Cell, Table
from rearview.report.results.study import StudySummary


def study_command(
    name: str,
    options: RunOptions,
    *,
    out: Path,
    full: bool = False,
    arms: Sequence[str] = (),
    changes: Facts | None = None,
    only_show: bool = False,
    command: str = "",
) -> int:
    """Run what is missing of a study (nothing with `only_show`), print its table and write its page to `out`."""
    options.check()
    check_place(out)
    study = synthetic.get(name)
    for arm in arms:
        study.spec(arm)
    if output.get().dry_run:
        planned = synthetic.plan(
            name, out=out, full=full, arms=arms, changes=changes, seeds=range(options.seeds), device=options.device
        )
        waiting = [one for one, row in planned.items() if row is None]
        lines = [f"would run: {name} {one.arm} seed {one.seed}" for one in waiting]
        if len(waiting) < len(planned):
            lines.append(f"{len(planned) - len(waiting)} of {quantity(len(planned), 'run')} are in {out} already.")
        print_lines([*lines, f"Would write to {out}" if waiting else "Nothing is left to run."])
        return 0
    # Runs only ever add to the files of rows and curves.
    files = (synthetic.rows_file(out, name), synthetic.curves_file(out, name))
    before = [path.stat().st_size if path.exists() else 0 for path in files]
    with collect_warnings() as warnings:
        if not only_show:
            synthetic.run(
                name, out=out, full=full, arms=arms, changes=changes, seeds=range(options.seeds),
                device=options.device, seconds=options.seconds, workers=options.workers, say=say,
            )  # fmt: skip
    size = "changed" if changes else "full" if full else "reduced"
    runs = select(study, synthetic.read_runs(name, out), size, arms, options.seeds)
    if not runs:
        raise InputError(
            f"{out} holds no {size} run of {name}; leave out --compare to make one"
            f"{'' if full else ', or add --full to see those of the full size'}."
        )
    table = tabulate_runs(study, runs)
    rows = [table.heads, *([cell.text for cell in row] for row in table.rows)]
    print_lines([*align(rows, right=range(1, len(table.heads))), "", verdict(study, runs)])
    page = write(out / f"{name}.html", summarise(study, runs, table, command, warnings))
    grown = [path for path, size in zip(files, before, strict=True) if path.exists() and path.stat().st_size != size]
    print_lines([f"Written to {out}: {', '.join(path.name for path in (*grown, page))}"])
    return 0


def select(study: Study, runs: Sequence[StoredRun], size: str, arms: Sequence[str], seeds: int) -> list[StoredRun]:
    """The runs to show, in the order of the arms; of several of an arm and a seed, the longest, then the last."""
    order = [*dict.fromkeys([*study.arms(False), *study.arms(True)])]
    made = sorted(runs, key=lambda run: (run.row.steps, run.row.created))
    last = {(run.row.arm, run.row.seed): run for run in made if run.row.size == size and run.row.seed < seeds}
    chosen = [run for (arm, _), run in last.items() if not arms or arm in arms]
    return sorted(chosen, key=lambda run: (order.index(run.row.arm), run.row.seed))


def tabulate_runs(study: Study, runs: Sequence[StoredRun]) -> Table:
    """One line for each run: its measures, what the paper says, what it took."""
    columns: dict[str, list[str]] = {}
    for name, heading in study.shown.items():
        values = [getattr(run.row, name) for run in runs]
        if any(isinstance(value, str) for value in values):
            columns[heading] = list(map(str, values))
        else:
            columns[heading] = text.column([math.nan if value is None else value for value in values])
    if study.published:
        columns["published"] = [study.published.get(run.row.arm, text.ABSENT) for run in runs]
    columns["steps"] = [f"{run.row.steps:,}{'' if run.row.ended == 'steps' else ', cut'}" for run in runs]
    columns["seconds"] = [f"{run.row.train_seconds:,.0f}" for run in runs]
    rows = zip(name_runs(runs), *columns.values(), strict=True)
    words = frozenset(place for place, heading in enumerate(columns, start=1) if heading == "published")
    caption = f"{study.title}, {runs[0].row.size} size"
    return Table(caption, ("arm", *columns), tuple(tuple(map(Cell, row)) for row in rows), words)


def summarise(
    study: Study, runs: Sequence[StoredRun], table: Table, command: str, warnings: Sequence[str]
) -> StudySummary:
    """Everything on the study's page."""
    rows = [run.row for run in runs]
    first = rows[0]
    cut = [row.arm for row in rows if row.ended != "steps"]
    notes = [f"Time ran out before the last step of {', '.join(cut)}; their rows say how far they came."] if cut else []
    tiles: list[Tile] = []
    if study.name not in ("components", "operators"):  # whose arms are not all set the same task
        ordered = sorted(rows, key=lambda row: getattr(row, study.metric), reverse=study.more_is_better)
        for word, row in {"Best": ordered[0], "Worst": ordered[-1]}.items():
            tiles.append((f"{word}, {study.shown[study.metric]}", f"{getattr(row, study.metric):.4g}", row.arm))
    facts = (
        ("Study", study.title),
        ("Size", first.size),
        ("Runs", f"{len(rows):,}"),
        ("Seeds", ", ".join(map(str, sorted({row.seed for row in rows})))),
        ("Samples", "drawn afresh for every step; test sets are fixed"),
    )
    settings = {
        section: {name: (value, "") for name, value in json.loads(values).items()}
        for section, values in (("Data and network", first.settings), ("Training", first.training))
    }
    return StudySummary(
        title=study.title,
        verdict=verdict(study, runs),
        command=command,
        device=first.device,
        seconds=sum(row.total_seconds for row in rows),
        data=FactList(facts),
        settings=settings,
        notes=(*notes, *warnings),
        tiles=tuple(tiles),
        table=table,
        figures=draw(study.name, runs),
    )


def verdict(study: Study, runs: Sequence[StoredRun]) -> str:
    """The outcome of a study in a sentence."""
    rows = [run.row for run in runs]
    if study.name == "flipflop":
        readers = [row for row in rows if isinstance(row, FlipFlopRow)]
        readers.sort(key=lambda row: -row.sparse_late)
        listed = ", ".join(f"{row.arm} {text.percent(row.sparse_late)}" for row in readers)
        return f"Last reads of sparse strings answered right, on average over the last quarter of training: {listed}."
    if study.name == "harmonic":
        return _judge_harmonic([row for row in rows if isinstance(row, HarmonicRow)])
    if study.name == "operators":
        return _judge_operators([row for row in rows if isinstance(row, OperatorsRow)])
    return _judge_components([row for row in rows if isinstance(row, ComponentsRow)])


def _judge_operators(rows: Sequence[OperatorsRow]) -> str:
    """The best arm of each case, beside softmax and the best fixed linear operator."""
    words = []
    for case, same in group_by(rows, lambda row: row.arm.partition("/")[0]).items():
        means = _mean_errors(same)
        best = min(means, key=lambda arm: means[arm])
        comparison = f", softmax {means['softmax']:.4f}" if best != "softmax" and "softmax" in means else ""
        words.append(f"{case} {best} {means[best]:.4f}{comparison} (fixed linear {same[0].linear_floor:.4f})")
    return f"Least error of each case: {'; '.join(words)}."


def _mean_errors(rows: Sequence[OperatorsRow | ComponentsRow]) -> dict[str, float]:
    """The mean error over seeds of each arm of one case, by the part of its name after the case."""
    arms = group_by(rows, lambda row: row.arm.partition("/")[2])
    return {arm: sum(row.mse for row in same) / len(same) for arm, same in arms.items()}


def _judge_harmonic(rows: Sequence[HarmonicRow]) -> str:
    best = min(rows, key=lambda row: row.mse)
    sentence = f"{best.arm} leaves a mean squared error of {best.mse:.4f}"
    plain = next((row for row in rows if row.arm == "softmax" and row is not best), None)
    if plain is not None:
        sentence += f", softmax {plain.mse:.4f}, {plain.mse / best.mse:.1f} times as much"
    return f"{sentence}; the best operator that is linear and fixed would leave {best.linear_floor:.4f}."


def _judge_components(rows: Sequence[ComponentsRow]) -> str:
    resting: list[str] = []
    best: list[str] = []
    for part, same in group_by(rows, lambda row: row.arm.partition("/")[0]).items():
        signal = "all parts" if part == "all" else part
        needed = [words for row in same if (words := _most_needed(row))]
        resting += [f"{signal} {words}" for words in needed]
        if not needed and (words := _best_paths(same)):
            best.append(f"{signal} {words}")
    sentences = [f"With every path, the forecast rests: for {'; for '.join(resting)}."] if resting else []
    sentences += [f"Of the choices of paths that were trained, the best is: for {'; for '.join(best)}."] if best else []
    first = next((row for row in rows if row.arm.endswith("/all")), rows[0])
    return " ".join(sentences) or f"{first.arm} has an error of {first.mse:.4f}."


def _most_needed(row: ComponentsRow) -> str:
    """The path that a forecast with all paths rests on; empty where a path or its share is not known."""
    errors = {path: getattr(row, f"without_{path}") for path in row.paths.split("+")}
    if not row.arm.endswith("/all") or None in errors.values():
        return ""
    path = max(errors, key=lambda each: errors[each])
    return f"most on {path} (error {row.mse:.4f}, {errors[path]:.4f} without)"


def _best_paths(rows: Sequence[ComponentsRow]) -> str:
    """The choice of paths with the least error among one part's networks, beside all paths; empty if there is one."""
    means = _mean_errors(rows)
    if len(means) == 1:
        return ""
    best = min(means, key=lambda paths: means[paths])
    comparison = f", all paths {means['all']:.3g}" if "all" in means and best != "all" else ""
    return f"{'all paths' if best == 'all' else best} (error {means[best]:.3g}{comparison})"
