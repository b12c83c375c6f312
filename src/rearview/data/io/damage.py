"""Files that are damaged or blown up: what other libraries raise becomes one sentence, and expansion has a limit."""

import gzip
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rearview.core.errors import InputError, RearviewError

GZIP = b"\x1f\x8b"
FREE_BYTES, MOST_TIMES, MOST_BYTES = 256 << 20, 100, 4 << 30
"""A packed file may expand to the first number of bytes, beyond that to so many times its own size, and never to more
than the last: numbers as text pack to a third or a tenth, and a file that packs to a hundredth says next to nothing."""
_BLOCK = 16 << 20


@contextmanager
def refuse_damaged(path: Path, kind: str) -> Iterator[None]:
    """Refuse a file on which another library's reader fails, whatever it raises: some panic outside of Exception.

    What such a panic prints by itself is left out.
    """
    try:
        with _silence_libraries():
            yield
    except (RearviewError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, ModuleNotFoundError):
        raise
    except BaseException as problem:
        why = next(iter(str(problem).splitlines()), type(problem).__name__)
        if zone := re.search(r"time zone:? '([^']*)'", str(problem)):
            raise InputError(
                f"{path} holds stamps in the time zone {zone[1]!r}, which can't be read; write them in UTC or in a "
                "zone such as Europe/Berlin."
            ) from problem
        raise InputError(f"{path} is a damaged {kind} file ({why}); write it again.") from problem


@contextmanager
def _silence_libraries() -> Iterator[None]:
    """Lead what libraries print without Python nowhere."""
    try:
        stderr = os.dup(2)
    except OSError:  # it is closed, and so silent already
        yield
        return
    try:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 2)
        os.close(sink)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def unpack(path: Path, most: int | None = None) -> bytes:
    """The content of a gzip file, or its first `most` bytes; one that expands beyond all proportion is refused."""
    limit = min(MOST_BYTES, max(FREE_BYTES, MOST_TIMES * path.stat().st_size))
    parts, size = [], 0
    try:
        with gzip.open(path) as file:
            while block := file.read(_BLOCK if most is None else min(_BLOCK, most - size)):
                parts.append(block)
                size += len(block)
                if size > limit:
                    raise InputError(
                        f"{path} expands to more than {limit >> 20:,} MiB, {size // max(1, path.stat().st_size):,} "
                        "times its size and more; if that is meant, unpack it and give the file inside."
                    )
    except (OSError, EOFError, zlib.error) as problem:
        raise InputError(f"{path} is a damaged gzip file ({problem}); pack it again.") from problem
    return b"".join(parts)
