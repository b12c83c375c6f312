"""A lock on a run, so that two commands that make the same run don't share its checkpoint."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FILE = "claims.lock"


@contextmanager
def hold(folder: Path, name: str) -> Iterator[bool]:
    """Hold the run called `name`, a hexadecimal number, until the block ends; False: another process holds it.

    Where the system has no such locks it is always held.
    """
    try:
        import fcntl
    except ImportError:
        yield True
        return
    folder.mkdir(parents=True, exist_ok=True)
    # A byte of one file for each run: nothing is to be cleared away, and a lock ends with its process.
    handle = os.open(folder / _FILE, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, int(name, 16) % 2**62)
            ours = True
        except OSError:
            ours = False
        yield ours
    finally:
        os.close(handle)
