"""Which runs of a grid make sense: networks and mechanisms that go together, each network without attention once."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from rearview.bench.papers.catalogue import Cell
from rearview.core.errors import SettingsError

Say = Callable[[str], None]


def fitting(cells: Sequence[Cell], say: Say) -> list[Cell]:
    """The cells of a grid whose network and mechanism go together; why others don't is said, and they are left out.

    A network without attention beside others is run once, as it is. Where no pair fits, the first is refused.
    """
    from rearview import attention, models
    from rearview.models import pairs

    known = (*models.names(), *models.borrowed())
    named = {(cell.model, name) for cell in cells if (name := mechanism(cell)) in attention.names()}
    asked = sorted(pair for pair in named if pair[0] in known)
    plain = {model for model, _ in asked if not models.claims(model).attention}
    refusals = {pair: pairs.refusal(*pair) for pair in asked if pair[0] not in plain}
    if not refusals:
        return list(cells)
    if all(refusals.values()) and not plain:
        raise SettingsError(next(iter(refusals.values())))
    for (model, name), reason in refusals.items():
        if reason:
            say(f"left out: {model} with {name}: {reason}")
    kept = [cell for cell in cells if not refusals.get((cell.model, mechanism(cell)))]
    return _once([replace(cell, attention=None) if cell.model in plain else cell for cell in kept])


def _once(cells: Sequence[Cell]) -> list[Cell]:
    found: list[Cell] = []
    for cell in cells:
        if cell not in found:
            found.append(cell)
    return found


def mechanism(cell: Cell) -> str:
    """The mechanism of a cell; empty for a network that is run as it is."""
    return "" if cell.attention is None else str(cell.attention["name"])
