"""The provenance of a result: checksums of its data, the commit of the code, the device, and when it was made."""

import hashlib
import os
import platform
import re
import subprocess
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import nn

from rearview import __version__, attention, models
from rearview.bench.rows.row import AND, Facts, MadeRow
from rearview.data.panel import Panel

_PACKAGE = Path(__file__).parents[2]
_PATIENCE_SECONDS = 10


def values_checksum(panel: Panel) -> str:
    """SHA-256 of a panel's numbers: the array, what was subtracted from it, and which cells are missing."""
    digest = hashlib.sha256()
    for array in (panel.values, panel.centre, panel.observed):
        if array is not None:
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


@cache
def commit() -> str:
    """The commit of the running code, as the checkout stood when this was first called.

    Once in a process: its code stays as it was loaded, however the checkout moves on during a long run. On a machine
    that got a copy without its repository, the variable REARVIEW_COMMIT says which commit it is.
    """
    return commit_of(_PACKAGE) or os.environ.get("REARVIEW_COMMIT", "")


def version(configuration: Facts) -> str:
    """The version of rearview and those of the plug-ins that bring the network and the mechanisms of a run."""
    inner = re.findall(r'"([^"\\]+)"', str(configuration.get("attention_settings", "")))
    mechanisms = dict.fromkeys([str(configuration.get("attention", "")), *inner])
    found = [models.distribution(str(configuration.get("model", "")))]
    found += [attention.distribution(name) for name in mechanisms]
    return AND.join(dict.fromkeys([__version__, *filter(None, found)]))


def describe_upgrade(row: MadeRow) -> str:
    """' by ...' of a row that was made by other versions of its plug-ins than are installed now; else empty."""
    now = replace(row, version=version(row.configuration)).plug_ins
    if not now or now == row.plug_ins:
        return ""
    made_by = " and ".join(row.plug_ins) or "a plug-in whose version it does not say"
    return f" by {made_by} (installed: {' and '.join(now)})"


def columns(device: torch.device | str) -> dict[str, object]:
    """The columns of a row that say by which code, on what device (or its name, as it was asked for) and when."""
    return {
        "version": __version__,
        "commit": commit(),
        "device": device if isinstance(device, str) else device_words(device),
        "torch": str(torch.__version__),
        "threads": torch.get_num_threads(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def count_parameters(network: nn.Module) -> int:
    """The numbers of a network that training changes."""
    return sum(weight.numel() for weight in network.parameters() if weight.requires_grad)


def commit_of(package: Path) -> str:
    """The commit of the checkout that a package is a part of, marked where the package has changes since.

    A package that is installed somewhere inside another project's checkout has none.
    """
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return ""
    head = _git(package, "rev-parse", "HEAD")
    if head is None:
        return ""
    return f"{head}-dirty" if _git(package, "status", "--porcelain", "--", ".") else head


def device_words(device: torch.device) -> str:
    """The device's own name."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    names = []
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2] for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    return f"{device.type} ({' '.join(processor.split())})"


def _git(folder: Path, *arguments: str) -> str | None:
    """The answer of git about a folder; None where there is no git, or it refuses."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            check=False,
            text=True,
            timeout=_PATIENCE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
