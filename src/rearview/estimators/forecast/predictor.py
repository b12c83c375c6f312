"""What every fitted forecaster offers, whether it is a network, a statistical model or an ensemble."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rearview.data.panel import Finding, Panel
from rearview.data.windows import Windows
from rearview.estimators.forecast.spec import ForecastSpec

Array = NDArray[np.float64]
Bounds = dict[float, tuple[Array, Array]]
"""Level in percent -> (low, high)."""


@dataclass(frozen=True, slots=True)
class Forecasts:
    """The steps after each window."""

    series: NDArray[np.int64]
    """[window]."""
    mean: Array
    """[window, target, step]; NaN where nothing was observed before a window, so that there is nothing to go by."""
    intervals: Bounds
    """Each [window, target, step]."""
    notes: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    """Warnings of the rows that were forecast from; the notes hold them too."""
    members: Mapping[str, Array] = field(default_factory=dict)
    """The points of a portfolio's members by name, the heaviest first, each [window, target, step]."""


class Predictor(Protocol):
    """A forecaster fitted to the rows of a panel."""

    @property
    def spec(self) -> ForecastSpec:
        """What it was asked for."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns it reads: targets, past inputs, inputs known in the future."""

    @property
    def targets(self) -> int:
        """How many of the columns it forecasts."""

    @property
    def known(self) -> int:
        """How many of the last columns are known in the future."""

    @property
    def step(self) -> str:
        """The step of its rows."""

    @property
    def lookback(self) -> int:
        """Rows before a forecast that it reads, at most."""

    @property
    def period(self) -> int:
        """Steps of a season, by which errors are scaled."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of how it was fitted."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was repaired and warned of while it was fitted."""

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended its fit."""

    def predict(self, panel: Panel, which: Windows, levels: tuple[float, ...], known: Array | None = None) -> Forecasts:
        """Forecast from the rows before each window's start.

        `known` [window, column, step], in original units, holds the future of known inputs.
        """
