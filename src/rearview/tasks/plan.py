"""Defaults chosen from the data's length, step and season, each with its reason.

Settings of the user are kept; anything omitted is chosen here, with a reason that can be printed.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from numbers import Integral
from typing import Any, Generic, TypeVar

from rearview import models
from rearview.core.errors import SettingsError
from rearview.core.model_folder import strip_prefix
from rearview.data.infer.categories import name_origin
from rearview.data.panel import Panel

LONGEST_LOOKBACK = 1024
SHORTEST_USEFUL = 16
SHORTEST = 8
"""The look-back where rows are too few for a useful one."""
LONGEST_TOKENS = 64
"""Patches in a case, about: beyond that patches grow longer, because attention costs their square."""


Value = TypeVar("Value", covariant=True)


@dataclass(frozen=True, slots=True)
class Choice(Generic[Value]):
    """A value and the reason for it."""

    value: Value
    reason: str


Choices = Mapping[str, Choice[object]]
"""Settings by name."""

GIVEN = "as asked"
HALF, TWICE = "half a patch", "twice the width"
FOLLOWING: Mapping[str, tuple[str, str, Callable[[int], int]]] = {
    "stride": ("patch", HALF, lambda patch: max(1, patch // 2)),
    "feed_forward": ("width", TWICE, lambda width: 2 * width),
}
"""Sizes that are chosen by another: by which, the reason, and how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that is decided before training, each with its reason."""

    lookback: Choice[int]
    season: Choice[int] | None = None
    """None where cases are classified."""
    model: Choices
    """Settings of the network."""
    training: Choices
    """Settings of the training loop."""

    @property
    def model_settings(self) -> dict[str, Any]:
        """Settings of the network without their reasons."""
        return {name: choice.value for name, choice in self.model.items()}

    def sections(self) -> dict[str, dict[str, Choice[object]]]:
        """Group the choices for printing: section -> name -> choice."""
        data: dict[str, Choice[object]] = {"lookback": self.lookback}
        if self.season is not None:
            data["season"] = self.season
        return {"data": data, "model": dict(self.model), "training": dict(self.training)}

    def to_dict(self) -> dict[str, object]:
        """Plain data for JSON, one entry a choice."""
        data, *parts = self.sections().items()
        grouped = {f"{part}.{name}": choice for part, choices in parts for name, choice in choices.items()}
        return {name: asdict(choice) for name, choice in {**data[1], **grouped}.items()}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Mapping[str, Any]]) -> "Plan":
        """The plan that `to_dict` wrote."""
        choices: dict[str, Choice[Any]] = {
            name: Choice(fact["value"], str(fact["reason"])) for name, fact in facts.items()
        }
        return cls(
            lookback=choices["lookback"],
            season=choices.get("season"),
            model=strip_prefix("model.", choices),
            training=strip_prefix("training.", choices),
        )


def choose_season(panel: Panel, given: int | None, longest: int) -> Choice[int]:
    """The period that naive forecasts and scaled errors use."""
    if given is not None:
        return Choice(given, GIVEN)
    season = panel.step.season
    if season > 1 and longest < 2 * season:
        return Choice(1, f"the usual {season} steps of data {panel.step.words()} do not fit twice into {longest} rows")
    return Choice(season, f"usual for data {'in ' if panel.step.unit == 'int' else ''}{panel.step.words()}")


def choose_lookback(panel: Panel, horizon: int, given: int | None, longest: int) -> Choice[int]:
    """Two of the longest seasons that fit or twice the horizon, within what leaves rows for training and checking."""
    if given is not None:
        return Choice(given, GIVEN)
    fitting = [season for season in panel.step.seasons if 12 * season <= longest]
    season = max(fitting, default=1)
    wanted = max(2 * season, 2 * horizon, SHORTEST_USEFUL)
    room = (longest - 3 * horizon) // 2
    if wanted <= min(room, LONGEST_LOOKBACK):
        if wanted == 2 * season:
            return Choice(wanted, f"two seasons of {season} steps")
        why = f"twice the horizon of {horizon}" if wanted == 2 * horizon else "the shortest that is useful"
        return Choice(wanted, why)
    if room >= LONGEST_LOOKBACK:
        return Choice(LONGEST_LOOKBACK, "the longest that is chosen")
    most = max(min(longest - horizon, SHORTEST), 1)
    if room >= most:
        return Choice(room, f"half of what {longest} rows leave beside three horizons of {horizon}")
    return Choice(most, "the shortest that is chosen" if most == SHORTEST else f"what {longest} rows leave for it")


def naive_lookback(season: Choice[int], lookback: Choice[int], horizon: int, longest: int) -> Choice[int]:
    """The look-back of the seasonal naive forecast: a season, where one fits."""
    if lookback.value < season.value <= longest - horizon:
        return Choice(season.value, f"a season of {season.value} steps")
    return lookback


def choose_model(panel: Panel, given: str | None) -> Choice[str]:
    """PatchTST, or iTransformer where there are inputs, which PatchTST has no place for."""
    if given is not None:
        return Choice(given, GIVEN)
    if panel.targets < len(panel.columns):
        return Choice("itransformer", "there are input columns, and it mixes columns")
    return Choice("patchtst", "a strong general choice")


def select_usable(panel: Panel, name: str) -> tuple[Panel, tuple[str, ...]]:
    """Select the columns that a network can use; known inputs that it can't use are refused, others named."""
    claims = models.claims(name)
    if panel.known and not claims.uses_marks:
        known = dict.fromkeys(name_origin(column, panel.layout) for column in panel.known_names)
        raise SettingsError(
            f"{name} has no place for columns known in the future ({', '.join(known)}); "
            "use itransformer, or leave them out."
        )
    inputs = panel.input_names
    if not inputs or claims.mixes_channels:
        return panel, ()
    unused = f"{', '.join(inputs)} {'is' if len(inputs) == 1 else 'are'} not used"
    note = f"{name} forecasts each column from itself alone: {unused}; itransformer would."
    keep = [c for c, column in enumerate(panel.columns) if column not in inputs]
    return panel.select(keep), (note,)


def model_settings(name: str, lookback: int, season: int, samples: int, on_gpu: bool) -> dict[str, Choice[object]]:
    """Those settings of a network that the data decide; `samples`: training windows times channels."""
    if name == "seasonal_naive":
        if season > lookback:
            return {"period": Choice(1, f"a season of {season} steps does not fit a look-back of {lookback}")}
        return {"period": Choice(season, "the season")}
    if name == "dlinear":
        kernel = min(25, max(3, lookback // 2 * 2 - 1))
        return {"kernel": Choice(kernel, "the original's" if kernel == 25 else f"fits a look-back of {lookback}")}
    known = settings_names(name)
    largest = (128, 16) if on_gpu else (64, 8)
    sizes_below = {2_000: (16, 4), 20_000: (32, 4), 200_000: (64, 8)}
    width, heads = next((size for most, size in sizes_below.items() if samples < most), largest)
    reason = f"{samples:,} training windows (times channels){'' if on_gpu else ' on a CPU'}"
    sizes: dict[str, Choice[object]] = {
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


def settings_names(model: str) -> set[str]:
    """The names of a network's settings."""
    return {field.name for field in fields(models.settings_of(model))}


def without_normalising(known: set[str], reason: str) -> dict[str, Choice[object]]:
    """Settings that switch off the normalisation of windows, for networks that have it."""
    if "normalise" not in known:
        return {}
    affine = {"affine": Choice(False, "belongs to the normalisation that is off")} if "affine" in known else {}
    return {"normalise": Choice("none", reason), **affine}


def override(chosen: Choices, given: Mapping[str, object]) -> dict[str, Choice[object]]:
    """Choices replaced by the user's settings; a size that follows another one follows the user's value of it."""
    merged = dict(chosen) | {name: Choice(value, GIVEN) for name, value in given.items()}
    for name, (by, reason, size) in FOLLOWING.items():
        value = given.get(by)
        if name in chosen and name not in given and chosen[name].reason == reason and isinstance(value, Integral):
            merged[name] = Choice(size(int(value)), reason)
    return merged


def training_settings(windows: int, channels: int, validation: int, on_gpu: bool) -> dict[str, Choice[object]]:
    """Settings of training (length, batches, stopping) from the number of training windows."""
    room = 2 ** max(3, min(8, round(math.log2(256 / channels))))
    batch = max(8, min(room, 2 ** math.floor(math.log2(max(8, windows / 8)))))
    steps = -(-windows // batch)
    most = 400 if on_gpu else 60
    patience: Choice[int | None] = Choice(max(5, min(20, 100 // steps)), "epochs without improvement")
    settings: dict[str, Choice[object]] = {
        "batch": Choice(batch, f"{windows:,} training windows of {channels} channel{'s' if channels > 1 else ''}"),
        "learning_rate": Choice(1e-3, "usual for this size"),
        "schedule": Choice("cosine", "falls smoothly to zero"),
        "clip": Choice(1.0, "guards against rare large gradients"),
        "checkpoint_every": Choice(50, "updates; a run that is cut off loses little"),
        "patience": patience if validation else Choice(None, "no rows are held out for early stopping"),
    }
    if steps > most:
        settings["epochs"] = Choice(15, "with early stopping")
        settings["windows_per_epoch"] = Choice(
            most * batch, f"an epoch visits {most} batches of the {windows:,} windows, drawn anew each time"
        )
    else:
        epochs = max(15, min(100, round(900 / max(1, steps))))
        settings["epochs"] = Choice(epochs, f"about {epochs * steps} updates of {steps} batches an epoch")
    return settings


def classifier_settings(name: str, lookback: int) -> dict[str, Choice[object]]:
    """Those settings of a network that cases of `lookback` steps decide."""
    known = settings_names(name)
    chosen = without_normalising(known, "level and spread of a case may tell its class")
    sizes = {"width": 64, "heads": 8, "depth": 3, "feed_forward": 128, "dropout": 0.1}
    chosen |= {key: Choice(value, "enough for cases by the hundred") for key, value in sizes.items() if key in known}
    if "pool" in known:
        chosen["pool"] = Choice("mean", "a class may show anywhere in a case")
    if {"patch", "stride"} <= known:
        patch = min(16, max(2, lookback // 6))
        while lookback // (patch // 2) > LONGEST_TOKENS:
            patch *= 2
        chosen["patch"] = Choice(patch, f"{lookback} steps a case")
        chosen["stride"] = Choice(max(1, patch // 2), HALF)
    return chosen


def classifier_training(learned: int, held: int) -> dict[str, Choice[object]]:
    """Settings of training on `learned` cases, with `held` cases to pick the best epoch by."""
    batch = 16 if learned < 1000 else 64
    steps = -(-learned // batch)
    epochs = max(20, min(100, round(2000 / steps)))
    patience: Choice[int | None] = Choice(max(10, epochs // 4), "epochs without improvement")
    return {
        "optimiser": Choice("adamw", "usual"),
        "learning_rate": Choice(1e-3, "usual for this size"),
        "weight_decay": Choice(1e-2, "few cases are learned by heart otherwise"),
        "batch": Choice(batch, f"{learned:,} cases to train on"),
        "epochs": Choice(epochs, f"about {epochs * steps:,} updates of {steps} batches an epoch"),
        "schedule": Choice("cosine", "falls smoothly to zero"),
        "clip": Choice(1.0, "guards against rare large gradients"),
        "patience": patience if held else Choice(None, "no cases are held out for early stopping"),
    }
