"""The state of a run: what it has settled so far, whose run it is, and both as the contents of a checkpoint."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rearview.core.errors import SettingsError
from rearview.train import checkpoint, optimise, parallel
from rearview.train.history import Ended, Epoch
from rearview.train.measure import Pool
from rearview.train.settings import Settings
from rearview.train.stopping import Patience

Weights = dict[str, Tensor]

_FREE_SETTINGS = frozenset({"checkpoint_every"})
"""Settings that may differ on resuming, because they don't change what comes out."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What the epochs so far have settled; replaced as a whole, so that an interrupt never finds half of it."""

    epochs: tuple[Epoch, ...] = ()
    best: Weights | None = None
    """Weights and buffers of the best epoch; None without validation."""
    best_epoch: int | None = None
    patience: Patience = field(default_factory=Patience)
    ended: Ended | None = None

    def after(self, epoch: Epoch, model: nn.Module, settings: Settings) -> "Standing":
        """The standing once `epoch` is over, with the model as it is now."""
        best, best_epoch, patience = self.best, self.best_epoch, self.patience
        if epoch.validation_loss is not None:
            patience = patience.after(epoch.validation_loss, settings)
            if not patience.waited:
                best, best_epoch = clone_weights(model), epoch.number
        ended: Ended | None = None
        if epoch.number >= settings.epochs:
            ended = "epochs"
        elif patience.spent(settings):
            ended = "patience"
        return Standing((*self.epochs, epoch), best, best_epoch, patience, ended)


def clone_weights(model: nn.Module) -> Weights:
    """A copy of weights and buffers, on their device; names that share a tensor share its copy."""
    copies: dict[tuple[Any, ...], Tensor] = {}
    weights: Weights = {}
    for name, tensor in model.state_dict().items():
        key = checkpoint.identity(tensor)
        if key not in copies:
            copies[key] = tensor.detach().clone()
        weights[name] = copies[key]
    return weights


def fingerprint(model: nn.Module, settings: Settings, train: Tensor, validation: Tensor | None) -> dict[str, Any]:
    """Whose run it is: settings, names and shapes of the model, count and identity of the windows."""
    facts = {
        "settings": {name: value for name, value in settings.to_dict().items() if name not in _FREE_SETTINGS},
        "model": {name: [list(value.shape), str(value.dtype)] for name, value in model.state_dict().items()},
        "processes": [parallel.size()],
        "training windows": _windows(train),
        "validation windows": None if validation is None else _windows(validation),
    }
    # Through JSON and back, so that it compares equal with one that was read from a file.
    return dict(json.loads(json.dumps(facts)))


def _windows(index: Tensor) -> list[int]:
    return [len(index), zlib.crc32(index.cpu().contiguous().numpy().data)]


def refuse_other_run(path: Path, saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise a sentence that says where the checkpoint's run differs from the one asked for."""
    if saved == wanted:
        return
    old, new = saved["settings"], wanted["settings"]
    differing = [name for name in new if old.get(name) != new[name]]
    if differing:
        was = ", ".join(f"{name}={old.get(name)!r}" for name in differing)
        asks = ", ".join(f"{name}={new[name]!r}" for name in differing)
        difference = f"was written with {was}, but this run asks for {asks}"
    elif saved["model"] != wanted["model"]:
        names = [*wanted["model"], *saved["model"]]
        name = next(name for name in names if saved["model"].get(name) != wanted["model"].get(name))
        difference = f"belongs to another model: their {name} differs in shape or is missing in one"
    else:
        kind = next(kind for kind in wanted if saved.get(kind) != wanted[kind])
        counts = [(facts[kind] or [0])[0] for facts in (saved, wanted)]
        other = "others" if counts[0] == counts[1] else f"{counts[1]:,}"
        difference = f"was written with {counts[0]:,} {kind}, but this run has {other}"
    raise SettingsError(
        f"The checkpoint {path} {difference}; resume with what it was written with, or delete the file to start afresh."
    )


@dataclass(slots=True)
class Saved:
    """Everything a run needs to go on as if it had never stopped."""

    standing: Standing
    position: int
    """Updates done in the epoch under way."""
    seconds: float
    """Wall time of the run so far."""
    epoch_seconds: float
    """Wall time of the epoch under way."""


def save(
    path: Path,
    run: Mapping[str, Any],
    saved: Saved,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    pool: Pool,
) -> None:
    """Write a checkpoint of the run: weights, best weights, moments, random states, sums of the epoch under way."""
    standing = saved.standing
    tensors = {
        **_under("model", model.state_dict()),
        **_under("best", standing.best or {}),
        **_under("optimiser", optimise.moments(model, optimiser)),
        **_under("random", _random_states(pool.total.device)),
        **_under("pool", {"total": pool.total, "number": pool.number}),
    }
    facts = {
        "run": run,
        "epochs": [asdict(epoch) for epoch in standing.epochs],
        "best_epoch": standing.best_epoch,
        "waited": standing.patience.waited,
        "ended": standing.ended,
        "position": saved.position,
        "seconds": saved.seconds,
        "epoch_seconds": saved.epoch_seconds,
    }
    checkpoint.write(path, tensors, facts)


def load(
    path: Path,
    run: Mapping[str, Any],
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    pool: Pool,
) -> Saved:
    """Put model, optimiser, random states and pool back as they were saved; another run's checkpoint is refused."""
    tensors, facts = checkpoint.read(path)
    refuse_other_run(path, facts["run"], run)
    device = pool.total.device
    model.load_state_dict(_inside("model", tensors))
    optimise.restore_moments(model, optimiser, _inside("optimiser", tensors))
    sums = _inside("pool", tensors)
    pool.total.copy_(sums["total"])
    pool.number.copy_(sums["number"])
    _restore_random_states(_inside("random", tensors), device)
    epochs = tuple(Epoch(**epoch) for epoch in facts["epochs"])
    best = {name: tensor.to(device) for name, tensor in _inside("best", tensors).items()}
    best_epoch: int | None = facts["best_epoch"]
    least = None if best_epoch is None else epochs[best_epoch - 1].validation_loss
    patience = Patience() if least is None else Patience(least, facts["waited"])
    standing = Standing(epochs, best or None, best_epoch, patience, facts["ended"])
    return Saved(standing, facts["position"], facts["seconds"], facts["epoch_seconds"])


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def _inside(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(f"{prefix}/"): t for name, t in tensors.items() if name.startswith(f"{prefix}/")}


def _random_states(device: torch.device) -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def _restore_random_states(states: Mapping[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
