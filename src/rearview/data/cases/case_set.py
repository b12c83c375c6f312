"""Cases: whole series that each belong to a class, as a classifier takes them.

A case is an array [channel, time] of its own length, NaN where a value is missing. Arrays, lists of unequal arrays and
long frames all become `Cases`; what can't be one is refused here, by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.infer.number_text import LARGEST

Series = NDArray[np.float64]
Labels = NDArray[Any]
LEAST = 2
"""Cases of a class that must stay for training before one of it is held out."""


@dataclass(frozen=True, slots=True, eq=False)
class Cases:
    """Series with or without a class each."""

    series: tuple[Series, ...]
    """[channel, time] each, NaN where a value is missing; all have the same channels."""
    labels: Labels | None
    """[case]; None where no class is known."""
    names: tuple[str, ...]
    """What messages call each case: "case 3", "line 17", an id."""
    source: str
    """What messages call the whole: a file, "X"."""
    classes: tuple[str, ...] = ()
    """The classes a file declares, in its order; none where nothing declares them."""
    columns: tuple[str, ...] = ()
    """What the channels are called; none where nothing names them."""

    def __post_init__(self) -> None:
        if not self.series:
            raise InputError(f"{self.source} holds no case (0 samples); give at least one series.")
        first = self.series[0]
        for name, one in zip(self.names, self.series, strict=True):
            self._check_one(name, one, first)

    def _check_one(self, name: str, one: Series, first: Series) -> None:
        if one.ndim != 2 or 0 in one.shape:
            raise InputError(
                f"{self.source}, {name}: its shape is {one.shape}, but a case is [channel, time] with at least one of "
                "both."
            )
        if len(one) != len(first):
            raise InputError(
                f"{self.source}, {name} has {len(one)} channels, but {self.names[0]} has {len(first)}; "
                "every case needs the same channels."
            )
        far = np.abs(one) > LARGEST
        if far.any():
            channel, step = np.argwhere(far)[0]
            value = one[channel, step]
            kind = "infinity (inf)" if np.isinf(value) else f"too large for float32 ({value:g})"
            raise InputError(
                f"{self.source}, {name}: channel {channel + 1}, step {step + 1} is {kind}; "
                "mend it, or mark it as missing with NaN."
            )

    def __len__(self) -> int:
        return len(self.series)

    @property
    def channels(self) -> int:
        return len(self.series[0])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Time steps of each case."""
        return np.array([one.shape[1] for one in self.series], dtype=np.int64)

    @property
    def missing(self) -> int:
        """Cells without a value."""
        return sum(int(np.isnan(one).sum()) for one in self.series)

    def take(self, index: NDArray[np.int64]) -> "Cases":
        """Some of the cases, by position."""
        return replace(
            self,
            series=tuple(self.series[i] for i in index),
            labels=None if self.labels is None else self.labels[index],
            names=tuple(self.names[i] for i in index),
        )


def as_cases(
    X: Any,
    y: Any = None,
    *,
    source: str = "X",
    id_col: str | None = None,
    time_col: str | None = None,
    columns: tuple[str, ...] = (),
) -> Cases:
    """Cases from an array [case, channel, time] ([case, time]: one channel), a list of arrays, a long frame or a file.

    A file is one of .ts, which holds the classes itself, or long: CSV or parquet. `y` holds a class for each case, in
    order; for a frame or long file also by id (a mapping or a pandas Series) or the name of a column that says it. Of
    these `columns` are the channels, in this order; none: all columns that are left. Steps at
    either end that are missing in every channel are cut off: that is how unequal series are stored in one array.
    """
    if isinstance(X, Cases):
        return X if y is None else replace(X, labels=_labels(y, len(X), source))
    if isinstance(X, str | Path):
        source = str(X)
    if is_ts(X):
        from rearview.data.io import ts

        return as_cases(ts.read(X), y, source=source)
    if _is_frame(X):
        from rearview.data.cases.long_table import from_frame

        return _trimmed(from_frame(X, y, source=source, id_col=id_col, time_col=time_col, columns=columns))
    series = _series(X, source)
    names = tuple(f"case {number}" for number in range(1, len(series) + 1))
    labels = None if y is None else _labels(y, len(series), source)
    return _trimmed(Cases(series, labels, names, source))


def check_labels(labels: Labels, source: str = "y") -> Labels:
    """Classes as a classifier can use them: none missing, and no measurements that pass for classes."""
    missing = [number for number, label in enumerate(labels.tolist(), start=1) if is_missing(label)]
    if missing:
        raise InputError(
            f"{source} has no class for {len(missing)} of {len(labels)} cases (NaN or None), the first at place "
            f"{missing[0]}; leave those cases out."
        )
    if labels.dtype.kind == "c":
        raise InputError(f"Complex data not supported: the classes in {source} are complex numbers.")
    if labels.dtype.kind == "f" and not np.all(labels == np.rint(labels)):
        odd = labels[labels != np.rint(labels)][0]
        raise InputError(
            f"{source} holds measurements such as {odd:g} (Unknown label type: continuous), but a classifier needs "
            "classes; round them or name them."
        )
    if labels.dtype.kind == "O":
        _check_order(labels, source)
    return labels


def is_missing(label: Any) -> bool:
    """Whether a class is none: NaN, None or pandas.NA."""
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas.NA, which does not say whether it equals itself
        return True


def label_array(given: Any) -> Labels:
    """Classes as an array in which one that is missing stays so: numpy would make the text "nan" of it among others."""
    labels = np.asarray(given)
    if labels.dtype.kind == "U" and not isinstance(given, np.ndarray):
        as_given = np.asarray(given, dtype=object)
        if any(is_missing(label) for label in as_given.ravel()):
            return as_given
    return labels


def _check_order(labels: Labels, source: str) -> None:
    """Classes stand in their order, so that it must exist: text and numbers have none."""
    try:
        np.unique(labels)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in labels.tolist()})
        raise InputError(
            f"The classes in {source} have no order: they are of the type {' and '.join(kinds)}; make all of them "
            "text, or all of them numbers."
        ) from None


def _labels(y: Any, cases: int, source: str) -> Labels:
    if isinstance(y, Mapping):
        raise InputError("Classes by id go with a long frame; for arrays give y in the order of the cases.")
    labels = label_array(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise InputError(f"y must hold one class for each case, but its shape is {labels.shape}; give a 1d list.")
    if len(labels) != cases:
        raise InputError(f"y holds {len(labels)} classes, but {source} holds {cases} cases; give one for each case.")
    return check_labels(labels)


def is_ts(X: Any) -> bool:
    """Whether cases come in a .ts file."""
    return isinstance(X, str | Path) and Path(X).suffix.casefold() == ".ts"


def _is_frame(X: Any) -> bool:
    """Whether cases come in a long table."""
    return isinstance(X, str | Path) or hasattr(X, "columns") or hasattr(X, "column_names")


def _series(X: Any, source: str) -> tuple[Series, ...]:
    if hasattr(X, "toarray"):
        raise InputError(f"{source} is a sparse matrix; a series has a value at every step: call toarray() first.")
    if isinstance(X, Sequence) and not isinstance(X, str) and _unequal(X):
        each = (_numbers(one, f"{source}, case {number}") for number, one in enumerate(X, start=1))
        return tuple(one[None] if one.ndim == 1 else one for one in each)
    whole = _numbers(X, source)
    if whole.shape == (0,):
        raise InputError(f"{source} holds no case (0 samples); give at least one series.")
    if whole.ndim not in (2, 3):
        raise InputError(
            f"{source} must have the shape [case, channel, time] (or [case, time]), but it has {whole.ndim} axes: "
            f"{whole.shape}. Reshape your data."
        )
    if 0 in whole.shape:
        missing = "sample(s)" if not len(whole) else "feature(s)"
        raise InputError(
            f"{source} is empty: 0 {missing} (shape={whole.shape}) while a minimum of 1 is required; give at least one "
            "case of one step."
        )
    return tuple(whole[:, None] if whole.ndim == 2 else whole)


def _unequal(X: Sequence[Any]) -> bool:
    """Whether a list holds arrays of their own rather than the rows of one."""
    try:
        return len({np.shape(one) for one in X}) > 1 or (len(X) > 0 and np.ndim(X[0]) == 2)
    except ValueError:  # lists within lists of unequal length: each is refused by its name
        return True


def _numbers(X: Any, what: str) -> Series:
    try:
        found = np.asarray(X)
        if found.dtype.kind == "c":
            raise InputError(f"Complex data not supported: {what} holds complex numbers.")
        return np.asarray(found, dtype=np.float64)
    except InputError:
        raise
    except (TypeError, ValueError) as problem:
        raise InputError(
            f"{what} does not hold numbers ({problem}); give an array [case, channel, time], a list of arrays "
            "[channel, time], or a long frame."
        ) from problem


def _trimmed(cases: Cases) -> Cases:
    """The cases without the steps at either end at which no channel has a value."""
    return replace(cases, series=tuple(_between_values(one) for one in cases.series))


def _between_values(one: Series) -> Series:
    seen = np.flatnonzero(~np.isnan(one).all(axis=0))
    return one[:, seen[0] : seen[-1] + 1] if len(seen) else one


def hold_out(codes: NDArray[np.int64], share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(cases to train on, cases held out), by position: of each class its `share`, rounded, but at least one case.

    A class with fewer than three cases trains on all of them: one held out would leave a single one to learn from.
    """
    random = np.random.default_rng(seed)
    out = []
    for code in np.unique(codes):
        members = random.permutation(np.flatnonzero(codes == code))
        wanted = max(1, round(share * len(members)))
        out.append(members[: min(wanted, len(members) - LEAST)] if len(members) > LEAST else members[:0])
    chosen = np.sort(np.concatenate(out))
    return np.setdiff1d(np.arange(len(codes)), chosen), chosen
