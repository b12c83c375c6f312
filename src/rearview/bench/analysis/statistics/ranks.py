"""Ranks within a block, and who beat whom how often."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError

Scores = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Record:
    """Blocks won, tied and lost against another candidate."""

    wins: int
    ties: int
    losses: int

    def __str__(self) -> str:
        return f"{self.wins}/{self.ties}/{self.losses}"


def checked(scores: Scores) -> Scores:
    """Scores [block, candidate] as they are, if every one is a number."""
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or values.shape[0] < 1 or values.shape[1] < 2:
        raise InputError(
            f"Statistics need scores [block, candidate] of at least one block and two candidates, but the shape is "
            f"{values.shape}."
        )
    if not np.isfinite(values).all():
        block, candidate = (int(place) for place in np.argwhere(~np.isfinite(values))[0])
        raise InputError(
            f"The score of candidate {candidate} in block {block} is {values[block, candidate]}; leave out blocks that "
            "not every candidate has."
        )
    return values


def ranks(values: Scores, *, lower_is_better: bool = True) -> NDArray[np.float64]:
    """Ranks along the last axis, 1 the best; equals share the mean of their places."""
    ordered = values if lower_is_better else -values
    below = (ordered[..., None, :] < ordered[..., :, None]).sum(-1)
    equal = (ordered[..., None, :] == ordered[..., :, None]).sum(-1)
    return below + (equal + 1) / 2


def average_ranks(scores: Scores, *, lower_is_better: bool = True) -> NDArray[np.float64]:
    """[candidate]: mean rank over the blocks of scores [block, candidate]."""
    return ranks(checked(scores), lower_is_better=lower_is_better).mean(axis=0)


def record(ours: Scores, theirs: Scores, *, lower_is_better: bool = True) -> Record:
    """Blocks in which our score is better than, equal to and worse than theirs."""
    ahead = (theirs - ours) if lower_is_better else (ours - theirs)
    return Record(int((ahead > 0).sum()), int((ahead == 0).sum()), int((ahead < 0).sum()))
