"""Where a network looks, as a page draws it: small maps of attention weights, and weight by age.

The caller has chosen and joined what is to be seen.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError

Numbers = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Names:
    """What the rows or columns of a map are called."""

    cells: tuple[str, ...]
    runs: tuple[tuple[int, str], ...] = ()
    """Where each column's cells begin, for an axis that has several cells of several columns."""


@dataclass(frozen=True, slots=True, eq=False)
class WeightMap:
    """One head's weights, or the mean of several: [query, key]."""

    name: str
    weights: Numbers
    queries: Names
    keys: Names

    def __post_init__(self) -> None:
        named = len(self.queries.cells), len(self.keys.cells)
        if self.weights.shape != named:
            raise InputError(
                f"The map {self.name!r} is of shape {self.weights.shape}, but has names for {named[0]} rows and "
                f"{named[1]} columns; give every row and column one."
            )


@dataclass(frozen=True, slots=True, eq=False)
class AgeCurve:
    """Mean weight by how many steps a key is before its query; negative: after it."""

    name: str
    ages: Numbers
    weights: Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """Where one network looks in the last window of one series or column."""

    model: str
    name: str
    about: str
    """What was left out, in sentences."""
    maps: tuple[WeightMap, ...]
    ages: tuple[AgeCurve, ...] = ()
