"""Sets of the UEA and UCR archives by name: NAME_TRAIN.ts and NAME_TEST.ts in the data folder."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rearview.data.datasets.data_folder import files_in, locate

SOURCE = "https://www.timeseriesclassification.com"
_ENDINGS = ("_TRAIN.ts", "_TEST.ts")


class ArchiveFiles(NamedTuple):
    """The two files of a set."""

    name: str
    """As the files spell it."""
    train: Path
    test: Path


def find(name: str, data_dir: Path | str | None = None) -> ArchiveFiles:
    """The files of a set, whatever the case of its name; a missing one is refused with the places looked at."""
    train, test = (locate(name, (f"{name}{ending}",), SOURCE, data_dir) for ending in _ENDINGS)
    return ArchiveFiles(train.name[: -len(_ENDINGS[0])], train, test)


def available(names: Iterable[str], data_dir: Path | str | None = None) -> tuple[str, ...]:
    """Those of the sets whose files are there."""
    there = files_in(data_dir)
    return tuple(name for name in names if all(f"{name}{ending}".casefold() in there for ending in _ENDINGS))
