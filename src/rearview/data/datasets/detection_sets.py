"""The detection data sets by name: their files, their shape, and where to get them.

They are looked for in the data folder. A file of another shape is refused, because a cut of a benchmark set must not
carry its name: SMD19 holds 19 of SMD's 28 machines and is a set of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from rearview.core.errors import InputError, SettingsError, did_you_mean
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
    """Where to get the files, in words."""
    ratio: float = 1.0
    """The share of rows, in percent, that the field's code flags."""
    step: int = 1
    """Rows from one window to the next in the field's code."""
    epochs: int = 3
    """How long the field's scripts train."""
    sha256: tuple[str, ...] = ()
    read: Callable[[Path], LabelledArrays] = read


def names() -> tuple[str, ...]:
    """Every detection data set."""
    return tuple(dataset.name for dataset in _SHELF)


def get(name: str) -> LabelledSet:
    """The data set of that name, in any case."""
    for dataset in _SHELF:
        if dataset.name.casefold() == name.casefold():
            return dataset
    near = did_you_mean(name, names())
    raise SettingsError(f"There is no detection data set {name!r}; there are {', '.join(names())}.{near}")


def available(data_dir: Path | str | None = None) -> tuple[str, ...]:
    """The data sets whose file is there."""
    there = files_in(data_dir)
    return tuple(dataset.name for dataset in _SHELF if any(file.casefold() in there for file in dataset.files))


def load(dataset: LabelledSet, data_dir: Path | str | None = None) -> LabelledArrays:
    """The rows and labels of a data set; a missing file and one of another shape are refused."""
    path = locate(dataset.name, dataset.files, dataset.source, data_dir)
    arrays = dataset.read(path)
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


_TSLIB = "the data folder linked in the README of thuml/Time-Series-Library on GitHub"
_OMNI = "NetManAIOps/OmniAnomaly on GitHub"
_SMD = f"{_TSLIB} (SMD), or the ServerMachineDataset folder of {_OMNI}"
_SMD19 = f"19 of the 28 machines of the ServerMachineDataset folder of {_OMNI}: a cut of SMD, not SMD"
_SMD19_SHA = "69ce48935a8735111b34804cff74ac7ebb1f1d14b82c304425ffab42b0de20c6"
_SMAP_SHA = "33507e1c1a1672ba538d00dcc7dbd3131f2fa59a4acce04d69728f5ba731e53f"
_ASD_SHA = "2d3b50ed506b8537bbe6bc47236f4e21cb6cc9f4d345e82afdc664fc9391d3ee"
_TELEMANOM = f"{_TSLIB} ({{}}), or khundman/telemanom on GitHub"
_PSM = f"{_TSLIB} (PSM: train.csv, test.csv, test_label.csv)"
_SWAT = f"{_TSLIB} (SWaT: swat_train2.csv, swat2.csv)"
_ASD = "the data/processed folder of tuananhphamds/MST-VAE on GitHub"

# Name, files, training rows, test rows, channels, source.
_SHELF = (
    LabelledSet("SMD", ("SMD.npz", "SMD_test.npy"), 708_405, 708_420, 38, _SMD, ratio=0.5, step=100, epochs=10),
    LabelledSet("SMD19", ("SMD19.npz",), 450_219, 450_232, 38, _SMD19, 0.5, 100, 10, sha256=(_SMD19_SHA,)),
    LabelledSet(
        "SMAP", ("SMAP.npz", "SMAP_test.npy"), 135_183, 427_617, 25, _TELEMANOM.format("SMAP"), sha256=(_SMAP_SHA,)
    ),
    LabelledSet("MSL", ("MSL.npz", "MSL_test.npy"), 58_317, 73_729, 55, _TELEMANOM.format("MSL"), epochs=10),
    LabelledSet("PSM", ("PSM.npz", "test.csv"), 132_481, 87_841, 25, _PSM, read=psm),
    LabelledSet("SWaT", ("SWaT.npz", "swat2.csv"), 495_000, 449_919, 51, _SWAT, read=swat),
    LabelledSet("ASD", ("ASD.npz",), 102_331, 51_840, 19, _ASD, sha256=(_ASD_SHA,)),
)
