"""Checkpoints of other packages, written array by array into a network of ours."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rearview.core.errors import InputError


class ParameterPlace(NamedTuple):
    """The parameter that an array of a checkpoint goes to, and what is done on the way."""

    name: str
    tensor: Tensor
    factor: float = 1.0
    transposed: bool = False
    first_rows: bool = False
    """Whether the array may have more rows than the parameter, which takes the first of them."""

    def array_shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        shape = tuple(self.tensor.shape)
        return shape[::-1] if self.transposed else shape

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether an array of this shape can be written."""
        wanted = self.array_shape()
        return shape == wanted or (self.first_rows and shape[1:] == wanted[1:] and shape[0] > wanted[0])

    def write(self, array: Tensor) -> None:
        """Write the array into the parameter."""
        array = array[: len(self.tensor)] if self.first_rows else array
        array = array.T if self.transposed else array
        self.tensor.copy_(array.to(self.tensor.device) * self.factor)


class PublishedWeights(NamedTuple):
    """What a kind of checkpoint is called in sentences, and which of its arrays are left out."""

    kind: str
    settings: str
    """Where the settings of each published checkpoint are."""
    unused: Callable[[str], bool]
    prefixes: Sequence[str] = ("",)
    """What the names of all arrays may begin with."""


def write_checkpoint(
    model: nn.Module, path: str | Path, places: Sequence[ParameterPlace], source: PublishedWeights
) -> list[str]:
    """Write a safetensors file into a network; returns the names of the parameters that it has nothing for.

    An array that is missing, of another shape or unknown is refused by its name, before anything is written.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise InputError(f"There is no file {path}; a {source.kind} checkpoint is called model.safetensors as a rule.")
    try:
        with safe_open(path, framework="pt") as stored, torch.no_grad():
            shapes = {name: tuple(stored.get_slice(name).get_shape()) for name in stored.keys()}  # noqa: SIM118
            prefix = next((one for one in source.prefixes if one + places[0].name in shapes), "")
            _check(path, {name.removeprefix(prefix): shape for name, shape in shapes.items()}, places, source)
            for place in places:
                place.write(stored.get_tensor(prefix + place.name))
    except SafetensorError as error:
        raise InputError(f"{path} can't be read as a safetensors file: {error}.") from error
    written = {place.tensor.untyped_storage().data_ptr() for place in places}
    return [name for name, own in model.named_parameters() if own.untyped_storage().data_ptr() not in written]


def _check(
    path: Path, shapes: dict[str, tuple[int, ...]], places: Sequence[ParameterPlace], source: PublishedWeights
) -> None:
    """Refuse before anything is written: a network half loaded looks like a loaded one."""
    for place in places:
        if place.name not in shapes:
            raise InputError(
                f"{path} has no array {place.name!r}, which this network needs; it is not a {source.kind} checkpoint, "
                f"or one of fewer blocks. {source.settings} has the settings of each."
            )
        if not place.fits(shapes[place.name]):
            raise InputError(
                f"{place.name!r} is {_by(shapes[place.name])} in {path}, but {_by(place.array_shape())} in this "
                f"network; build it with the settings in {source.settings}."
            )
    spare = sorted(name for name in set(shapes) - {place.name for place in places} if not source.unused(name))
    if spare:
        raise InputError(
            f"{path} has {len(spare)} arrays that this network has no place for, {spare[0]!r} the first of them; "
            f"it may be deeper than the network. {source.settings} has the settings of each checkpoint."
        )


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in shape)
