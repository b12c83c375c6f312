"""The folder of benchmark files: where it is, what it holds, and whether a file is a copy known to be good.

Files are looked for in a folder given by the caller, else in the folder that REARVIEW_DATA names, else in ./data, each
with two levels of subfolders.
"""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from rearview.core.errors import InputError
from rearview.data.panel import Finding


def files_in(data_dir: Path | str | None = None) -> dict[str, Path]:
    """Lower-case file name -> path; of two files of one name the one nearer to the top wins."""
    files: dict[str, Path] = {}
    for level in ("*", "*/*", "*/*/*"):
        for path in sorted(_folder(data_dir)[0].glob(level)):
            if path.is_file():
                files.setdefault(path.name.casefold(), path)
    return files


def locate(name: str, files: Iterable[str], source: str, data_dir: Path | str | None = None) -> Path:
    """The first of the files of a data set that is there, in any case; refused where none is."""
    there = files_in(data_dir)
    for file in files:
        if file.casefold() in there:
            return there[file.casefold()]
    folder, chosen_by = _folder(data_dir)
    looked = f"{folder} ({chosen_by})"
    reason = f"in {looked} or its subfolders, two levels down" if folder.is_dir() else f"because {looked} is no folder"
    raise InputError(
        f"{' or '.join(files)}, the file of {name}, was not found {reason}; get it from {source}, and name its folder "
        "with --data-dir (data_dir=) or the variable REARVIEW_DATA."
    )


def checksum(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def compare_checksum(path: Path, name: str, good: tuple[str, ...]) -> tuple[Finding, ...]:
    """A warning where copies of a data set are known to be good and the file is none of them."""
    if not good or checksum(path) in good:
        return ()
    message = (
        f"{path.name} differs from the copy of {name} that is known to be good (its checksum is another); "
        "line ends or rounding may be all, but compare scores with care."
    )
    return (Finding("warning", "checksum", 1, message),)


def _folder(data_dir: Path | str | None) -> tuple[Path, str]:
    """The folder to look in, and who chose it."""
    if data_dir is not None:
        return Path(data_dir), "the folder given"
    if named := os.environ.get("REARVIEW_DATA"):
        return Path(named), "named by REARVIEW_DATA"
    return Path("data"), "the default, as REARVIEW_DATA is unset"
