"""A linear forecaster on normalised windows, fitted in closed form (see `rearview.tasks.window_ridge`)."""

from dataclasses import dataclass

import numpy as np

from rearview.core.errors import InputError
from rearview.data.launch import find_begins
from rearview.data.panel import Panel
from rearview.data.statics import StaticScale
from rearview.data.windows import Windows, final_windows
from rearview.estimators.forecast.predictor import Array, FittedModel, Forecasts, join_columns, list_pasts
from rearview.estimators.forecast.spec import ForecastSpec
from rearview.estimators.forecast.transform import transform_panel, undo_transform
from rearview.tasks import window_ridge
from rearview.tasks.window_ridge import Ridge

NAME = "ridge"
LONGEST_LOOKBACK = 512
MOST_OWN = 64
"""Variables that may have coefficients of their own; more share theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear(FittedModel):
    """Coefficients for the targets of a panel."""

    ridge: Ridge
    ids: tuple[str, ...]
    period: int
    statics: StaticScale | None = None
    """What describes the series."""
    name: str = NAME

    @property
    def lookback(self) -> int:
        """Rows of a window."""
        return self.ridge.lookback

    def predict(self, panel: Panel, which: Windows, levels: tuple[float, ...], known: Array | None = None) -> Forecasts:
        """Forecast from the rows before each window's start (see `Predictor`)."""
        panel = transform_panel(panel, self.spec)
        cells = np.full((len(which), self.targets, self.spec.horizon, 1 + 2 * len(levels)), np.nan)
        place = {name: number for number, name in enumerate(self.ids)}
        about = None if self.statics is None else self.statics.read(panel.statics, panel.series)
        for window, series, target, past in list_pasts(panel, which, self.targets, self.lookback):
            number, features = place.get(panel.ids[series]), None if about is None else about[series]
            pool = 0 if number is None else int(self.ridge.pools[number * self.targets + target])
            cells[window, target] = undo_transform(self.ridge.forecast(past, pool, levels, features), self.spec)
        return join_columns(which, cells, levels, self.notes)


def fit(panel: Panel, spec: ForecastSpec, seasons: tuple[int, ...]) -> Linear:
    """Fit to the targets of a panel; one that is too short is refused."""
    moved = transform_panel(panel, spec)
    begins = find_begins(moved, final_windows(moved), moved.targets)
    series = [
        moved.values[int(begins[s, target]) : b, target].astype(np.float64) + moved.centre[s, target]
        for s, (_, b) in enumerate(moved.bounds())
        for target in range(moved.targets)
    ]
    longest, horizon = max(map(len, series)), spec.horizon
    late = bool((begins > moved.first[:, : moved.targets]).any())
    fitting = [season for season in seasons if 6 * season <= longest]
    wanted = spec.lookback or max(2 * max(fitting, default=1), 2 * horizon, 8)
    lookback = max(4, min(wanted, LONGEST_LOOKBACK, (longest - 2 * horizon) // 2))
    period = next(iter(seasons), 1)
    statics, about = StaticScale.of(panel.statics), None
    if statics is not None:
        about = np.repeat(statics.read(panel.statics, panel.series), panel.targets, axis=0)
    ridge = window_ridge.fit(series, lookback, horizon, period, own=len(series) <= MOST_OWN, about=about)
    if ridge is None:
        raise InputError(
            f"{panel.layout.source}: {longest} rows{' since a launch' * late} are too few for "
            f"a linear forecast of {horizon} steps; bring more history."
        )
    return Linear(
        spec=spec,
        ridge=ridge,
        ids=panel.ids,
        columns=panel.target_names,
        step=str(panel.step),
        period=period,
        statics=statics,
    )
