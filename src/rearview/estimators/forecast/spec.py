"""The options of a forecaster: what to forecast, and how its tables are read."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Literal

from rearview import models
from rearview.core.errors import SettingsError, unknown
from rearview.data.read_options import Names
from rearview.estimators.options import EstimatorOptions, NetworkSpec, TableKeywords, check_whole
from rearview.tasks import losses

Intervals = Literal["conformal", "quantile", "none"]
Transform = Literal["none", "log1p"]
AUTO = "auto"
ALONE = ("ets", "theta", "mstl", "ridge")
"""Members of a portfolio that are not networks; each can be requested by name."""
MOST_STEPS = 500_000
"""The largest horizon; a larger one is most likely a typing error."""


@dataclass(frozen=True)
class ForecastSpec(NetworkSpec):
    """A forecast request; None leaves the choice to the plan."""

    horizon: int = field(kw_only=True)
    """Steps to forecast."""
    lookback: int | None = field(default=None, kw_only=True)
    """Steps the model sees; default: from the data's length, step and season."""
    season: int | None = field(default=None, kw_only=True)
    """Steps of a season, for naive forecasts and scaled errors; default: from the step."""
    loss: losses.Spec = field(default="mse", kw_only=True)
    """What a point forecast minimises: mse, mae, huber or fredf, by name or as a mapping with `name` and its
    settings."""
    intervals: Intervals = field(default="conformal", kw_only=True)
    """Where intervals come from: held-out residuals (conformal), learned quantiles (quantile), or nowhere (none)."""
    level: Sequence[float] | float = field(default=(80, 95), kw_only=True)
    """Levels of the intervals in percent."""
    transform: Transform = field(default="none", kw_only=True)
    """log1p trains on the logarithm of 1 + y."""
    nonnegative: bool = field(default=False, kw_only=True)
    """Cut forecasts and bounds off at 0."""
    calendar: bool = field(default=True, kw_only=True)
    """Calendar features, for networks that have a place for them."""

    def __post_init__(self) -> None:
        meanings = {
            "horizon": "the number of steps to forecast",
            "lookback": "the number of steps the model sees",
            "season": "the number of steps of a season",
        }
        for name, meaning in meanings.items():
            value = getattr(self, name)
            if value is not None or name == "horizon":
                check_whole(name, value, meaning)
                object.__setattr__(self, name, int(value))
        if self.horizon > MOST_STEPS:
            raise SettingsError(f"horizon is {self.horizon:,}; it can be {MOST_STEPS:,} at most.")
        super().__post_init__()
        choices = {"intervals": ("conformal", "quantile", "none"), "transform": ("none", "log1p")}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise SettingsError(f"{name} is {getattr(self, name)!r}; it can be one of {', '.join(known)}.")
        object.__setattr__(self, "loss", losses.simplify(self.loss))
        object.__setattr__(self, "level", read_levels(self.level))

        if self.is_portfolio and any(self._of_network):
            raise SettingsError(
                f"{self.model} is no network: attention, settings, training, loss and learned quantiles are for one; "
                "leave them out, or name a network (`rearview list models`)."
            )

    @property
    def is_portfolio(self) -> bool:
        """Whether the request is for a portfolio, or for one of its members that is not a network."""
        return not any(self._of_network) if self.model is None else self.model in (AUTO, *ALONE)

    @property
    def _of_network(self) -> tuple[object, ...]:
        return self.attention, self.settings, self.training, self.loss != "mse", self.intervals == "quantile"

    @property
    def levels(self) -> tuple[float, ...]:
        """Levels of the intervals in percent, ascending."""
        return read_levels(self.level)

    @property
    def quantiles(self) -> tuple[float, ...]:
        """What a quantile network learns: the median and both ends of every interval."""
        if self.intervals != "quantile":
            return ()
        tails = {round((1 - level / 100) / 2, 9) for level in self.levels}
        return tuple(sorted({0.5, *tails, *(round(1 - tail, 9) for tail in tails)}))


@dataclass(frozen=True, kw_only=True)
class ForecastColumns(TableKeywords):
    """How the tables of a forecast are read."""

    target: Names | None = None
    target_col: str | None = None
    known: Names | None = None
    static: Names | None = None
    holidays: Names | None = None
    together: bool | None = None


@dataclass(frozen=True)
class ForecasterOptions(EstimatorOptions, ForecastColumns, ForecastSpec):
    """All arguments of a forecaster."""

    alias: str | None = field(default=None, kw_only=True)
    """The column name of the forecasts; default: the network's name."""


def check_model(name: str) -> None:
    """Refuse a name that is neither a network nor a portfolio or a member of one."""
    known = [AUTO, *ALONE, *models.names()]
    if name not in known:
        raise unknown("model called", name, known)


def check_limit(seconds: object) -> None:
    """Refuse a time limit that is no number of seconds."""
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, Real) or not float(seconds) > 0:
        raise SettingsError(f"time_limit is {seconds!r}; give the seconds that the forecast may take.")


def read_levels(level: object) -> tuple[float, ...]:
    """Return one level or several, in percent, ascending; what is no percentage between 0 and 100 is refused."""
    several = tuple(level) if isinstance(level, Iterable) and not isinstance(level, str) else (level,)
    for one in several:
        if isinstance(one, bool) or not isinstance(one, Real) or not 0 < float(one) < 100:
            raise SettingsError(f"level is {one!r}; give percentages between 0 and 100, such as 80 or 95.")
        if float(one) < 1:
            raise SettingsError(f"level is {one!r}; levels are percentages: did you mean {100 * float(one):g}?")
    return tuple(sorted({float(one) for one in several}))
