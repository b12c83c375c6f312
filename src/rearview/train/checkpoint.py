"""Checkpoints: one safetensors file, written whole or not at all, read without running any code.

Tensors lie in the file under their names, everything else as JSON in its header with a checksum over both. safetensors
refuses memory that several names share, so a shared tensor is stored once and its other names stand in the header.
"""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rearview.core.errors import InputError
from rearview.core.files import write_atomically

FORMAT = 1
"""Version of the layout; a file of a newer one is refused."""
_KEY = "rearview.train"


def write(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Put tensors and facts (anything JSON holds) at `path`; whoever reads it sees the old file or the new one."""
    from safetensors.torch import save

    own, aliases = _once(tensors)
    body = json.dumps({"aliases": aliases, "facts": facts})
    header = {"format": FORMAT, "checksum": _checksum(own, body), "body": body}
    write_atomically(path, save(own, metadata={_KEY: json.dumps(header)}))


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors (on the CPU) and facts that `write` put there; a damaged or newer file is refused."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {})[_KEY])
            version = int(header["format"])
            # Cloned into memory of torch's own alignment: some kernels round by the address they are given.
            own = {name: file.get_tensor(name).clone() for name in file.keys()} if version <= FORMAT else {}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as problem:
        raise _damaged(path, f"it is no complete checkpoint: {problem}") from problem
    if version > FORMAT:
        raise InputError(
            f"The checkpoint {path} has format {version}, but this version of rearview reads up to {FORMAT}; "
            "resume with the version that wrote it, or delete the file to start afresh."
        )
    if header.get("checksum") != _checksum(own, header.get("body", "")):
        raise _damaged(path, "its checksum does not match its contents")
    body = json.loads(header["body"])
    return {**own, **{name: own[first] for name, first in body["aliases"].items()}}, body["facts"]


def _damaged(path: Path, why: str) -> InputError:
    return InputError(f"The checkpoint {path} is damaged ({why}); delete the file to start afresh.")


def _once(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Each distinct tensor under its first name, in memory of its own, and the first name of every other name."""
    own: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    first: dict[tuple[Any, ...], str] = {}
    for name, tensor in tensors.items():
        owner = first.setdefault(identity(tensor), name)
        if owner == name:
            own[name] = tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        else:
            aliases[name] = owner
    return own, aliases


def identity(tensor: Tensor) -> tuple[Any, ...]:
    """Equal for two tensors exactly where they are the same cells in memory; an empty tensor is its own."""
    if not tensor.numel():
        return (id(tensor),)
    return (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())


def _checksum(tensors: Mapping[str, Tensor], body: str) -> int:
    value = zlib.crc32(body.encode())
    for name in sorted(tensors):
        value = zlib.crc32(name.encode(), value)
        value = zlib.crc32(tensors[name].reshape(-1).view(torch.uint8).numpy().data, value)
    return value
