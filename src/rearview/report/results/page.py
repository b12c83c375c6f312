"""The page about result rows: leaderboards, significance, cost, the papers' numbers, what failed or was not run."""

import base64
import gzip
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from html import escape

import numpy as np

from rearview.bench.analysis.ablation import find_ablations
from rearview.bench.analysis.coverage import Coverage
from rearview.bench.analysis.leaderboard import Board, Entry
from rearview.bench.analysis.paper_comparison import SHARE, Comparison
from rearview.bench.analysis.standings import (
    HEADLINE,
    RULE,
    Contrast,
    ProtocolContrast,
    Standing,
    build_contrasts,
    pick_answers,
)
from rearview.bench.analysis.step_costs import StepCost
from rearview.bench.rows.row import RunRow
from rearview.bench.tasks import METRICS
from rearview.core.errors import InputError
from rearview.core.wording import quantity
from rearview.report.common import text
from rearview.report.common.payload import round_digits
from rearview.report.common.summary import BUDGET, Content, Summary, Tile
from rearview.report.common.tables import Table
from rearview.report.results import papers, tables
from rearview.report.results.figures import Lane, Mark, draw_lanes, draw_ranks

SCRIPTS = ("scatter.js", "figures.js", "plots.js", "results.js", "copy.js")
ANSWERS = "Which attention, where, how sure, at what cost"
CONTROLS = "Does attention earn its place?"
COSTS = {
    "parameters": "parameters",
    "train_seconds": "training, seconds",
    "latency_ms": "latency of one window, ms",
    "peak_memory_bytes": "peak memory, bytes",
}
TIMES = ("train_seconds", "latency_ms")
"""Those of them in which a run that shares its device waits."""


NAMED = ("task", "protocol", "dataset", "name", "short", "model", "attention", "device")
"""Of an entry, what is told in words."""

_END_TAGS = re.compile(r"</t[dh]>(?=<t[dh]\b|</tr>)")
_ABBREVIATION = re.compile(r'<abbr title="[^"]*">(.*?)</abbr>')


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResultsSummary(Summary):
    """Everything on the page about result rows."""

    boards: tuple[Board, ...]
    standings: tuple[Standing, ...]
    comparisons: tuple[Comparison, ...]
    coverage: tuple[Coverage, ...]
    protocol_contrasts: tuple[ProtocolContrast, ...]
    failures: tuple[RunRow, ...]
    overlapping: frozenset[RunRow]
    """The rows whose times include waiting, as other runs shared their device."""
    steps: tuple[StepCost, ...] = ()
    """Times of training steps that were measured apart."""
    files: tuple[tuple[str, bytes], ...]
    """Name and content of every results file."""

    def __post_init__(self) -> None:
        if not self.boards:
            raise InputError("A report on results needs at least one finished run, but the summary has none.")

    def content(self, budget: int = BUDGET) -> Content:
        """Nothing is left off but, on a page that would be too large, what stands elsewhere or HTML does not need."""
        parts = {
            "rule": escape(f"{RULE} {HEADLINE}"),
            "leaders": tables.leader_table(self.standings, self.steps).html() if len(self.standings) > 1 else "",
            "leaderboards": "".join(_board(board, self) for board in self.boards),
            "ranks": "".join(map(_show_standing, self.tested)),
            "ablations": "".join(_ablation(*ablation, self.steps) for ablation in self.ablations),
            "papers": _papers(self.comparisons) if self.comparisons else "",
            "protocols": _protocols(self),
            "failed": papers.failure_table(self.failures).html() if self.failures else "",
            "missing": _list_missing(self.coverage) if any(one.by_protocol for one in self.coverage) else "",
            "rows": "".join(_download(name, content) for name, content in self.files),
        }
        return Content(
            template="results.html",
            parts=parts if budget == BUDGET else {name: _shorten(part) for name, part in parts.items()},
            lead=_lead("answers", ANSWERS, self.answers) + _lead("controls-held", CONTROLS, self.controls),
            tiles=self._tiles(),
            plotly=False,
            scripts=SCRIPTS,
            data=encode(self),
            skip="leaderboards",
        )

    def _tiles(self) -> list[Tile]:
        runs, failed = sum(len(entry.rows) for entry in self.entries), len(self.failures)
        tiles = [
            ("Finished runs", f"{runs:,}", f"{failed:,} failed" if failed else "none failed"),
            ("Candidates", f"{len({entry.name for entry in self.entries}):,}", "networks with their attention"),
            ("Blocks", f"{len(self.boards):,}", "of protocol, data set and horizon"),
        ]
        compared = [one for one in self.comparisons if one.verdict in ("reproduced", "better", "worse")]
        if counts := papers.judge_numbers(compared):
            some = len({id(one.number) for one in compared if one.verdict == "reproduced"}) - counts["reproduced"]
            runs = len({row for one in compared for row in one.rows})
            others = f", {some:,} more by some of them" if some else ""
            note = f"printed numbers, by every one of the {runs:,} runs that compare{others}"
            tiles.append(("Reproduced", f"{counts['reproduced']:,} of {counts.total():,}", note))
        return tiles

    @property
    def answers(self) -> Table:
        """The small table that a page opens with."""
        return tables.answer_table(pick_answers(self.standings), self.steps)

    @property
    def controls(self) -> Table:
        """Attention against layers that do not look at what tokens hold; empty where no run has one."""
        return tables.control_table(find_ablations(self.boards))

    @property
    def entries(self) -> list[Entry]:
        return [entry for board in self.boards for entry in board.entries]

    @property
    def tested(self) -> list[Standing]:
        """Standings over several data sets; the leaderboard says all of a single one."""
        return [standing for standing in self.standings if standing.judgement.blocks > 1]

    @property
    def ablations(self) -> list[tuple[Standing, list[Contrast]]]:
        return [(standing, build_contrasts(standing)) for standing in self.standings if standing.model]

    @property
    def habits(self) -> list[tuple[str, list[str]]]:
        """Every protocol that numbers were made under, with its habits in their task."""
        return papers.protocol_habits(dict.fromkeys((board.protocol, board.task.name) for board in self.boards))


def encode(summary: ResultsSummary) -> dict[str, object]:
    """Input of the page's scripts: measures by task, costs, and the leaderboards' entries, their words by number."""
    tasks = dict.fromkeys(board.task for board in summary.boards)
    words: dict[str, int] = {}
    return {
        "tasks": {
            task.name: {
                "metrics": {metric: METRICS[metric] for metric in task.metrics},
                "lower": task.lower_is_better,
                "decides": {b.protocol: task.deciding_measure(b.protocol) for b in summary.boards if b.task is task},
            }
            for task in tasks
        },
        "costs": COSTS,
        "times": TIMES,
        "named": NAMED,
        "entries": [_encode_entry(entry, summary.overlapping, words) for entry in summary.entries],
        "words": list(words),
    }


def _encode_entry(entry: Entry, overlapping: Set[RunRow], words: dict[str, int]) -> list[object]:
    """The numbers of its words, its horizon, whether its times include waiting, its scores and its costs."""
    device = " and ".join(dict.fromkeys(row.device for row in entry.rows))
    named = {
        "task": entry.task.name,
        "protocol": entry.protocol,
        "dataset": entry.dataset,
        "name": entry.name,
        "short": tables.candidate(entry.name).text,
        "model": entry.model,
        "attention": entry.attention,
        "device": device,
    }
    scores = [
        [*round_digits(np.array([score.mean, score.std], dtype=float)), score.count]
        if (score := entry.scores.get(metric))
        else None
        for metric in entry.task.metrics
    ]
    costs = round_digits(np.array([entry.costs.get(name, np.nan) for name in COSTS], dtype=float))
    numbers = [words.setdefault(named[key], len(words)) for key in NAMED]
    return [numbers, entry.horizon, tables.overlaps(entry, overlapping), scores, costs]


def _shorten(part: str) -> str:
    """Without end tags of cells, and with the meaning of each abbreviation where it comes first."""
    known: set[str] = set()

    def explain(found: re.Match[str]) -> str:
        if found[0] in known:
            return found[1]
        known.add(found[0])
        return found[0]

    return _END_TAGS.sub("", _ABBREVIATION.sub(explain, part))


def _board(board: Board, summary: ResultsSummary) -> str:
    scope = escape(f"{board.task.name}|{board.protocol}")
    table = tables.leaderboard_table(board, summary.comparisons, summary.overlapping).html()
    marks = _details("What the marks stand for", _list(tables.mark_lines(board)))
    more = '<button type="button" class="link more" hidden></button>'
    return f'<div class="board" data-scope="{scope}" data-dataset="{escape(board.dataset)}">{table}{more}{marks}</div>'


def _group(title: str, sentence: str, figure: str, summary: str, table: Table) -> str:
    """A figure with its sentence, and its numbers behind a summary."""
    opening = f'<div class="group"><h3>{escape(title)}</h3><p>{escape(sentence)}</p>'
    return f"{opening}{figure}{_details(summary, table.html())}</div>"


def _show_standing(standing: Standing) -> str:
    figure = draw_ranks(standing.judgement, standing.model)
    sentence = tables.significance(standing)
    return _group(standing.title, sentence, figure, "Ranks and tests", tables.rank_table(standing))


def _lead(name: str, title: str, table: Table) -> str:
    """A table before all others; nothing where it has no rows."""
    if not table.rows:
        return ""
    heading = f'<h2 id="{name}-title">{escape(title)}</h2>'
    return f'<section id="{name}" class="whole" aria-labelledby="{name}-title">{heading}{table.html()}</section>'


def _ablation(standing: Standing, contrasts: Sequence[Contrast], steps: Sequence[StepCost]) -> str:
    lanes = []
    for one in contrasts:
        change = text.change(one.change, 2)
        better = one.change < 0 if standing.task.lower_is_better else one.change > 0
        reach = (one.interval.low, one.interval.high) if one.interval else (None, None)
        words = f"{one.name}: {change}, won, tied and lost {one.record}, {one.parameters:.2f} times the parameters"
        name = tables.candidate(one.name).text.removeprefix(f"{standing.model} + ")
        lanes.append(Lane(name, (Mark(one.change, "better" if better else "worse", words, *reach),), change))
    sentence = tables.describe_contrasts(standing, contrasts)
    table = tables.ablation_table(standing, contrasts, steps)
    return _group(standing.title, sentence, draw_lanes(lanes, sentence), "Numbers and tests", table)


def _papers(comparisons: Sequence[Comparison]) -> str:
    """A lane for each printed table, a mark for each number that can be compared, and the numbers."""
    marks: dict[str, list[Mark]] = {}
    for one in comparisons:
        if one.difference is not None:
            words = (
                f"{tables.candidate(one.label).text}, {one.block}, {papers.measure(one)}: {one.mean:.4g}, printed "
                f"{one.printed:g}, {text.change(one.difference)}, {one.verdict} under {one.protocol}"
                f"{f', by chance {one.chance:.4g}' if one.chance else ''}"
                f"{f', smaller budget: {one.shortfall}' if one.shortfall else ''}"
            )
            kind = f"{one.verdict.replace(' ', '-')}{' faint' if one.shortfall else ''}"
            marks.setdefault(one.table, []).append(Mark(one.difference, kind, words))
    lanes = [Lane(table, tuple(same), quantity(len(same), "number")) for table, same in marks.items()]
    figure = draw_lanes(lanes, "Differences between ours and the printed numbers", band=100 * SHARE)
    numbers = _details("Every number", papers.number_table(comparisons).html())
    return (
        f'<p class="quiet">Each dot is a printed number: how far ours is from it, the shaded part at most '
        f"{100 * SHARE:g} %. A faint one was trained for less than the paper's, a hollow one lies beyond the edge.</p>"
        f"{figure}{papers.tally_table(comparisons).html()}{numbers}"
    )


def _protocols(summary: ResultsSummary) -> str:
    table = '<p class="quiet">No run was made under more than one protocol.</p>'
    if summary.protocol_contrasts:
        table = papers.protocol_table(summary.protocol_contrasts).html()
    return table + "".join(_details(title, _list(habits)) for title, habits in summary.habits)


def _list_missing(coverage: Sequence[Coverage]) -> str:
    lists = "".join(
        _details(f"{one.experiment.name}: {quantity(len(one.missing), 'cell')}", _list(papers.missing_lines(one)))
        for one in coverage
    )
    table = papers.coverage_table([one for one in coverage if one.by_protocol]).html()
    untouched = ", ".join(one.experiment.name for one in coverage if not one.by_protocol)
    note = f'<p class="quiet">Nothing was run of {escape(untouched)}.</p>' if untouched else ""
    return f'{table}{note}<h3>The cells</h3><div class="columns">{lists}</div>'


def _list(lines: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<ul class="plain">{items}</ul>' if items else ""


def _details(title: str, content: str) -> str:
    """Content behind a title that opens it; nothing without content."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>" if content else ""


def _download(name: str, content: bytes) -> str:
    packed = base64.b64encode(gzip.compress(content, mtime=0)).decode("ascii")
    link = f'<a download="{escape(name)}.gz" href="data:application/gzip;base64,{packed}">{escape(name)}.gz</a>'
    return f"<li>{link} ({text.memory(len(content))} unpacked)</li>"
