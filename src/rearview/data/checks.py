"""Whether a panel has rows and values enough for what is asked of it."""

import numpy as np

from rearview.data.panel import Panel
from rearview.data.table import listing
from rearview.errors import InputError, SettingsError

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
    more = f" and {panel.series - _NAMED} more are no longer" if panel.series > _NAMED else ""
    raise TooShort(
        f"{panel.layout.source}: no series is long enough: lookback {lookback} + horizon {horizon} need {needed} rows, "
        f"but {named}{more}; shorten lookback or horizon, or bring more history."
    )


def check_targets(panel: Panel) -> None:
    """Refuses targets without any value, of which a forecast would be made up; names them and the way around."""
    apart = panel.layout.form == "long" and not panel.layout.together
    empty = _empty_series(panel) if apart else [name for name in panel.empty_names if name in panel.target_names]
    if not empty:
        return
    one = len(empty) == 1
    if panel.layout.form == "long":
        kind = "series"
        whole = len(empty) == (panel.series if apart else panel.targets)
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


def _empty_series(panel: Panel) -> list[str]:
    """Series without a value of any target."""
    unseen = (panel.first[:, : panel.targets] >= panel.offsets[1:, None]).all(axis=1)
    return [panel.ids[series] for series in np.flatnonzero(unseen).tolist()]
