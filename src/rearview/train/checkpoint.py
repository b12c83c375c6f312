"""The state of a run, and the checkpoint that holds it: one safetensors file, written whole or not at all.

Tensors lie in the file under their names, everything else as JSON in its header with a checksum over both; reading it
runs no code. safetensors refuses memory that several names share, so a shared tensor is stored once and its other names
stand in the header.
"""

import copy
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rearview.core.errors import InputError, SettingsError
from rearview.core.files import write_atomically
from rearview.core.model_folder import strip_prefix
from rearview.train import optimisation, parallel
from rearview.train.evaluation import Pool
from rearview.train.history import Ended, Epoch
from rearview.train.settings import Settings

FORMAT = 1
"""Version of the layout; a file of a newer one is refused."""
_KEY = "rearview.train"
_FREE_SETTINGS = frozenset({"checkpoint_every"})
"""Settings that may differ on resuming, because they don't change what comes out."""

Facts = dict[str, Any]
"""Anything that JSON holds."""


@dataclass(frozen=True, slots=True)
class BestSoFar:
    """The result of the epochs so far; replaced as a whole, so that an interrupt never finds half of it."""

    epochs: tuple[Epoch, ...] = ()
    best: dict[str, Tensor] | None = None
    """Weights and buffers of the best epoch; None without validation."""
    best_epoch: int | None = None
    waited: int = 0
    """Epochs since the best one."""
    ended: Ended | None = None

    def after(self, epoch: Epoch, model: nn.Module, settings: Settings) -> "BestSoFar":
        """The standing once `epoch` is over, with the model as it is now."""
        loss = epoch.validation_loss
        best, best_epoch, waited = self.best, self.best_epoch, self.waited + (loss is not None)
        least = None if best_epoch is None else self.epochs[best_epoch - 1].validation_loss
        bar = (math.inf if least is None else least) - settings.minimum_delta
        if loss is not None and (loss < bar or (settings.ties_improve and loss == bar)):
            # A deep copy keeps shared tensors shared.
            best, best_epoch, waited = copy.deepcopy(model.state_dict()), epoch.number, 0
        ended: Ended | None = None
        if epoch.number >= settings.epochs:
            ended = "epochs"
        elif settings.patience is not None and waited >= settings.patience:
            ended = "patience"
        return BestSoFar((*self.epochs, epoch), best, best_epoch, waited, ended)


def fingerprint(model: nn.Module, settings: Settings, train: Tensor, validation: Tensor | None) -> Facts:
    """The identity of a run: settings, names and shapes of the model, count and checksum of the windows."""

    def windows(index: Tensor) -> list[int]:
        return [len(index), zlib.crc32(index.cpu().contiguous().numpy().data)]

    facts = {
        "settings": {name: value for name, value in settings.to_dict().items() if name not in _FREE_SETTINGS},
        "model": {name: [list(value.shape), str(value.dtype)] for name, value in model.state_dict().items()},
        "processes": [parallel.size()],
        "training windows": windows(train),
        "validation windows": None if validation is None else windows(validation),
    }
    # Through JSON and back, so that it compares equal with one that was read from a file.
    return dict(json.loads(json.dumps(facts)))


def _refuse_other_run(path: Path, saved: Facts, wanted: Facts) -> None:
    # A setting that an earlier version did not have stood at what is its default now.
    old, new = {**Settings().to_dict(), **saved["settings"]}, wanted["settings"]
    if {**saved, "settings": {name: old[name] for name in new}} == wanted:
        return
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
class Snapshot:
    """Everything a run needs to go on as if it had never stopped, beside model, optimiser and pool."""

    standing: BestSoFar
    position: int
    """Updates done in the epoch under way."""
    seconds: float
    """Wall time of the run so far."""
    epoch_seconds: float
    """Wall time of the epoch under way."""
    made_with: Facts = field(default_factory=dict)
    """The versions and device that the rounding of a checkpoint's numbers rests on."""


def save(
    path: Path, run: Facts, snapshot: Snapshot, model: nn.Module, optimiser: torch.optim.Optimizer, pool: Pool
) -> None:
    """Write a checkpoint of the run: weights, best weights, moments, random states, sums of the epoch under way."""
    standing = snapshot.standing
    random = {"cpu": torch.get_rng_state()}
    if pool.total.device.type == "cuda":
        random["cuda"] = torch.cuda.get_rng_state(pool.total.device)
    parts = {
        "model": model.state_dict(),
        "best": standing.best or {},
        "optimiser": optimisation.moments(model, optimiser),
        "random": random,
        "pool": {"total": pool.total, "number": pool.number},
    }
    facts = {
        "run": run, "epochs": [asdict(epoch) for epoch in standing.epochs], "best_epoch": standing.best_epoch,
        "waited": standing.waited, "ended": standing.ended, "position": snapshot.position,
        "seconds": snapshot.seconds, "epoch_seconds": snapshot.epoch_seconds,
        "made_with": _made_with(pool.total.device),
    }  # fmt: skip
    write(path, {f"{part}/{name}": tensor for part, named in parts.items() for name, tensor in named.items()}, facts)


def load(path: Path, run: Facts, model: nn.Module, optimiser: torch.optim.Optimizer, pool: Pool) -> Snapshot:
    """Put model, optimiser, random states and pool back as they were saved; another run's checkpoint is refused."""
    tensors, facts = read(path)
    _refuse_other_run(path, facts["run"], run)

    device = pool.total.device
    model.load_state_dict(strip_prefix("model/", tensors))
    optimisation.restore_moments(model, optimiser, strip_prefix("optimiser/", tensors))
    pool.total.copy_(tensors["pool/total"])
    pool.number.copy_(tensors["pool/number"])
    torch.set_rng_state(tensors["random/cpu"])
    if device.type == "cuda" and "random/cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random/cuda"], device)
    epochs = tuple(Epoch(**epoch) for epoch in facts["epochs"])
    best = {name: tensor.to(device) for name, tensor in strip_prefix("best/", tensors).items()}
    standing = BestSoFar(epochs, best or None, facts["best_epoch"], facts["waited"], facts["ended"])
    made_with = facts.get("made_with", {})  # checkpoints of 0.1.0 have none
    return Snapshot(standing, facts["position"], facts["seconds"], facts["epoch_seconds"], made_with)


def read_length(path: Path) -> tuple[int, int | None]:
    """The length of a checkpoint's training: its `epochs` and `windows_per_epoch`."""
    saved = read(path)[1]["run"]["settings"]
    return int(saved["epochs"]), saved["windows_per_epoch"]


def _made_with(device: torch.device) -> Facts:
    return {"device": device.type, "threads": torch.get_num_threads(), "torch": torch.__version__}


def find_inexact(made_with: Facts, device: torch.device) -> str | None:
    """Why a run that goes on from a checkpoint can't be equal, bit for bit, to one that was not cut off; None: it is.

    A sum over another number of threads, on another device or by another torch may be rounded otherwise.
    """
    if device.type == "cuda":
        return "a GPU does not promise the order of its sums"
    if parallel.size() > 1:
        return "the other processes draw other random numbers"
    now = _made_with(device)
    other = [
        f"{name} {made_with[name]} instead of {now[name]}" for name in made_with if made_with[name] != now.get(name)
    ]
    return f"it was begun with {', '.join(other)}" if other else None


def write(path: Path, tensors: Mapping[str, Tensor], facts: Facts) -> None:
    """Put tensors and facts at `path`; whoever reads it sees the old file or the new one."""
    from safetensors.torch import save as serialise

    own: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    owners: dict[tuple[object, ...], str] = {}
    for name, tensor in tensors.items():
        # Equal for two tensors exactly where they are the same cells in memory; an empty tensor is its own.
        cells = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        owner = owners.setdefault(cells if tensor.numel() else (id(tensor),), name)
        if owner == name:
            own[name] = tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        else:
            aliases[name] = owner
    body = json.dumps({"aliases": aliases, "facts": facts})
    header = {"format": FORMAT, "checksum": _checksum(own, body), "body": body}
    write_atomically(path, serialise(own, metadata={_KEY: json.dumps(header)}))


def read(path: Path) -> tuple[dict[str, Tensor], Facts]:
    """The tensors (on the CPU) and facts that `write` put there; a damaged or newer file is refused."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {})[_KEY])
            version = int(header["format"])
            # Cloned into memory of torch's own alignment: some kernels round by the address they are given.
            own = {name: file.get_tensor(name).clone() for name in file.keys()} if version <= FORMAT else {}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as problem:
        raise _damage_error(path, f"it is no complete checkpoint: {problem}") from problem
    if version > FORMAT:
        raise InputError(
            f"The checkpoint {path} has format {version}, but this version of rearview reads up to {FORMAT}; "
            "resume with the version that wrote it, or delete the file to start afresh."
        )
    if header.get("checksum") != _checksum(own, header.get("body", "")):
        raise _damage_error(path, "its checksum does not match its contents")
    body = json.loads(header["body"])
    return {**own, **{name: own[owner] for name, owner in body["aliases"].items()}}, body["facts"]


def _damage_error(path: Path, why: str) -> InputError:
    return InputError(f"The checkpoint {path} is damaged ({why}); delete the file to start afresh.")


def _checksum(tensors: Mapping[str, Tensor], body: str) -> int:
    value = zlib.crc32(body.encode())
    for name in sorted(tensors):
        value = zlib.crc32(name.encode(), value)
        value = zlib.crc32(tensors[name].reshape(-1).view(torch.uint8).numpy().data, value)
    return value
