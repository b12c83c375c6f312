"""When two rows are the same run made twice, and when a run that is asked for has a row already.

What was asked for stands in a row as text, every setting included. Rows outlive versions of the library, so what an
older one does not know of is taken to be today's default; what bears on speed alone makes no other run, nor does what a
search chose among the same candidates.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

from rearview.bench.rows.row import AnyLine, as_json
from rearview.core.errors import InputError, SettingsError

SPEED = ("capture", "compile", "memory", "validation_batch", "checkpoint_every")
"""Settings of the training that say how fast and in how much memory, and change nothing that comes out."""


def identity(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked for, column by column, equal for rows of one run."""
    told = {name: as_json(settled(configuration)) for name, settled in _SETTLED.items() if name in configuration}
    return {**configuration, **told}


def same(rows: Iterable[AnyLine], configuration: Mapping[str, Any]) -> list[AnyLine]:
    """The rows of a run that came to an end; in what the configuration leaves out they may have anything."""
    wanted = identity(configuration)
    plain = {name: value for name, value in configuration.items() if name not in _SETTLED}
    likely = (row for row in rows if all(getattr(row, name) == value for name, value in plain.items()))
    done = (row for row in likely if getattr(row, "status", "done") == "done")
    return [row for row in done if wanted.items() <= identity(row.configuration).items()]


def parsed(configuration: Mapping[str, Any], column: str, default: str = "{}") -> Any:
    """A column that holds JSON, read; what is none is refused with its row."""
    words = configuration.get(column, default)
    try:
        return json.loads(words)
    except ValueError:
        who = configuration.get("model", configuration.get("arm"))
        where = configuration.get("dataset", configuration.get("study"))
        raise InputError(
            f"A row of {who} on {where}, seed {configuration.get('seed')}, has {words!r} as its {column}, which is no "
            "JSON; rows are never edited: put it back as it was, or take the row out."
        ) from None


def searched(configuration: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The settings that were tried, one by one; empty where nothing was searched for."""
    found: list[Mapping[str, Any]] = parsed(configuration, "budget").get("candidates", [])
    return found


def budget_of(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """What was granted for the search of settings; what was drawn is an outcome."""
    found: dict[str, Any] = parsed(configuration, "budget")
    return {key: value for key, value in found.items() if "tuner" not in found or key not in ("candidates", "losses")}


def training_of(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """The training as far as it bears on the outcome, without what was searched for; empty for a model that does not
    train."""
    given = parsed(configuration, "training")
    aside = {*SPEED, *_tried(configuration, "training.")}
    return {key: value for key, value in {**_training(), **given}.items() if key not in aside} if given else {}


def settings_of(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting of the network but those that were searched for."""
    found = {**_network(configuration.get("model", "")), **parsed(configuration, "settings")}
    tried = _tried(configuration, "network.")
    return {key: value for key, value in found.items() if key not in tried}


def mechanism_of(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting of the mechanism but those that were searched for, of which a run has the best."""
    tried = _tried(configuration, "")
    found = with_defaults(configuration.get("attention", ""), parsed(configuration, "attention_settings"))
    return {key: value for key, value in found.items() if key not in tried}


def loss_of(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """The loss with every setting, however much of it was written."""
    from rearview.tasks import losses

    words = str(configuration["loss"])
    given = parsed(configuration, "loss") if words.startswith("{") else {"loss": words}
    try:
        name, settings = losses.settle(given)
    except SettingsError:
        return given  # of a shelf that is not here
    return {"loss": name, **{key: float(value) for key, value in asdict(settings).items()}}


def _tried(configuration: Mapping[str, Any], prefix: str) -> set[str]:
    """The settings searched for whose full names begin so, under their short names."""
    named = budget_of(configuration).get("space", ())
    names = {*named, *(name for candidate in searched(configuration) for name in candidate)}
    return {name.removeprefix(prefix) for name in names if name.startswith(prefix)}


def with_defaults(mechanism: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a mechanism with those left out, as JSON reads them back."""
    found: dict[str, Any] = json.loads(as_json({**_mechanism(mechanism), **given}))
    return found


# Defaults are read off the classes themselves, which needs torch; rows are listed without.


@cache
def _training() -> Mapping[str, Any]:
    from rearview.train import Settings

    return {key: value for key, value in Settings().to_dict().items() if key != "seed"}


@cache
def _network(name: str) -> Mapping[str, Any]:
    from rearview import models

    try:
        return asdict(models.settings_of(name)())
    except SettingsError:
        return {}  # of a shelf that is not here: what was written is all that is known


@cache
def _mechanism(name: str) -> Mapping[str, Any]:
    from rearview.bench.runs.run_spec import mechanism

    try:
        return mechanism(name)[1] if name else {}
    except SettingsError:
        return {}


_SETTLED: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "training": training_of,
    "settings": settings_of,
    "attention_settings": mechanism_of,
    "budget": budget_of,
    "loss": loss_of,
}
"""The columns in which rows of one run may differ as text, and what of them makes another run."""
