"""Hand-written GPU kernels, each beside a form that torch can run anywhere; nothing here is needed on a CPU."""

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

HAS_TRITON = importlib.util.find_spec("triton") is not None

Wrap = Callable[[Any], Any]
"""A way to call a kernel: as it is, or made visible to torch.compile by `torch.library.wrap_triton`."""


def plain(kernel) -> Any:
    """A kernel as it is."""
    return kernel


def available(device: torch.device) -> bool:
    """Whether kernels can run on a device."""
    return device.type == "cuda" and HAS_TRITON and not _set_aside


_set_aside = False


@contextmanager
def set_aside() -> Iterator[None]:
    """Run without the kernels: they are made for sizes that are known when a network is compiled."""
    global _set_aside
    before, _set_aside = _set_aside, True
    try:
        yield
    finally:
        _set_aside = before
