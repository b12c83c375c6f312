"""The optimiser: torch's own, fused where it can be, its state as named tensors."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from rearview.core.errors import SettingsError
from rearview.train.schedules import Rate
from rearview.train.settings import Settings

_FUSED_DEVICES = ("cpu", "cuda")


def build(model: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    """The optimiser of the settings over the model's trainable parameters."""
    parameters = [parameter for _, parameter in trainable(model)]
    if not parameters:
        raise SettingsError(
            f"{type(model).__name__} has no parameters to train; use it as it is, or measure it with train.evaluate."
        )
    spared = [] if settings.decay_all else [parameter for parameter in parameters if parameter.ndim < 2]
    decayed = parameters if settings.decay_all else [parameter for parameter in parameters if parameter.ndim >= 2]
    groups = [
        {"params": members, "weight_decay": decay}
        for members, decay in ((decayed, settings.weight_decay), (spared, 0.0))
        if members
    ]
    if settings.optimiser == "radam":
        # It has no fused form; counting on the device, it can still run within a CUDA graph.
        capturable = all(parameter.device.type == "cuda" for parameter in parameters)
        optimiser = torch.optim.RAdam(groups, lr=settings.learning_rate, betas=settings.betas, capturable=capturable)
        # Smaller updates run outside of any graph, and torch need not warn of it.
        optimiser._warned_capturable_if_run_uncaptured = True
        return optimiser
    kind = torch.optim.AdamW if settings.optimiser == "adamw" else torch.optim.Adam
    fused = all(p.device.type in _FUSED_DEVICES and p.is_floating_point() for p in parameters)
    return kind(groups, lr=settings.learning_rate, betas=settings.betas, fused=fused or None)


def set_rate(optimiser: torch.optim.Optimizer, rate: Rate) -> None:
    """Let the next update run at `rate`; moments stay as they are."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate.learning_rate)
        else:
            group["lr"] = rate.learning_rate
        group["betas"] = (rate.beta1, group["betas"][1])


def rate_on_device(optimiser: torch.optim.Optimizer, device: torch.device) -> Float[Tensor, ""]:
    """The learning rate as a number on the device, which the optimiser reads from now on."""
    rate = torch.zeros((), device=device)
    for group in optimiser.param_groups:
        group["lr"] = rate
    return rate


def rate_on_host(optimiser: torch.optim.Optimizer, rate: Rate) -> None:
    """Undo `rate_on_device`."""
    for group in optimiser.param_groups:
        group["lr"] = rate.learning_rate


@contextmanager
def capturable(optimiser: torch.optim.Optimizer) -> Iterator[None]:
    """Let an update go into a CUDA graph: the fused optimiser, which counts on the device, needs only the word."""
    before = [group["capturable"] for group in optimiser.param_groups]
    if torch.cuda.is_current_stream_capturing():
        # Only then, for torch warns of a word that is not made use of.
        for group in optimiser.param_groups:
            group["capturable"] = True
    try:
        yield
    finally:
        for group, was in zip(optimiser.param_groups, before, strict=True):
            group["capturable"] = was


def state_tensors(optimiser: torch.optim.Optimizer) -> list[Tensor]:
    """Moments and counts, as far as there are any yet; before the first update they are 0."""
    return [value for state in optimiser.state.values() for value in state.values()]


def trainable(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Name and parameter of all that is trained; a shared parameter comes once."""
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)


def moments(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state, "<parameter>/<key>" to tensor."""
    return {
        f"{name}/{key}": value
        for name, parameter in trainable(model)
        for key, value in optimiser.state.get(parameter, {}).items()
    }


def restore_moments(model: nn.Module, optimiser: torch.optim.Optimizer, state: Mapping[str, Tensor]) -> None:
    """Put back what `moments` gave."""
    members = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    position = {parameter: place for place, parameter in enumerate(members)}
    parameters = dict(trainable(model))
    by_place: dict[int, dict[str, Tensor]] = {}
    for path, value in state.items():
        name, _, key = path.rpartition("/")
        by_place.setdefault(position[parameters[name]], {})[key] = value
    optimiser.load_state_dict({"state": by_place, "param_groups": optimiser.state_dict()["param_groups"]})
