"""How exactly products run: whether float32 ones may use TF32, and a way around autocast."""

from contextlib import AbstractContextManager, nullcontext

import torch

AUTOCAST = ("cpu", "cuda", "mps", "xpu")
"""Kinds of device that have autocast."""


def tf32_allowed() -> bool:
    """Whether torch's own products of float32 matrices run in TF32 on a GPU."""
    matmul = torch.backends.cuda.matmul
    # From 2.9 on torch has a second switch, and once that is used it refuses to read the first; a compiler can follow
    # the first alone, and reads it itself.
    if torch.compiler.is_compiling() or not hasattr(matmul, "fp32_precision"):
        return bool(matmul.allow_tf32)
    return bool(matmul.fp32_precision == "tf32")


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Products as exact as their operands, under autocast too."""
    # Asking torch whether a device has autocast would break a compiled graph in two.
    return torch.autocast(device.type, enabled=False) if device.type in AUTOCAST else nullcontext()
