"""The files of every run: the name of their folder, tables as CSV, and the run as plain data."""

import csv
import io
import json
import math
import os
import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import rearview
from rearview.core.files import write_atomically
from rearview.core.output_folder import MODEL, has_finished_run
from rearview.data.io.files import STDIN
from rearview.data.panel import Layout

if TYPE_CHECKING:
    from rearview.commands.console import Outcome
    from rearview.estimators.frames import Columns
    from rearview.report.common.summary import Summary

_FORMULA = tuple("=+-@\t\r")
"""Letters with which a formula begins."""
_MOST_STEM = 200
"""Bytes of a file's name that the name of a folder repeats."""


def default_folder(file: str, prefix: str = "rearview") -> Path:
    """rearview-sales for data/sales.csv.gz, rearview-sales-jsonl for sales.jsonl: files of one name keep apart."""
    path = Path("stdin" if file in STDIN else file).absolute()
    ending = Path(path.name.removesuffix(".gz")).suffix.casefold()
    # The longest name of a file would be too long with the prefix.
    stem = os.fsencode(path.name.partition(".")[0])[:_MOST_STEM].decode(errors="ignore")
    words = [prefix, stem, *([ending[1:]] if ending not in ("", ".csv", ".ts") else [])]
    return Path("-".join(words))


def describe_replaced(out: Path) -> str | None:
    """A sentence on the run in a folder that a new one will replace; None: there is none."""
    if not has_finished_run(out):
        return None
    facts = json.loads((out / "run.json").read_text(encoding="utf-8"))
    return f"{out} holds the run of `{facts['command']}`, which this one will replace."


def write_csv(path: Path, columns: Mapping[str, Any]) -> Path:
    """Write columns as a CSV file, whole or not at all."""
    write_atomically(path, csv_content(columns))
    return path


def csv_content(columns: Mapping[str, Any]) -> bytes:
    """Columns as the content of a CSV file; what is missing is empty.

    Names that a spreadsheet would take for a formula, such as =A1 or +cmd|..., get an apostrophe before them.
    """
    return _csv_text({_quote_formula(name): _quote_formulas(cells) for name, cells in columns.items()}).encode()


def list_records(columns: Mapping[str, Any]) -> list[dict[str, object]]:
    """Columns as a mapping for each row: numbers as numbers, stamps as in the CSV file, None for what is missing."""
    readers: dict[str, Callable[[str], object]] = {
        "i": int,
        "u": int,
        "f": float,
        "b": lambda cell: cell.casefold() == "true",
    }
    read = {name: readers.get(np.asarray(cells).dtype.kind, str) for name, cells in columns.items()}
    return [
        {name: read[name](cell) if cell else None for name, cell in row.items()}
        for row in csv.DictReader(io.StringIO(_csv_text(columns)))
    ]


def _csv_text(columns: Mapping[str, Any]) -> str:
    from rearview.estimators.frames import to_native

    frame = to_native(dict(columns), Layout(form="long", time_col="ds"))
    return str(frame.fill_nan(None).write_csv() if hasattr(frame, "write_csv") else frame.to_csv(index=False))


def _quote_formulas(cells: Any) -> Any:
    """Cells of a column of text, of which those that look like a formula are quoted; other columns as they are."""
    if getattr(getattr(cells, "dtype", None), "kind", "O") not in "OU":
        return cells
    texts = {cell: _quote_formula(cell) for cell in cells if isinstance(cell, str) and cell[:1] in _FORMULA}
    return [texts.get(cell, cell) for cell in cells] if any(texts[text] != text for text in texts) else cells


def _quote_formula(text: str) -> str:
    """Text that a spreadsheet shows as it is; a negative number is none."""
    if text[:1] not in _FORMULA or re.fullmatch(r"[+-]?[\d.,]+(e[+-]?\d+)?%?", text, re.IGNORECASE):
        return text
    return f"'{text}"


def write_results(
    folder: Path,
    tables: "Mapping[str, Columns]",
    save: Callable[[Path], None] | None,
    summary: "Summary",
    facts: Mapping[str, object],
) -> list[Path]:
    """Write a run to a new folder, and return what was written: tables, model, page, its short form, run.json.

    `save` writes the model to a folder (None: there is no new one); `facts` are the run as plain data.
    """
    import torch

    from rearview.report.common import markdown, page

    written = [write_csv(folder / name, columns) for name, columns in tables.items()]
    if save is not None:
        save(folder / MODEL)
        written.append(folder / MODEL)
    written += [page.write(folder / "report.html", summary), markdown.write(folder / "summary.md", summary)]
    head = {
        "rearview": rearview.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": summary.device,
        "command": summary.command,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    write_atomically(folder / "run.json", json.dumps({**head, **facts}, indent=1) + "\n")
    return [*written, folder / "run.json"]


def end_facts(outcome: "Outcome") -> dict[str, object]:
    """How a run of any kind ended, as plain data."""
    return {
        "findings": [asdict(finding) for finding in outcome.findings],
        "notes": list(outcome.notes),
        "warnings": list(outcome.warnings),
        "verdict": outcome.verdict,
        "interrupted": outcome.interrupted,
        "seconds": round(outcome.seconds, 3),
    }


def plain(value: object) -> object:
    """The value for JSON, which has no NaN: what could not be computed is null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value
