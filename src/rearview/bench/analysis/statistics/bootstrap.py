"""How far a mean difference over blocks could move if the blocks were drawn again."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError

DRAWS = 10_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean difference and its bootstrap interval."""

    mean: float
    low: float
    high: float
    level: float
    """From 0 to 1."""


def paired_interval(
    ours: NDArray[np.floating[Any]],
    theirs: NDArray[np.floating[Any]],
    *,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Interval:
    """The mean of ours minus theirs over blocks, with the percentile interval of means of blocks drawn in pairs."""
    differences = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    if differences.ndim != 1 or len(differences) < 2:
        raise InputError(
            f"A paired bootstrap needs at least two blocks, but there is {differences.size}; one block can't tell how "
            "far another would be off."
        )
    if not 0 < level < 1:
        raise InputError(f"The level of an interval lies between 0 and 1, such as 0.95; got {level}.")
    drawn = np.random.default_rng(seed).integers(0, len(differences), size=(draws, len(differences)))
    low, high = np.quantile(differences[drawn].mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(differences.mean()), float(low), float(high), level)
