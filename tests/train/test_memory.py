"""Memory while training: kept at hand within, given back after, and nothing touched where there is nothing to set."""

import ctypes
import mmap
import platform
from pathlib import Path

import pytest
import torch

from rearview.train import memory

CELLS = 16 << 20  # of float32: 64 MiB, more than glibc ever keeps by itself
MIB = 1 << 20

needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")


def resident() -> int:
    """MiB of this process that lie in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE // MIB


def use_and_free() -> None:
    torch.ones(CELLS)


@needs_glibc
def test_freed_memory_stays_within_and_goes_back_after() -> None:
    with memory.keep_blocks(torch.device("cpu")):
        pass  # what earlier tests left free goes back, and the count starts clean
    before = resident()
    with memory.keep_blocks(torch.device("cpu")):
        use_and_free()
        within = resident()
    after = resident()
    assert within - before > 48
    assert within - after > 48


@needs_glibc
def test_memory_goes_back_after_an_error_too() -> None:
    seen: list[int] = []

    def fail() -> None:
        with memory.keep_blocks(torch.device("cpu")):
            use_and_free()
            seen.append(resident())
            raise RuntimeError("on the way")

    with pytest.raises(RuntimeError, match="on the way"):
        fail()
    assert seen[0] - resident() > 48


def test_nothing_is_set_for_another_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: pytest.fail("the C library was asked for"))
    with memory.keep_blocks(torch.device("meta")):
        pass


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Musl:
        pass

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Musl())
    with memory.keep_blocks(torch.device("cpu")):
        assert torch.ones(3).sum() == 3
