"""A fitted classifier on disk: one network, or a portfolio with its blocks of features, members and vote."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rearview.core.errors import InputError
from rearview.core.model_folder import CLASSIFIER, DamagedModel, strip_prefix
from rearview.data.cases.case_set import Cases, Labels
from rearview.data.cases.padding import ChannelScaler
from rearview.data.panel import Finding
from rearview.estimators.base import resolve_device
from rearview.estimators.classify.fit import Fitted
from rearview.estimators.classify.portfolio.blocks import load_block
from rearview.estimators.classify.portfolio.forest import load_forest
from rearview.estimators.classify.portfolio.members import Linear, Member, Neighbours, Networks, Trees
from rearview.estimators.classify.portfolio.portfolio import Portfolio, Standing
from rearview.estimators.classify.portfolio.ridge import Ridge
from rearview.estimators.classify.portfolio.vote import Vote
from rearview.estimators.classify.spec import ClassifySpec
from rearview.estimators.storage import Facts, Stored, describe_network, load_model
from rearview.models.features.rocket import SHORTEST
from rearview.tasks.plan import Plan

_SIMPLE = "biufU"
"""Kinds of numpy arrays that JSON holds without loss: truth values, numbers, text."""


def save(folder: Path, fitted: Fitted | Portfolio, reading: Facts) -> None:
    """Write a fitted classifier and how its tables are read."""
    classes, kind = fitted.classes.tolist(), fitted.classes.dtype
    if kind.kind not in _SIMPLE and not all(isinstance(value, str) for value in classes):
        raise InputError(
            f"The classes are of the kind {kind}, which can't be saved; train with text or numbers as classes."
        )
    stored = {"dtype": kind.str, "values": classes}
    facts = {"classes": stored, "cases": fitted.cases, "columns": fitted.columns, "reading": reading}
    if isinstance(fitted, Fitted):
        shared, tensors = describe_network(fitted, _scale(fitted.scaler))
        CLASSIFIER.save(folder, {**shared, **facts}, tensors)
        return
    members, tensors = _describe_members(fitted)
    own: Facts = {
        "request": fitted.spec.to_dict(),
        "plan": fitted.plan.to_dict(),
        "findings": [asdict(finding) for finding in fitted.findings],
        "portfolio": {
            "steps": fitted.steps,
            "blocks": list(fitted.blocks),
            "members": members,
            "standings": [asdict(standing) for standing in fitted.standings],
        },
    }
    tensors |= {name: torch.from_numpy(array) for name, array in _scale(fitted.scaler).items()}
    CLASSIFIER.save(folder, {**own, **facts}, tensors)


def load(folder: Path, device: str | None = None) -> tuple[Fitted | Portfolio, Facts]:
    """Load what `save` wrote, on another device if one is named; a missing, damaged or newer model is refused."""
    return load_model(CLASSIFIER, folder, device, _read)


def _read(stored: Stored) -> tuple[Fitted | Portfolio, Facts]:
    facts = stored.facts
    classes = np.array(facts["classes"]["values"], dtype=facts["classes"]["dtype"])
    columns = tuple(facts.get("columns", ()))  # classifiers saved earlier had none
    read = _read_portfolio if "portfolio" in facts else _read_network
    return read(stored, classes, columns), facts["reading"]


def _read_network(stored: Stored, classes: Labels, columns: tuple[str, ...]) -> Fitted:
    spec = ClassifySpec(**stored.facts["request"])
    return Fitted(
        spec=spec,
        network=stored.network(spec.model, spec),
        classes=classes,
        scaler=_read_scaler(stored),
        columns=columns,
        **stored.fields(("cases",)),
    )


def _read_portfolio(stored: Stored, classes: Labels, columns: tuple[str, ...]) -> Portfolio:
    facts, own = stored.facts, stored.facts["portfolio"]
    spec = ClassifySpec(**facts["request"])
    device = resolve_device(spec.device)
    blocks = [load_block(name, strip_prefix(f"block.{name}.", stored.tensors)).to(device) for name in own["blocks"]]
    members = {
        each["name"]: _read_member(each, strip_prefix(f"member.{number}.", stored.tensors), classes, columns, spec)
        for number, each in enumerate(own["members"])
    }
    ballot = strip_prefix("vote.", stored.tensors)
    no_offsets = torch.zeros(len(ballot["weights"]), len(classes), dtype=torch.float64)  # as classifiers saved earlier
    portfolio = Portfolio(
        spec=spec,
        plan=Plan.from_dict(facts["plan"]),
        classes=classes,
        scaler=_read_scaler(stored),
        cases=facts["cases"],
        columns=columns,
        findings=tuple(Finding(**finding) for finding in facts["findings"]),
        steps=own["steps"],
        blocks={block.name: block for block in blocks},
        members=members,
        vote=Vote.from_tensors({"offsets": no_offsets, **ballot}),
        standings=tuple(Standing(**standing) for standing in own["standings"]),
    )
    if not 0 < portfolio.steps <= max(portfolio.lookback, SHORTEST):
        raise DamagedModel(f"its cases have {portfolio.steps!r} steps, of which {portfolio.lookback!r} count")
    # Blocks, members and vote that do not fit together are refused now, not at the first prediction.
    case = np.tile(np.linspace(0, 1, portfolio.steps), (portfolio.channels, 1))
    portfolio.predict(Cases((case,), labels=None, names=("case 1",), source="a trial"))
    return portfolio


def _read_scaler(stored: Stored) -> ChannelScaler:
    channels = stored.array("mean").size
    return ChannelScaler(stored.shaped("mean", channels), stored.positive("std", channels))


def _scale(scaler: ChannelScaler) -> dict[str, NDArray[np.float64]]:
    return {"mean": scaler.mean, "std": scaler.std}


def _describe_members(fitted: Portfolio) -> tuple[list[Facts], dict[str, Tensor]]:
    """(facts of each member, tensors of blocks, members and vote)."""
    tensors = fitted.vote.tensors("vote.")
    for block in fitted.blocks.values():
        tensors |= block.tensors(f"block.{block.name}.")
    described: list[Facts] = []
    for number, (name, member) in enumerate(fitted.members.items()):
        prefix = f"member.{number}."
        facts: Facts = {"name": name, "kind": type(member).__name__}
        if isinstance(member, Linear):
            facts["blocks"] = member.blocks
            tensors |= member.ridge.tensors(prefix)
        elif isinstance(member, Trees):
            facts["blocks"] = member.blocks
            tensors |= member.forest.tensors(prefix)
        elif isinstance(member, Neighbours):
            tensors |= member.tensors(prefix)
        elif isinstance(member, Networks):
            facts["networks"] = []
            for place, one in enumerate(member.fitted):
                own, weights = describe_network(one, _scale(one.scaler))
                facts["networks"].append({**own, "cases": one.cases})
                tensors |= {f"{prefix}{place}.{key}": tensor for key, tensor in weights.items()}
        described.append(facts)
    return described, tensors


def _read_member(
    facts: Facts, tensors: Mapping[str, Tensor], classes: Labels, columns: tuple[str, ...], spec: ClassifySpec
) -> Member:
    device = resolve_device(spec.device)
    if facts["kind"] == "Linear":
        return Linear(tuple(facts["blocks"]), Ridge.from_tensors(tensors).to(device))
    if facts["kind"] == "Trees":
        return Trees(tuple(facts["blocks"]), load_forest(tensors).to(device))
    if facts["kind"] == "Neighbours":
        return Neighbours.from_tensors(tensors).to(device)
    networks = []
    for place, one in enumerate(facts["networks"]):
        own = {**one, "request": {**one["request"], "device": spec.device}}
        networks.append(_read_network(Stored(own, strip_prefix(f"{place}.", tensors)), classes, columns))
    return Networks(tuple(networks))
