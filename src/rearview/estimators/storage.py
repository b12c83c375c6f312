"""A fitted network on disk: spec, plan and history as facts, weights and statistics as tensors."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rearview import models
from rearview.core.model_folder import Kind, refuse_unreadable, strip_prefix
from rearview.data.panel import Finding
from rearview.estimators.base import FittedNetwork, resolve_device
from rearview.estimators.options import NetworkSpec
from rearview.models.contract import Model
from rearview.tasks.plan import Plan
from rearview.train import History

T = TypeVar("T")
Array = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Stored:
    """What a model's folder holds."""

    facts: dict[str, Any]
    tensors: Mapping[str, Tensor]

    def array(self, name: str) -> NDArray[Any]:
        """A stored array; one that is not there is refused."""
        return self.tensors[name].numpy()

    @property
    def plan(self) -> Plan:
        return Plan.from_dict(self.facts["plan"])

    @property
    def history(self) -> History | None:
        return None if self.facts["history"] is None else History.from_dict(self.facts["history"])

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(Finding(**finding) for finding in self.facts["findings"])

    def network(self, name: str, spec: NetworkSpec) -> Model:
        """The network with its trained weights, on the device of its spec."""
        shape = dict(self.facts["shape"])
        if shape.get("asks") == "classes":
            del shape["steps"]  # a class has no steps: the shape holds a 1 that `create` fills in itself
        network = models.create(name, attention=spec.attention, **shape, **self.plan.model_settings)
        network.load_state_dict(strip_prefix("network.", self.tensors))
        return network.to(resolve_device(spec.device)).eval()


def save_model(
    kind: Kind, folder: Path, fitted: FittedNetwork, facts: Mapping[str, object], arrays: Mapping[str, Array]
) -> None:
    """Write what every fitted network has, and the facts and arrays of one kind."""
    shared = {
        "request": fitted.spec.to_dict(),
        "plan": fitted.plan.to_dict(),
        "shape": asdict(fitted.network.shape),
        "history": None if fitted.history is None else fitted.history.to_dict(),
        "findings": [asdict(finding) for finding in fitted.findings],
    }
    weights = {f"network.{name}": tensor for name, tensor in fitted.network.state_dict().items()}
    others = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
    kind.save(folder, {**shared, **facts}, {**weights, **others})


def load_model(kind: Kind, folder: Path, device: str | None, build: Callable[[Stored], T]) -> T:
    """Build what a folder holds, on another device if one is named; a missing, changed or newer model is refused."""
    facts, tensors = kind.load(folder)
    with refuse_unreadable(folder, facts):
        if device is not None:
            facts["request"]["device"] = device
        return build(Stored(facts, tensors))
