"""How exactly a GPU multiplies float32 matrices while a network trains."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def products(device: torch.device, tf32: bool) -> Iterator[None]:
    """Products of float32 matrices on tensor cores within, if `tf32`, else exact; as they were before at the end.

    On a CPU nothing changes: there the same switch would make results depend on the processor.
    """
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
