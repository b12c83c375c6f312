"""The `report` command."""

from pathlib import Path

from rearview.cli.command import command
from rearview.cli.options import Out, Overwrite
from rearview.cli.parse import command_line


@command()
def report(results: list[str], /, *, out: Out = Path("report"), overwrite: Overwrite = False) -> int:
    """Make one page of result rows: leaderboards, significance, cost, the papers' numbers; and tables to print.

    Example: rearview report results/*.csv --out report

    Args:
        results: CSV files of rows, or patterns of their names.
        out: Folder for report.html, tables.md and tables.tex.
    """
    from rearview.commands.report import report_command

    return report_command(results, out or Path("report"), command_line(), overwrite=overwrite)
