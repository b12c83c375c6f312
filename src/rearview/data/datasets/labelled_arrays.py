"""Detection data as the field keeps it: rows to train on, rows to test on, a label for each of those.

An `.npz` archive holds `train` and `test` [row, channel] and `test_label` [row]; where it holds several entities one
after another, their names stand under some key and their (train, test) lengths under the same key with `_lengths`
behind it. The same three arrays may be three `.npy` files: NAME_train.npy, NAME_test.npy and NAME_test_label.npy.

Such files have no stamps; rows are counted from 0 in each entity.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.infer.number_text import LARGEST
from rearview.data.io.arrays import Array, read_npy, read_npz
from rearview.data.panel import Layout, Panel
from rearview.data.panel_array import ONE_SERIES, panel_of_cells
from rearview.data.step import Step

PARTS = ("train", "test", "test_label")


@dataclass(frozen=True, slots=True, eq=False)
class LabelledArrays:
    """One detection data set."""

    train: Panel
    test: Panel
    labels: NDArray[np.float64]
    """[test row]: 1 for an anomaly, 0 for an ordinary row."""


def is_array_file(path: Path) -> bool:
    """Whether a file is one of these, by its name."""
    return path.suffix.casefold() in (".npz", ".npy")


def read(path: Path) -> LabelledArrays:
    """The data set in an `.npz` file, or in an `.npy` file and its two siblings."""
    if path.suffix.casefold() == ".npz":
        return from_arrays(read_npz(path), path)
    stem = next((path.stem.removesuffix(f"_{part}") for part in reversed(PARTS) if path.stem.endswith(f"_{part}")), "")
    if not stem:
        raise InputError(f"{path} is not one of NAME_train.npy, NAME_test.npy and NAME_test_label.npy; name it so.")
    files = {part: path.with_name(f"{stem}_{part}.npy") for part in PARTS}
    for file in files.values():
        if not file.exists():
            raise InputError(f"{file} is missing beside {path.name}; put the three files into one folder.")
    return from_arrays({part: read_npy(file) for part, file in files.items()}, path)


def from_arrays(arrays: Mapping[str, Array], path: Path) -> LabelledArrays:
    """The data set in some arrays; what does not belong together is refused."""
    missing = [part for part in PARTS if part not in arrays]
    if missing:
        raise InputError(
            f"{path} has no array {' or '.join(map(repr, missing))}; it holds {', '.join(arrays) or 'nothing'}. A data "
            "set for detection has train, test and test_label."
        )
    train, test = (_numbers(arrays[part], part, path) for part in PARTS[:2])
    labels = _labels(arrays["test_label"], path)
    if train.shape[1] != test.shape[1]:
        raise InputError(
            f"{path}: train has {train.shape[1]} channels and test {test.shape[1]}; both must have the same."
        )
    if len(labels) != len(test):
        raise InputError(f"{path}: there are {len(labels):,} labels for {len(test):,} test rows; give one a row.")
    names, lengths = _entities(arrays, len(train), len(test), path)
    several = len(names) > 1
    layout = Layout(
        "long" if several else "wide", "row", "entity" if several else None, time_kind="integer", source=str(path)
    )

    def panel(cells: NDArray[np.float64], rows: NDArray[np.int64]) -> Panel:
        stamps = np.concatenate([np.arange(length) for length in rows.tolist()]).astype(np.int64)
        columns = tuple(f"channel {number}" for number in range(cells.shape[1]))
        return panel_of_cells(cells, stamps, Step(1, "int"), layout, lengths=rows, ids=names, columns=columns)

    return LabelledArrays(panel(train, lengths[:, 0]), panel(test, lengths[:, 1]), labels)


def _numbers(array: Array, part: str, path: Path) -> NDArray[np.float64]:
    if array.ndim != 2 or not array.size or array.dtype.kind not in "fiub":
        raise InputError(
            f"{path}: {part} must be numbers [row, channel], but it is {array.dtype} of shape {array.shape}."
        )
    cells = array.astype(np.float64)
    far = np.abs(cells) > LARGEST
    if far.any():
        row, column = np.argwhere(far)[0]
        kind = "an infinite value" if np.isinf(cells[row, column]) else "a value too large for float32"
        raise InputError(f"{path}: {part} holds {kind} in row {row}, channel {column}; mend the file.")
    return cells


def _labels(array: Array, path: Path) -> NDArray[np.float64]:
    flat = array.reshape(-1) if array.ndim == 2 and array.shape[1] == 1 else array
    if flat.ndim != 1 or flat.dtype.kind not in "fiub":
        raise InputError(f"{path}: test_label must be one number a row, but it is {array.dtype} {array.shape}.")
    cells = flat.astype(np.float64)
    if not np.isin(cells, (0.0, 1.0)).all():
        wrong = cells[~np.isin(cells, (0.0, 1.0))][0]
        raise InputError(f"{path}: test_label holds {wrong:g}; a label is 1 (anomaly) or 0 (ordinary).")
    return cells


def _entities(
    arrays: Mapping[str, Array], train: int, test: int, path: Path
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Names and (train, test) lengths of the entities; one entity where the arrays name none."""
    key = next((name.removesuffix("_lengths") for name in arrays if name.endswith("_lengths")), None)
    if key is None:
        return (ONE_SERIES,), np.array([[train, test]], dtype=np.int64)
    given = arrays[f"{key}_lengths"]
    if given.dtype.kind not in "iu":
        raise InputError(f"{path}: {key}_lengths must be whole numbers of rows, but it is {given.dtype}.")
    lengths = given.astype(np.int64)
    names = tuple(str(name) for name in arrays.get(key, np.arange(len(given))).tolist())
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"{path}: {key} names two entities {twice!r}; give each a name of its own.")
    if lengths.shape != (len(names), 2) or lengths.sum(axis=0).tolist() != [train, test]:
        raise InputError(
            f"{path}: {key}_lengths must give the train and test rows of {len(names)} entities, which add up to "
            f"{train:,} and {test:,}, but it adds up to {lengths.sum(axis=0).tolist()}."
        )
    if lengths.min() < 1:
        empty = names[int(np.argwhere(lengths < 1)[0, 0])]
        raise InputError(f"{path}: {key}_lengths leaves {empty!r} without training or test rows; leave it out.")
    return names, lengths
