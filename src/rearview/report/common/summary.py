"""What a report shows, as plain Python and numpy.

The caller builds a `Summary` from a finished run, so that the page knows no model, no panel and no training loop, and
a page can be made again from stored numbers. Arrays that belong together are checked here, once, by name.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rearview import __version__
from rearview.core.errors import InputError
from rearview.data.panel import Finding
from rearview.report.common import text
from rearview.report.common.attention_maps import Look

Values = NDArray[np.floating[Any]]
Stamps = NDArray[np.generic]


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """What one model says about some steps, in original units."""

    mean: Values
    intervals: Mapping[float, tuple[Values, Values]] = field(default_factory=dict)
    """Level in percent -> (low, high); a bound that is not finite is left out of the drawing."""


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """The steps after the last row of a series."""

    stamps: Stamps
    models: Mapping[str, Prediction]


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """One backtest window: what the models said at a cutoff, beside what happened."""

    cutoff: np.generic
    """The last stamp the models had seen."""
    stamps: Stamps
    actual: Values
    models: Mapping[str, Prediction]


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

    def check(self) -> None:
        """Refuses arrays that do not belong together."""
        name = f"series {self.id!r}"
        _same_length(f"the history of {name}", self.stamps, self.values)
        _check_predictions(f"the forecast of {name}", self.forecast.stamps, self.forecast.models)
        for number, window in enumerate(self.backtest, start=1):
            where = f"backtest window {number} of {name}"
            _same_length(f"the actual values in {where}", window.stamps, window.actual)
            _check_predictions(where, window.stamps, window.models)

    def all_stamps(self) -> Iterator[Stamps]:
        """Every array of stamps: history, forecast, backtest windows and their cutoffs."""
        yield self.stamps
        yield self.forecast.stamps
        for window in self.backtest:
            yield window.stamps
            yield np.asarray([window.cutoff])

    def predictions(self) -> Iterator[Mapping[str, Prediction]]:
        """What the models said: the forecast first, then every backtest window."""
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


@dataclass(frozen=True, slots=True, eq=False)
class StepErrors:
    """[horizon]: a model's backtest error at each step ahead."""

    mae: Values
    mse: Values


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """How a model was trained, epoch by epoch."""

    train: Values
    validation: Values
    """Empty when nothing was held out."""
    best_epoch: int | None
    """Counted from 1; the epoch whose weights were kept."""
    ended: str
    """Why training ended: "epochs", "patience", "interrupted", or a reason of the caller's."""


class Told(Protocol):
    """What was read, as a page lists it."""

    def lines(self) -> list[tuple[str, str]]:
        """Names and what stands behind them, in order."""
        ...


@dataclass(frozen=True, slots=True)
class DataFacts:
    """What was read, in numbers."""

    source: str
    rows: int
    series: int
    columns: int
    step: str
    """The step in words, such as "1 hour"."""
    first: str
    last: str
    missing_share: float
    """From 0 to 1, over all cells."""
    memory: int
    """Bytes of the array that holds the values."""
    time_name: str = "time"
    """What the time axis is called, with its zone where there is one."""

    def lines(self) -> list[tuple[str, str]]:
        """The facts in words."""
        return [
            ("Source", self.source),
            ("Rows", f"{self.rows:,}"),
            ("Series", f"{self.series:,}"),
            ("Columns", f"{self.columns:,}"),
            ("Step", self.step),
            ("First stamp", self.first),
            ("Last stamp", self.last),
            ("Missing cells", text.percent(self.missing_share) if self.missing_share else "none"),
            ("In memory", text.memory(self.memory)),
        ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Facts:
    """What pages of every kind have in common."""

    title: str
    verdict: str
    """What came of it, in a sentence or two."""
    command: str
    """The exact shell command that makes the run again."""
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    """When, as ISO text."""
    version: str = __version__
    device: str
    seconds: float
    data: Told
    curves: Mapping[str, Curve] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    settings: Mapping[str, Mapping[str, tuple[object, str]]] = field(default_factory=dict)
    """Section -> name -> (value, why it was chosen, or nothing)."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Summary(Facts):
    """Everything on the page of a forecast."""

    data: DataFacts
    series: tuple[SeriesView, ...]
    scores: tuple[Score, ...] = ()
    error_by_step: Mapping[str, StepErrors] = field(default_factory=dict)
    looks: tuple[Look, ...] = ()
    """Where networks with attention look, one entry for each window that can be chosen."""

    def __post_init__(self) -> None:
        if not self.series:
            raise InputError("A report needs at least one series to show, but the summary has none.")
        for view in self.series:
            view.check()
        for model, errors in self.error_by_step.items():
            _same_length(f"the errors by step of model {model!r} (MAE beside MSE)", errors.mae, errors.mse)
        kinds = {stamps.dtype.kind for view in self.series for stamps in view.all_stamps() if len(stamps)}
        if not kinds <= {"M"} and not kinds <= {"i", "u"}:
            raise InputError(
                "The stamps of a report must be all datetime64 or all integers, "
                f"but they are of the numpy kinds {', '.join(sorted(kinds))}; give every series the same kind."
            )

    @property
    def integer_time(self) -> bool:
        return self.series[0].forecast.stamps.dtype.kind != "M"

    @property
    def is_wide(self) -> bool:
        """Whether what the page calls a series is a column of one wide series."""
        return self.data.series == 1 and self.data.columns > 1

    @property
    def models(self) -> tuple[str, ...]:
        """Every model on the page: in the order of the score table, then of the first series."""
        names = [score.model for score in self.scores]
        names += [name for view in self.series for models in view.predictions() for name in models]
        names += [*self.error_by_step, *self.curves]
        return tuple(dict.fromkeys(names))

    @property
    def lead(self) -> Score | None:
        """The model of the headline: the lowest backtest MAE among those that are not baselines."""
        rows = [score for score in self.scores if not score.is_baseline] or list(self.scores)
        return min(rows, key=lambda score: (math.isnan(score.mae), score.mae), default=None)

    @property
    def levels(self) -> tuple[float, ...]:
        """Every interval level of the score table, ascending."""
        return tuple(sorted({level for score in self.scores for level in score.coverage}))

    @property
    def horizon(self) -> int:
        return max(len(view.forecast.stamps) for view in self.series)


def _check_predictions(where: str, stamps: Stamps, models: Mapping[str, Prediction]) -> None:
    for model, prediction in models.items():
        _same_length(f"{where} by {model!r}", stamps, prediction.mean)
        for level, bounds in prediction.intervals.items():
            for bound in bounds:
                _same_length(f"the {level:g} % interval in {where} by {model!r}", stamps, bound)


def _same_length(what: str, stamps: NDArray[Any], values: NDArray[Any]) -> None:
    if stamps.shape != values.shape or stamps.ndim != 1:
        raise InputError(
            f"In a report, {what} must hold one value for each stamp, "
            f"but the shapes are {values.shape} and {stamps.shape}; pass one-dimensional arrays of equal length."
        )
