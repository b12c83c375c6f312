"""What every feature transform has in common: tensors in a frozen dataclass, and values in, features out."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

RecordT = TypeVar("RecordT", bound="TensorRecord")
AT_ONCE = {"cpu": 2**21, "cuda": 2**27}
"""Numbers of an intermediate result that are held at once, by device: on a CPU those that stay near its caches."""


@dataclass(frozen=True, slots=True, eq=False)
class TensorRecord:
    """A fitted part whose fields are tensors and nothing else."""

    def tensors(self, prefix: str = "") -> dict[str, Tensor]:
        """The fields by name, as a model's folder holds them."""
        return {f"{prefix}{each.name}": getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_tensors(cls: type[RecordT], tensors: Mapping[str, Tensor]) -> RecordT:
        """The record that `tensors` described; a field that is missing is refused by its name."""
        return cls(**{each.name: tensors[each.name] for each in fields(cls)})

    def to(self: RecordT, device: torch.device | str) -> RecordT:
        """The same on another device."""
        return type(self)(**{name: tensor.to(device) for name, tensor in self.tensors().items()})


class Features(TensorRecord, ABC):
    """A map from whole series to features."""

    __slots__ = ()

    @abstractmethod
    def __call__(self, values: Float[Tensor, "case channel time"]) -> Float[Tensor, "case feature"]:
        """The features of each case."""

    def sources(self) -> Tensor | None:
        """[feature]: the training case that a feature was cut from; None where no case has a feature of its own."""
        return None


def portion(values: Tensor, numbers: int) -> int:
    """Cases to look at together when each of them needs so many intermediate numbers."""
    return max(1, AT_ONCE.get(values.device.type, AT_ONCE["cpu"]) // max(1, numbers))
