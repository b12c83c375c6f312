"""Hand-written GPU kernels, each beside a form that torch can run anywhere; nothing here is needed on a CPU."""

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch

HAS_TRITON = importlib.util.find_spec("triton") is not None

Wrap = Callable[[Any], Any]
"""A way to call a kernel: as it is, or made visible to torch.compile by `torch.library.wrap_triton`."""


def plain(kernel) -> Any:
    """A kernel as it is."""
    return kernel


def available(device: torch.device) -> bool:
    """Whether kernels can run on a device."""
    return device.type == "cuda" and HAS_TRITON and _left != "none"


def short_available() -> bool:
    """Whether the kernels whose tiles hold a whole axis may run: each number of tokens is another kernel to them."""
    return _left == "all"


_left: Literal["all", "long", "none"] = "all"


@contextmanager
def leave(which: Literal["long", "none"]) -> Iterator[None]:
    """Run with these kernels alone, where a network is compiled for any number of tokens.

    Those for long axes walk along them and do not mind; the others are made for sizes that are known.
    """
    global _left
    before, _left = _left, which
    try:
        yield
    finally:
        _left = before
