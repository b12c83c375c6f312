"""A network without its numbers: shapes and names alone, so that what would not fit in memory is known beforehand."""

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from rearview import models
from rearview.core.errors import RearviewError, SettingsError
from rearview.models.contract import Model

COPIES = 5
"""Of its weights in training: themselves, gradients, two moments, the best so far."""
CONTAINER = Path("/sys/fs/cgroup/memory.max")


def outline(name: str, **asked: Any) -> Model | None:
    """The network that `models.create` would build, on torch's device for shapes without values.

    None: its constructor needs values, as one of another package may.
    """
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whoever builds it in earnest hears them
        try:
            return models.create(name, **asked)
        except RearviewError:
            raise
        except Exception:  # whatever another package raises where its numbers have no values
            return None


def check_memory(network: Model | None, name: str, settings: Mapping[str, object], copies: int = COPIES) -> None:
    """Refuse a network of which so many copies don't fit in this machine's memory."""
    if network is None:
        return
    tensors = [*network.parameters(), *network.buffers()]
    size = sum(one.numel() * one.element_size() for one in tensors)
    most = machine_memory()
    if most is None or size * copies <= most:
        return
    numbers = sum(one.numel() for one in tensors)
    given = ", ".join(f"{key}={value}" for key, value in settings.items() if isinstance(value, int))
    raise SettingsError(
        f"{name}{f' with {given}' if given else ''} has {numbers:,} numbers and takes {size * copies / 2**30:,.0f} "
        f"GiB, but this machine has {most / 2**30:,.0f} GiB of memory; use a smaller width, depth or look-back."
    )


def machine_memory() -> int | None:
    """Bytes of memory that this machine has, or the container this runs in; None: the system does not say."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
    try:
        allowed = CONTAINER.read_text(encoding="utf-8").strip()
    except OSError:
        return total
    return min(total, int(allowed)) if allowed.isdecimal() else total
