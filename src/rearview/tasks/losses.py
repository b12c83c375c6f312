"""Losses of point forecasts: their names, and the settings that some of them have.

`fredf` (Wang et al., 2025) also compares spectra: time_share * mean (yhat - y)^2 + (1 - time_share) * mean
|rfft(yhat - y)|, the transform over time and not normalised. Its authors' share for iTransformer is 0.1 to 0.93,
depending on the data set.

`window_mae` divides absolute errors by the standard deviation of the window's look-back, channel by channel, which is
the error of values standardised by their window, as MICA is trained.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from rearview.core.errors import SettingsError, did_you_mean
from rearview.core.registry import split_spec
from rearview.core.settings import settings_from

Spec = str | Mapping[str, object]
"""A loss by its name, or a mapping with its name and settings: {"name": "fredf", "time_share": 0.3}."""


@dataclass(frozen=True, slots=True)
class Plain:
    """mse, mae and window_mae have no settings."""


@dataclass(frozen=True, slots=True)
class Huber:
    """Settings of the Huber loss."""

    delta: float = 1.0
    """The error from which on it grows in a straight line, on the standardised scale."""

    def __post_init__(self) -> None:
        if not self.delta > 0:
            raise SettingsError(f"delta is {self.delta:g}; the error from which huber is a straight line is above 0.")


@dataclass(frozen=True, slots=True)
class Fredf:
    """Settings of FreDF's loss."""

    time_share: float = 0.5
    """The share of squared errors; the rest is that of the spectra."""

    def __post_init__(self) -> None:
        if not 0 <= self.time_share <= 1:
            raise SettingsError(f"time_share is {self.time_share}; fredf's share of squared errors lies in 0 to 1.")


Settings = Plain | Huber | Fredf
KINDS: Mapping[str, type[Settings]] = {"mse": Plain, "mae": Plain, "huber": Huber, "fredf": Fredf, "window_mae": Plain}
"""Loss -> its settings."""


def resolve(spec: Spec) -> tuple[str, Settings]:
    """The name of a loss and all of its settings; an unknown name or setting is refused."""
    if isinstance(spec, Mapping) and "loss" in spec and "name" not in spec:  # as rows write it
        spec = {"name" if key == "loss" else key: value for key, value in spec.items()}
    name, given = split_spec("A loss", "mse", spec)
    if name not in KINDS:
        raise SettingsError(f"loss is {name!r}; it can be one of {', '.join(KINDS)}.{did_you_mean(name, list(KINDS))}")
    return name, settings_from(KINDS[name], name, given)


def simplify(spec: Spec) -> Spec:
    """A loss as a person would ask for it: its name, with those of its settings that are no defaults."""
    name, settings = resolve(spec)
    usual = asdict(KINDS[name]())
    given = {key: float(value) for key, value in asdict(settings).items() if value != usual[key]}
    return {"name": name, **given} if given else name
