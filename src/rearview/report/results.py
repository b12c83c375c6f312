"""The page about result rows: leaderboards, significance, cost, the papers' numbers, what failed or was not run."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from rearview.bench.beside import Beside, Coverage
from rearview.bench.boards import Board, Entry
from rearview.bench.standings import Sided, Standing
from rearview.errors import InputError
from rearview.report import results_tables as tables
from rearview.report import sections, text
from rearview.report.critical import diagram
from rearview.report.page import filled, hidden, put, shell
from rearview.report.payload import script_safe
from rearview.report.summary import Facts

SCRIPTS = ("figures.js", "plots.js", "results.js", "copy.js")
COSTS = {
    "parameters": "parameters",
    "train_seconds": "training, seconds",
    "latency_ms": "latency of one window, ms",
    "peak_memory_bytes": "peak memory, bytes",
}


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
    files: tuple[tuple[str, bytes], ...]
    """Name and content of every results file."""

    def __post_init__(self) -> None:
        if not self.boards:
            raise InputError("A report on results needs at least one finished run, but the summary has none.")

    @property
    def entries(self) -> list[Entry]:
        return [entry for board in self.boards for entry in board.entries]

    @property
    def ablations(self) -> list[Standing]:
        return [standing for standing in self.standings if standing.model]


def write(path: Path, summary: ResultsSummary) -> Path:
    """Writes the page to `path` (folders are made as needed) and returns it; no half-written page can be seen."""
    return put(path, render(summary))


def render(summary: ResultsSummary) -> str:
    """The page as text; the same summary gives the same page."""
    body = filled(
        "results.html",
        leaderboards="".join(_board(board, summary.besides) for board in summary.boards),
        ranks="".join(map(_standing, summary.standings)),
        ablations="".join(tables.ablation(standing).html() for standing in summary.ablations),
        papers=tables.papers(summary.besides).html(),
        protocols=_protocols(summary),
        failed=tables.failures(summary.failures).html(),
        missing=_missing(summary.coverage),
        rows="".join(_download(name, content) for name, content in summary.files),
        no_ranks=hidden(not summary.standings),
        no_ablations=hidden(not summary.ablations),
        no_papers=hidden(not summary.besides),
        no_failed=hidden(not summary.failures),
        no_missing=hidden(not summary.coverage),
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
    tasks = {board.task.name: board.task for board in summary.boards}
    payload = {
        "tasks": {
            name: {"metrics": {m: tables.METRICS[m] for m in task.metrics}, "lower": task.lower_is_better}
            for name, task in tasks.items()
        },
        "costs": COSTS,
        "names": list(dict.fromkeys(entry.name for entry in summary.entries)),
        "entries": [_entry(entry) for entry in summary.entries],
    }
    return script_safe(json.dumps(payload, separators=(",", ":"), allow_nan=False))


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "task": entry.task.name,
        "protocol": entry.protocol,
        "dataset": entry.dataset,
        "horizon": entry.horizon,
        "name": entry.name,
        "scores": {metric: [score.mean, score.std, score.count] for metric, score in entry.scores.items()},
        "costs": entry.costs,
        "device": " and ".join(dict.fromkeys(row.device for row in entry.rows)),
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
        tiles.append(("Reproduced", f"{share:,} of {len(judged):,}", "printed numbers that a run stands beside"))
    return tiles


def _board(board: Board, besides: Sequence[Beside]) -> str:
    scope = escape(f"{board.task.name}|{board.protocol}")
    table = tables.leaderboard(board, besides).html()
    return f'<div class="board" data-scope="{scope}" data-dataset="{escape(board.dataset)}">{table}</div>'


def _standing(standing: Standing) -> str:
    judgement = standing.judgement
    drawn = diagram(judgement, standing.model) if judgement.blocks > 1 else ""
    table = tables.ranks(standing).html()
    return (
        f'<div class="group"><h3>{escape(standing.title)}</h3><p>{escape(tables.significance(standing))}</p>'
        f"{drawn}<details><summary>Ranks and tests</summary>{table}</details></div>"
    )


def _protocols(summary: ResultsSummary) -> str:
    differing = tables.sides(summary.sided).html() if summary.sided else ""
    names = list(dict.fromkeys(board.protocol for board in summary.boards))
    told = "".join(
        f"<details><summary>{escape(title)}</summary>"
        f'<ul class="plain">{"".join(f"<li>{escape(habit)}</li>" for habit in habits)}</ul></details>'
        for title, habits in tables.habits(names)
    )
    alone = "" if differing else '<p class="quiet">No run was made under more than one protocol.</p>'
    return f"{differing}{alone}{told}"


def _missing(found: Sequence[Coverage]) -> str:
    lists = "".join(
        f"<details><summary>{escape(one.experiment.name)}: {text.counted(len(one.missing), 'cell')}</summary>"
        f'<ul class="plain">{"".join(f"<li>{escape(line)}</li>" for line in tables.absent(one))}</ul></details>'
        for one in found
        if one.missing
    )
    return f'{tables.covered(found).html()}<h3>The cells</h3><div class="columns">{lists}</div>'


def _download(name: str, content: bytes) -> str:
    address = f"data:text/csv;base64,{base64.b64encode(content).decode('ascii')}"
    size = text.memory(len(content))
    return f'<li><a download="{escape(name)}" href="{address}">{escape(name)}</a> ({size})</li>'
