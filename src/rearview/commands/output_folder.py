"""The folder of a run: its name, what is refused before anything is trained for it, and the files of every run."""

import hashlib
import json
import math
import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import rearview
from rearview.core.errors import InputError
from rearview.core.files import write_atomically
from rearview.core.model_folder import CLASSIFIER, DETECTOR, FORECASTER
from rearview.data.panel import Layout, Panel

KINDS = {"forecast": FORECASTER, "detect": DETECTOR, "classify": CLASSIFIER}
"""Command -> the kind of model that its run saves."""
_SAME = {"demo": "forecast"}
"""Commands whose runs are those of another."""


def default_folder(file: str, prefix: str = "rearview") -> Path:
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
    runs = [(run, out / "run.json") for run in _command_of(out / "run.json")]
    for other, kind in KINDS.items():
        # Several models of one run lie in folders of their own.
        marks = (*out.glob(f"model/{kind.manifest}"), *out.glob(f"model/*/{kind.manifest}"))
        runs += [(other, mark) for mark in marks]
    for other, mark in runs:
        if other != command:
            raise InputError(
                f"{out} holds a run of `rearview {other}` (see {mark}), which `rearview {command}` would write over; "
                "name another folder with --out."
            )


def describe_replaced(out: Path) -> str | None:
    """A sentence on the run that a folder holds, which another one written there replaces; None: there is none."""
    if not _command_of(out / "run.json"):
        return None
    facts = json.loads((out / "run.json").read_text(encoding="utf-8"))
    return f"{out} holds the run of `{facts['command']}`, which this one will replace."


def write_csv(path: Path, columns: Mapping[str, Any]) -> Path:
    """Write columns as a CSV file, whole or not at all."""
    write_atomically(path, csv_content(columns))
    return path


def csv_content(columns: Mapping[str, Any]) -> bytes:
    """Columns as the content of a CSV file; what is missing is empty."""
    from rearview.estimators.frames import to_native

    frame = to_native(columns, Layout(form="long", time_col="ds"))
    text = frame.fill_nan(None).write_csv() if hasattr(frame, "write_csv") else frame.to_csv(index=False)
    return str(text).encode()


def write_run(folder: Path, command: str, device: str, facts: Mapping[str, object], *, interrupted: bool) -> Path:
    """Write run.json, the run as plain data; the checkpoints of a run that came to its end go."""
    import torch

    head = {
        "rearview": rearview.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": device,
        "command": command,
    }
    write_atomically(folder / "run.json", json.dumps({**head, **facts}, indent=1) + "\n")
    if not interrupted:
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return folder / "run.json"


def plain(value: object) -> object:
    """JSON has no NaN: what could not be computed is null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value


def fingerprint(panel: Panel, *asked: object) -> str:
    """Name a run by its data and what was asked, so that a checkpoint is never resumed on other data."""
    digest = hashlib.sha256(repr((*asked, panel.columns, panel.targets, panel.known)).encode())
    for array in (panel.values, panel.observed, panel.centre, panel.offsets, panel.stamps):
        if array is not None:
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()[:12]


def _check_place(out: Path, folder: Path) -> None:
    """Refuse what `--out` names if its folder is not, and can't become, one that can be written to."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir():
        raise InputError(f"--out is {out}, but {there} is a file; name a folder.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"--out is {out}, but {there} can't be written to; name another folder.")


def _command_of(path: Path) -> list[str]:
    """The command that a run.json names; none where the file is missing, damaged or somebody else's."""
    try:
        words = str(json.loads(path.read_text(encoding="utf-8"))["command"]).split()
    except (OSError, ValueError, LookupError, TypeError):
        return []
    command = _SAME.get(words[1], words[1]) if len(words) > 1 and words[0] == "rearview" else ""
    return [command] if command in KINDS else []
