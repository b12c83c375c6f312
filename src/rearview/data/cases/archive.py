"""Sets of the UEA and UCR archives by name: NAME_TRAIN.ts and NAME_TEST.ts in a folder or two levels below it."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rearview.core.errors import InputError
from rearview.data.datasets.catalogue import locate

SOURCE = "https://www.timeseriesclassification.com"


class Pair(NamedTuple):
    """The two files of a set."""

    name: str
    """As the files spell it."""
    train: Path
    test: Path


def find(name: str, data_dir: Path | str | None = None) -> Pair:
    """The files of a set, whatever the case of its name; a missing one is refused with the places looked at."""
    train, test = (locate(name, (f"{name}{ending}",), SOURCE, data_dir) for ending in ("_TRAIN.ts", "_TEST.ts"))
    return Pair(train.name[: -len("_TRAIN.ts")], train, test)


def available(names: Iterable[str], data_dir: Path | str | None = None) -> tuple[str, ...]:
    """Those of the sets whose files are there."""
    return tuple(name for name in names if _there(name, data_dir))


def _there(name: str, data_dir: Path | str | None) -> bool:
    try:
        find(name, data_dir)
    except InputError:
        return False
    return True
