"""Settings per data set as the authors' scripts have them, so that a run without settings is the published model.

Entries of a model apply from top to bottom, later ones on top of earlier ones. The schedules are the clean ones: what
PatchTST's released code does by accident (a first epoch at a twenty-fifth of the rate, a beta1 of 0.95) is left out,
and so is the single epoch of iTransformer's script for Exchange at horizon 336: training ends by validation here.

Sources: the scripts of yuqinie98/PatchTST, thuml/iTransformer and cure-lab/LTSF-Linear on GitHub.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rearview.data.catalogue import Dataset


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings of a network and of its training."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """What holds for some data sets from some horizon on."""

    datasets: tuple[str, ...] = ()
    """Names of the catalogue; none: every data set."""
    horizon: int = 0
    """The smallest horizon it holds for."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)


def preset(model: str, dataset: Dataset, *, lookback: int, horizon: int) -> Preset:
    """The published settings of a model for a data set, or those the field uses most where none are published."""
    if model == "seasonal_naive":
        season = dataset.step.season
        return Preset({"period": season if season <= lookback else 1})
    settings: dict[str, Any] = {}
    training: dict[str, Any] = {}
    for entry in ENTRIES.get(model, (Entry(training=SHORT),)):
        if horizon >= entry.horizon and (not entry.datasets or dataset.name in entry.datasets):
            settings |= entry.settings
            training |= entry.training
    return Preset(settings, training)


SHORT = {
    "optimiser": "adam",
    "learning_rate": 1e-4,
    "batch": 32,
    "epochs": 10,
    "patience": 3,
    "schedule": "type1",
}
"""Ten epochs with the rate halved from the third on: what most of the field's scripts share."""

LONG = {
    "optimiser": "adam",
    "learning_rate": 1e-4,
    "batch": 128,
    "epochs": 100,
    "patience": 20,
    "schedule": "type3",
}
"""PatchTST's hundred epochs."""

_WEATHER = ("Weather", "Weather-repaired")
_NARROW = {"width": 16, "heads": 4, "feed_forward": 128, "dropout": 0.3}

_PATCHTST = (
    Entry(
        settings={
            "width": 128,
            "heads": 16,
            "depth": 3,
            "feed_forward": 256,
            "dropout": 0.2,
            "patch": 16,
            "stride": 8,
        },
        training=LONG,
    ),
    Entry(("ETTh1", "ETTh2"), settings=_NARROW, training={"patience": 100}),
    Entry(("ETTm1", "ETTm2"), training={"schedule": "onecycle", "pct_start": 0.4}),
    Entry(("Electricity",), training={"batch": 32, "patience": 10, "schedule": "onecycle", "pct_start": 0.2}),
    Entry(("Traffic",), training={"batch": 24, "patience": 10, "schedule": "onecycle", "pct_start": 0.2}),
    Entry(
        ("ILI",),
        settings={**_NARROW, "patch": 24, "stride": 2},
        training={"batch": 16, "patience": 100, "schedule": "constant", "learning_rate": 2.5e-3},
    ),
)

_128 = {"width": 128, "feed_forward": 128}
_256 = {"width": 256, "feed_forward": 256}
_512 = {"width": 512, "feed_forward": 512}
_1024 = {"width": 1024, "feed_forward": 1024}
_UNNORMALISED = {"normalise": "none"}

_ITRANSFORMER = (
    Entry(settings={**_128, "depth": 2, "heads": 8, "dropout": 0.1}, training=SHORT),
    Entry(("ETTh1",), settings=_256),
    Entry(("ETTh1",), horizon=336, settings=_512),
    Entry(_WEATHER, settings={**_512, "depth": 3}),
    Entry(("Electricity",), settings={**_512, "depth": 3}, training={"learning_rate": 5e-4, "batch": 16}),
    Entry(("Traffic",), settings={**_512, "depth": 4}, training={"learning_rate": 1e-3, "batch": 16}),
    Entry(("Solar",), settings=_512, training={"learning_rate": 5e-4}),
    Entry(("PEMS03",), settings={**_512, "depth": 4}, training={"learning_rate": 1e-3}),
    Entry(("PEMS04",), settings={**_1024, **_UNNORMALISED, "depth": 4}, training={"learning_rate": 5e-4}),
    Entry(("PEMS07",), settings={**_512, **_UNNORMALISED}, training={"learning_rate": 1e-3}),
    Entry(("PEMS07",), horizon=48, settings={"depth": 4}, training={"batch": 16}),
    Entry(("PEMS08",), settings=_512),
    Entry(
        ("PEMS08",),
        horizon=48,
        settings={**_UNNORMALISED, "depth": 4},
        training={"learning_rate": 1e-3, "batch": 16},
    ),
)

_DLINEAR = (
    Entry(settings={"kernel": 25}, training=SHORT),
    Entry(("ETTh1", "ETTm1"), training={"batch": 8}),
    Entry(("ETTh2", "ILI"), training={"learning_rate": 0.05}),
    Entry(("ETTm2",), training={"learning_rate": 1e-3}),
    Entry(("ETTm2",), horizon=336, training={"learning_rate": 0.01}),
    Entry(("ETTm2",), horizon=720, training={"learning_rate": 0.1}),
    Entry(_WEATHER, training={"batch": 16}),
    Entry(("Electricity",), training={"learning_rate": 1e-3, "batch": 16}),
    Entry(("Traffic",), training={"learning_rate": 0.05, "batch": 16}),
    Entry(("Exchange",), training={"learning_rate": 5e-4, "batch": 8}),
    Entry(("Exchange",), horizon=336, training={"batch": 32}),
    Entry(("Exchange",), horizon=720, training={"learning_rate": 5e-3}),
)

ENTRIES: Mapping[str, tuple[Entry, ...]] = {
    "patchtst": _PATCHTST,
    "itransformer": _ITRANSFORMER,
    "dlinear": _DLINEAR,
}
