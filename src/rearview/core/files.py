"""Files that are written whole or not at all, folders that one process holds, and data files of the package."""

import contextlib
import errno
import os
import secrets
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any


@cache
def read_yaml(package: str, name: str) -> Any:
    """The content of a YAML file of a package, read once."""
    import yaml

    return yaml.safe_load(resources.files(package).joinpath(f"{name}.yaml").read_text(encoding="utf-8"))


def freeze(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of such a file whose lists are tuples, as a frozen value has them."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}


def list_yaml(package: str) -> list[str]:
    """The names of a package's YAML files."""
    names = (file.name for file in resources.files(package).iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


PART = ".rearview-*.part"
"""The names of files that are being written, or that a killed process left half-written."""
_ABANDONED_SECONDS = 3600.0
_DEVICES = Path("/dev")


def write_atomically(path: Path, content: bytes | str) -> None:
    """Put content at a path; whoever reads it, even after a kill or a power cut, sees the old file or the new one.

    What is no file (a pipe, /dev/null), or may be one (/dev/stdout), is written to as it is. A letter that is no text,
    as of a folder named in another encoding, is spelt out. An error names the path.
    """
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        device = path.parent == _DEVICES or not path.is_file()
        if path.exists() and device and not path.is_dir():
            path.write_bytes(data)
            return
        _remove_abandoned(path.parent)
        # A name that nobody can foresee, made by this call alone: a link that waits there is never followed.
        part = path.with_name(PART.replace("*", secrets.token_hex(8)))
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        flush_folder(path.parent)
    except OSError as problem:
        raise type(problem)(problem.errno or errno.EIO, problem.strerror or str(problem), str(path)) from problem


def flush_folder(folder: Path) -> None:
    """Let the names in a folder reach the disk, not only the bytes that they point at."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:  # some file systems can't, and the files are there all the same
        pass
    finally:
        os.close(handle)


@contextmanager
def lock_folder(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold a folder until the block ends; False: another process holds it and `wait` is False.

    The lock is on the folder itself, so nothing has to be cleared away, and it ends with its process. Where the system
    has no such locks it is always held.
    """
    try:
        import fcntl
    except ImportError:
        yield True
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            ours = True
        except BlockingIOError:
            ours = False
        except OSError:  # a file system without locks
            ours = True
        yield ours
    finally:
        os.close(handle)


def _remove_abandoned(folder: Path) -> None:
    """Remove what processes that were killed left half-written in a folder."""
    for part in folder.glob(PART):
        with contextlib.suppress(OSError):
            state = part.lstat()
            if stat.S_ISREG(state.st_mode) and time.time() - state.st_mtime > _ABANDONED_SECONDS:
                part.unlink()
