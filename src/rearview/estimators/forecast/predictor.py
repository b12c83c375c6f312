"""What every fitted forecaster offers, whether it is a network, a statistical model or an ensemble."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rearview.data.launch import find_begins
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


def list_pasts(panel: Panel, which: Windows, targets: int, lookback: int) -> Iterator[tuple[int, int, int, Array]]:
    """(window, series, target, the rows before the window's start, since a launch) wherever something was observed."""
    begins = find_begins(panel, which, targets)
    for window, (start, series) in enumerate(zip(which.starts.tolist(), which.series.tolist(), strict=True)):
        for target in range(targets):
            first = int(begins[window, target])
            if first < start:
                past = panel.values[max(first, start - lookback) : start, target].astype(np.float64)
                yield window, series, target, past + panel.centre[series, target]


def join_columns(which: Windows, cells: Array, levels: Sequence[float], notes: tuple[str, ...]) -> Forecasts:
    """Forecasts from cells [window, target, step, 1 + 2 x level]: the point, then low and high of each level."""
    bounds = {level: (cells[..., 1 + 2 * n], cells[..., 2 + 2 * n]) for n, level in enumerate(levels)}
    return Forecasts(which.series, cells[..., 0], bounds, notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedModel:
    """Fields of fitted forecasters that are not networks."""

    spec: ForecastSpec
    columns: tuple[str, ...]
    step: str
    known: int = 0
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    interrupted: bool = False

    @property
    def targets(self) -> int:
        """How many of the columns it forecasts."""
        return len(self.columns) - self.known


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
