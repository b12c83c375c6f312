"""The detection data sets by name: their files, their shape, and where to get them.

They are looked for in the data folder. A file of another shape is refused, because a cut of a benchmark set must not
carry its name: SMD19 holds 19 of SMD's 28 machines and is a set of its own.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from rearview.core.errors import InputError, unknown
from rearview.core.files import freeze, read_yaml
from rearview.data.datasets.data_folder import compare_checksum, files_in, locate
from rearview.data.datasets.labelled_arrays import PARTS, LabelledArrays, from_arrays, is_array_file, read
from rearview.data.io.arrays import read_number_table


def psm(path: Path) -> LabelledArrays:
    """PSM's three tables, whose first columns are stamps; an archive is read as one."""
    if is_array_file(path):
        return read(path)
    train, test, labels = (read_number_table(path.with_name(f"{part}.csv")) for part in PARTS)
    return from_arrays({"train": train[:, 1:], "test": test[:, 1:], "test_label": labels[:, 1]}, path)


def swat(path: Path) -> LabelledArrays:
    """SWaT's two tables in the field's form, whose last columns are labels; an archive is read as one."""
    if is_array_file(path):
        return read(path)
    train, test = read_number_table(path.with_name("swat_train2.csv")), read_number_table(path)
    return from_arrays({"train": train[:, :-1], "test": test[:, :-1], "test_label": test[:, -1]}, path)


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """One detection data set: what is known of it before its file is opened."""

    name: str
    files: tuple[str, ...]
    train_rows: int
    test_rows: int
    channels: int
    source: str
    """The source of the files, in words."""
    ratio: float = 1.0
    """The share of rows, in percent, that the field's code flags."""
    step: int = 1
    """Rows from one window to the next in the field's code."""
    epochs: int = 3
    """Epochs of the field's scripts."""
    sha256: tuple[str, ...] = ()
    reader: str = ""
    """The function of this module that reads its files; empty: they are arrays."""


def names() -> tuple[str, ...]:
    """Every detection data set."""
    return tuple(dataset.name for dataset in _SHELF)


def get(name: str) -> LabelledSet:
    """The data set of that name, in any case."""
    for dataset in _SHELF:
        if dataset.name.casefold() == name.casefold():
            return dataset
    raise unknown("detection data set", name, names())


def available(data_dir: Path | str | None = None) -> tuple[str, ...]:
    """The data sets whose file is there."""
    there = files_in(data_dir)
    return tuple(dataset.name for dataset in _SHELF if any(file.casefold() in there for file in dataset.files))


def find(name: str | LabelledSet, data_dir: Path | str | None = None) -> Path:
    """The file of a data set; a missing one is refused with where to look and to get it."""
    dataset = get(name) if isinstance(name, str) else name
    return locate(dataset.name, dataset.files, dataset.source, data_dir)


def load(dataset: LabelledSet, data_dir: Path | str | None = None) -> LabelledArrays:
    """The rows and labels of a data set; a missing file and one of another shape are refused."""
    path = find(dataset, data_dir)
    arrays = {"psm": psm, "swat": swat}.get(dataset.reader, read)(path)
    shape = (len(arrays.train.values), len(arrays.test.values), len(arrays.train.columns))
    known = (dataset.train_rows, dataset.test_rows, dataset.channels)
    if shape != known:
        raise InputError(
            f"{path} has {shape[0]:,} training rows and {shape[1]:,} test rows of {shape[2]} channels, but "
            f"{dataset.name} has {known[0]:,} and {known[1]:,} of {known[2]}; a part of a data set can't go by its "
            f"name: get the whole from {dataset.source}, or give the file itself."
        )
    warnings = compare_checksum(path, dataset.name, dataset.sha256)
    return replace(arrays, train=replace(arrays.train, findings=(*arrays.train.findings, *warnings)))


_SHELF = tuple(
    LabelledSet(name, **freeze(facts))
    for name, facts in read_yaml("rearview.data.datasets", "catalogue")["detection"].items()
)
