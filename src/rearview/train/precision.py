"""How exactly a GPU multiplies float32 matrices while a network trains."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch


@contextmanager
def products(device: torch.device, tf32: bool) -> Iterator[None]:
    """Products of float32 matrices on tensor cores within, if `tf32`, else exact; as they were before at the end.

    On a CPU nothing changes: there the same switch would make results depend on the processor.
    """
    if device.type != "cuda":
        yield
        return
    put, before, wanted = _switch(tf32)
    put(wanted)
    try:
        yield
    finally:
        put(before)


def _switch(tf32: bool) -> tuple[Callable[[str], None], str, str]:
    """How torch's switch is put, how it stands, and how it is to stand."""
    try:
        return torch.set_float32_matmul_precision, torch.get_float32_matmul_precision(), "high" if tf32 else "highest"
    except RuntimeError:
        # From 2.9 on torch has a second switch, and once that is used it refuses to read the first.
        matmul = torch.backends.cuda.matmul
        return partial(setattr, matmul, "fp32_precision"), matmul.fp32_precision, "tf32" if tf32 else "ieee"
