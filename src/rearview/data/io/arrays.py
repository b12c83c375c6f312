"""Files of numbers alone: .npz archives, .npy arrays and comma-separated text without a header."""

import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.io.damage import FREE_BYTES, MOST_BYTES, MOST_TIMES

Array: TypeAlias = NDArray[np.generic]


def read_npz(path: Path) -> dict[str, Array]:
    """Every array of an .npz archive by name."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            _check_expansion(path, archive.zip)
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; check the path and the spelling.") from None
    except InputError:
        raise
    except MemoryError as problem:  # what a damaged shape asks for
        raise InputError(f"{path} holds an array that the memory of this machine does not hold: {problem}") from problem
    except (
        ValueError, OSError, EOFError, AttributeError, LookupError, NotImplementedError, OverflowError, SyntaxError,
        TypeError, RuntimeError, struct.error, zlib.error, zipfile.BadZipFile, tokenize.TokenError,
    ) as problem:  # fmt: skip
        # numpy takes what is no archive for a pickle and tells how to load that, which nobody should.
        why = "it is none, or holds objects" if "pickle" in str(problem) else problem
        raise InputError(f"{path} can't be read as an .npz archive of numbers: {why}") from problem


def _check_expansion(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse an archive that expands beyond all proportion; numbers of one kind pack well, but not without end."""
    size = sum(entry.file_size for entry in archive.infolist())
    limit = min(MOST_BYTES, max(FREE_BYTES, MOST_TIMES * path.stat().st_size))
    if size > limit:
        raise InputError(
            f"{path} expands to {size >> 20:,} MiB, more than the {limit >> 20:,} MiB that its size allows."
        )


def read_npy(path: Path) -> Array:
    """The array of an .npy file, which must exist."""
    try:
        array: Array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError, MemoryError) as problem:
        raise InputError(f"{path} can't be read as an array of numbers: {problem}") from problem
    return array


def read_number_text(path: Path) -> NDArray[np.float64]:
    """[row, column] of comma-separated numbers without a header; gzip is read too."""
    try:
        return np.loadtxt(path, delimiter=",", dtype=np.float64, ndmin=2)
    except (ValueError, OSError, EOFError) as problem:
        raise InputError(f"{path} can't be read as comma-separated numbers: {problem}") from problem


def read_number_table(path: Path) -> NDArray[np.float64]:
    """[row, column] of a CSV file with a header; stamps and empty cells are NaN."""
    try:
        return np.genfromtxt(path, delimiter=",", skip_header=1, dtype=np.float64)
    except (OSError, ValueError) as problem:
        raise InputError(f"{path} can't be read as a table of numbers: {problem}") from problem
