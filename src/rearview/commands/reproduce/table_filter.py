"""Which part of a paper's experiments a command is about, and a refusal of a part that none of them has."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rearview.commands.compatibility import mechanism
from rearview.core.errors import SettingsError, did_you_mean


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which part of an experiment to run."""

    paper: str
    table: str | None = None
    dataset: str | None = None
    horizon: int | None = None
    attention: str | None = None
    model: str | None = None


def matching(found: Sequence[Any], chosen: Chosen) -> list[Any]:
    """The experiments that hold a cell of the part chosen; a choice that none of them holds is refused."""
    from rearview.bench.papers.cost_tables import parts

    if chosen == Chosen(chosen.paper, chosen.table):
        return list(found)
    having = [experiment for experiment in found if any(wanted(cell, chosen) for cell in parts(experiment))]
    if not having:
        raise SettingsError(_unmatched([cell for experiment in found for cell in parts(experiment)], chosen))
    return having


def _unmatched(cells: Sequence[Any], chosen: Chosen) -> str:
    """Which word of a choice no cell has, or that no cell has all of them."""
    where = chosen.paper if chosen.table is None else f"{chosen.paper}:{chosen.table}"
    asked = {name: getattr(chosen, name) for name in ("dataset", "horizon", "model", "attention")}
    asked = {name: value for name, value in asked.items() if value is not None}
    for name, value in asked.items():
        if not any(wanted(cell, Chosen(chosen.paper, **{name: value})) for cell in cells):
            known = list(dict.fromkeys(str(_word(cell, name)) for cell in cells if _word(cell, name)))
            listing = ", ".join(known) or "none"
            return f"{where} has no run with --{name} {value}.{did_you_mean(str(value), known)} Known: {listing}."
    flags = " ".join(f"--{name} {value}" for name, value in asked.items())
    return f"{where} has no run with {flags} together, though it has each of them; leave one of them out."


def _word(cell: Any, name: str) -> Any:
    """What a cell has under a flag."""
    return mechanism(cell) if name == "attention" else getattr(cell, name, None)


def wanted(cell: Any, chosen: Chosen) -> bool:
    """Whether a cell is of the part chosen; runs of classification and detection have no horizon."""
    return (
        (chosen.dataset is None or cell.dataset.casefold() == chosen.dataset.casefold())
        and (chosen.horizon is None or getattr(cell, "horizon", None) == chosen.horizon)
        and (chosen.model is None or cell.model == chosen.model)
        and (chosen.attention is None or mechanism(cell) == chosen.attention)
    )
