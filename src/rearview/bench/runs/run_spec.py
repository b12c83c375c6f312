"""What is asked for, settled before any data is read: every setting of network and training has its value."""

import ast
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch

from rearview import attention as mechanisms
from rearview import models, train
from rearview.attention import Spec
from rearview.bench import protocols
from rearview.bench.presets import preset
from rearview.bench.protocols import Protocol
from rearview.bench.rows.row import as_json
from rearview.core.errors import SettingsError
from rearview.core.settings import settings_from
from rearview.data.datasets import catalogue
from rearview.data.datasets.catalogue import Dataset
from rearview.estimators.options import check_whole
from rearview.models import adapters as around
from rearview.tasks import losses
from rearview.train import parallel

Around = around.Spec | Sequence[around.Spec]
"""One adapter or several, the outermost first."""

_BESIDE_THE_POINT = ("checkpoint_every", "seed")
"""Training settings that a row leaves out: the first changes nothing that comes out, the second is a column."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One run, ready to be made."""

    dataset: Dataset
    model: str
    attention: Spec
    """What the network is built with, its own mechanism where none was asked for; None: it has none."""
    lookback: int
    horizon: int
    protocol: Protocol
    presets: str
    """Whose published settings stand below what the caller gave."""
    seed: int
    loss: losses.Spec
    """What training minimises, with those of its settings that are no defaults."""
    adapters: tuple[around.Spec, ...]
    """What stands around the network, the outermost first."""
    budget: Mapping[str, Any]
    """How settings were chosen, where several were tried."""
    calendar: str | None
    """The step whose calendar features the network gets; None: none."""
    settings: Mapping[str, Any]
    """Every setting of the network."""
    training: train.Settings | None
    """None for a network with nothing to train."""

    def configuration(self, values_sha256: str) -> dict[str, Any]:
        """The columns of a row that say what was asked for."""
        name, settings = ("", {}) if self.attention is None else mechanism(self.attention)
        training = {} if self.training is None else self.training.to_dict()
        if training and parallel.size() > 1:
            training["processes"] = parallel.size()  # `batch` is what each of them holds
        return {
            "dataset": self.dataset.name,
            "values_sha256": values_sha256,
            "protocol": self.protocol.name,
            "lookback": self.lookback,
            "horizon": self.horizon,
            "model": self.model,
            "attention": name,
            "attention_settings": as_json(settings),
            "calendar": self.calendar or "",
            "settings": as_json(self.settings),
            "training": as_json({key: value for key, value in training.items() if key not in _BESIDE_THE_POINT}),
            "seed": self.seed,
            "loss": self.loss if isinstance(self.loss, str) else as_json(in_rows(self.loss)),
            "adapters": as_json(list(self.adapters)),
            "budget": as_json(self.budget),
        }


def ask(
    dataset: str,
    model: str,
    *,
    lookback: int,
    horizon: int,
    attention: Spec,
    seed: int,
    protocol: str,
    settings: Mapping[str, Any] | None,
    training: Mapping[str, Any] | None,
    presets: str | None = None,
    loss: losses.Spec | None = None,
    adapters: Around = (),
    budget: Mapping[str, Any] | None = None,
) -> Asked:
    """The published settings with the protocol's and the caller's on top; what does not exist is refused by name."""
    declared = protocols.get(protocol)
    check_whole("horizon", horizon, "the number of steps to forecast")
    check_whole("lookback", lookback, "the number of steps the network sees")
    if training and "seed" in training:
        raise SettingsError("The seed is no setting of the training alone: it also draws the first weights; use seed=.")
    claims = models.claims(model)
    if training and not claims.trains:
        raise SettingsError(f"{model} has nothing to train; leave out training={dict(training)!r}.")
    found = catalogue.get(dataset)
    source = presets or declared.presets
    published = preset(model, found, lookback=lookback, horizon=horizon, source=source)
    chosen = {**published.settings, **declared.settings.get(model, {}), **(settings or {})}
    calendar = _calendar(found, chosen.pop("calendar", True)) if claims.uses_marks else None
    if adapters and "adapters" in chosen:
        raise SettingsError(f"adapters are given twice, {adapters!r} and among the settings; give them once.")
    trained = {**published.training, **declared.training, **(training or {})}
    standing = around.listed(chosen.pop("adapters", adapters) or ())
    built = settings_from(models.settings_of(model), model, chosen)
    return Asked(
        dataset=found,
        model=model,
        attention=_under(declared, models.attention_of(model, built, attention)),
        lookback=lookback,
        horizon=horizon,
        protocol=declared,
        presets=source,
        seed=seed,
        loss=losses.chosen(declared.loss if loss is None else loss),
        adapters=standing,
        budget=budget or {},
        calendar=calendar,
        settings=asdict(built),
        training=_training(trained, seed) if claims.trains else None,
    )


def known(model: str) -> list[str]:
    """Every setting that can be given for a network: its own, its calendar where it has a place for one, adapters."""
    own = [field.name for field in fields(models.settings_of(model))]
    return [*own, *(["calendar"] if models.claims(model).uses_marks else []), "adapters"]


def _under(protocol: Protocol, attention: Spec) -> Spec:
    """A mechanism with what the protocol says of it below what the caller says."""
    if attention is None or not protocol.attention:
        return attention
    name, given = mechanisms.split(attention)
    return {"name": name, **protocol.attention.get(name, {}), **given}


def in_rows(loss: Mapping[str, Any]) -> dict[str, Any]:
    """A loss with settings as rows have always written it."""
    return {"loss" if key == "name" else key: value for key, value in loss.items()}


def digest(configuration: Mapping[str, Any]) -> str:
    """A short name for a configuration, fit for a file name."""
    return hashlib.sha256(as_json(configuration).encode()).hexdigest()[:16]


def _calendar(dataset: Dataset, wanted: Any) -> str | None:
    if not isinstance(wanted, bool):
        raise SettingsError(f"calendar is {wanted!r}; it must be True or False.")
    return dataset.calendar if wanted else None


def _training(given: Mapping[str, Any], seed: int) -> train.Settings:
    return settings_from(train.Settings, "training", {**given, "seed": seed})


def mechanism(spec: Spec) -> tuple[str, dict[str, Any]]:
    """A mechanism's name and all of its settings, those left at their defaults included."""
    name, given = mechanisms.split(spec)
    with torch.random.fork_rng(devices=[]):  # describing builds a layer, whose weights are drawn
        known = mechanisms.describe(name).settings
    return name, {**{setting.name: _value(setting.default) for setting in known}, **given}


def _value(text: str) -> Any:
    """A default as a value where it is written as one, else as text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
