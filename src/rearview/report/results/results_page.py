"""The page about result rows: leaderboards, significance, cost, the papers' numbers, what failed or was not run."""

import base64
import json
from collections.abc import Sequence, Set
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from rearview.bench.analysis.leaderboard import Board, Entry
from rearview.bench.analysis.standings import HEADLINE, RULE, Contrast, Sided, Standing, contrasts
from rearview.bench.papers.compare import SHARE
from rearview.bench.papers.coverage import Beside, Coverage
from rearview.bench.rows.tasks import METRICS
from rearview.core.errors import InputError
from rearview.report.common import sections, text
from rearview.report.common.page import filled, hidden, put, shell
from rearview.report.common.payload import script_safe
from rearview.report.common.summary import Facts
from rearview.report.results import lanes, paper_tables
from rearview.report.results import result_tables as tables
from rearview.report.results.critical_difference import diagram

SCRIPTS = ("figures.js", "plots.js", "results.js", "copy.js")
COSTS = {
    "parameters": "parameters",
    "train_seconds": "training, seconds",
    "latency_ms": "latency of one window, ms",
    "peak_memory_bytes": "peak memory, bytes",
}
TIMES = ("train_seconds", "latency_ms")
"""Those of them in which a run that shares its device waits."""


@dataclass(frozen=True, slots=True)
class ResultFacts:
    """What was read, in numbers."""

    files: tuple[str, ...]
    rows: int
    runs: int
    """Rows that count: finished, each run once."""
    failed: int
    datasets: tuple[str, ...]
    seeds: int
    devices: tuple[str, ...]
    versions: tuple[str, ...]

    def lines(self) -> list[tuple[str, str]]:
        """The facts in words."""
        return [
            ("Files", ", ".join(self.files)),
            ("Rows", f"{self.rows:,}"),
            ("Finished runs", f"{self.runs:,}"),
            ("Failed runs", f"{self.failed:,}" if self.failed else "none"),
            ("Data sets", ", ".join(self.datasets)),
            ("Seeds", f"{self.seeds:,}"),
            ("Devices", ", ".join(self.devices)),
            ("Versions", ", ".join(self.versions)),
        ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResultsSummary(Facts):
    """Everything on the page about result rows."""

    data: ResultFacts
    boards: tuple[Board, ...]
    standings: tuple[Standing, ...]
    besides: tuple[Beside, ...]
    coverage: tuple[Coverage, ...]
    sided: tuple[Sided, ...]
    failures: tuple[Any, ...]
    company: frozenset[Any]
    """The rows whose times include waiting, as other runs shared their device."""
    files: tuple[tuple[str, bytes], ...]
    """Name and content of every results file."""

    def __post_init__(self) -> None:
        if not self.boards:
            raise InputError("A report on results needs at least one finished run, but the summary has none.")

    @property
    def entries(self) -> list[Entry]:
        return [entry for board in self.boards for entry in board.entries]

    @property
    def tested(self) -> list[Standing]:
        """Those over several blocks; of one block a leaderboard says all."""
        return [standing for standing in self.standings if standing.judgement.blocks > 1]

    @property
    def ablations(self) -> list[tuple[Standing, list[Contrast]]]:
        return [(standing, contrasts(standing)) for standing in self.standings if standing.model]

    @property
    def habits(self) -> list[tuple[str, list[str]]]:
        """What every protocol that numbers were made under is, and its habits in their task."""
        return paper_tables.habits(dict.fromkeys((board.protocol, board.task.name) for board in self.boards))


def write(path: Path, summary: ResultsSummary) -> Path:
    """Writes the page to `path` (folders are made as needed) and returns it; no half-written page can be seen."""
    return put(path, render(summary))


def render(summary: ResultsSummary) -> str:
    """The page as text; the same summary gives the same page."""
    body = filled(
        "results.html",
        rule=escape(f"{RULE} {HEADLINE}"),
        short=tables.leaders(summary.standings).html(),
        leaderboards="".join(_board(board, summary) for board in summary.boards),
        ranks="".join(map(_standing, summary.tested)),
        ablations="".join(_ablation(*found) for found in summary.ablations),
        papers=_papers(summary.besides) if summary.besides else "",
        protocols=_protocols(summary),
        failed=paper_tables.failures(summary.failures).html(),
        missing=_missing(summary.coverage),
        rows="".join(_download(name, content) for name, content in summary.files),
        no_short=hidden(len(summary.standings) < 2),
        no_ranks=hidden(not summary.tested),
        no_ablations=hidden(not summary.ablations),
        no_papers=hidden(not summary.besides),
        no_failed=hidden(not summary.failures),
        no_missing=hidden(not any(one.by_protocol for one in summary.coverage)),
    )
    return shell(
        summary,
        headline=sections.tiled(_tiles(summary)),
        body=body,
        notes=summary.notes,
        data=encode(summary),
        scripts=SCRIPTS,
        skip="leaderboards",
    )


def encode(summary: ResultsSummary) -> str:
    """The page's data as JSON text."""
    tasks = dict.fromkeys(board.task for board in summary.boards)
    payload = {
        "tasks": {
            task.name: {
                "metrics": {metric: METRICS[metric] for metric in task.metrics},
                "lower": task.lower_is_better,
                "decides": {b.protocol: task.decides(b.protocol) for b in summary.boards if b.task is task},
            }
            for task in tasks
        },
        "costs": COSTS,
        "times": TIMES,
        "entries": [_entry(entry, summary.company) for entry in summary.entries],
    }
    return script_safe(json.dumps(payload, separators=(",", ":"), allow_nan=False))


def _entry(entry: Entry, company: Set[Any]) -> dict[str, Any]:
    return {
        "task": entry.task.name,
        "protocol": entry.protocol,
        "dataset": entry.dataset,
        "horizon": entry.horizon,
        "name": entry.name,
        "short": tables.candidate(entry.name).text,
        "model": entry.model,
        "attention": entry.attention,
        "scores": {
            metric: [score.mean, score.std, score.count]
            for metric, score in entry.scores.items()
            if metric in entry.task.metrics
        },
        "costs": entry.costs,
        "device": " and ".join(dict.fromkeys(row.device for row in entry.rows)),
        "company": tables.had_company(entry, company),
    }


def _tiles(summary: ResultsSummary) -> list[sections.Tile]:
    facts = summary.data
    tiles = [
        ("Finished runs", f"{facts.runs:,}", f"{facts.failed:,} failed" if facts.failed else "none failed"),
        ("Candidates", f"{len({entry.name for entry in summary.entries}):,}", "networks with their attention"),
        ("Blocks", f"{len(summary.boards):,}", "of protocol, data set and horizon"),
    ]
    if judged := [one for one in summary.besides if one.verdict in ("reproduced", "better", "worse")]:
        share = sum(one.verdict == "reproduced" for one in judged)
        short = sum(bool(one.shortfall) for one in judged)
        less = f", {short:,} of them with a smaller budget" if short else ""
        tiles.append(("Reproduced", f"{share:,} of {len(judged):,}", f"printed numbers that a run stands beside{less}"))
    return tiles


def _board(board: Board, summary: ResultsSummary) -> str:
    scope = escape(f"{board.task.name}|{board.protocol}")
    table = tables.leaderboard(board, summary.besides, summary.company).html()
    marks = _listed("What the marks stand for", tables.marks(board))
    more = '<button type="button" class="link more" hidden></button>'
    return f'<div class="board" data-scope="{scope}" data-dataset="{escape(board.dataset)}">{table}{more}{marks}</div>'


def _standing(standing: Standing) -> str:
    drawn = diagram(standing.judgement, standing.model)
    table = tables.ranks(standing).html()
    return (
        f'<div class="group"><h3>{escape(standing.title)}</h3><p>{escape(tables.significance(standing))}</p>'
        f"{drawn}<details><summary>Ranks and tests</summary>{table}</details></div>"
    )


def _ablation(standing: Standing, found: Sequence[Contrast]) -> str:
    told = tables.contrasted(standing, found)
    drawn = lanes.figure([_contrasted(standing, one) for one in found], told)
    table = tables.ablation(standing, found).html()
    return (
        f'<div class="group"><h3>{escape(standing.title)}</h3><p>{escape(told)}</p>{drawn}'
        f"<details><summary>Numbers and tests</summary>{table}</details></div>"
    )


def _contrasted(standing: Standing, one: Contrast) -> lanes.Lane:
    better = one.change < 0 if standing.task.lower_is_better else one.change > 0
    reach = (one.interval.low, one.interval.high) if one.interval else (None, None)
    words = f"{one.name}: {text.change(one.change, 2)}, won, tied and lost {one.record}"
    mark = lanes.Mark(one.change, "better" if better else "worse", words, *reach)
    name = tables.candidate(one.name).text.removeprefix(f"{standing.model} + ")
    return lanes.Lane(name, (mark,), text.change(one.change, 2))


def _papers(besides: Sequence[Beside]) -> str:
    drawn = lanes.figure(_distances(besides), "Differences between ours and the printed numbers", band=100 * SHARE)
    every = paper_tables.papers(besides).html()
    return (
        f'<p class="quiet">Each dot is a printed number: how far ours is from it, the shaded part at most '
        f"{100 * SHARE:g} %. A faint one was trained for less than the paper's, a hollow one lies beyond the edge.</p>"
        f"{drawn}{paper_tables.tally(besides).html()}"
        f"<details><summary>Every number</summary>{every}</details>"
    )


def _distances(besides: Sequence[Beside]) -> list[lanes.Lane]:
    """A lane for each printed table, a mark for each number that can be compared."""
    marks: dict[str, list[lanes.Mark]] = {}
    for one in besides:
        if one.difference is not None:
            where = one.number.dataset if one.number.horizon is None else f"{one.number.dataset} {one.number.horizon}"
            words = (
                f"{one.label}, {where}, {paper_tables.measure(one)}: {one.ours.mean:.4g}, printed "
                f"{one.number.value:g}, {text.change(one.difference)}, {one.verdict} under {one.protocol}"
                f"{f', by chance {one.chance.mean:.4g}' if one.chance else ''}"
                f"{f', smaller budget: {one.shortfall}' if one.shortfall else ''}"
            )
            kind = f"{one.verdict.replace(' ', '-')}{' faint' if one.shortfall else ''}"
            marks.setdefault(one.table, []).append(lanes.Mark(one.difference, kind, words))
    return [lanes.Lane(table, tuple(found), text.counted(len(found), "number")) for table, found in marks.items()]


def _listed(title: str, lines: Sequence[str]) -> str:
    """Lines behind a title that opens them; nothing where there are none."""
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<details><summary>{escape(title)}</summary><ul class="plain">{items}</ul></details>'


def _protocols(summary: ResultsSummary) -> str:
    differing = paper_tables.sides(summary.sided).html() if summary.sided else ""
    told = "".join(_listed(title, habits) for title, habits in summary.habits)
    alone = "" if differing else '<p class="quiet">No run was made under more than one protocol.</p>'
    return f"{differing}{alone}{told}"


def _missing(found: Sequence[Coverage]) -> str:
    lists = "".join(
        _listed(f"{one.experiment.name}: {text.counted(len(one.missing), 'cell')}", paper_tables.absent(one))
        for one in found
    )
    begun = [one for one in found if one.by_protocol]
    untouched = ", ".join(one.experiment.name for one in found if not one.by_protocol)
    told = f'<p class="quiet">Nothing was run of {escape(untouched)}.</p>' if untouched else ""
    return f'{paper_tables.covered(begun).html()}{told}<h3>The cells</h3><div class="columns">{lists}</div>'


def _download(name: str, content: bytes) -> str:
    address = f"data:text/csv;base64,{base64.b64encode(content).decode('ascii')}"
    size = text.memory(len(content))
    return f'<li><a download="{escape(name)}" href="{address}">{escape(name)}</a> ({size})</li>'
