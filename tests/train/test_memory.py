"""Memory while training: kept at hand within, given back after, and nothing touched where there is nothing to set."""

import ctypes
import platform
import subprocess
import sys

import pytest
import torch

from rearview.train import memory

CELLS = 16 << 20  # of float32: 64 MiB, more than glibc ever keeps by itself
MIB = 1 << 20

needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")


MEASURE = f"""
import mmap, sys
import torch
from rearview.train import memory

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * mmap.PAGESIZE // {MIB}

torch.ones(8).sum()
before = resident()
try:
    with memory.keep_blocks(torch.device("cpu")):
        torch.ones({CELLS})
        within = resident()
        if "fail" in sys.argv:
            raise RuntimeError("on the way")
except RuntimeError:
    pass
print(before, within, resident())
"""


@needs_glibc
@pytest.mark.parametrize("end", ["plain", "fail"])
def test_freed_memory_stays_within_and_goes_back_after_an_error_too(end: str) -> None:
    """In a process of its own: one that has grown before may find room that is in memory already."""
    command = [sys.executable, "-c", MEASURE, end]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    before, within, after = map(int, said.split())
    assert within - before > 48
    assert within - after > 48


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
