"""Memory that stays with the process while a network trains on a CPU.

Every update asks for the same large blocks. glibc returns blocks of more than 32 MiB to the system as soon as they are
freed, and a heap whose end is free as well, so the next update has all pages mapped and zeroed for it again: a tenth
to a fifth of a PatchTST's step. While training runs, they are kept. Other systems and allocators are left alone.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# Names and numbers of <malloc.h>.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
_KEEP = {_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: 2**31 - 1}
# Setting any of them ends glibc's own adaptation, so what is left behind is where that adaptation ends at its largest.
_RETURN = {_M_MMAP_MAX: 65_536, _M_MMAP_THRESHOLD: 32 << 20, _M_TRIM_THRESHOLD: 64 << 20}
# Blocks of a MiB and more by themselves: a heap of them has holes as large as what lies between.
_SPARE = {**_RETURN, _M_MMAP_THRESHOLD: 1 << 20}


@contextmanager
def kept(device: torch.device) -> Iterator[None]:
    """Freed memory stays at hand within, and goes back to the system at the end."""
    library = _glibc() if device.type == "cpu" else None
    if library is None:
        yield
        return
    _set(library, _KEEP)
    try:
        yield
    finally:
        _set(library, _RETURN)
        library.malloc_trim(0)


def spare(device: torch.device) -> None:
    """Where memory is short: freed memory goes back at once for as long as `kept` lasts, and no holes are left."""
    library = _glibc() if device.type == "cpu" else None
    if library is not None:
        _set(library, _SPARE)
        library.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(None)
        # No other C library has this name.
        library.gnu_get_libc_version  # noqa: B018
    except (AttributeError, OSError, TypeError):
        return None
    return library


def _set(library: ctypes.CDLL, choices: dict[int, int]) -> None:
    for name, value in choices.items():
        library.mallopt(name, value)
