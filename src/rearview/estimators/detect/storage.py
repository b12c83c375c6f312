"""A fitted detector on disk: one network, or a portfolio with its members and what is usual for each."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rearview.core.model_folder import DETECTOR, DamagedModel, strip_prefix
from rearview.estimators.base import resolve_device
from rearview.estimators.detect.calibration import Calibration, Usual
from rearview.estimators.detect.fit import Fitted
from rearview.estimators.detect.portfolio.drift import Drift
from rearview.estimators.detect.portfolio.members import Member, Shapes
from rearview.estimators.detect.portfolio.patches import average_errors
from rearview.estimators.detect.portfolio.portfolio import KINDS, Portfolio, Reference, Standing, find_shapes
from rearview.estimators.detect.portfolio.ranks import LEVELS, Ranks
from rearview.estimators.detect.portfolio.trust import Weights
from rearview.estimators.detect.spec import DetectSpec
from rearview.estimators.detect.stream import Stream, Tail
from rearview.estimators.storage import Facts, Stored, describe_network, load_model, to_tensors
from rearview.tasks.plan import Plan

_PLAIN = ("name", "ids", "columns", "step", "notes", "windows")


def save(folder: Path, fitted: Fitted | Portfolio, reading: Facts, stream: Stream) -> None:
    """Write a fitted detector, how its tables are read, and the last rows that it was given."""
    network = fitted if isinstance(fitted, Fitted) else fitted.network
    facts, tensors = _describe(network)
    if isinstance(fitted, Portfolio):
        facts["portfolio"], own = _describe_portfolio(fitted)
        tensors |= own
    for place, tail in stream.tails.items():
        stamps = tail.stamps.astype("datetime64[us]" if tail.stamps.dtype.kind == "M" else np.int64)
        arrays = {"cells": tail.cells, "stamps": stamps.view(np.int64), "scores": tail.scores}
        tensors |= to_tensors({f"stream.{place}.{name}": array for name, array in arrays.items()})
    facts["stream"] = {str(place): tail.stamps.dtype.kind == "M" for place, tail in stream.tails.items()}
    DETECTOR.save(folder, {**facts, "reading": reading}, tensors)


def load(folder: Path, device: str | None = None) -> tuple[Fitted | Portfolio, Facts, Stream]:
    """Load what `save` wrote, on another device if one is named; a missing, damaged or newer model is refused."""
    return load_model(DETECTOR, folder, device, _read)


def _describe(fitted: Fitted) -> tuple[Facts, dict[str, Tensor]]:
    calibration = fitted.calibration
    arrays = {
        "mean": fitted.mean,
        "std": fitted.std,
        "usual": calibration.usual.known,
        "usual_elsewhere": calibration.usual.elsewhere,
        "thresholds": calibration.thresholds,
        "constant": fitted.constant,
    }
    facts, tensors = describe_network(fitted, arrays)
    own = {
        **{name: getattr(fitted, name) for name in _PLAIN},
        "threshold_elsewhere": calibration.threshold_elsewhere,
        "drawn": calibration.drawn,
    }
    return {**facts, **own}, tensors


def _describe_portfolio(fitted: Portfolio) -> tuple[Facts, dict[str, Tensor]]:
    facts: Facts = {
        "request": fitted.spec.to_dict(),
        "plan": fitted.plan.to_dict(),
        "window": fitted.window,
        "averaged": fitted.averaged,
        "members": {name: len(fits) for name, fits in fitted.members.items() if KINDS[name] is not Shapes},
        "levels_elsewhere": {name: one.level_elsewhere for name, one in fitted.references.items()},
        "rooted": [name for name, one in fitted.references.items() if one.rooted],
        "threshold_elsewhere": fitted.calibration.threshold_elsewhere,
        "ceiling_elsewhere": fitted.drift.ceiling_elsewhere,
        "rank_scales": {name: one.scale for name, one in _list_ranks(fitted).items()},
        "drawn": fitted.calibration.drawn,
        "standings": [asdict(standing) for standing in fitted.standings],
        "notes": fitted.notes,
    }
    tensors: dict[str, Tensor] = {}
    for name in facts["members"]:
        for group, fit in enumerate(fitted.members[name]):
            tensors |= fit.tensors(f"member.{name}.{group}.")
    for name, one in fitted.references.items():
        arrays = {"usual": one.usual.known, "usual_elsewhere": one.usual.elsewhere, "levels": one.levels}
        tensors |= to_tensors({f"reference.{name}.{key}": array for key, array in arrays.items()})
    for name, ranks in _list_ranks(fitted).items():
        tensors |= to_tensors({f"ranks.{name}.known": ranks.known, f"ranks.{name}.elsewhere": ranks.elsewhere})
    shared: dict[str, NDArray[Any]] = {
        "portfolio.shrink": fitted.shrink,
        "portfolio.groups": fitted.groups,
        "portfolio.thresholds": fitted.calibration.thresholds,
        "portfolio.weights": fitted.weights.known,
        "portfolio.weights_elsewhere": fitted.weights.elsewhere,
        "portfolio.ceilings": fitted.drift.ceilings,
    }
    return facts, tensors | to_tensors(shared)


def _list_ranks(fitted: Portfolio) -> dict[str, Ranks]:
    """The ranks of members, by name, and of their mean."""
    ranks = {**{name: one.ranks for name, one in fitted.references.items()}, fitted.name: fitted.ranks}
    return {name: one for name, one in ranks.items() if one is not None}


def _read(stored: Stored) -> tuple[Fitted | Portfolio, Facts, Stream]:
    facts = stored.facts
    network = _read_network(stored)
    fitted = _read_portfolio(stored, network) if "portfolio" in facts else network
    tails = {}
    for place, dated in facts.get("stream", {}).items():  # detectors saved earlier had none
        stamps = stored.array(f"stream.{place}.stamps", "i")
        cells = stored.shaped(f"stream.{place}.cells", len(stamps), len(network.columns))
        name = f"stream.{place}.scores"
        scores = stored.array(name, "f") if name in stored.tensors else np.zeros(0)  # saved earlier: none
        tails[int(place)] = Tail(cells, stamps.view("datetime64[us]") if dated else stamps, scores)
    return fitted, facts["reading"], Stream(tails)


def _read_network(stored: Stored) -> Fitted:
    facts = stored.facts
    series, columns = len(facts["ids"]), len(facts["columns"])
    spec = DetectSpec(**facts["request"])
    return Fitted(
        spec=spec,
        network=stored.network(facts["name"], spec),
        constant=stored.shaped("constant", series, columns, kinds="b") if "constant" in stored.tensors else None,
        calibration=Calibration(
            usual=_read_usual(stored, "", series, columns),
            thresholds=stored.shaped("thresholds", series),
            threshold_elsewhere=float(facts["threshold_elsewhere"]),
            drawn=str(facts["drawn"]),
        ),
        **stored.fields(_PLAIN),
        **stored.scale(series, columns),
    )


def _read_usual(stored: Stored, prefix: str, series: int, columns: int) -> Usual:
    known = stored.positive(f"{prefix}usual", series, columns)
    return Usual(known, stored.positive(f"{prefix}usual_elsewhere", columns))


def _read_portfolio(stored: Stored, network: Fitted) -> Portfolio:
    facts: Facts = stored.facts["portfolio"]
    series, columns = len(network.ids), len(network.columns)
    device = resolve_device(network.spec.device)
    members: dict[str, tuple[Member, ...]] = {
        name: tuple(
            KINDS[name].from_tensors(strip_prefix(f"member.{name}.{group}.", stored.tensors)).to(device)
            for group in range(number)
        )
        for name, number in facts["members"].items()
    }
    window, largest = int(facts["window"]), max(one.numel() for one in stored.tensors.values())
    if not 0 < window * columns <= largest:
        raise DamagedModel(f"its windows are of {window} rows, and nothing in it is that large")
    if "shapes" in facts["levels_elsewhere"]:
        members["shapes"] = find_shapes(members, window)
    groups = stored.shaped("portfolio.groups", series, kinds="i")
    trial = torch.zeros(window, columns, device=device)
    for name, fits in members.items():
        if groups.min() < 0 or groups.max() >= len(fits):
            raise DamagedModel(f"its series are of {int(groups.max()) + 1} groups, and {name} knows {len(fits)}")
        for fit in fits:  # one that does not fit the windows is found out now, not by somebody's rows
            average_errors(trial, len(trial), fit.errors, centred=fit.centred)

    def rank(name: str) -> Ranks | None:
        scale = facts.get("rank_scales", {}).get(name)  # detectors saved earlier compare what is not ranked
        if scale is None:
            return None
        if not scale > 0:
            raise DamagedModel(f"the scale of the ranks of {name} is not above 0")
        levels = len(LEVELS)
        known = stored.shaped(f"ranks.{name}.known", series, levels)
        return Ranks(known, stored.shaped(f"ranks.{name}.elsewhere", levels), float(scale))

    def refer(name: str, level: float) -> Reference:
        prefix = f"reference.{name}."
        rooted, usual = name in facts.get("rooted", ()), _read_usual(stored, prefix, series, columns)
        return Reference(usual, stored.shaped(f"{prefix}levels", series), float(level), rooted, rank(name))

    number = len(facts["levels_elsewhere"])
    weights = Weights.equal(series, number)  # those of detectors saved earlier
    if "portfolio.weights" in stored.tensors:
        weights = Weights(
            stored.shaped("portfolio.weights", series, number), stored.shaped("portfolio.weights_elsewhere", number)
        )
    drift = Drift.none(series)  # that of detectors saved earlier
    if "portfolio.ceilings" in stored.tensors:
        drift = Drift(stored.shaped("portfolio.ceilings", series), float(facts["ceiling_elsewhere"]))
    return Portfolio(
        spec=DetectSpec(**{**facts["request"], "device": network.spec.device}),
        plan=Plan.from_dict(facts["plan"]),
        network=network,
        members=members,
        shrink=stored.shaped("portfolio.shrink", series, columns).astype(np.float32),
        groups=groups,
        window=window,
        averaged=int(facts["averaged" if "averaged" in facts else "window"]),  # saved earlier: as long as a window
        references={name: refer(name, level) for name, level in facts["levels_elsewhere"].items()},
        weights=weights,
        ranks=rank(Portfolio.name),
        drift=drift,
        calibration=Calibration(
            usual=Usual.ones(series, columns),
            thresholds=stored.shaped("portfolio.thresholds", series),
            threshold_elsewhere=float(facts["threshold_elsewhere"]),
            drawn=str(facts["drawn"]),
        ),
        standings=tuple(Standing(**standing) for standing in facts["standings"]),
        notes=tuple(facts["notes"]),
    )
