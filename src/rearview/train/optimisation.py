"""The optimiser (torch's own, fused where it can be, its state as named tensors) and the rate of each update.

Rates are pure functions of how far training has come. No scheduler object holds state, so nothing needs saving and a
resumed run finds its rate by arithmetic. Epochs count from 1, as in the papers' code; the rates are those in force
during the update.

"onecycle" is torch's OneCycleLR: over T updates, from rate / divide up to the rate at update pct_start T - 1, then down
to rate / divide / 10,000 at update T - 1, while beta1 goes 0.95, 0.85, 0.95. PatchTST's released code builds that
object in every run and steps it in some: the object alone sets the first epoch's rate and beta1, which
`patchtst_compat` repeats.

"halving" is torch's StepLR with a factor of a half, stepped after every update, as MICA is trained.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from rearview.core.errors import SettingsError
from rearview.train.settings import Settings

CYCLE_BETAS = (0.95, 0.85)
"""beta1 at the ends and at the peak of a cycle."""
CYCLE_FLOOR = 1e4
"""The first rate of a cycle divided by its last."""
_FUSED_DEVICES = ("cpu", "cuda")


class Rate(NamedTuple):
    """Learning rate, beta1 and largest norm of the gradients of one update."""

    learning_rate: float
    beta1: float
    clip: float | None = None


def rate(settings: Settings, epoch: int, update: int, updates: int) -> Rate:
    """The rate of an update: `update` counts from 0 within `epoch` (from 1), which has `updates` of them."""
    done = (epoch - 1) * updates + update
    total = (settings.schedule_epochs or settings.epochs) * updates
    clip, every = settings.clip, settings.clip_halve_every
    if clip is not None and every is not None:
        clip *= 0.5 ** (done // every)
    if settings.schedule == "onecycle":
        return _one_cycle(settings, done, total)._replace(clip=clip)
    compat = settings.patchtst_compat
    share = 1 / settings.divide if compat and epoch == 1 else _factor(settings, epoch, done, total)
    return Rate(settings.learning_rate * share, CYCLE_BETAS[0] if compat else settings.betas[0], clip)


def _factor(settings: Settings, epoch: int, done: int, total: int) -> float:
    if settings.schedule == "type1":
        return float(0.5 ** max(epoch - 2, 0))
    if settings.schedule == "type3":
        return float(0.9 ** max(epoch - 4, 0))
    if settings.schedule == "halving" and settings.halve_every is not None:
        return float(0.5 ** (done // settings.halve_every))
    rise = math.ceil(settings.warmup * total)
    if done < rise:
        return (done + 1) / rise
    if settings.schedule == "cosine":
        return (1 + math.cos(math.pi * (done - rise) / max(total - rise, 1))) / 2
    return 1.0


def _one_cycle(settings: Settings, done: int, total: int) -> Rate:
    def between(start: float, end: float, share: float) -> float:
        if settings.anneal == "linear":
            return start + (end - start) * share
        return end + (start - end) / 2 * (1 + math.cos(math.pi * share))

    low, high = settings.learning_rate / settings.divide, settings.learning_rate
    slow, fast = CYCLE_BETAS
    peak = settings.pct_start * total - 1
    if done <= peak:
        share = done / peak if peak else 0.0
        return Rate(between(low, high, share), between(slow, fast, share))
    share = (done - peak) / (total - 1 - peak)
    return Rate(between(high, low / CYCLE_FLOOR, share), between(fast, slow, share))


def build(model: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    """The optimiser of the settings over the model's trainable parameters."""
    named = dict(_trainable(model))
    parameters = list(named.values())
    if not parameters:
        raise SettingsError(
            f"{type(model).__name__} has no parameters to train; use it as it is, or measure it with train.evaluate."
        )
    decays = {
        name: (settings.decay_all or parameter.ndim >= 2) and (settings.decay_head or "head" not in name.split("."))
        for name, parameter in named.items()
    }
    groups = [
        {"params": members, "weight_decay": settings.weight_decay if decayed else 0.0}
        for decayed in (True, False)
        if (members := [parameter for name, parameter in named.items() if decays[name] is decayed])
    ]
    if settings.optimiser == "radam":
        # It has no fused form; counting on the device, it can still run within a CUDA graph.
        on_device = all(parameter.device.type == "cuda" for parameter in parameters)
        optimiser = torch.optim.RAdam(groups, lr=settings.learning_rate, betas=settings.betas, capturable=on_device)
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


def place_rate(optimiser: torch.optim.Optimizer, rate: Float[Tensor, ""] | float) -> None:
    """Let the optimiser read the learning rate from a tensor on its device, or from a number again."""
    for group in optimiser.param_groups:
        group["lr"] = rate


@contextmanager
def capturable(optimiser: torch.optim.Optimizer) -> Iterator[None]:
    """Let an update go into a CUDA graph: the fused optimiser counts on the device and only needs the flag."""
    before = [group["capturable"] for group in optimiser.param_groups]
    if torch.cuda.is_current_stream_capturing():
        # Only then, for torch warns of a flag that is not made use of.
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


def moments(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state, "<parameter>/<key>" to tensor."""
    return {
        f"{name}/{key}": value
        for name, parameter in _trainable(model)
        for key, value in optimiser.state.get(parameter, {}).items()
    }


def restore_moments(model: nn.Module, optimiser: torch.optim.Optimizer, state: Mapping[str, Tensor]) -> None:
    """Put back what `moments` gave."""
    members = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    position = {parameter: place for place, parameter in enumerate(members)}
    parameters = dict(_trainable(model))
    by_place: dict[int, dict[str, Tensor]] = {}
    for path, value in state.items():
        name, _, key = path.rpartition("/")
        by_place.setdefault(position[parameters[name]], {})[key] = value
    optimiser.load_state_dict({"state": by_place, "param_groups": optimiser.state_dict()["param_groups"]})


def _trainable(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Name and parameter of all that is trained; a shared parameter comes once."""
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)
