"""Drawings on the page of a forecast, as plain Python and numpy: series, backtest windows, scores, attention maps."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from rearview.core.errors import InputError
from rearview.report.common.summary import Stamps, Values


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """The prediction of one model for some steps, in original units."""

    mean: Values
    intervals: Mapping[float, tuple[Values, Values]] = field(default_factory=dict)
    """Level in percent -> (low, high); a bound that is not finite is not drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """The steps after the last row of a series."""

    stamps: Stamps
    models: Mapping[str, Prediction]


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """One backtest window: what the models predicted at a cutoff, beside what happened."""

    cutoff: np.generic
    """The last stamp the models had seen."""
    stamps: Stamps
    actual: Values
    models: Mapping[str, Prediction]


@dataclass(frozen=True, slots=True)
class Outlook:
    """The forecast of one series in words, and the numbers behind them: means over the steps."""

    sentence: str
    mean: float
    low: float
    high: float
    before: float
    """The mean of the period that it is compared with; NaN: there is none."""
    compared: str
    """That period in words, as in "a year before"."""
    spread: float
    """Standard deviation of recent rows."""

    @property
    def change(self) -> float:
        """Relative to the period before; NaN where that is not above 0."""
        return self.mean / self.before - 1 if self.before > 0 else math.nan


@dataclass(frozen=True, slots=True)
class SeriesErrors:
    """Errors of the leading model in the backtest of one series; NaN where there is none."""

    mase: float
    mae: float
    against_naive: float
    """Its MAE over that of the seasonal naive forecast."""
    coverage: float
    """Share of actual values inside the widest interval."""


@dataclass(frozen=True, slots=True, eq=False)
class KnownInput:
    """An input known in the future: its values beside the history that is drawn, and at the steps ahead."""

    name: str
    past: Values
    ahead: Values


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """A part of a series: its trend, a season or the effect of an input."""

    name: str
    sentence: str
    stamps: Stamps | None
    """None for a season, which has names for its phases."""
    phases: tuple[str, ...]
    values: Values
    unit: str = ""
    """What its values are; of a season what it adds around the trend."""


@dataclass(frozen=True, slots=True, eq=False)
class SeriesView:
    """One line of the data: a series of a long file, or a target column of a wide one."""

    id: str
    stamps: Stamps
    """datetime64 as it is to be shown (wall time of the caller's zone), or integers."""
    values: Values
    """The newest rows in original units, NaN where a cell is missing."""
    forecast: Forecast
    backtest: tuple[Window, ...] = ()
    outlook: Outlook | None = None
    errors: SeriesErrors | None = None
    inputs: tuple[KnownInput, ...] = ()
    components: tuple[Component, ...] = ()

    def check(self) -> None:
        """Refuse arrays that do not belong together."""
        name = f"series {self.id!r}"
        check_lengths(f"the history of {name}", self.stamps, self.values)
        parts = [(f"the forecast of {name}", self.forecast.stamps, self.forecast.models)]
        for one in self.inputs:
            check_lengths(f"the past of input {one.name!r} of {name}", self.stamps, one.past)
            check_lengths(f"the future of input {one.name!r} of {name}", self.forecast.stamps, one.ahead)
        for number, window in enumerate(self.backtest, start=1):
            where = f"backtest window {number} of {name}"
            check_lengths(f"the actual values in {where}", window.stamps, window.actual)
            parts.append((where, window.stamps, window.models))
        for where, stamps, models in parts:
            for model, prediction in models.items():
                check_lengths(f"{where} by {model!r}", stamps, prediction.mean)
                for level, bounds in prediction.intervals.items():
                    for bound in bounds:
                        check_lengths(f"the {level:g} % interval in {where} by {model!r}", stamps, bound)

    def all_stamps(self) -> Iterator[Stamps]:
        """Every array of stamps: history, forecast, backtest windows and their cutoffs."""
        yield self.stamps
        yield self.forecast.stamps
        for window in self.backtest:
            yield window.stamps
            yield np.asarray([window.cutoff])

    def predictions(self) -> Iterator[Mapping[str, Prediction]]:
        """Predictions by model: the forecast first, then every backtest window."""
        yield self.forecast.models
        for window in self.backtest:
            yield window.models


@dataclass(frozen=True, slots=True)
class Score:
    """One row of the score table; NaN where a measure could not be computed."""

    model: str
    mse: float
    mae: float
    mase: float
    smape: float
    rmsse: float
    pinball: float = math.nan
    coverage: Mapping[float, float] = field(default_factory=dict)
    """Level in percent -> share of actual values inside the interval, from 0 to 1."""
    is_baseline: bool = False


@dataclass(frozen=True, slots=True)
class InputUse:
    """One input of a forecast, what kind it is, and which of the models use it."""

    name: str
    kind: str
    used_by: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """As in 'promo, known in the future: used by ridge and ets.'"""
        *others, last = self.used_by or ("none of the models",)
        return f"{self.name}, {self.kind}: used by {', '.join(others)}{' and ' if others else ''}{last}."


@dataclass(frozen=True, slots=True, eq=False)
class StepErrors:
    """[horizon]: a model's backtest error at each step ahead."""

    mae: Values
    mse: Values


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the rows or columns of a map."""

    cells: tuple[str, ...]
    runs: tuple[tuple[int, str], ...] = ()
    """The first cell of each column, on an axis that has several cells of several columns."""


@dataclass(frozen=True, slots=True, eq=False)
class WeightMap:
    """One head's weights, or the mean of several: [query, key]."""

    name: str
    weights: Values
    queries: Names
    keys: Names

    def __post_init__(self) -> None:
        rows, columns = len(self.queries.cells), len(self.keys.cells)
        if self.weights.shape != (rows, columns):
            raise InputError(
                f"The map {self.name!r} is of shape {self.weights.shape}, but has names for {rows} rows and "
                f"{columns} columns; give every row and column one."
            )


@dataclass(frozen=True, slots=True, eq=False)
class AgeCurve:
    """Mean weight by how many steps a key is before its query; negative: after it."""

    name: str
    ages: Values
    weights: Values


@dataclass(frozen=True, slots=True, eq=False)
class AttentionView:
    """The attention of one network in the last window of one series or column."""

    model: str
    name: str
    about: str
    """Sentences on what was left out."""
    maps: tuple[WeightMap, ...]
    ages: tuple[AgeCurve, ...] = ()
    finding: str = ""
    """A sentence on what has the most attention; empty where attention is uniform."""


def check_lengths(what: str, stamps: Stamps, values: Values) -> None:
    """Refuse values that are not one for each stamp."""
    if stamps.shape != values.shape or stamps.ndim != 1:
        raise InputError(
            f"In a report, {what} must hold one value for each stamp, "
            f"but the shapes are {values.shape} and {stamps.shape}; pass one-dimensional arrays of equal length."
        )
