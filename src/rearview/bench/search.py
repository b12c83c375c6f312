"""Choosing settings on validation, with a budget that every candidate shares and every row states."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from rearview import attention as mechanisms
from rearview.bench.asked import Asked
from rearview.train.contract import Diverged, TrainingError

Tried = TypeVar("Tried")


def budget(candidates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a row says of its candidates."""
    if not candidates:
        return {}
    return {"candidates": [dict(candidate) for candidate in candidates], "chosen_by": "validation loss"}


def best(
    asked: Asked,
    candidates: Sequence[Mapping[str, Any]],
    tried: Callable[[Asked], Tried],
    loss: Callable[[Tried], float],
) -> Tried:
    """What was asked for, or of its candidates the one with the lowest validation loss; all are trained alike.

    A candidate whose training diverges is worse than any other; only where all of them do, nothing can be chosen.
    """
    if not candidates:
        return tried(asked)
    found: Tried | None = None
    problem: Diverged | None = None
    for candidate in candidates:
        try:
            outcome = tried(replace(asked, attention=_with(asked, candidate)))
        except Diverged as diverged:
            problem = diverged
            continue
        if found is None or loss(outcome) < loss(found):
            found = outcome
    if found is None:
        raise TrainingError(f"None of the {len(candidates)} candidates could be trained; the last: {problem}")
    return found


def _with(asked: Asked, candidate: Mapping[str, Any]) -> dict[str, Any]:
    name, given = mechanisms.split(asked.attention)
    return {"name": name, **given, **candidate}
