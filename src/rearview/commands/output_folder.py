"""The folder of a run: what it is called, and what is refused before anything is trained for it."""

import json
import os
from pathlib import Path

from rearview.core.errors import InputError
from rearview.core.model_folder import CLASSIFIER, DETECTOR, FORECASTER

KINDS = {"forecast": FORECASTER, "detect": DETECTOR, "classify": CLASSIFIER}
"""Command -> the kind of model that its run saves."""
_SAME = {"demo": "forecast"}
"""Commands whose runs are those of another."""


def named_after(file: str, prefix: str = "rearview") -> Path:
    """rearview-sales for data/sales.csv.gz."""
    return Path(f"{prefix}-{Path(file).name.partition('.')[0]}")


def check_file(out: Path) -> None:
    """Refuse a file that can't be written where it is named."""
    if out.is_dir():
        raise InputError(f"--out is {out}, which is a folder; name a file, such as {out / 'next.csv'}.")
    _check_place(out, out.absolute().parent)


def check_folder(out: Path, command: str | None = None) -> None:
    """Refuse a folder that can't be written to, or where `command` would write over the run of another one."""
    _check_place(out, out.absolute())
    if command is None:
        return
    for other, mark in _held(out):
        if other != command:
            raise InputError(
                f"{out} holds a run of `rearview {other}` (see {mark}), which `rearview {command}` would write over; "
                "name another folder with --out."
            )


def replaced(out: Path) -> str | None:
    """A sentence on the run that a folder holds, which another one written there replaces; None: there is none."""
    if not _commanded(out / "run.json"):
        return None
    facts = json.loads((out / "run.json").read_text(encoding="utf-8"))
    return f"{out} holds the run of `{facts['command']}`, which this one replaces."


def _check_place(out: Path, folder: Path) -> None:
    """Refuse what `--out` names if its folder is not, and can't become, one that can be written to."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir():
        raise InputError(f"--out is {out}, but {there} is a file; name a folder.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"--out is {out}, but {there} can't be written to; name another folder.")


def _held(out: Path) -> list[tuple[str, Path]]:
    """The commands whose runs a folder holds, each with the file that tells."""
    found = [(command, out / "run.json") for command in _commanded(out / "run.json")]
    for command, kind in KINDS.items():
        # Several models of one run lie in folders of their own.
        marks = (*out.glob(f"model/{kind.manifest}"), *out.glob(f"model/*/{kind.manifest}"))
        found += [(command, mark) for mark in marks]
    return found


def _commanded(path: Path) -> list[str]:
    """The command that a run.json names; none where the file is missing, damaged or somebody else's."""
    try:
        words = str(json.loads(path.read_text(encoding="utf-8"))["command"]).split()
    except (OSError, ValueError, LookupError, TypeError):
        return []
    command = _SAME.get(words[1], words[1]) if len(words) > 1 and words[0] == "rearview" else ""
    return [command] if command in KINDS else []
