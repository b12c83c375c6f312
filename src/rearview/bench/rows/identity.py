"""When two rows are the same run made twice, and when a requested run has a row already.

What was requested stands in a row as text, every setting included. Rows outlive versions of the library, so a setting
that an older one lacks is taken to be today's default; what bears on speed alone makes no other run, nor does what a
search chose among the same candidates.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from rearview.bench.rows.row import AnyRow, Facts, as_json
from rearview.core.errors import InputError, SettingsError
from rearview.core.settings import with_floats

_Part = tuple[type[Any] | None, Facts]
"""The settings class of a part and its defaults; no class for a part of a shelf that is not here."""
SPEED = ("capture", "compile", "memory", "validation_batch", "checkpoint_every")
"""Training settings that bear on speed and memory alone and change no outcome."""


def identity(configuration: Facts) -> dict[str, object]:
    """The configuration, column by column, equal for rows of one run."""
    complete = {name: as_json(read(configuration)) for name, read in _COMPLETE.items() if name in configuration}
    return {**configuration, **complete}


def key_without(configuration: Facts, aside: Collection[str] = ()) -> tuple[object, ...]:
    """The same as a key to group rows by, with some columns left out."""
    return tuple(value for name, value in identity(configuration).items() if name not in aside)


def find_same(rows: Iterable[AnyRow], configuration: Facts) -> list[AnyRow]:
    """The finished rows of a run; in columns that the configuration leaves out they may have anything."""
    wanted = identity(configuration)
    plain = {name: value for name, value in configuration.items() if name not in _COMPLETE}
    likely = (row for row in rows if all(getattr(row, name) == value for name, value in plain.items()))
    done = (row for row in likely if getattr(row, "status", "done") == "done")
    return [row for row in done if wanted.items() <= identity(row.configuration).items()]


def parse_column(configuration: Facts, column: str) -> dict[str, object]:
    """Read a column that holds a JSON object; one that does not is refused with its row."""
    text = str(configuration.get(column, "{}"))
    try:
        value: dict[str, object] = json.loads(text)
    except ValueError:
        who = configuration.get("model", configuration.get("arm"))
        where = configuration.get("dataset", configuration.get("study"))
        raise InputError(
            f"A row of {who} on {where}, seed {configuration.get('seed')}, has {text!r} as its {column}, which is no "
            "JSON; rows are never edited: put it back as it was, or take the row out."
        ) from None
    return value


@dataclass(frozen=True, slots=True)
class Search:
    """The search for settings that a run was made with; nothing is in it where none was made."""

    requested: dict[str, object]
    """The search as requested, without its outcome, the settings that were drawn."""
    tried: list[Facts]
    """The settings that were tried, one by one, listed or drawn."""

    @classmethod
    def of(cls, configuration: Facts) -> "Search":
        """As a row states it."""
        budget = parse_column(configuration, "budget")
        tried = budget.get("candidates", [])
        assert isinstance(tried, list)
        outcomes = ("candidates", "losses") if "tuner" in budget else ()
        return cls({key: value for key, value in budget.items() if key not in outcomes}, tried)

    @property
    def tuner(self) -> str:
        """Who drew the settings, and how often (optuna:20); empty where they were listed."""
        return str(self.requested.get("tuner", ""))

    @property
    def count(self) -> int:
        """The number of settings it may try: those that are listed, or its draws."""
        tuner, _, trials = self.tuner.partition(":")
        return int(trials) if tuner else len(self.tried)

    @property
    def space(self) -> dict[str, object]:
        """By full name: what a setting was drawn from; empty where none were drawn."""
        space = self.requested.get("space", {})
        assert isinstance(space, dict)
        return space

    @property
    def names(self) -> list[str]:
        """The full names of the settings searched for."""
        return list(dict.fromkeys([*self.space, *(name for one in self.tried for name in one)]))

    def without(self, settings: Facts, prefix: str) -> dict[str, object]:
        """Settings but those searched for, whose full names begin so."""
        searched = self.names
        return {key: value for key, value in settings.items() if f"{prefix}{key}" not in searched}


def training_of(configuration: Facts) -> dict[str, object]:
    """The training settings that bear on the outcome, those searched for aside; empty for a model that does not
    train."""
    given = parse_column(configuration, "training")
    settings = {key: value for key, value in _complete(_training(), given).items() if key not in SPEED} if given else {}
    return Search.of(configuration).without(settings, "training.")


def settings_of(configuration: Facts) -> dict[str, object]:
    """Every setting of the network but those searched for."""
    settings = _complete(_network(str(configuration.get("model", ""))), parse_column(configuration, "settings"))
    return Search.of(configuration).without(settings, "network.")


def mechanism_of(configuration: Facts) -> dict[str, object]:
    """Every setting of the mechanism but those searched for, of which a run has the best."""
    given = parse_column(configuration, "attention_settings")
    return Search.of(configuration).without(with_defaults(str(configuration.get("attention", "")), given), "")


def loss_of(configuration: Facts) -> dict[str, object]:
    """The loss with every setting, however much of it was written."""
    from rearview.tasks import losses

    text = str(configuration["loss"])
    given: dict[str, object] = parse_column(configuration, "loss") if text.startswith("{") else {"loss": text}
    try:
        name, settings = losses.resolve(given)
    except SettingsError:
        return given  # of a shelf that is not here
    return {"loss": name, **{key: float(value) for key, value in asdict(settings).items()}}


def with_defaults(mechanism: str, given: Facts) -> dict[str, object]:
    """The settings of a mechanism completed by its defaults, as JSON reads them back."""
    settings: dict[str, object] = json.loads(as_json(_complete(_mechanism(mechanism), given)))
    return settings


# Defaults are read off the classes themselves, which needs torch; rows are listed without.


@cache
def _training() -> _Part:
    from rearview.train import Settings

    return Settings, {key: value for key, value in Settings().to_dict().items() if key != "seed"}


@cache
def _network(name: str) -> _Part:
    from rearview import models

    try:
        settings = models.settings_of(name)
    except SettingsError:
        return None, {}  # of a shelf that is not here: what was written is all that is known
    return settings, asdict(settings())


@cache
def _mechanism(name: str) -> _Part:
    from rearview import attention
    from rearview.bench.runs.run_spec import complete_mechanism

    if not name:
        return None, {}
    try:
        return attention.settings_of(name), complete_mechanism(name)[1]
    except SettingsError:
        return None, {}


def _complete(part: _Part, given: Facts) -> dict[str, object]:
    """What was given beside the defaults, a number written as 1 and one written as 1.0 alike."""
    settings, defaults = part
    return {**defaults, **(given if settings is None else with_floats(settings, given))}


_COMPLETE: Mapping[str, Callable[[Facts], dict[str, object]]] = {
    "training": training_of,
    "settings": settings_of,
    "attention_settings": mechanism_of,
    "budget": lambda configuration: Search.of(configuration).requested,
    "loss": loss_of,
}
"""The columns in which rows of one run may differ as text, and what of them makes another run."""
