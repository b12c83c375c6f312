"""Features that describe the series of a panel and never change, and how models take them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Statics:
    """Numbers, and categories as 0 and 1."""

    names: tuple[str, ...]
    values: Array
    """[series, feature]; NaN where a number is missing."""


@dataclass(frozen=True, slots=True)
class StaticScale:
    """The features that a model was trained with, and what makes their mean 0 and their deviation 1."""

    names: Sequence[str]
    centre: Sequence[float]
    spread: Sequence[float]

    @classmethod
    def of(cls, statics: Statics | None) -> "StaticScale | None":
        """The scale of the features that differ between series; None where none does."""
        if statics is None:
            return None
        kept = [
            (name, float(np.mean(seen)), float(np.std(seen)))
            for name, column in zip(statics.names, statics.values.T, strict=True)
            if len(seen := column[np.isfinite(column)]) and np.ptp(seen) > 0
        ]
        names, centre, spread = zip(*kept, strict=True) if kept else ((), (), ())
        return cls(names, centre, spread) if kept else None

    def read(self, statics: Statics | None, series: int) -> Array:
        """[series, feature] of a panel; 0, the mean, where a feature is missing."""
        out = np.zeros((series, len(self.names)))
        for place, name in enumerate(self.names):
            if statics is not None and name in statics.names:
                out[:, place] = statics.values[:, statics.names.index(name)] - self.centre[place]
        return np.nan_to_num(out / np.asarray(self.spread))
