"""AutoETS, statsforecast's: exponential smoothing, its form chosen for each window by an information criterion.

Nothing is trained beforehand: every channel of every window is fitted by itself and forecast, one after the other on
the CPU, which takes a few milliseconds to some tenths of a second each. Where a window's series is too short for the
smallest form, its last value is repeated, and `remark` tells how often that was.
"""

import warnings
from dataclasses import dataclass
from importlib import import_module

import numpy as np
import torch

from rearview.core.errors import SettingsError
from rearview.models.baselines import require
from rearview.models.contract import Marks, Model, ModelClaims, Past, Real, Shape, Steps

Values = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of AutoETS; the defaults are statsforecast's."""

    period: int = 1
    """Steps of a season; 1: none."""
    form: str = "ZZZ"
    """Error, trend and season: A additive, M multiplicative, N none, Z whichever fits best."""
    damped: bool | None = None
    """Whether the trend levels off; None: whichever fits best."""


class Network(Model):
    """statsforecast's AutoETS, fitted to each window."""

    claims = ModelClaims(attention=False, trains=False, scale_free=False)
    package = "statsforecast"

    def __init__(self, shape: Shape, settings: Settings) -> None:
        super().__init__(shape)
        shape.refuse_marks("autoets")
        if not 1 <= settings.period <= shape.lookback:
            raise SettingsError(
                f"period is {settings.period}; it must lie between 1 and the look-back of {shape.lookback} steps."
            )
        if len(settings.form) != 3 or set(settings.form) - set("AMNZ"):
            raise SettingsError(f"form is {settings.form!r}; it is three of A, M, N and Z, such as 'ZZZ' or 'AAN'.")
        require(self.package, "autoets")
        self._smoothing = import_module("statsforecast.models").AutoETS(
            season_length=settings.period, model=settings.form, damped=settings.damped
        )
        self._fitted = self._repeated = 0

    @torch.no_grad()
    def forward(self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None) -> Steps:
        windows = past.double().cpu().numpy()
        real = np.ones(windows[:, 0].shape, dtype=bool) if mask is None else mask.cpu().numpy()
        steps = [[self._ahead(series[kept]) for series in window] for window, kept in zip(windows, real, strict=True)]
        return torch.from_numpy(np.array(steps)).to(past)

    def remark(self) -> str:
        fitted, repeated = self._fitted, self._repeated
        self._fitted = self._repeated = 0
        if not repeated:
            return ""
        return (
            f"autoets repeated the last value of {repeated:,} of {fitted + repeated:,} series of windows, which "
            "statsforecast refuses as too short for any form."
        )

    def _ahead(self, series: Values) -> Values:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # a form that can't be fitted is no news: others are tried
            try:
                steps = self._smoothing.forecast(series, self.shape.steps)["mean"]
                self._fitted += 1
            except NotImplementedError:  # what statsforecast says of a series too short for any form
                steps = np.repeat(series[-1], self.shape.steps)
                self._repeated += 1
        return np.asarray(steps, dtype=np.float64)
