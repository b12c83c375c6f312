"""Cases: whole series that each belong to a class, as a classifier takes them.

A case is an array [channel, time] of its own length, NaN where a value is missing.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.infer.number_text import LARGEST
from rearview.data.panel import Finding

Series = NDArray[np.float64]
Labels = NDArray[np.generic]
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
    findings: tuple[Finding, ...] = ()
    """What was repaired or warned of when the cases were read."""
    ids: tuple[str, ...] = ()
    """What the caller calls each case; none where nothing does, as in arrays and `.ts` files."""

    def __post_init__(self) -> None:
        if not self.series:
            raise InputError(f"{self.source} holds no case (0 samples); give at least one series.")
        for name, one in zip(self.names, self.series, strict=True):
            if one.ndim != 2 or 0 in one.shape:
                raise InputError(
                    f"{self.source}, {name}: its shape is {one.shape}, but a case is [channel, time] with at least one "
                    "of both."
                )
            if len(one) != self.channels:
                raise InputError(
                    f"{self.source}, {name} has {len(one)} channels, but {self.names[0]} has {self.channels}; "
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
            ids=tuple(self.ids[i] for i in index) if self.ids else (),
        )

    def trim(self) -> "Cases":
        """The cases without the steps at either end at which no channel has a value."""

        def between_values(one: Series) -> Series:
            seen = np.flatnonzero(~np.isnan(one).all(axis=0))
            return one[:, seen[0] : seen[-1] + 1] if len(seen) else one

        return replace(self, series=tuple(map(between_values, self.series)))


def check_labels(labels: Labels, source: str = "y") -> Labels:
    """Classes as a classifier can use them: none missing, no measurements that pass for classes, and in an order."""
    missing = [number for number, label in enumerate(labels.tolist(), start=1) if is_missing(label)]
    if missing:
        raise InputError(
            f"{source} has no class for {len(missing)} of {len(labels)} cases (NaN or None), the first at place "
            f"{missing[0]}; leave those cases out."
        )
    if labels.dtype.kind == "c":
        raise InputError(f"Complex data not supported: the classes in {source} are complex numbers.")
    if np.issubdtype(labels.dtype, np.floating) and not np.all(labels == np.rint(labels)):
        odd = labels[labels != np.rint(labels)][0]
        raise InputError(
            f"{source} holds measurements such as {odd:g} (Unknown label type: continuous), but a classifier needs "
            "classes; round them or name them."
        )
    if labels.dtype.kind == "O":
        try:
            np.unique(labels)
        except TypeError:
            kinds = sorted({type(label).__name__ for label in labels.tolist()})
            raise InputError(
                f"The classes in {source} have no order: they are of the type {' and '.join(kinds)}; make all of them "
                "text, or all of them numbers."
            ) from None
    return labels


def is_missing(label: object) -> bool:
    """Whether a class is none: NaN, None or pandas.NA."""
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas.NA, which does not say whether it equals itself
        return True


def label_array(given: object) -> Labels:
    """Classes as an array in which one that is missing stays so: numpy would make the text "nan" of it among others."""
    labels = np.asarray(given)
    if labels.dtype.kind == "U" and not isinstance(given, np.ndarray):
        as_given = np.asarray(given, dtype=object)
        if any(is_missing(label) for label in as_given.ravel()):
            return as_given
    return labels


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
