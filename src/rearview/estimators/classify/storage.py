"""A fitted classifier on disk: settings, plan and classes as facts, weights and statistics as tensors."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rearview import models
from rearview.core.errors import InputError
from rearview.core.model_folder import Kind, refuse_unreadable, strip_prefix
from rearview.data.cases.padding import ChannelScaler
from rearview.data.panel import Finding
from rearview.estimators.classify.engine import Fitted
from rearview.estimators.classify.plan import Plan
from rearview.estimators.classify.spec import Request
from rearview.estimators.forecast.engine import device_named
from rearview.train import History

KIND = Kind("classifier", "classifier.json", format=1)
_SIMPLE = "biufU"
"""Kinds of numpy arrays that JSON holds without loss: truth values, numbers, text."""


def save(folder: Path, fitted: Fitted, reading: dict[str, Any]) -> None:
    """Write a fitted classifier and how its frames are read."""
    facts = {
        "request": fitted.request.to_dict(),
        "plan": fitted.plan.to_dict(),
        "shape": asdict(fitted.network.shape),
        "classes": _classes(fitted),
        "history": fitted.history.to_dict(),
        "findings": [asdict(finding) for finding in fitted.findings],
        "cases": fitted.cases,
        "columns": list(fitted.columns),
        "reading": reading,
    }
    KIND.save(folder, facts, _tensors(fitted))


def load(folder: Path, device: str | None = None) -> tuple[Fitted, dict[str, Any]]:
    """What `save` wrote, on another device if one is named; a missing, changed or newer model is refused."""
    facts, tensors = KIND.load(folder)
    with refuse_unreadable(folder, facts):
        if device is not None:
            facts["request"]["device"] = device
        return _fitted(facts, tensors), facts["reading"]


def _fitted(facts: dict[str, Any], tensors: dict[str, Tensor]) -> Fitted:
    request = Request(**facts["request"])
    plan = Plan.from_dict(facts["plan"])
    # A class has no steps: the shape holds a 1 that `create` fills in itself.
    shape = {name: size for name, size in facts["shape"].items() if name != "steps"}
    settings = {name: choice.value for name, choice in plan.model.items()}
    network = models.create(request.model, attention=request.attention, **shape, **settings)
    network.load_state_dict(strip_prefix("network.", tensors))
    return Fitted(
        request=request,
        plan=plan,
        network=network.to(device_named(request.device)).eval(),
        classes=np.array(facts["classes"]["values"], dtype=facts["classes"]["dtype"]),
        scaler=ChannelScaler(tensors["mean"].numpy(), tensors["std"].numpy()),
        history=History.from_dict(facts["history"]),
        findings=tuple(Finding(**finding) for finding in facts["findings"]),
        cases=facts["cases"],
        columns=tuple(facts.get("columns", ())),  # classifiers saved earlier had none
    )


def _classes(fitted: Fitted) -> dict[str, Any]:
    values = fitted.classes.tolist()
    kind = fitted.classes.dtype
    if kind.kind not in _SIMPLE and not all(isinstance(value, str) for value in values):
        raise InputError(
            f"The classes are of the kind {kind}, which can't be saved; train with text or numbers as classes."
        )
    return {"dtype": kind.str, "values": values}


def _tensors(fitted: Fitted) -> dict[str, Tensor]:
    weights = {f"network.{name}": tensor for name, tensor in fitted.network.state_dict().items()}
    return weights | {"mean": torch.from_numpy(fitted.scaler.mean), "std": torch.from_numpy(fitted.scaler.std)}
