"""Target transforms: applied to the whole panel before scaling, undone on forecasts and bounds."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.infer.timestamps import show
from rearview.data.panel import Panel
from rearview.estimators.forecast.spec import ForecastSpec


def transform_panel(panel: Panel, spec: ForecastSpec) -> Panel:
    """The panel with its targets on the scale the model works on."""
    if spec.transform == "none":
        return panel
    values, centre = panel.values.copy(), panel.centre.copy()
    for s, (a, b) in enumerate(panel.bounds()):
        for column in range(panel.targets):
            # Before the first observed cell there is nothing to transform: 0, the centre, stands there.
            first = int(panel.first[s, column])
            cells = values[first:b, column].astype(np.float64) + panel.centre[s, column]
            _check_domain(cells, panel, s, column)
            moved = np.log1p(cells)
            centre[s, column] = moved.mean() if len(moved) else 0.0
            values[first:b, column] = moved - centre[s, column]
            values[a:first, column] = 0
    return replace(panel, values=values, centre=centre)


def undo_transform(values: NDArray[np.float64], spec: ForecastSpec) -> NDArray[np.float64]:
    """Forecasts or bounds back in original units."""
    if spec.transform == "log1p":
        # The logarithm's way back explodes before float64 does; a forecast that large says so as infinity.
        with np.errstate(over="ignore"):
            values = np.expm1(values)
    return np.maximum(values, 0) if spec.nonnegative else values


def _check_domain(cells: NDArray[np.float64], panel: Panel, series: int, column: int) -> None:
    bad = np.flatnonzero(cells <= -1)
    if len(bad):
        stamp = panel.stamps[int(panel.first[series, column]) + int(bad[0])]
        of_series = f" of series {panel.ids[series]!r}" if panel.layout.named_series else ""
        raise InputError(
            f"transform='log1p' needs values above -1, but column {panel.columns[column]!r}{of_series} is "
            f"{cells[bad[0]]:g} at {show(stamp)}; use transform='none'."
        )
