"""A run as a page of Markdown, short enough for a pull request or an e-mail: verdict, tables, settings, command."""

import re
from pathlib import Path

from rearview.core.files import write_atomically
from rearview.report.common import text
from rearview.report.common.summary import Summary
from rearview.report.common.tables import Cell, Table, escape_markdown


def write(path: Path, summary: Summary) -> Path:
    """Write the summary to `path`, whole or not at all, and return it."""
    write_atomically(path, render(summary).encode("utf-8", errors="replace"))
    return path


def render(summary: Summary) -> str:
    """The summary as GitHub's Markdown; the same summary, the same text."""
    lines = [f"# {escape_markdown(summary.title)}", ""]
    lines += [f"**{escape_markdown(summary.outlook)}**", ""] if summary.outlook else []
    lines += [escape_markdown(summary.verdict), ""]
    for table in summary.tables():
        lines += [table.markdown(), ""]
    notes = [*(one.message for one in summary.findings if one.kind == "warning"), *summary.notes]
    lines += ["## Notes", "", *(f"- {escape_markdown(note)}" for note in notes), ""] if notes else []
    facts = Table("", ("Data", ""), tuple((Cell(name), Cell(value)) for name, value in summary.data.facts), {1})
    lines += ["## Data and settings", "", facts.markdown(), ""]
    if summary.settings:
        rows = tuple(
            (Cell(f"{section}: {name}"), Cell(text.setting(value)), Cell(reason))
            for section, settings in summary.settings.items()
            for name, (value, reason) in settings.items()
        )
        lines += [Table("", ("Setting", "Value", "Why"), rows, {1, 2}).markdown(), ""]
    # A fence is longer than any run of its letter in what it holds.
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", summary.command)), default=0))
    lines += ["## Make it again", "", f"{fence}sh", summary.command, fence, ""]
    made = f"rearview {summary.version}, {summary.created}, {text.duration(summary.seconds)} on {summary.device}"
    return "\n".join([*lines, f"{escape_markdown(made)}.", ""])
