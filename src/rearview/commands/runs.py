"""The `runs` and `open` commands: what was made in a folder, and its pages."""

import json
import webbrowser
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from rearview.commands.console import print_answer, say
from rearview.core.errors import InputError
from rearview.core.output_folder import read_mark
from rearview.core.wording import align

PAGE = "report.html"
DEEPEST = 2
"""Folders below the one that is looked through."""


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """One run as `rearview runs` lists it."""

    finished: str
    """When, as ISO text in UTC."""
    command: str
    """forecast (also of the demo), detect, classify or report."""
    file: str
    model: str
    score: str
    """The measure of its kind: MASE of the backtest, AUC-PR or the number of anomalies, accuracy; empty: none."""
    folder: str
    arguments: str
    """The command line that repeats it; empty where it is not recorded."""

    @property
    def cells(self) -> tuple[str, ...]:
        when = datetime.fromisoformat(self.finished).astimezone()
        shown = (self.command, self.file, self.model, self.score, self.folder)
        return (f"{when:%Y-%m-%d %H:%M}", *(cell or "-" for cell in shown))


def runs_command(folder: Path) -> int:
    """Print the runs that lie in a folder and below it, the newest first."""
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder; name one that holds runs.")
    runs = find_runs(folder)
    heads = ("when", "command", "file", "model", "score", "folder")
    lines = align([heads, *(run.cells for run in runs)]) if runs else [f"No run was made in {folder}."]
    print_answer(lines, lambda: {"runs": [asdict(run) for run in runs]})
    return 0


def open_command(folder: Path | None) -> int:
    """Open the page of a run in a browser, and print where it is; None: of the newest run here."""
    page = _find_page(folder).absolute()
    try:
        opened = webbrowser.get().open(page.as_uri())
    except webbrowser.Error:
        opened = False
    if not opened:
        say("There is no browser to open the page with; it is in")
    print_answer([str(page)], lambda: {"page": str(page), "opened": opened})
    return 0


def find_runs(folder: Path) -> list[FinishedRun]:
    """The runs in a folder and below it, the newest first."""
    places = [folder, *(place for depth in range(1, DEEPEST + 1) for place in folder.glob("/".join(["*"] * depth)))]
    runs = [run for place in places if place.is_dir() and (run := _read_run(place)) is not None]
    return sorted(runs, key=lambda run: run.finished, reverse=True)


def _read_run(folder: Path) -> FinishedRun | None:
    """The run of a folder; None where it holds none."""
    mark, record, page = read_mark(folder), folder / "run.json", folder / PAGE
    if mark is None or not (record.is_file() or page.is_file()):
        return None
    if not record.is_file():
        return FinishedRun(_change_time(page), mark.command, "", "", "", str(folder), "")
    facts = json.loads(record.read_text(encoding="utf-8"))
    command = str(facts["command"])
    return FinishedRun(
        finished=str(facts.get("finished") or _change_time(record)),
        command=mark.command,
        file=str(facts.get("file") or facts.get("test") or ""),
        model=_model(facts),
        score=_score(facts),
        folder=str(folder),
        arguments=command,
    )


def _change_time(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")


def _model(facts: Mapping[str, object]) -> str:
    models, request = facts.get("models"), facts.get("request")
    if isinstance(models, dict):
        return ",".join(name for name, one in models.items() if not one.get("baseline"))
    named = facts.get("model") or (request.get("model") if isinstance(request, dict) else None)
    return str(named or "")


def _score(facts: Mapping[str, object]) -> str:
    models, assessment = facts.get("models"), facts.get("assessment")
    if isinstance(models, dict):
        tests = [one["backtest"] for one in models.values() if not one.get("baseline") and "backtest" in one]
        return "" if not tests or tests[0].get("mase") is None else f"MASE {tests[0]['mase']:.3g}"
    if isinstance(assessment, dict) and assessment.get("auc_pr") is not None:
        return f"AUC-PR {assessment['auc_pr']:.3f}"
    if isinstance(count := facts.get("segments"), int):
        return "1 anomaly" if count == 1 else f"{count:,} anomalies"
    accuracy = facts.get("accuracy")
    return f"accuracy {accuracy:.3f}" if isinstance(accuracy, float | int) else ""


def _find_page(folder: Path | None) -> Path:
    if folder is None:
        runs = find_runs(Path())
        if not runs:
            raise InputError("No run was made here; name the folder of one: rearview open DIR.")
        folder = Path(runs[0].folder)
    page = folder if folder.suffix == ".html" else folder / PAGE
    if page.is_file():
        return page
    near = [run.folder for run in find_runs(folder)] if folder.is_dir() else []
    hint = f"there is one in {near[0]}" if near else "`rearview runs` lists the runs made here"
    raise InputError(f"{page} does not exist; {hint}.")
