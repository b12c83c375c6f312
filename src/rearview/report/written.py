"""The tables of a results report as files: Markdown to paste, LaTeX to print."""

from pathlib import Path

from rearview.files import write_atomically
from rearview.report import results_tables as tables
from rearview.report.results import ResultsSummary
from rearview.report.tables import Table, tex


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
    """Every table for the booktabs package, to be included in a document."""
    parts = ["% Needs \\usepackage{booktabs}.", f"% {tex(summary.verdict)}"]
    for heading, found in _chapters(summary):
        parts += [f"% {tex(heading)}", *(table.tex() for table in found)]
    return "\n\n".join(parts) + "\n"


def _chapters(summary: ResultsSummary) -> list[tuple[str, list[Table]]]:
    chapters = [
        ("Results by data set", tables.by_dataset(summary.boards)),
        *((f"Ranks, {standing.title}", [tables.ranks(standing)]) for standing in summary.standings),
        ("Ablations", [tables.ablation(standing) for standing in summary.ablations]),
        ("Beside the papers", [tables.papers(summary.besides)] if summary.besides else []),
        ("Protocols", [tables.sides(summary.sided)] if summary.sided else []),
        ("Failed runs", [tables.failures(summary.failures)] if summary.failures else []),
        ("Cells run and not run", [tables.covered(summary.coverage)] if summary.coverage else []),
    ]
    return [(heading, found) for heading, found in chapters if found]
