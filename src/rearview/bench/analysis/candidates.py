"""Names for what rows compare: network, mechanism, and whatever else differs between runs of the same block.

Settings are published per data set, so they can't be part of a name in general; but what differs between two runs of
one network and mechanism on one data set and horizon must be, or two things would be averaged as one.
"""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from rearview.bench.papers.catalogue import spoken
from rearview.bench.rows.identity import (
    budget_of,
    mechanism_of,
    parsed,
    searched,
    settings_of,
    training_of,
    with_defaults,
)
from rearview.bench.rows.row import Row
from rearview.core.errors import SettingsError

MOST_SHOWN = 3
"""Differing settings that a name spells out; more are told by their number and a short checksum."""
MOST_SPELLED = 2
"""Settings of the mechanism that a name always spells out; of more, those at their default are left out."""

_COLUMNS_OF = {"": "attention_settings", "network": "settings", "training": "training"}
"""By what the full name of a setting tried begins with: the column that holds the one chosen."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a row stands for."""

    label: str
    """Without the look-back."""
    name: str
    """With the look-back, where runs of this network and mechanism on one block differ in it."""
    dataset: str
    """With a short checksum, where one name stands for several versions of the data."""
    differences: tuple[str, ...]
    """All that sets it apart beside mechanism and look-back, of which its name spells out a few."""


def candidates(rows: Sequence[Any]) -> list[Candidate]:
    """What each row stands for."""
    datasets = _datasets(rows)
    facets = [facets_of(row) for row in rows]
    shown: dict[Any, set[str]] = defaultdict(set)
    for (family, *_), places in _gathered(rows, datasets).items():
        found = [facets[place] for place in places]
        keys = dict.fromkeys(key for facet in found for key in facet)
        shown[family] |= {key for key in keys if len({repr(facet.get(key)) for facet in found}) > 1}
    return [_named(row, d, f, shown[_family(row)]) for row, d, f in zip(rows, datasets, facets, strict=True)]


def _datasets(rows: Sequence[Any]) -> list[str]:
    prints = [str(getattr(row, "values_sha256", None) or getattr(row, "test_sha256", "")) for row in rows]
    versions: dict[str, set[str]] = defaultdict(set)
    for row, print_ in zip(rows, prints, strict=True):
        versions[row.dataset].add(print_)
    return [
        f"{row.dataset} ({print_[:6]})" if len(versions[row.dataset]) > 1 else row.dataset
        for row, print_ in zip(rows, prints, strict=True)
    ]


def _family(row: Any) -> tuple[str, ...]:
    return row.model, row.attention, getattr(row, "adapters", "[]"), _search(row)


def _search(row: Any) -> str:
    """How many settings were tried, and by whom where they were drawn; empty where none were."""
    return str(budget_of(row.configuration).get("tuner", "")) or (
        f"best of {count}" if (count := len(searched(row.configuration))) else ""
    )


def _gathered(rows: Sequence[Any], datasets: Sequence[str]) -> dict[tuple[Any, ...], list[int]]:
    """Places of the rows of one family on one block under one protocol."""
    found: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        found[_family(row), row.protocol, datasets[place], getattr(row, "horizon", None)].append(place)
    return found


def facets_of(row: Any) -> dict[str, Any]:
    """Everything that was asked for beside data, seed, network and mechanism; what was searched for is not asked."""
    asked = row.configuration
    parts = {"": settings_of(asked), "training ": training_of(asked), "attention ": mechanism_of(asked)}
    facets = {f"{part}{key}": value for part, settings in parts.items() for key, value in settings.items()}
    facets["searched"] = _searched_space(asked)
    plain = ("lookback", "loss", "calendar", "mode", "stride", "threshold_rule", "balance")
    facets |= {key: getattr(row, key) for key in plain if hasattr(row, key)}
    return facets | ({"loss": _loss(row)} if "loss" in facets else {})


def _searched_space(asked: Mapping[str, Any]) -> str:
    """What each setting was chosen from; empty where nothing was searched for."""
    space: dict[str, Any] = dict(budget_of(asked).get("space", {}))
    for candidate in () if space else searched(asked):
        for name, value in candidate.items():
            space.setdefault(name, []).append(value)
    words = {name: values if isinstance(values, str) else _distinct(values) for name, values in space.items()}
    return ", ".join(f"{name.rpartition('.')[2]} {values}" for name, values in words.items())


def _distinct(values: Sequence[Any]) -> str:
    return "|".join(dict.fromkeys(map(str, values)))


def _loss(row: Any) -> dict[str, Any]:
    """A loss as a part with a name: a row has the name alone, or JSON where there are settings."""
    if not row.loss.startswith('{"'):
        return {"name": row.loss}
    found = parsed(row.configuration, "loss")
    return {"name": found.pop("loss"), **found}


def _named(row: Any, dataset: str, facets: Mapping[str, Any], shown: set[str]) -> Candidate:
    inner = {key.removeprefix("attention "): facets[key] for key in facets if key in shown and key[:10] == "attention "}
    if len(inner) > MOST_SPELLED:
        inner = _unusual(row.attention, inner)
    parts = [row.model]
    if row.attention:
        parts.append(spoken({"name": row.attention, **inner}))
    if search := _search(row):
        parts.append(search)
    label = " + ".join([*parts, *_around(row)])
    outer = {key: facets[key] for key in facets if key in shown and key != "lookback" and key[:10] != "attention "}
    differences = told(outer)
    label += suffix(differences)
    name = f"{label}, lookback={row.lookback}" if "lookback" in shown else label
    return Candidate(label, name, dataset, differences)


def _around(row: Any) -> list[str]:
    """The adapters around a row's network, the outermost first."""
    found = parsed(row.configuration, "adapters", "[]")
    return [spoken(each) if isinstance(each, Mapping) else each for each in found]


def in_short(row: Any) -> str:
    """A row's mechanism with those of its settings that are no defaults and were not searched for; empty for a network
    without."""
    if not row.attention:
        return ""
    return spoken({"name": row.attention, **_unusual(row.attention, mechanism_of(row.configuration))})


def particulars(row: Row) -> str:
    """What a row has beside network and mechanism: adapters, whatever its protocol would not have by itself, and the
    outcome of a search; empty: nothing."""
    found = unlike(row)
    named = {key: found[key] for key in sorted(found, key=lambda key: key != "loss")}
    return ", ".join([*_around(row), *shortly(named), *_outcome(row)])


def unlike(row: Row, presets: str | None = None) -> dict[str, Any]:
    """What of a row, mechanism and adapters aside, its protocol would not have by itself with these presets (its own
    unless given)."""
    facets, usual = facets_of(row), facets_of(_as_usual(row, presets))
    found = {key: value for key, value in facets.items() if key[:10] != "attention " and value != usual.get(key)}
    return found | ({"calendar": bool(row.calendar)} if "calendar" in found else {})


def _as_usual(row: Row, presets: str | None) -> Row:
    """The row as its protocol has it where no settings are given; as it is where that is not known any more."""
    try:
        run = (row.dataset, row.model, row.lookback, row.horizon, row.attention, row.protocol)
        return replace(row, **usual(*run, presets))
    except SettingsError:
        return row


@cache
def usual(
    dataset: str, model: str, lookback: int, horizon: int, attention: str, protocol: str, presets: str | None
) -> dict[str, Any]:
    """The columns of settings that a run has under presets (None: the protocol's) where no settings are given; what is
    not known any more is refused."""
    from rearview.bench.runs.run_spec import ask

    asked = ask(
        dataset,
        model,
        lookback=lookback,
        horizon=horizon,
        attention=attention or None,
        seed=0,
        protocol=protocol,
        settings=None,
        training=None,
        presets=presets,
    )
    settled = asked.configuration("")
    return {column: settled[column] for column in ("calendar", "settings", "training", "loss")}


def _outcome(row: Row) -> list[str]:
    """How many settings were tried for a row, and which of them it has; nothing where none were."""
    budget, tried = budget_of(row.configuration), searched(row.configuration)
    tuner, _, trials = str(budget.get("tuner", "")).partition(":")
    if not tuner and not tried:
        return []
    count = f"best of {trials} trials by {tuner}" if tuner else f"best of {len(tried)}"
    if row.status == "failed":
        return [count]
    names = dict.fromkeys([*budget.get("space", ()), *(name for candidate in tried for name in candidate)])
    chosen = {}
    for home, _, name in (full.rpartition(".") for full in names):
        chosen[name] = _rounded(parsed(row.configuration, _COLUMNS_OF[home])[name])
    return [f"{count} ({', '.join(told(chosen))})"]


def _rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _unusual(mechanism: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    usual = with_defaults(mechanism, {})
    return {key: value for key, value in settings.items() if key not in usual or value != usual[key]}


def told(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Settings in words, one by one."""
    return tuple(f"{key}={spoken(value) if isinstance(value, Mapping) else value}" for key, value in settings.items())


def shortly(facets: Mapping[str, Any]) -> tuple[str, ...]:
    """Facets in words, one by one, without saying of which of them the training is."""
    return tuple(word.removeprefix("training ") for word in told(facets))


def suffix(differences: Sequence[str]) -> str:
    """A few differences as they follow a name, the others by their number and a short checksum."""
    if not differences:
        return ""
    shown = list(differences)
    if len(shown) > MOST_SHOWN:
        digest = hashlib.sha256(repr(sorted(shown)).encode()).hexdigest()[:4]
        shown = [*shown[:MOST_SHOWN], f"{len(shown) - MOST_SHOWN} more ({digest})"]
    return ", " + ", ".join(shown)
