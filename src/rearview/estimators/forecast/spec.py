"""What is asked for: the part of a forecast that a person decides, as plain data that can be saved."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from numbers import Integral, Real
from typing import Any, Literal

from rearview.core.errors import SettingsError
from rearview.tasks import losses

Intervals = Literal["conformal", "quantile", "none"]
Transform = Literal["none", "log1p"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A forecast as asked for; None leaves a choice to the plan."""

    horizon: int
    """Steps to forecast."""
    lookback: int | None = None
    """Steps the model sees; None: from the data's length, step and season."""
    model: str | None = None
    """A network's name; None: patchtst, or itransformer where there are inputs."""
    attention: str | Mapping[str, Any] | None = None
    """A mechanism's name, or a mapping with `name` and its settings; None: the network's own."""
    season: int | None = None
    """Steps of a season, for naive forecasts and scaled errors; None: from the step."""
    loss: losses.Spec = "mse"
    """What a point forecast minimises: a loss's name, or a mapping with `name` and its settings."""
    intervals: Intervals = "conformal"
    """Where intervals come from: held-out residuals, quantiles the model learns, or nowhere."""
    level: tuple[float, ...] = (80.0, 95.0)
    """Levels in percent; a quantile model can give only those it was trained for."""
    transform: Transform = "none"
    """Applied to the targets before anything else and undone at the end."""
    nonnegative: bool = False
    """Forecasts and bounds below 0 become 0."""
    calendar: bool = True
    """Calendar features for networks that have a place for them."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the network; what is left out is chosen from the data."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the training loop; what is left out is chosen from the data."""
    seed: int = 0
    device: str = "auto"
    """auto, cpu, cuda or a torch device."""

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
        check_seed(self.seed, self.training)
        object.__setattr__(self, "seed", int(self.seed))
        choices = {"intervals": ("conformal", "quantile", "none"), "transform": ("none", "log1p")}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise SettingsError(f"{name} is {getattr(self, name)!r}; it can be one of {', '.join(known)}.")
        object.__setattr__(self, "loss", losses.chosen(self.loss))
        for level in self.level:
            check_level(level)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        plain = asdict(self)
        plain["level"] = list(self.level)
        return plain

    @staticmethod
    def from_dict(facts: Mapping[str, Any]) -> "Request":
        """The request that `to_dict` wrote."""
        return Request(**{**facts, "level": tuple(facts["level"])})


def check_whole(name: str, value: Any, meaning: str) -> None:
    """Refuse what is not a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        raise SettingsError(f"{name} is {value!r}; it is {meaning} and must be a whole number of at least 1.")


def check_seed(seed: Any, training: Mapping[str, Any]) -> None:
    """Refuse a seed that is no whole number from 0 up, and one that hides among the training settings."""
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= int(seed) < 2**63:
        raise SettingsError(f"seed is {seed!r}; it must be a whole number from 0 up.")
    if "seed" in training:
        raise SettingsError("Give the seed as seed=..., not among the training settings.")


def check_level(level: Any) -> None:
    """Refuse a level that is no percentage between 0 and 100."""
    if isinstance(level, bool) or not isinstance(level, Real) or not 0 < float(level) < 100:
        raise SettingsError(f"level is {level!r}; give percentages between 0 and 100, such as 80 or 95.")
    if float(level) < 1:
        raise SettingsError(f"level is {level!r}; levels are percentages: did you mean {100 * float(level):g}?")
