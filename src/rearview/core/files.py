"""Files that are written whole or not at all."""

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes | str) -> None:
    """Put content at a path; whoever reads it, even after a kill or a power cut, sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # One fixed name beside the target: what a killed process left half-written is overwritten by the next write.
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if os.name == "posix":
        # The new name itself must reach the disk too, not only the bytes it points at.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
