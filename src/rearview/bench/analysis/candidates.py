"""Name what rows compare: network, mechanism, and whatever else differs between runs of the same block.

Settings are published per data set, so they can't be part of a name in general; but what differs between two runs of
one network and mechanism on one data set and horizon must be, or two things would be averaged as one.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache

from rearview.bench.rows.identity import (
    Search,
    mechanism_of,
    parse_column,
    settings_of,
    training_of,
    with_defaults,
)
from rearview.bench.rows.row import Facts, Row, RunRow
from rearview.bench.runs.request import Request, spell
from rearview.core.errors import SettingsError
from rearview.core.wording import align

MOST_SHOWN = 3
"""Differing settings that a name spells out; more are given by their number and a short checksum."""
MOST_SPELLED = 2
"""Settings of the mechanism that a name spells out, but for switches that are off by default; of more settings, all at
their default are left out."""

_MECHANISM = "attention "
_COLUMNS = {"": "attention_settings", "network": "settings", "training": "training"}
"""By what the full name of a tried setting begins with: the column that holds the chosen one."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The name of a row in comparisons: network, mechanism and what else sets it apart."""

    label: str
    """Without the look-back."""
    name: str
    """With the look-back, where runs of this network and mechanism on one block differ in it."""
    dataset: str
    """With a short checksum, where one name stands for several versions of the data."""
    differences: tuple[str, ...]
    """All that sets it apart beside mechanism and look-back, of which its name spells out a few."""


def name_candidates(rows: Sequence[RunRow]) -> list[Candidate]:
    """The candidate that each row belongs to."""
    datasets = _name_datasets(rows)
    facets = [facets_of(row) for row in rows]
    blocks: dict[tuple[object, ...], list[Facts]] = defaultdict(list)
    for row, dataset, facet in zip(rows, datasets, facets, strict=True):
        blocks[_family(row), row.protocol, dataset, getattr(row, "horizon", None)].append(facet)
    shown: dict[object, set[str]] = defaultdict(set)
    for (family, *_), together in blocks.items():
        keys = dict.fromkeys(key for facet in together for key in facet)
        shown[family] |= {key for key in keys if len({repr(facet.get(key)) for facet in together}) > 1}
    return [_name(row, d, f, shown[_family(row)]) for row, d, f in zip(rows, datasets, facets, strict=True)]


def _name_datasets(rows: Sequence[RunRow]) -> list[str]:
    checksums = [str(getattr(row, "values_sha256", None) or getattr(row, "test_sha256", "")) for row in rows]
    versions: dict[str, set[str]] = defaultdict(set)
    for row, checksum in zip(rows, checksums, strict=True):
        versions[row.dataset].add(checksum)
    return [
        f"{row.dataset} ({checksum[:6]})" if len(versions[row.dataset]) > 1 else row.dataset
        for row, checksum in zip(rows, checksums, strict=True)
    ]


def _family(row: RunRow) -> tuple[str, ...]:
    return row.model, row.attention, getattr(row, "adapters", "[]"), _search(row)


def _search(row: RunRow) -> str:
    """The number of settings tried, and the tuner where they were drawn; empty where none were."""
    search = Search.of(row.configuration)
    return search.tuner or (f"best of {search.count}" if search.count else "")


def facets_of(row: RunRow) -> dict[str, object]:
    """Everything that was requested beside data, seed, network and mechanism; what a search chose was not."""
    configuration = row.configuration
    parts = {
        "": settings_of(configuration),
        "training ": training_of(configuration),
        _MECHANISM: mechanism_of(configuration),
    }
    facets = {f"{part}{key}": value for part, settings in parts.items() for key, value in settings.items()}
    facets["searched"] = _spell_space(Search.of(configuration))
    plain = ("lookback", "loss", "calendar", "mode", "stride", "threshold_rule", "balance")
    facets |= {key: getattr(row, key) for key in plain if hasattr(row, key)}
    return facets | ({"loss": _loss(row)} if isinstance(row, Row) else {})


def _spell_space(search: Search) -> str:
    """The values that each setting was chosen from; empty where nothing was searched for."""
    space = search.space or {name: [one[name] for one in search.tried if name in one] for name in search.names}
    words = {
        name: "|".join(dict.fromkeys(map(str, values))) if isinstance(values, list) else values
        for name, values in space.items()
    }
    return ", ".join(f"{name.rpartition('.')[2]} {values}" for name, values in words.items())


def _loss(row: Row) -> Facts:
    """A loss as a part with a name: a row has the name alone, or JSON where there are settings."""
    if not row.loss.startswith('{"'):
        return {"name": row.loss}
    settings = parse_column(row.configuration, "loss")
    return {"name": settings.pop("loss"), **settings}


def _name(row: RunRow, dataset: str, facets: Facts, shown: Collection[str]) -> Candidate:
    differing = {key: value for key, value in facets.items() if key in shown}
    inner = {key.removeprefix(_MECHANISM): value for key, value in differing.items() if key.startswith(_MECHANISM)}
    unusual = _unusual(row.attention, inner)
    if len(inner) > MOST_SPELLED:
        inner = unusual
    else:  # a switch that is off, as it comes, needs no word
        inner = {key: value for key, value in inner.items() if value is not False or key in unusual}
    parts = [row.model]
    if row.attention:
        parts.append(spell({"name": row.attention, **inner}))
    if search := _search(row):
        parts.append(search)
    outer = {key: value for key, value in differing.items() if key != "lookback" and not key.startswith(_MECHANISM)}
    differences = spell_settings(outer)
    label = " + ".join([*parts, *_adapters(row)]) + spell_suffix(differences)
    name = f"{label}, lookback={row.lookback}" if "lookback" in shown else label
    return Candidate(label, name, dataset, differences)


def _adapters(row: RunRow) -> list[str]:
    """The adapters around a row's network, the outermost first."""
    adapters = json.loads(row.adapters) if isinstance(row, Row) else []
    return [spell(each) if isinstance(each, Mapping) else each for each in adapters]


def spell_mechanism(row: RunRow) -> str:
    """A row's mechanism with those of its settings that are neither defaults nor searched for; empty: it has none."""
    if not row.attention:
        return ""
    return spell({"name": row.attention, **_unusual(row.attention, mechanism_of(row.configuration))})


def spell_particulars(row: Row) -> str:
    """What a row has beside network and mechanism: adapters, settings that its protocol would not have by itself, and
    the outcome of a search; empty: nothing."""
    settings = deviations(row)
    in_order = {key: settings[key] for key in sorted(settings, key=lambda key: key != "loss")}
    return ", ".join([*_adapters(row), *_spell_without_training(in_order), *_spell_search(row)])


def deviations(row: Row, presets: str | None = None) -> dict[str, object]:
    """The settings of a row, mechanism and adapters aside, that its protocol would not have by itself with these
    presets (its own unless given)."""
    try:
        run = (row.dataset, row.model, row.lookback, row.horizon, row.attention, row.protocol)
        usual = facets_of(Row.build({**asdict(row), **protocol_defaults(*run, presets)}))
    except SettingsError:
        return {}  # what would be usual is not known any more
    facets = facets_of(row)
    others = {key: value for key, value in facets.items() if not key.startswith(_MECHANISM)}
    settings = {key: value for key, value in others.items() if value != usual.get(key)}
    return settings | ({"calendar": bool(row.calendar)} if "calendar" in settings else {})


def spell_deviations(row: Row, presets: str | None, aside: Collection[str]) -> tuple[str, ...]:
    """The same in words, one by one, some of them left out."""
    return _spell_without_training({key: v for key, v in deviations(row, presets).items() if key not in aside})


@cache
def protocol_defaults(
    dataset: str, model: str, lookback: int, horizon: int, attention: str, protocol: str, presets: str | None
) -> dict[str, str]:
    """The columns of settings that a run has under presets (None: the protocol's) where no settings are given; what is
    not known any more is refused."""
    from rearview.bench.runs.run_spec import resolve

    request = Request(dataset, model, attention or None, lookback, horizon, protocol=protocol, presets=presets)
    columns = resolve(request).columns()
    return {column: str(columns[column]) for column in ("calendar", "settings", "training", "loss")}


def _spell_search(row: Row) -> list[str]:
    """The number of settings tried for a row, and those it has; nothing where none were."""
    search = Search.of(row.configuration)
    if not search.count:
        return []
    tuner = search.tuner.partition(":")[0]
    count = f"best of {search.count} trials by {tuner}" if tuner else f"best of {search.count}"
    if row.status == "failed":
        return [count]
    chosen = {}
    for home, _, name in (full.rpartition(".") for full in search.names):
        value = parse_column(row.configuration, _COLUMNS[home])[name]
        chosen[name] = float(f"{value:.4g}") if isinstance(value, float) else value
    return [f"{count} ({', '.join(spell_settings(chosen))})"]


def _unusual(mechanism: str, settings: Facts) -> dict[str, object]:
    usual = with_defaults(mechanism, {})
    return {key: value for key, value in settings.items() if key not in usual or value != usual[key]}


def spell_settings(settings: Facts) -> tuple[str, ...]:
    """Settings in words, one by one."""
    return tuple(f"{key}={spell(value) if isinstance(value, Mapping) else value}" for key, value in settings.items())


def _spell_without_training(facets: Facts) -> tuple[str, ...]:
    """Facets in words, one by one, without saying which are of the training."""
    return tuple(word.removeprefix("training ") for word in spell_settings(facets))


def spell_suffix(differences: Sequence[str]) -> str:
    """A few differences as they follow a name, the others by their number and a short checksum."""
    if not differences:
        return ""
    shown = list(differences)
    if len(shown) > MOST_SHOWN:
        digest = hashlib.sha256(repr(sorted(shown)).encode()).hexdigest()[:4]
        shown = [*shown[:MOST_SHOWN], f"{len(shown) - MOST_SHOWN} more ({digest})"]
    return ", " + ", ".join(shown)


_SHOWN: dict[str, Callable[[Row], str]] = {
    "dataset": lambda row: row.dataset,
    "model": lambda row: row.model,
    "attention": lambda row: spell_mechanism(row) or "-",
    "with": lambda row: spell_particulars(row) or "-",
    "lookback": lambda row: str(row.lookback),
    "horizon": lambda row: str(row.horizon),
    "seed": lambda row: str(row.seed),
    "mse": lambda row: f"{row.mse:.4f}",
    "mae": lambda row: f"{row.mae:.4f}",
    "windows": lambda row: f"{row.test_windows:,}",
    "seconds": lambda row: f"{row.total_seconds:,.1f}",
}
_WORDS = ("dataset", "model", "attention", "with")


def table(rows: Iterable[Row]) -> list[str]:
    """A line of headings and a line for each row: errors on the standardised scale, test windows, wall time.

    What a row has that its protocol would not have by itself stands under `with`, where any row has something.
    """
    lines = [{name: show(row) for name, show in _SHOWN.items()} for row in rows]
    columns = [name for name in _SHOWN if name != "with" or any(line[name] != "-" for line in lines)]
    numbers = [place for place, name in enumerate(columns) if name not in _WORDS]
    return align([columns, *([line[name] for name in columns] for line in lines)], right=numbers)
