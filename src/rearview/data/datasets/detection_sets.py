"""The detection data sets by name: which files, which shape, where the world gets them.

They are found as those of `data.datasets.catalogue` are. A file of another shape is refused, because a cut of a
benchmark set must not carry its name: SMD19 holds 19 of SMD's 28 machines and is a set of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError, SettingsError, did_you_mean
from rearview.data.datasets import catalogue, triples
from rearview.data.datasets.triples import Triple

Reader = Callable[[Path], Triple]


def psm(path: Path) -> Triple:
    """PSM's three tables, whose first columns are stamps; an archive is read as one."""
    if triples.is_triple(path):
        return triples.read(path)
    train, test, labels = (_table(path.with_name(f"{part}.csv")) for part in triples.PARTS)
    return triples.triple({"train": train[:, 1:], "test": test[:, 1:], "test_label": labels[:, 1]}, path)


def swat(path: Path) -> Triple:
    """SWaT's two tables in the field's form, whose last columns are labels; an archive is read as one."""
    if triples.is_triple(path):
        return triples.read(path)
    train, test = _table(path.with_name("swat_train2.csv")), _table(path)
    return triples.triple({"train": train[:, :-1], "test": test[:, :-1], "test_label": test[:, -1]}, path)


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """One detection data set: what is known of it before its file is opened."""

    name: str
    files: tuple[str, ...]
    train_rows: int
    test_rows: int
    channels: int
    source: str
    """Where the world gets the files, in words."""
    ratio: float = 1.0
    """The share of rows, in percent, that the field's code flags."""
    step: int = 1
    """Rows from one window to the next in the field's code."""
    epochs: int = 3
    """How long the field's scripts train."""
    sha256: tuple[str, ...] = ()
    read: Reader = triples.read


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


def find(dataset: LabelledSet, data_dir: Path | str | None = None) -> Path:
    """The file of a data set; a missing one is refused with the places looked at and where the world gets it."""
    return catalogue.locate(dataset.name, dataset.files, dataset.source, data_dir)


def available(data_dir: Path | str | None = None) -> tuple[str, ...]:
    """The data sets whose file is there."""
    return tuple(dataset.name for dataset in _SHELF if _there(dataset, data_dir))


def load(dataset: LabelledSet, data_dir: Path | str | None = None) -> Triple:
    """The rows and labels of a data set, their shape compared with what is known of it."""
    path = find(dataset, data_dir)
    found = dataset.read(path)
    shapes = (len(found.train.values), len(found.test.values), len(found.train.columns))
    known = (dataset.train_rows, dataset.test_rows, dataset.channels)
    if shapes != known:
        raise InputError(
            f"{path} has {shapes[0]:,} training rows and {shapes[1]:,} test rows of {shapes[2]} channels, but "
            f"{dataset.name} has {known[0]:,} and {known[1]:,} of {known[2]}; a part of a data set can't go by its "
            f"name: get the whole from {dataset.source}, or give the file itself."
        )
    warned = catalogue.compared(path, dataset.name, dataset.sha256)
    return replace(found, train=replace(found.train, findings=(*found.train.findings, *warned)))


def _there(dataset: LabelledSet, data_dir: Path | str | None) -> bool:
    try:
        find(dataset, data_dir)
    except InputError:
        return False
    return True


def _table(path: Path) -> NDArray[np.float64]:
    """The numbers of a CSV file with a header; stamps and empty cells are NaN."""
    try:
        cells: NDArray[Any] = np.genfromtxt(path, delimiter=",", skip_header=1, dtype=np.float64)
    except (OSError, ValueError) as problem:
        raise InputError(f"{path} can't be read as a table of numbers: {problem}") from problem
    return cells


_TSLIB = "the data folder linked in the README of thuml/Time-Series-Library on GitHub"
_OMNI = "NetManAIOps/OmniAnomaly on GitHub"

_SHELF = (
    LabelledSet(
        "SMD",
        ("SMD.npz", "SMD_test.npy"),
        708_405,
        708_420,
        38,
        f"{_TSLIB} (SMD), or the ServerMachineDataset folder of {_OMNI}",
        ratio=0.5,
        step=100,
        epochs=10,
    ),
    LabelledSet(
        "SMD19",
        ("SMD19.npz",),
        450_219,
        450_232,
        38,
        f"19 of the 28 machines of the ServerMachineDataset folder of {_OMNI}: a cut of SMD, not SMD",
        ratio=0.5,
        step=100,
        epochs=10,
        sha256=("69ce48935a8735111b34804cff74ac7ebb1f1d14b82c304425ffab42b0de20c6",),
    ),
    LabelledSet(
        "SMAP",
        ("SMAP.npz", "SMAP_test.npy"),
        135_183,
        427_617,
        25,
        f"{_TSLIB} (SMAP), or khundman/telemanom on GitHub",
        sha256=("33507e1c1a1672ba538d00dcc7dbd3131f2fa59a4acce04d69728f5ba731e53f",),
    ),
    LabelledSet(
        "MSL",
        ("MSL.npz", "MSL_test.npy"),
        58_317,
        73_729,
        55,
        f"{_TSLIB} (MSL), or khundman/telemanom on GitHub",
        epochs=10,
    ),
    LabelledSet(
        "PSM",
        ("PSM.npz", "test.csv"),
        132_481,
        87_841,
        25,
        f"{_TSLIB} (PSM: train.csv, test.csv, test_label.csv)",
        read=psm,
    ),
    LabelledSet(
        "SWaT",
        ("SWaT.npz", "swat2.csv"),
        495_000,
        449_919,
        51,
        f"{_TSLIB} (SWaT: swat_train2.csv, swat2.csv)",
        read=swat,
    ),
    LabelledSet(
        "ASD",
        ("ASD.npz",),
        102_331,
        51_840,
        19,
        "the data/processed folder of tuananhphamds/MST-VAE on GitHub",
        sha256=("2d3b50ed506b8537bbe6bc47236f4e21cb6cc9f4d345e82afdc664fc9391d3ee",),
    ),
)
