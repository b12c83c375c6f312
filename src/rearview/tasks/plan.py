"""Defaults that need no knowledge: each chosen from the data's length, step and season, each with its reason.

What the user sets stands; what is left open is chosen here, and every choice can be printed as a sentence.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from numbers import Integral
from typing import Any, Self

from rearview import models
from rearview.core.model_folder import strip_prefix
from rearview.data.panel import Panel

LONGEST_LOOKBACK = 1024
SHORTEST_USEFUL = 16
SHORTEST = 8
"""What is looked back on where rows are too few for anything useful."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A value and why it is what it is."""

    value: Any
    reason: str


GIVEN = "as asked"
HALF, TWICE = "half a patch", "twice the width"
FOLLOWING: Mapping[str, tuple[str, str, Callable[[int], int]]] = {
    "stride": ("patch", HALF, lambda patch: max(1, patch // 2)),
    "feed_forward": ("width", TWICE, lambda width: 2 * width),
}
"""Sizes that are chosen by another: by which, the reason, and how."""
_PARTS = ("model", "training")
"""What a plan holds many choices of, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoned:
    """Everything that is decided before training, each with its reason."""

    lookback: Choice
    model: Mapping[str, Choice]
    """Settings of the network."""
    training: Mapping[str, Choice]
    """Settings of the training loop."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, one entry a choice."""
        alone = {part.name: getattr(self, part.name) for part in fields(self) if part.name not in _PARTS}
        grouped = {f"{part}.{name}": choice for part in _PARTS for name, choice in getattr(self, part).items()}
        return {name: asdict(choice) for name, choice in {**alone, **grouped}.items()}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """The plan that `to_dict` wrote."""
        choices = {name: Choice(**fact) for name, fact in facts.items()}
        given: dict[str, Any] = {name: choice for name, choice in choices.items() if "." not in name}
        given |= {part: strip_prefix(f"{part}.", choices) for part in _PARTS}
        return cls(**given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Reasoned):
    """How rows will be forecast, or anomalies found."""

    season: Choice

    def sections(self) -> dict[str, dict[str, Choice]]:
        """For printing: section -> name -> choice."""
        return {
            "data": {"lookback": self.lookback, "season": self.season},
            "model": dict(self.model),
            "training": dict(self.training),
        }


def choose_season(panel: Panel, given: int | None, longest: int) -> Choice:
    """The period that naive forecasts and scaled errors use."""
    if given is not None:
        return Choice(given, GIVEN)
    season = panel.step.season
    if season > 1 and longest < 2 * season:
        return Choice(1, f"the usual {season} steps of data {panel.step.words()} do not fit twice into {longest} rows")
    return Choice(season, f"usual for data {'in ' if panel.step.unit == 'int' else ''}{panel.step.words()}")


def choose_lookback(panel: Panel, horizon: int, given: int | None, longest: int) -> Choice:
    """Two of the longest seasons that fit or twice the horizon, within what leaves rows for training and checking."""
    if given is not None:
        return Choice(given, GIVEN)
    fitting = [season for season in panel.step.seasons if 12 * season <= longest]
    season = max(fitting, default=1)
    wanted = max(2 * season, 2 * horizon, SHORTEST_USEFUL)
    room = (longest - 3 * horizon) // 2
    if wanted > min(room, LONGEST_LOOKBACK):
        return _limited(room, horizon, longest)
    if wanted == 2 * season:
        return Choice(wanted, f"two seasons of {season} steps")
    return Choice(wanted, f"twice the horizon of {horizon}" if wanted == 2 * horizon else "the shortest that is useful")


def _limited(room: int, horizon: int, longest: int) -> Choice:
    """A look-back shorter than wanted: the longest there is, or what the rows leave."""
    if room >= LONGEST_LOOKBACK:
        return Choice(LONGEST_LOOKBACK, "the longest that is chosen")
    most = max(min(longest - horizon, SHORTEST), 1)
    if room >= most:
        return Choice(room, f"half of what {longest} rows leave beside three horizons of {horizon}")
    return Choice(most, "the shortest that is chosen" if most == SHORTEST else f"what {longest} rows leave for it")


def naive_lookback(season: Choice, lookback: Choice, horizon: int, longest: int) -> Choice:
    """What the seasonal naive forecast looks back on: a season, where one fits."""
    if lookback.value < season.value <= longest - horizon:
        return Choice(season.value, f"a season of {season.value} steps")
    return lookback


def choose_model(panel: Panel, given: str | None) -> Choice:
    """PatchTST, or iTransformer where there are inputs, which PatchTST has no place for."""
    if given is not None:
        return Choice(given, GIVEN)
    if panel.targets < len(panel.columns):
        return Choice("itransformer", "there are input columns, and it mixes columns")
    return Choice("patchtst", "a strong general choice")


def model_settings(name: str, lookback: int, season: int, samples: int, on_gpu: bool) -> dict[str, Choice]:
    """Those settings of a network that the data decide; `samples`: training windows times channels."""
    if name == "seasonal_naive":
        if season > lookback:
            return {"period": Choice(1, f"a season of {season} steps does not fit a look-back of {lookback}")}
        return {"period": Choice(season, "the season")}
    if name == "dlinear":
        kernel = min(25, max(3, lookback // 2 * 2 - 1))
        return {"kernel": Choice(kernel, "the original's" if kernel == 25 else f"fits a look-back of {lookback}")}
    known = {field.name for field in fields(models.settings_of(name))}
    width, heads = _width(samples, on_gpu)
    reason = f"{samples:,} training windows (times channels){'' if on_gpu else ' on a CPU'}"
    sizes = {
        "width": Choice(width, reason),
        "heads": Choice(heads, reason),
        "feed_forward": Choice(2 * width, TWICE),
    }
    if "patch" in known and "stride" in known:
        patch = 16 if lookback >= 64 else max(2, lookback // 6)
        why = "the original's" if patch == 16 else f"about a sixth of the look-back of {lookback}"
        why = why if lookback >= 12 else "the least that makes a patch"
        sizes |= {"patch": Choice(patch, why), "stride": Choice(max(1, patch // 2), HALF)}
    return {setting: choice for setting, choice in sizes.items() if setting in known}


def with_given(chosen: Mapping[str, Choice], given: Mapping[str, Any]) -> dict[str, Choice]:
    """Choices with what the user set in their place; one that was chosen by another's size goes by the size set."""
    found = dict(chosen) | {name: Choice(value, GIVEN) for name, value in given.items()}
    for name, (by, reason, size) in FOLLOWING.items():
        value = given.get(by)
        if name in chosen and name not in given and chosen[name].reason == reason and isinstance(value, Integral):
            found[name] = Choice(size(int(value)), reason)
    return found


def _width(samples: int, on_gpu: bool) -> tuple[int, int]:
    for most, width, heads in ((2_000, 16, 4), (20_000, 32, 4), (200_000, 64, 8)):
        if samples < most:
            return width, heads
    return (128, 16) if on_gpu else (64, 8)


def training_settings(windows: int, channels: int, validation: int, on_gpu: bool) -> dict[str, Choice]:
    """How long and in which portions to train, from the number of training windows."""
    room = 2 ** max(3, min(8, round(math.log2(256 / channels))))
    batch = max(8, min(room, 2 ** math.floor(math.log2(max(8, windows / 8)))))
    steps = -(-windows // batch)
    most = 400 if on_gpu else 60
    patience = max(5, min(20, 100 // steps))
    settings = {
        "batch": Choice(batch, f"{windows:,} training windows of {channels} channel{'s' if channels > 1 else ''}"),
        "learning_rate": Choice(1e-3, "usual for this size"),
        "schedule": Choice("cosine", "falls smoothly to zero"),
        "clip": Choice(1.0, "guards against rare large gradients"),
        "checkpoint_every": Choice(50, "updates; a run that is cut off loses little"),
        "patience": Choice(patience, "epochs without improvement"),
    }
    if steps > most:
        settings["epochs"] = Choice(15, "with early stopping")
        settings["windows_per_epoch"] = Choice(
            most * batch, f"an epoch visits {most} batches of the {windows:,} windows, drawn anew each time"
        )
    else:
        epochs = max(15, min(100, round(900 / max(1, steps))))
        settings["epochs"] = Choice(epochs, f"about {epochs * steps} updates of {steps} batches an epoch")
    if not validation:
        settings["patience"] = Choice(None, "no rows are held out for early stopping")
    return settings
