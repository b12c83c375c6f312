"""Statistical forecasters, one model a variable: ETS, Theta and MSTL of statsforecast, and the seasonal naive forecast.

Only the settings are kept: a forecast fits each variable again to the rows before it. Variables that a model can't be
fitted to get the naive forecast, and a note counts them.
"""

from dataclasses import dataclass

import numpy as np

from rearview.core.wording import quantity
from rearview.data.far_values import FAR, bridge_far_values
from rearview.data.panel import Panel
from rearview.data.windows import Windows
from rearview.estimators.forecast.predictor import Array, FittedModel, Forecasts, join_columns, list_pasts
from rearview.estimators.forecast.spec import ForecastSpec
from rearview.estimators.forecast.transform import transform_panel, undo_transform
from rearview.tasks.statistical_models import Name, fit_and_forecast

MOST_ROWS = {"seasonal_naive": 4_096, "theta": 768, "mstl": 2_400, "ets": 512}
"""Rows of a variable that a model is fitted to: older ones cost time and tell little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistical(FittedModel):
    """A statistical model and its settings."""

    model: Name
    seasons: tuple[int, ...]
    """Shortest first; empty: none."""
    workers: int = 1
    """Processes that share the variables where they are many."""

    @classmethod
    def of(
        cls, model: Name, panel: Panel, spec: ForecastSpec, seasons: tuple[int, ...], workers: int = 1
    ) -> "Statistical":
        """The model for the targets of a panel."""
        names, step = panel.target_names, str(panel.step)
        return cls(spec=spec, model=model, seasons=seasons, columns=names, step=step, workers=workers)

    @property
    def name(self) -> str:
        """What it is called."""
        return self.model

    @property
    def lookback(self) -> int:
        """Rows it is fitted to, at most."""
        return MOST_ROWS[self.model]

    @property
    def period(self) -> int:
        """Steps of a season, by which errors are scaled."""
        return self.seasons[0] if self.seasons else 1

    def predict(self, panel: Panel, which: Windows, levels: tuple[float, ...], known: Array | None = None) -> Forecasts:
        """Forecast from the rows before each window's start (see `Predictor`)."""
        panel = transform_panel(panel, self.spec)
        listed = list(list_pasts(panel, which, self.targets, self.lookback))
        pasts = [bridge_far_values(past) for *_, past in listed]
        quantiles, failed = fit_and_forecast(self.model, pasts, self.spec.horizon, self.seasons, levels, self.workers)
        cells = np.full((len(which), self.targets, self.spec.horizon, 1 + 2 * len(levels)), np.nan)
        for (window, _, target, _), values in zip(listed, quantiles, strict=True):
            cells[window, target] = undo_transform(values, self.spec)
        notes = self.notes
        bridged = sum(past is not whole for past, (*_, whole) in zip(pasts, listed, strict=True))
        if bridged:
            count = quantity(bridged, "forecast")
            notes = (*notes, f"{self.model}: {count} without a single value that lies more than {FAR} ranges off.")
        if failed:
            count = quantity(len(pasts), "forecast")
            notes = (*notes, f"{self.model} could not be fitted for {failed} of {count}, which are naive instead.")
        return join_columns(which, cells, levels, notes)
