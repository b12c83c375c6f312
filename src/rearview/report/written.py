"""The tables of a results report as files: Markdown to paste, LaTeX to print."""

from pathlib import Path

from rearview.files import write_atomically
from rearview.report import papers_tables
from rearview.report import results_tables as tables
from rearview.report.latex import PACKAGES, tex
from rearview.report.results import ResultsSummary
from rearview.report.tables import Table


def write(folder: Path, summary: ResultsSummary) -> list[Path]:
    """Writes tables.md and tables.tex and returns their paths."""
    contents = {"tables.md": markdown(summary), "tables.tex": latex(summary)}
    for name, content in contents.items():
        write_atomically(folder / name, content)
    return [folder / name for name in contents]


def markdown(summary: ResultsSummary) -> str:
    """Every table below its heading."""
    parts = [f"# {summary.title}", summary.verdict]
    for heading, found in _chapters(summary):
        parts += [f"## {heading}", *(table.markdown() for table in found)]
    return "\n\n".join(parts) + "\n"


def latex(summary: ResultsSummary) -> str:
    """Every table, to be included in a document."""
    parts = [f"% Needs \\usepackage{{{','.join(PACKAGES)}}}.", f"% {tex(summary.verdict)}"]
    for heading, found in _chapters(summary):
        parts += [f"% {tex(heading)}", *(table.tex() for table in found)]
    return "\n\n".join(parts) + "\n"


def _chapters(summary: ResultsSummary) -> list[tuple[str, list[Table]]]:
    chapters = [
        ("Results by data set", tables.by_dataset(summary.boards)),
        *((f"Ranks, {standing.title}", [tables.ranks(standing)]) for standing in summary.tested),
        ("Ablations", [tables.ablation(*found) for found in summary.ablations]),
        ("Beside the papers", _papers(summary)),
        ("Protocols", [papers_tables.sides(summary.sided)] if summary.sided else []),
        ("Failed runs", [papers_tables.failures(summary.failures)] if summary.failures else []),
        ("Cells run and not run", [papers_tables.covered(summary.coverage)] if summary.coverage else []),
    ]
    return [(heading, found) for heading, found in chapters if found]


def _papers(summary: ResultsSummary) -> list[Table]:
    besides = summary.besides
    return [papers_tables.tally(besides), papers_tables.papers(besides)] if besides else []
