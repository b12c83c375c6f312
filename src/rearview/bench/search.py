"""Choosing settings on validation, with a budget that every candidate shares and every row states."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from rearview import attention as mechanisms
from rearview.bench.asked import Asked

Tried = TypeVar("Tried")


def budget(candidates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a row says of its candidates."""
    if not candidates:
        return {}
    return {"candidates": [dict(candidate) for candidate in candidates], "chosen_by": "validation loss"}


def known(configuration: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is known of a row before it is made: which candidate it holds is not."""
    unknown = ("attention_settings",) if candidates else ()
    return {name: value for name, value in configuration.items() if name not in unknown}


def best(
    asked: Asked,
    candidates: Sequence[Mapping[str, Any]],
    tried: Callable[[Asked], Tried],
    loss: Callable[[Tried], float],
) -> Tried:
    """What was asked for, or of its candidates the one with the lowest validation loss; all are trained alike."""
    if not candidates:
        return tried(asked)
    found: Tried | None = None
    for candidate in candidates:
        outcome = tried(replace(asked, attention=_with(asked, candidate)))
        if found is None or loss(outcome) < loss(found):
            found = outcome
    assert found is not None
    return found


def _with(asked: Asked, candidate: Mapping[str, Any]) -> dict[str, Any]:
    name, given = mechanisms.split(asked.attention)
    return {"name": name, **given, **candidate}
