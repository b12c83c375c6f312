"""The weights that come with the package: two files of package data, read without a network, checked, loaded.

`weights/glance.safetensors` holds them in bfloat16, `weights/glance.json` is their card: what they are, how and on what
they were trained, and the checksum of the first file. A build without these files has no weights, and says so. Other
sizes lie beside them under names of their own, such as `glance_small`, by which they are asked for.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import torch
from torch import Tensor

from rearview.core.errors import InputError, SettingsError
from rearview.core.files import write_atomically
from rearview.core.model_folder import unpack_tensors
from rearview.core.random_state import keep_caller_state
from rearview.core.settings import settings_from
from rearview.models.contract import Shape
from rearview.models.patch_hosts.glance import Network, Settings

NAME = "glance"
FOLDER: Traversable = files("rearview.pretrained") / "weights"
MOST_BYTES = 15_000_000
"""Of one weights' file."""
MOST_CARD = 1 << 20
"""Bytes of the card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What weights are and how they came about."""

    name: str = NAME
    """What they are asked for by, and the name of their files."""
    version: str
    """Of the weights."""
    licence: str
    created: str
    """The date they were finished."""
    data: str
    """What they were trained on."""
    attention: str | Mapping[str, object]
    settings: Mapping[str, object]
    """Of the network; what is missing has its default."""
    parameters: int
    updates: int
    seconds: float
    """Of training."""
    device: str
    """What they were trained on."""
    kilowatt_hours: float = 0.0
    """Energy of the training, estimated; 0: not known."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Benchmark -> result."""
    weaknesses: tuple[str, ...] = ()
    """Where forecasts are known to be weak."""
    size: int = 0
    """Bytes of the weights' file."""
    sha256: str = ""
    """Checksum of the weights' file."""


def names() -> tuple[str, ...]:
    """The weights that this build has: `glance`, and other sizes of it."""
    cards = {one.name.removesuffix(".json") for one in FOLDER.iterdir()} if FOLDER.is_dir() else set()
    return tuple(sorted(one for one in cards if (FOLDER / f"{one}.safetensors").is_file()))


def available(name: str = NAME) -> bool:
    """Whether this build has weights of this name."""
    return name in names()


def read_card(name: str = NAME) -> Card:
    """The card of the weights; refused where this build has none, or where it is damaged."""
    if not available(name):
        raise SettingsError(
            f"This build of rearview has no weights of {name}, so it can't forecast without training; use model='auto' "
            f"(or --quick), or give {NAME} settings of its own to train it from nothing."
        )
    path = FOLDER / f"{name}.json"
    text = path.read_bytes()
    try:
        if len(text) > MOST_CARD:
            raise ValueError(f"{len(text):,} bytes")
        card = settings_from(Card, "the card", json.loads(text))
        if card.name != name:
            raise ValueError(f"it is the card of {card.name}")
        return card
    except (ValueError, TypeError, AttributeError, RecursionError, SettingsError) as problem:
        raise InputError(f"{path} is damaged ({problem}); install rearview again.") from problem


def load(card: Card, *, channels: int = 1, lookback: int = 512, steps: int = 64, device: str = "cpu") -> Network:
    """The network with the weights of this build, in evaluation mode; damaged weights are refused."""
    weights = _read_weights(card.name, card.sha256, card.size)
    try:
        settings = settings_from(Settings, card.name, card.settings)
        with keep_caller_state():
            network = Network(Shape(channels, lookback, steps), settings, card.attention)
        network.load_state_dict(weights)
    except (RuntimeError, TypeError, ValueError, LookupError, SettingsError) as problem:
        reason = str(problem).splitlines()[0]
        raise InputError(
            f"The card of {card.name} does not fit its weights ({reason}); install rearview again."
        ) from problem
    return network.to(device).eval()


@lru_cache(maxsize=2)
def _read_weights(name: str, sha256: str, size: int) -> dict[str, Tensor]:
    """The tensors of the weights' file, read once in a process."""
    path = FOLDER / f"{name}.safetensors"
    content = path.read_bytes()
    if len(content) != size or len(content) > MOST_BYTES or hashlib.sha256(content).hexdigest() != sha256:
        raise InputError(f"{path} is damaged (its size or checksum differs); install rearview again.")
    tensors = unpack_tensors(Path(str(path)), content)
    for part, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise InputError(f"{path} is damaged ({part} is not all finite numbers); install rearview again.")
    return tensors


def write(folder: Path, weights: Mapping[str, Tensor], card: Card) -> Card:
    """Write the two files, the weights in bfloat16, and return the card with their size and checksum."""
    from safetensors.torch import save

    content = save({name: tensor.detach().cpu().to(torch.bfloat16).contiguous() for name, tensor in weights.items()})
    if len(content) > MOST_BYTES:
        raise SettingsError(f"The weights take {len(content):,} bytes, more than the {MOST_BYTES:,} of one file.")
    whole = {**asdict(card), "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{card.name}.safetensors", content)
    write_atomically(folder / f"{card.name}.json", json.dumps(whole, indent=1) + "\n")
    return Card(**whole)
