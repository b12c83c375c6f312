"""Whether a panel has rows and values enough for what is asked of it."""

from dataclasses import replace

import numpy as np

from rearview.core.errors import InputError, SettingsError
from rearview.data.io.table import listing
from rearview.data.panel import Finding, Panel

_NAMED = 5


class TooShort(InputError):
    """A panel in which no series is long enough."""


def check_horizon(horizon: int) -> None:
    """Refuses a horizon that asks for nothing."""
    if horizon < 1:
        raise SettingsError(f"horizon is {horizon}, but a forecast needs at least one step; give horizon 1 or more.")


def check_length(panel: Panel, lookback: int, horizon: int) -> None:
    """Refuses a panel in which no series has lookback + horizon rows; names lengths and what is needed."""
    needed = lookback + horizon
    if panel.series and panel.lengths.max() >= needed:
        return
    longest = np.argsort(-panel.lengths, kind="stable")[:_NAMED]
    named = ", ".join(f"{panel.ids[s]!r} has {panel.lengths[s]}" for s in longest)
    if not apart(panel):
        named = f"there are {int(panel.lengths.max(initial=0))}"
    more = f" and {panel.series - _NAMED} more are no longer" if panel.series > _NAMED else ""
    raise TooShort(
        f"{panel.layout.source}{': no series is' if apart(panel) else ' is not'} long enough: lookback {lookback} + "
        f"horizon {horizon} need {needed} rows, "
        f"but {named}{more}; shorten lookback or horizon, or bring more history."
    )


def forecastable(panel: Panel, *, named: bool = False) -> Panel:
    """The panel without the series of a long table, or the columns of a wide one, that have no value.

    A finding names them. Refused where none has a value, and where the columns of a wide table were asked for by name
    (`named`; see `check_targets`).
    """
    empty = _empty_targets(panel)
    wide = panel.layout.form == "wide"
    if (wide and named) or len(empty) in (0, len(_target_variables(panel))):
        check_targets(panel)
        return panel
    one = len(empty) == 1
    has, it_is = ("has", "it is") if one else ("have", "they are")
    noun = "Series" if not wide else "Column" if one else "Columns"
    message = f"{noun} {listing(empty)} {has} no value in any row: {it_is} left out and {has} no forecast."
    finding = Finding("warning", "empty", len(empty), message)
    # Reading said that such columns are kept as constants; of what is left nothing is empty.
    told = [one for one in panel.findings if (one.kind, one.what) != ("warning", "empty")]
    return replace(_without(panel, empty), findings=(*told, finding))


def check_targets(panel: Panel) -> None:
    """Refuses targets without any value, of which a forecast would be made up; names them and the way around."""
    empty = _empty_targets(panel)
    if not empty:
        return
    one = len(empty) == 1
    if panel.layout.form == "long":
        kind = "series"
        whole = len(empty) == len(_target_variables(panel))
        way_out = "bring rows with values." if whole else f"leave {'its' if one else 'their'} rows out."
    elif len(empty) == panel.targets:
        kind = "column" if one else "columns"
        way_out = "bring rows with values, or name another column with target (--target)."
    else:
        kind = "column" if one else "columns"
        way_out = (
            f"leave {'it' if one else 'them'} out with drop (--drop {','.join(empty)}), or name what to forecast with "
            "target (--target)."
        )
    raise InputError(
        f"{panel.layout.source}: {kind} {listing(empty)} {'has' if one else 'have'} no value in any row, so there is "
        f"nothing to forecast; {way_out}"
    )


def _target_variables(panel: Panel) -> tuple[str, ...]:
    """What has values to forecast, by name: the series of a long table, or the targets of one series."""
    return panel.ids if apart(panel) else panel.target_names


def _empty_targets(panel: Panel) -> list[str]:
    """Those of them that have none."""
    unseen = panel.first[:, : panel.targets] >= panel.offsets[1:, None]
    nothing = np.flatnonzero(unseen.all(axis=1 if apart(panel) else 0))
    return [_target_variables(panel)[place] for place in nothing.tolist()]


def apart(panel: Panel) -> bool:
    """Whether the panel has series of their own, each with a name that the caller gave it."""
    return panel.layout.form == "long" and not panel.layout.together


def _without(panel: Panel, empty: list[str]) -> Panel:
    """The panel without some series or target columns; of series taken together each has a column of every kind."""
    if apart(panel):
        return panel.only(set(panel.ids) - set(empty))
    if panel.layout.form == "wide":
        kept = [c for c, name in enumerate(panel.columns) if name not in empty]
        return replace(panel.select(kept), targets=panel.targets - len(empty))
    kept = [c for c in range(len(panel.columns)) if panel.target_names[c % panel.targets] not in empty]
    targets = panel.targets - len(empty)
    return replace(panel.select(kept), targets=targets, known=panel.known // panel.targets * targets)
