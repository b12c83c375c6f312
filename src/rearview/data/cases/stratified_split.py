"""A part of the cases held out, class by class."""

import numpy as np
from numpy.typing import NDArray

LEAST = 2
"""Cases of a class that must stay for training before one of it is held out."""


def held_out(codes: NDArray[np.int64], share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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
