"""The command that reports on result rows: read files of every kind, make all views, write page and tables."""

import glob
import shlex
import sys
import time
import warnings
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rearview.bench import tasks
from rearview.bench.analysis import coverage, leaderboard, standings, timing_overlap
from rearview.bench.analysis.candidates import spell_mechanism
from rearview.bench.analysis.leaderboard import Board, Repeats
from rearview.bench.analysis.standings import Standing
from rearview.bench.tasks import FORECASTING, StrangeFileError, Task
from rearview.core.errors import InputError
from rearview.data.panel import Finding
from rearview.report import write
from rearview.report.common import text
from rearview.report.results import files as table_files
from rearview.report.results.page import ResultFacts, ResultsSummary
from rearview.report.results.tables import candidate

PAGE = "report.html"


@dataclass(frozen=True, slots=True)
class Found:
    """What the files hold."""

    files: tuple[tuple[str, bytes], ...]
    rows: dict[Task, list[Any]]
    findings: tuple[Finding, ...]
    strange: tuple[Path, ...] = ()
    """Files of something else, which are left out."""


def report_command(patterns: Sequence[str], out: Path, command: str) -> int:
    """Write the page and the tables of results files and print what came of them."""
    from rearview.commands.output_folder import check_folder

    check_folder(out, "report")
    found = read(patterns)
    summary = summarise(found, _without(found.strange, command))
    paths = [write(out / PAGE, summary), *table_files.write(out, summary)]
    for finding in summary.findings:
        if finding.kind == "warning":
            sys.stderr.write(f"{finding.message}\n")
    lines = [summary.verdict, *(note for note in summary.notes)]
    lines.append(f"Written to {out}: {', '.join(path.name for path in paths)}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _without(files: Sequence[Path], command: str) -> str:
    """A command that does not name these files; a pattern that matches some of them stays as it is."""
    return shlex.join(word for word in shlex.split(command) if Path(word) not in files)


def read(patterns: Sequence[str]) -> Found:
    """The rows of all files that are named or match a pattern; a file that can't be read is refused by name.

    Among several files one of something else is left out with a warning: patterns match more than was meant.
    """
    files: list[tuple[str, bytes]] = []
    rows: dict[Task, list[Any]] = {}
    findings: list[Finding] = []
    strange: list[Path] = []
    paths = _paths(patterns)
    for path in paths:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                task, found = tasks.read(path)
            except StrangeFileError:
                if len(paths) == 1:
                    raise
                strange.append(path)
                continue
        findings += [Finding("warning", path.name, 0, str(warning.message)) for warning in told]
        rows.setdefault(task, []).extend(found)
        files.append((path.name, path.read_bytes()))
    if strange:
        findings.append(_left_out([path.name for path in strange]))
    if not any(rows.values()):
        names = ", ".join(path.name for path in paths)
        raise InputError(f"There are no rows in {names}; `rearview bench` and `rearview reproduce` make some.")
    order = sorted(rows, key=lambda task: task is not FORECASTING)
    return Found(tuple(files), {task: rows[task] for task in order}, tuple(findings), tuple(strange))


def _left_out(names: Sequence[str]) -> Finding:
    hold, are = ("holds", "is") if len(names) == 1 else ("hold", "are")
    told = f"{', '.join(names)} {hold} no rows of forecasting, classification or detection and {are} left out."
    return Finding("warning", "left out", len(names), told)


def summarise(found: Found, command: str) -> ResultsSummary:
    """All views of the rows."""
    started = time.perf_counter()
    every = [row for rows in found.rows.values() for row in rows]
    broken = leaderboard.failed_runs(every)
    made = [board for task, rows in found.rows.items() for board in leaderboard.build_boards(task, rows)]
    if not made:
        raise InputError(f"None of {len(every):,} runs came to an end; the first: {broken[0].problem}")
    besides = coverage.compare_forecasts(found.rows.get(FORECASTING, []))
    for task in found.rows:
        if task is not FORECASTING:
            besides += coverage.compare_boards(task, [board for board in made if board.task is task])
    ranked = standings.standings(made)
    counted = [row for board in made for entry in board.entries for row in entry.rows]
    crowded = timing_overlap.find_overlapping(every)
    return ResultsSummary(
        title=f"Results of {', '.join(name for name, _ in found.files)}",
        verdict=_verdict(made, ranked),
        command=command,
        device="cpu",
        seconds=time.perf_counter() - started,
        data=_facts(found, counted, broken, made),
        findings=(*found.findings, *_again(found, counted, broken)),
        notes=_notes(made, counted, crowded),
        boards=tuple(made),
        standings=tuple(ranked),
        besides=tuple(besides),
        coverage=tuple(coverage.measure_coverage(found.rows)),
        sided=tuple(standings.sided(made)),
        failures=tuple(broken),
        company=crowded,
        files=found.files,
    )


def _paths(patterns: Sequence[str]) -> list[Path]:
    """Files in the order given, each once; a pattern that nothing matches is refused."""
    found: dict[Path, None] = {}
    for pattern in patterns:
        matches = [pattern] if Path(pattern).exists() else sorted(glob.glob(pattern, recursive=True))
        if not matches:
            raise InputError(
                f"There is no results file {pattern}; give a CSV file, or a pattern such as results/*.csv."
            )
        for match in map(Path, matches):
            if match.is_dir():
                raise InputError(f"{match} is a folder; give the files in it: {match}/*.csv.")
            found[match] = None
    return list(found)


def _facts(found: Found, counted: Sequence[Any], broken: Sequence[Any], made: Sequence[Board]) -> ResultFacts:
    return ResultFacts(
        files=tuple(name for name, _ in found.files),
        rows=sum(len(rows) for rows in found.rows.values()),
        runs=len(counted),
        failed=len(broken),
        datasets=tuple(dict.fromkeys(board.dataset for board in made)),
        seeds=len({row.seed for row in counted}),
        devices=tuple(sorted({row.device for row in counted})),
        versions=tuple(sorted({row.version for row in counted})),
    )


def _again(found: Found, counted: Sequence[Any], broken: Sequence[Any]) -> list[Finding]:
    """How rows became numbers."""
    told = [Finding("inferred", "seeds", 0, "Numbers are means over seeds, beside them the standard deviation.")]
    again = {task: leaderboard.find_repeats(task, rows) for task, rows in found.rows.items()}
    count = sum(one.count for one in again.values())
    if count:
        widest = max(again.items(), key=lambda one: one[1].share)
        told.append(Finding("inferred", "repeats", count, f"{_made_again(count)}{_furthest(*widest)}"))
    every = [row for rows in found.rows.values() for row in rows]
    spare = len(every) - len(counted) - len(broken) - sum(one.spare for one in again.values())
    if spare:
        are = "row is" if spare == 1 else "rows are"
        left = f"{spare:,} {are} left out: the run came to an end later, or another file holds the same row."
        told.append(Finding("inferred", "left out", spare, left))
    return told


def _made_again(count: int) -> str:
    were = "was" if count == 1 else "were"
    return f"{text.count(count, 'run')} {were} made more than once; the latest counts."


def _furthest(task: Task, again: Repeats) -> str:
    """The two rows of one run that differ the most, in words; nothing where no two have numbers."""
    if again.widest is None:
        return ""
    row = again.widest[0]
    values = [leaderboard.read_measure(task, one, task.deciding_measure(row.protocol)) for one in again.widest]
    where = row.dataset if not hasattr(row, "horizon") else f"{row.dataset} {row.horizon}"
    who = " + ".join(filter(None, (row.model, spell_mechanism(row))))
    numbers = " and ".join(f"{value:.4g}" for value in values)
    share = f"{again.share:,.0f}" if again.share >= 10 else f"{again.share:.2g}"
    return (
        f" Two of the same run differ by at most {share} %: {who} on {where}, look-back {row.lookback}, seed "
        f"{row.seed}, under {row.protocol}, with {task.describe_measure(row.protocol)} {numbers}."
    )


def _notes(made: Sequence[Board], counted: Sequence[Any], crowded: Set[Any]) -> tuple[str, ...]:
    notes = []
    entries = [entry for board in made for entry in board.entries]
    lost = sum(len(entry.rows) - (entry.score.count if entry.score else 0) for entry in entries)
    if lost:
        notes.append(
            f"{text.count(lost, 'run')} came to an end without a finite number; the means leave them out, and the "
            "column of budgets says where."
        )
    devices = sorted({row.device for row in counted})
    if len(devices) > 1:
        notes.append(f"Times and memory were measured on different devices ({', '.join(devices)}) and don't compare.")
    if waited := sum(row in crowded for row in counted):
        notes.append(
            f"{waited:,} of {text.count(len(counted), 'run')} ran at the same time as others on a device of the same "
            "name: their training times and latencies, marked *, include waiting and say nothing of speed."
        )
    dirty = sum(row.commit.endswith("-dirty") for row in counted)
    if dirty:
        notes.append(f"{text.count(dirty, 'run')} of {len(counted):,} were made by code with uncommitted changes.")
    return tuple(notes)


def _verdict(made: Sequence[Board], ranked: Sequence[Standing]) -> str:
    """Who leads, over how much, and whether that can be said."""
    if not ranked:
        return _unranked(made)
    widest = standings.headline(ranked)
    judgement = widest.judgement
    best = f"{widest.task.name.capitalize()}: {candidate(judgement.names[0]).text}"
    whom = f"{len(judgement.names)} {f'mechanisms in {widest.model}' if widest.model else 'candidates'}"
    terms = f"; their budgets differ ({', '.join(widest.uneven)})" if widest.uneven else ", on equal budgets"
    if judgement.blocks == 1:
        return f"{best} leads {whom} by {widest.measure} on {widest.blocks[0]}, the one block{terms}."
    lead = (
        f"{best} has the best average rank by {widest.measure}, {judgement.ranks[0]:.2f} of {whom}, over "
        f"{judgement.blocks} blocks under {widest.protocol}{terms}"
    )
    beaten = [pair.second for pair in judgement.significant if pair.first == judgement.names[0]]
    if judgement.too_few:
        return f"{lead}; that many blocks can't show a significant difference."
    if not beaten:
        return f"{lead}; it is not significantly better than any other."
    return f"{lead}, and is significantly better than {len(beaten)} of {len(judgement.names) - 1} others."


def _unranked(made: Sequence[Board]) -> str:
    """Why nothing leads."""
    task = made[0].task.name.capitalize()
    first = [board for board in made if board.task is made[0].task]
    entries = [entry for board in first for entry in board.entries]
    if all(len(board.entries) == 1 for board in first):
        name = candidate(entries[0].name).text
        return f"{task}: {name} on {made[0].title}; nothing else was run beside it, so there is nothing to compare."
    who = f"{text.count(len({entry.name for entry in entries}), 'candidate')} on {text.count(len(first), 'block')}"
    return (
        f"{task}: {who}, not ranked: they differ in more than their attention, and no group of them shares several "
        "blocks on equal budgets with each network's softmax in it; the leaderboards show them block by block."
    )
