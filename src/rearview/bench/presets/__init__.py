"""Published settings by data set, as the authors' scripts and tables have them: one YAML file a source.

`official` holds what each network's own authors published, so that a run without settings is the published model.
The other files hold what somebody else prints for it, such as a paper that tests its attention in that network (prime's
table 4), or what a paper prints and its release has not (CAPS); they go on top of the official ones. Entries of a
network apply from top to bottom, later ones on top of earlier ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from rearview.bench.rows.row import Facts
from rearview.core.errors import unknown
from rearview.core.files import freeze, list_yaml, read_yaml
from rearview.data.datasets.catalogue import Dataset

OFFICIAL = "official"


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings of a network and of its training."""

    settings: Facts = field(default_factory=dict)
    training: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PresetRule(Preset):
    """Settings for some data sets from some horizon on."""

    datasets: tuple[str, ...] = ()
    """Names of the catalogue; none: every data set."""
    horizon: int = 0
    """The smallest horizon it holds for."""

    def holds(self, dataset: Dataset, horizon: int) -> bool:
        """Whether it says something about a data set at a horizon."""
        named = dataset.name in self.datasets or dataset.like in self.datasets
        return horizon >= self.horizon and (named or not self.datasets)

    def __str__(self) -> str:
        where = ", ".join(self.datasets) or "every data set"
        since = f" from horizon {self.horizon} on" if self.horizon else ""
        given = {"": self.settings, "training ": self.training}
        parts = [
            head + ", ".join(f"{key}={value}" for key, value in part.items()) for head, part in given.items() if part
        ]
        return f"{where}{since}: {'; '.join(parts)}"


def names() -> list[str]:
    """Every source of presets."""
    return list_yaml(__name__)


def _file(source: str) -> Mapping[str, Any]:
    if source not in names():
        raise unknown("source of presets", source, names())
    read: Mapping[str, Any] = read_yaml(__name__, source)
    return read


def summary(source: str) -> str:
    """Whose settings these are, in a line."""
    return str(_file(source)["_about"])


@cache
def entries(source: str = OFFICIAL) -> Mapping[str, tuple[PresetRule, ...]]:
    """The entries of a source, by network."""
    return {
        model: tuple(PresetRule(**freeze(entry)) for entry in listed)
        for model, listed in _file(source).items()
        if not model.startswith("_")
    }


def lines(source: str) -> list[str]:
    """A source for a person: what it says of each network, in the order in which it applies."""
    lines = [f"{source}: {summary(source)}"]
    if source != OFFICIAL:
        lines.append(f"on top of: {OFFICIAL} (`rearview describe presets:{OFFICIAL}`)")
    for model, own in entries(source).items():
        lines += ["", "any other network:" if model == "any" else f"{model}:", *(f"- {entry}" for entry in own)]
    return lines


def source_of(model: str, source: str) -> str:
    """The source of a network's settings: `source`, or the official one where that does not name the network."""
    return source if model in entries(source) else OFFICIAL


def preset(model: str, dataset: Dataset, *, lookback: int, horizon: int, source: str = OFFICIAL) -> Preset:
    """The published settings of a model for a data set, or those the field uses most where none are published."""
    if model in ("seasonal_naive", "autoets"):
        season = dataset.step.season
        return Preset({"period": season if season <= lookback else 1})
    official = entries().get(model, entries()["any"])
    chosen = official if source == OFFICIAL else (*official, *entries(source).get(model, ()))
    settings: dict[str, object] = {}
    training: dict[str, object] = {}
    for entry in chosen:
        if entry.holds(dataset, horizon):
            settings |= entry.settings
            training |= entry.training
    return Preset(settings, training)
