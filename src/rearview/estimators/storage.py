"""A fitted network on disk: spec, plan and history as facts, weights and statistics as tensors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rearview import attention, models
from rearview.core.errors import InputError
from rearview.core.model_folder import DamagedModel, Kind, refuse_unreadable, strip_prefix
from rearview.core.output_folder import complete_run
from rearview.core.random_state import keep_caller_state
from rearview.core.settings import matches_type, spell_type
from rearview.data.panel import Finding
from rearview.estimators.base import FittedNetwork, resolve_device
from rearview.estimators.options import NetworkSpec
from rearview.models.contract import Model
from rearview.models.outline import check_memory, outline
from rearview.tasks.plan import Plan
from rearview.train import History

T = TypeVar("T")
_KINDS: Mapping[str, object] = {
    **dict.fromkeys(("name", "step", "model"), str),
    **dict.fromkeys(("ids", "columns", "notes"), Sequence[str]),
    **dict.fromkeys(("targets", "known", "period"), int),
    **dict.fromkeys(("windows", "cases"), Mapping[str, int]),
    "interrupted": bool,
    "seasons": Sequence[int],
    "calendar": str | None,
}
"""The kinds of facts that fitted networks have."""
Facts = dict[str, Any]
"""JSON by name."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The content of a model's folder."""

    facts: Facts
    tensors: Mapping[str, Tensor]

    def array(self, name: str, kinds: str = "f") -> NDArray[Any]:
        """A stored array; one that is not there or not of these kinds, as numpy's letters name them, is refused."""
        array: NDArray[Any] = self.tensors[name].numpy()
        if array.dtype.kind not in kinds:
            raise DamagedModel(f"its {name} is of type {array.dtype}")
        return array

    def shaped(self, name: str, *shape: int, kinds: str = "f") -> NDArray[Any]:
        """A stored array; one of another shape or kind is refused."""
        array = self.array(name, kinds)
        if array.shape != shape:
            raise DamagedModel(f"its {name} is of shape {array.shape} and not {shape}")
        return array

    def scale(self, series: int, columns: int) -> Facts:
        """Mean and standard deviation [series, column]."""
        return {"mean": self.shaped("mean", series, columns), "std": self.positive("std", series, columns)}

    def positive(self, name: str, *shape: int) -> NDArray[Any]:
        """A stored array of what is divided by; one that is not above 0 everywhere is refused."""
        array = self.shaped(name, *shape)
        if not (array > 0).all():
            raise DamagedModel(f"its {name} is not above 0 everywhere")
        return array

    def arrays(self, names: Sequence[str], prefix: str = "", kinds: str = "f") -> Facts:
        """Stored arrays by name."""
        return {name: self.array(f"{prefix}{name}", kinds) for name in names}

    def fields(self, plain: Sequence[str]) -> Facts:
        """The fields of a fitted network: those that every one has, and some as JSON holds them."""
        facts = self.facts
        return {
            "plan": Plan.from_dict(facts["plan"]),
            "history": None if facts["history"] is None else History.from_dict(facts["history"]),
            "findings": tuple(Finding(**finding) for finding in facts["findings"]),
            **self.plain(plain),
        }

    def plain(self, names: Sequence[str]) -> Facts:
        """Facts as JSON holds them, lists as tuples; one of another kind is refused."""
        values = {name: self.facts[name] for name in names}
        for name, value in values.items():
            if not matches_type(value, _KINDS[name]):
                text = repr(value)
                shown = text if len(text) <= 80 else f"{text[:80]}..."
                raise DamagedModel(f"its {name} is {shown}, which is not of the kind {spell_type(_KINDS[name])}")
        return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}

    def network(self, name: str, spec: NetworkSpec) -> Model:
        """The network with its trained weights, on the device of its spec."""
        shape = dict(self.facts["shape"])
        if shape.get("asks") == "classes":
            del shape["steps"]  # a class has no steps: the shape holds a 1 that `create` fills in itself
        plan = Plan.from_dict(self.facts["plan"])
        if plan.lookback.value != shape["lookback"]:
            raise DamagedModel(
                f"its plan looks back {plan.lookback.value!r} steps and its network {shape['lookback']!r}"
            )
        settings = plan.model_settings
        _refuse_missing("model", name, [*models.names(), *models.external_names()])
        _refuse_missing("attention", attention.split(spec.attention)[0], attention.names())
        arguments = {"attention": spec.attention, **shape, **settings}
        weights = strip_prefix("network.", self.tensors)
        for part, tensor in weights.items():
            if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
                raise DamagedModel(f"its weights {part} are not all finite numbers")
        with keep_caller_state():
            if not 0 < shape["channels"] <= self.tensors["mean"].shape[-1]:
                raise DamagedModel(f"it asks for {shape['channels']} channels and has statistics of others")
            planned = outline(name, **arguments)
            if planned is not None:
                check_memory(planned, name, settings, copies=1)
                _check_shapes(planned, weights)
            network = models.create(name, **arguments)
        network.load_state_dict(weights)
        return network.to(resolve_device(spec.device)).eval()


def _refuse_missing(kind: str, name: str, known: Sequence[str]) -> None:
    """Refuse a plug-in's part that was there in training and is not here."""
    if name not in known:
        raise InputError(
            f"This model was trained with the {kind} {name!r}, which is not here: install the package that brings it, "
            f"or register it first (rearview.{'models' if kind == 'model' else kind}.register)."
        )


def _check_shapes(planned: Model, weights: Mapping[str, Tensor]) -> None:
    """Refuse weights of another network before memory is taken for the one that the facts ask for."""
    wanted = {name: tuple(tensor.shape) for name, tensor in planned.state_dict().items()}
    stored = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    for name in (*wanted, *stored):
        if wanted.get(name) != stored.get(name):
            expected, actual = (one.get(name, "nothing") for one in (wanted, stored))
            raise DamagedModel(f"its facts ask for {expected} under {name}, its weights hold {actual}")


def describe_network(
    fitted: FittedNetwork, arrays: Mapping[str, NDArray[Any] | None]
) -> tuple[Facts, dict[str, Tensor]]:
    """(facts, tensors) of what every fitted network has, with the arrays of one kind."""
    facts = {
        "request": fitted.spec.to_dict(),
        "plan": fitted.plan.to_dict(),
        "shape": asdict(fitted.network.shape),
        "history": None if fitted.history is None else fitted.history.to_dict(),
        "findings": [asdict(finding) for finding in fitted.findings],
    }
    tensors = {f"network.{name}": tensor for name, tensor in fitted.network.state_dict().items()}
    return facts, tensors | to_tensors(arrays)


def to_tensors(arrays: Mapping[str, NDArray[Any] | None]) -> dict[str, Tensor]:
    """Arrays as they are stored; one that is None is left out."""
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items() if array is not None}


def _put_on(device: str, facts: Facts) -> None:
    """Name another device in the facts of a model and of its parts."""
    facts["request"]["device"] = device
    for part in (*facts.get("members", ()), *([facts["inner"]] if "inner" in facts else [])):
        _put_on(device, part)


def load_model(kind: Kind, folder: Path, device: str | None, build: Callable[[Stored], T]) -> T:
    """Build what a folder holds, on another device if one is named; a missing, damaged or newer model is refused."""
    complete_run(folder.parent)
    facts, tensors = kind.load(folder)
    with refuse_unreadable(folder, facts):
        if not isinstance(facts.get("reading"), dict):
            raise DamagedModel("it does not say how its tables are read")
        if device is not None:
            _put_on(device, facts)
        return build(Stored(facts, tensors))
