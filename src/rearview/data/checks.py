"""Whether a panel is long enough for what is asked of it."""

import numpy as np

from rearview.data.panel import Panel
from rearview.errors import InputError, SettingsError

_NAMED = 5


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
    raise InputError(
        f"{panel.layout.source}: no series is long enough: lookback {lookback} + horizon {horizon} need {needed} rows, "
        f"but {named}{more}; shorten lookback or horizon, or bring more history."
    )
