"""The tables of a results report as files: Markdown to paste, LaTeX to print."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rearview.core.files import write_atomically
from rearview.report.common.latex import PACKAGES, tex
from rearview.report.common.tables import Table
from rearview.report.results import papers, tables
from rearview.report.results.page import ANSWERS, CONTROLS, ResultsSummary


@dataclass(frozen=True, slots=True)
class Habits:
    """The habits of a protocol, which a reader of its numbers must know."""

    title: str
    habits: Sequence[str]

    def markdown(self) -> str:
        return "\n".join([f"**{self.title}**", "", *(f"- {habit}" for habit in self.habits)])

    def tex(self) -> str:
        # Names of networks are not hyphenated, so lines end where words do.
        title = f"{{\\raggedright\\noindent\\textbf{{{tex(self.title)}}}\\par}}"
        items = [f"\\item {tex(habit)}" for habit in self.habits]
        return "\n".join([title, r"\begin{itemize}\raggedright", *items, r"\end{itemize}"])


def write_tables(folder: Path, summary: ResultsSummary) -> list[Path]:
    """Write tables.md and tables.tex and return their paths."""
    contents = {folder / "tables.md": markdown(summary), folder / "tables.tex": latex(summary)}
    for path, content in contents.items():
        write_atomically(path, content)
    return list(contents)


def markdown(summary: ResultsSummary) -> str:
    """Every table below its heading, and the habits of the protocols."""
    parts = [f"# {summary.title}", summary.verdict]
    for heading, chapter in _chapters(summary):
        parts += [f"## {heading}", *(table.markdown() for table in chapter)]
    return "\n\n".join(parts) + "\n"


def latex(summary: ResultsSummary) -> str:
    """Every table and the habits of the protocols, to be included in a document."""
    parts = [f"% Needs \\usepackage{{{','.join(PACKAGES)}}}.", f"% {tex(summary.verdict)}"]
    for heading, chapter in _chapters(summary):
        parts += [f"% {tex(heading)}", *(table.tex() for table in chapter)]
    return "\n\n".join(parts) + "\n"


def _chapters(summary: ResultsSummary) -> list[tuple[str, Sequence[Table | Habits]]]:
    comparisons = summary.comparisons
    sides = [papers.protocol_table(summary.protocol_contrasts)] if summary.protocol_contrasts else []
    chapters: list[tuple[str, Sequence[Table | Habits]]] = [
        (ANSWERS, [summary.answers] if summary.answers.rows else []),
        (CONTROLS, [summary.controls] if summary.controls.rows else []),
        ("Results by data set", tables.dataset_tables(summary.boards)),
        *((f"Ranks, {standing.title}", [tables.rank_table(standing)]) for standing in summary.tested),
        ("Ablations", [tables.ablation_table(*ablation, summary.steps) for ablation in summary.ablations]),
        (
            "Beside the papers",
            [papers.tally_table(comparisons), papers.number_table(comparisons)] if comparisons else [],
        ),
        ("Protocols", [*sides, *(Habits(title, habits) for title, habits in summary.habits)]),
        ("Failed runs", [papers.failure_table(summary.failures)] if summary.failures else []),
        ("Cells run and not run", [papers.coverage_table(summary.coverage)] if summary.coverage else []),
    ]
    return [(heading, chapter) for heading, chapter in chapters if chapter]
