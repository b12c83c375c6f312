"""The `report` command: read result files of every task, make all views, write the page and the tables."""

import glob
import shlex
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rearview.bench import tasks
from rearview.bench.analysis import coverage, leaderboard, standings, step_costs
from rearview.bench.analysis.candidates import spell_mechanism
from rearview.bench.analysis.leaderboard import Board, Repeats
from rearview.bench.analysis.standings import Answer, Standing
from rearview.bench.analysis.step_costs import StepCost
from rearview.bench.rows.row import RunRow
from rearview.bench.tasks import FORECASTING, StrangeFileError, Task
from rearview.commands.console import print_answer, say
from rearview.core.errors import InputError
from rearview.core.grouping import group_by
from rearview.core.output_folder import OutputFolder
from rearview.core.wording import quantity
from rearview.data.panel import Finding
from rearview.report.common.page import write
from rearview.report.common.summary import FactList
from rearview.report.results.files import write_tables
from rearview.report.results.page import ResultsSummary
from rearview.report.results.tables import answered_difference, answered_mechanism, answered_place, candidate

MOST_NAMED = 3
"""Files that a page's title names."""


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """The content of results files."""

    files: tuple[tuple[str, bytes], ...]
    """Name and content of each."""
    rows: dict[Task, list[RunRow]]
    findings: tuple[Finding, ...]
    steps: tuple[StepCost, ...] = ()
    """Times of training steps that were measured apart."""
    unknown: tuple[Path, ...] = ()
    """Files of something else, which are left out."""

    @property
    def every_row(self) -> list[RunRow]:
        return [row for rows in self.rows.values() for row in rows]


def report_command(patterns: Sequence[str], out: Path, command: str, *, overwrite: bool = False) -> int:
    """Write the page and the tables of result files and print the verdict."""
    with OutputFolder.claim(out, "report", overwrite=overwrite) as folder:
        files = read(patterns)
        # A pattern that matches files of something else stays as it is; such a file that is named does not.
        words = [word for word in shlex.split(command) if Path(word) not in files.unknown]
        summary = summarise(files, shlex.join(words))
        paths = folder.publish(lambda place: [write(place / "report.html", summary), *write_tables(place, summary)])
    for finding in summary.findings:
        if finding.kind == "warning":
            say(finding.message)
    print_answer(
        [summary.verdict, *summary.notes, f"Written to {out}: {', '.join(path.name for path in paths)}"],
        lambda: {
            "verdict": summary.verdict,
            "notes": list(summary.notes),
            "findings": [asdict(finding) for finding in summary.findings],
            "rows": len(files.every_row),
            "folder": str(out),
            "files": [path.name for path in paths],
        },
    )
    return 0


def read(patterns: Sequence[str]) -> ResultFiles:
    """The rows of all files that are named or match a pattern; a file that can't be read is refused by name.

    Among several files, one of something else is left out with a warning: patterns match more than was meant.
    """
    files: list[tuple[str, bytes]] = []
    rows: dict[Task, list[RunRow]] = {}
    findings: list[Finding] = []
    unknown: list[Path] = []
    steps: list[StepCost] = []
    paths = list_files(patterns)
    for path in paths:
        if step_costs.holds_costs(path):
            steps += step_costs.read(path)
            files.append((path.name, path.read_bytes()))
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                task, same = tasks.read(path)
            except StrangeFileError:
                if len(paths) == 1:
                    raise
                unknown.append(path)
                continue
        findings += [Finding("warning", path.name, 0, str(warning.message)) for warning in caught]
        rows.setdefault(task, []).extend(same)
        files.append((path.name, path.read_bytes()))
    if unknown:
        names = ", ".join(path.name for path in unknown)
        hold, are = ("holds", "is") if len(unknown) == 1 else ("hold", "are")
        sentence = f"{names} {hold} no rows of forecasting, classification or detection and {are} left out."
        findings.append(Finding("warning", "left out", len(unknown), sentence))
    if not any(rows.values()):
        names = ", ".join(path.name for path in paths)
        raise InputError(f"There are no rows in {names}; `rearview bench` and `rearview reproduce` make some.")
    order = sorted(rows, key=lambda task: task is not FORECASTING)
    return ResultFiles(
        tuple(files), {task: rows[task] for task in order}, tuple(findings), tuple(steps), tuple(unknown)
    )


def list_files(patterns: Sequence[str]) -> list[Path]:
    """Files in the order given, each once; a pattern that nothing matches is refused."""
    paths: dict[Path, None] = {}
    for pattern in patterns:
        matches = [pattern] if Path(pattern).exists() else sorted(glob.glob(pattern, recursive=True))
        if not matches:
            raise InputError(
                f"There is no results file {pattern}; give a CSV file, or a pattern such as results/*.csv."
            )
        for path in map(Path, matches):
            if path.is_dir():
                raise InputError(f"{path} is a folder; give the files in it: {path}/*.csv.")
            paths[path] = None
    return list(paths)


def summarise(files: ResultFiles, command: str) -> ResultsSummary:
    """All views of the rows."""
    started, names = time.perf_counter(), [name for name, _ in files.files]
    broken = leaderboard.failed_runs(files.every_row)
    boards = [board for task, rows in files.rows.items() for board in leaderboard.build_boards(task, rows)]
    if not boards:
        raise InputError(f"None of {len(files.every_row):,} runs ended with a result; the first: {broken[0].problem}")
    comparisons = [one for task, rows in files.rows.items() for one in coverage.compare_all(task, rows)]
    ranked = standings.build_standings(boards)
    counted = [row for board in boards for entry in board.entries for row in entry.rows]
    overlapping = leaderboard.find_overlapping(files.every_row)
    return ResultsSummary(
        title=f"Results of {', '.join(names) if len(names) <= MOST_NAMED else quantity(len(names), 'file')}",
        verdict=_verdict(boards, ranked),
        command=command,
        device="cpu",
        seconds=time.perf_counter() - started,
        data=FactList(
            (
                ("Files", ", ".join(names)),
                ("Rows", f"{len(files.every_row):,}"),
                ("Finished runs", f"{len(counted):,}"),
                ("Failed runs", f"{len(broken):,}" if broken else "none"),
                ("Data sets", ", ".join(dict.fromkeys(board.dataset for board in boards))),
                ("Seeds", f"{len({row.seed for row in counted}):,}"),
                ("Devices", ", ".join(sorted({row.device for row in counted}))),
                ("Versions", ", ".join(sorted({row.version for row in counted}))),
            )
        ),
        findings=(*files.findings, *_findings(files, len(counted) + len(broken))),
        notes=_notes(boards, counted, sum(row in overlapping for row in counted)),
        boards=tuple(boards),
        standings=tuple(ranked),
        comparisons=tuple(comparisons),
        coverage=tuple(coverage.measure_coverage(files.rows)),
        protocol_contrasts=tuple(standings.compare_protocols(boards)),
        failures=tuple(broken),
        overlapping=overlapping,
        steps=files.steps,
        files=files.files,
    )


def _findings(files: ResultFiles, used: int) -> list[Finding]:
    """Findings on how rows became numbers."""
    findings = [Finding("inferred", "seeds", 0, "Numbers are means over seeds, beside them the standard deviation.")]
    repeats = {task: leaderboard.find_repeats(task, rows) for task, rows in files.rows.items()}
    if count := sum(one.count for one in repeats.values()):
        were = "was" if count == 1 else "were"
        sentence = f"{quantity(count, 'run')} {were} made more than once; the latest counts."
        widest = max(repeats.items(), key=lambda one: one[1].share)
        findings.append(Finding("inferred", "repeats", count, sentence + _widest_difference(*widest)))
    if spare := len(files.every_row) - used - sum(one.spare for one in repeats.values()):
        are = "row is" if spare == 1 else "rows are"
        sentence = f"{spare:,} {are} left out: the run came to an end later, or another file holds the same row."
        findings.append(Finding("inferred", "left out", spare, sentence))
    return findings


def _widest_difference(task: Task, repeats: Repeats) -> str:
    """The two rows of one run that differ the most, in words; empty where no two have numbers."""
    if repeats.widest is None:
        return ""
    row = repeats.widest[0]
    values = [leaderboard.read_measure(task, one, task.deciding_measure(row.protocol)) for one in repeats.widest]
    where = row.dataset if not hasattr(row, "horizon") else f"{row.dataset} {row.horizon}"
    who = " + ".join(filter(None, (row.model, spell_mechanism(row))))
    numbers = " and ".join(f"{value:.4g}" for value in values)
    share = f"{repeats.share:,.0f}" if repeats.share >= 10 else f"{repeats.share:.2g}"
    return (
        f" Two of the same run differ by at most {share} %: {who} on {where}, look-back {row.lookback}, seed "
        f"{row.seed}, under {row.protocol}, with {task.describe_measure(row.protocol)} {numbers}."
    )


def _notes(boards: Sequence[Board], counted: Sequence[RunRow], waited: int) -> tuple[str, ...]:
    notes = []
    entries = [entry for board in boards for entry in board.entries]
    if unscored := sum(len(entry.rows) - (entry.score.count if entry.score else 0) for entry in entries):
        notes.append(
            f"{quantity(unscored, 'run')} came to an end without a finite number; the means leave them out, and the "
            "column of budgets says where."
        )
    devices = sorted({row.device for row in counted})
    if len(devices) > 1:
        notes.append(f"Times and memory were measured on different devices ({', '.join(devices)}) and don't compare.")
    if waited:
        notes.append(
            f"{waited:,} of {quantity(len(counted), 'run')} ran at the same time as others on a device of the same "
            "name: their training times and latencies, marked *, include waiting and say nothing of speed."
        )
    versions = group_by({one for row in counted for one in row.plug_ins}, lambda one: one.rpartition(" ")[0])
    for name, several in versions.items():
        if len(several) > 1:
            numbers = ", ".join(sorted(one.rpartition(" ")[2] for one in several))
            notes.append(f"Rows of {name} were made by several of its versions ({numbers}), which count as one.")
    if dirty := sum(row.commit.endswith("-dirty") for row in counted):
        notes.append(f"{quantity(dirty, 'run')} of {len(counted):,} were made by code with uncommitted changes.")
    return tuple(notes)


def _verdict(boards: Sequence[Board], ranked: Sequence[Standing]) -> str:
    """A sentence on the leading candidate, its blocks, and whether the lead is significant."""
    if not ranked:
        return _explain_no_leader(boards)
    if len(answers := standings.pick_answers(ranked)) > 1:
        return _sum_up(answers)
    widest = standings.pick_headline(ranked)
    judgement = widest.judgement
    best = f"{widest.task.name.capitalize()}: {candidate(judgement.names[0]).text}"
    whom = f"{len(judgement.names)} {f'mechanisms in {widest.model}' if widest.model else 'candidates'}"
    terms = f"; their budgets differ ({', '.join(widest.uneven)})" if widest.uneven else ", on equal budgets"
    terms += ", each at the learning rate that validation chose" if widest.rates else ""
    if judgement.blocks == 1:
        return f"{best} leads {whom} by {widest.measure} on {widest.blocks[0]}, the one data set{terms}."
    lead = (
        f"{best} has the best average rank by {widest.measure}, {judgement.ranks[0]:.2f} of {whom}, over "
        f"{judgement.blocks} data sets under {widest.protocol}{terms}"
    )
    beaten = sum(pair.first == judgement.names[0] for pair in widest.significant)
    if judgement.too_few:
        return f"{lead}; that many data sets can't show a significant difference."
    if not beaten:
        return f"{lead}; it is not significantly better than any other."
    return f"{lead}, and is significantly better than {beaten} of {len(judgement.names) - 1} others."


def _sum_up(answers: Sequence[Answer]) -> str:
    """In how many networks some attention is surely better than softmax, and why nothing is sure in the others."""
    sure = [one for one in answers if one.outcome == "significant" and one.gains]
    others = Counter(one.outcome for one in answers if one not in sure)
    named = "; ".join(
        f"{answered_mechanism(one)} ({answered_place(one).lower()}: {answered_difference(one)})" for one in sure
    )
    why = {
        "too few data sets": "too few data sets for a test",
        "budgets differ": "unequal budgets",
        "not significant": "no significant difference",
        "significant": "softmax is significantly better",
    }
    rest = ", ".join(f"{why[outcome]} in {count}" for outcome, count in others.items())
    if not sure:
        return f"In none of {len(answers)} networks is an attention significantly better than softmax: {rest}."
    elsewhere = f" Elsewhere: {rest}." if rest else ""
    where = f"In {len(sure)} of {len(answers)} networks"
    return f"{where} an attention is significantly better than softmax: {named}.{elsewhere}"


def _explain_no_leader(boards: Sequence[Board]) -> str:
    """Why nothing leads."""
    task = boards[0].task.name.capitalize()
    first = [board for board in boards if board.task is boards[0].task]
    entries = [entry for board in first for entry in board.entries]
    if all(len(board.entries) == 1 for board in first):
        name = candidate(entries[0].name).text
        return f"{task}: {name} on {boards[0].title}; nothing else was run beside it, so there is nothing to compare."
    who = f"{quantity(len({entry.name for entry in entries}), 'candidate')} on {quantity(len(first), 'block')}"
    return (
        f"{task}: {who}, not ranked: they differ in more than their attention, and no group of them shares several "
        "data sets on equal budgets with each network's softmax in it; the leaderboards show them one by one."
    )
