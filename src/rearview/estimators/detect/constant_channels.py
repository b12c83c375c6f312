"""Channels that never vary in the training rows of their series, compared with their constant.

A network reconstructs even a constant with an error, which says nothing about the rows. So such a cell has the error 0
while it equals the constant, and its squared distance from it, in its own units, where it does not.
"""

import numpy as np
from numpy.typing import NDArray

from rearview.data.panel import Finding, Panel
from rearview.data.scale import Scaler

ROUNDING = 1e-6
"""Relative difference from the constant that is no more than the rounding of float32."""

Channels = NDArray[np.bool_]
"""[series, channel]: those that are constant."""


def find(panel: Panel, rows: NDArray[np.int64] | None = None) -> Channels:
    """Whether all observed cells among the first `rows[s]` rows (None: all) of each series and channel are equal."""
    taken = panel.lengths if rows is None else rows
    starts = panel.offsets[:-1].tolist()
    return np.array([_is_constant(panel, slice(a, a + count)) for a, count in zip(starts, taken.tolist(), strict=True)])


def replace_errors(
    errors: NDArray[np.float32], panel: Panel, scaler: Scaler, channels: Channels, largest: float
) -> None:
    """Replace a network's errors [row, channel] by distances from the constant, at most `largest`."""
    for s, (a, b) in enumerate(panel.bounds()):
        which = np.flatnonzero(channels[s])
        mean = scaler.mean[s, which]
        moved = panel.values[a:b, which] - mean
        moved[np.abs(moved) <= ROUNDING * np.abs(mean)] = 0
        # A cell without an error keeps none: it was not observed, or could not be forecast.
        distance = np.where(np.isnan(errors[a:b, which]), np.nan, np.square(moved / scaler.std[s, which]))
        errors[a:b, which] = np.minimum(distance, largest)


def findings(panel: Panel, channels: Channels | None) -> tuple[Finding, ...]:
    """A warning of constant channels, where there are some."""
    if channels is None or not channels.any():
        return ()
    places = np.argwhere(channels)
    series, column = places[0].tolist()
    of_series = f" of {panel.ids[series]}" if panel.series > 1 else ""
    rest = f" and {len(places) - 1} more" if len(places) > 1 else ""
    never = "never varies" if len(places) == 1 else "never vary"
    message = (
        f"Channel {panel.columns[column]!r}{of_series}{rest} {never} in the rows to train on: no error while that "
        "holds, and any change later counts in its own units."
    )
    return (Finding("warning", "flat_channels", len(places), message),)


def _is_constant(panel: Panel, rows: slice) -> NDArray[np.bool_]:
    """[channel]: whether all observed cells of some rows are equal."""
    seen = True if panel.observed is None else panel.observed[rows]
    highest = panel.values[rows].max(axis=0, where=seen, initial=-np.inf)
    lowest = panel.values[rows].min(axis=0, where=seen, initial=np.inf)
    # Of a channel without any value there, nothing is known that it could be held to.
    return np.asarray((highest == lowest) & np.isfinite(highest))
