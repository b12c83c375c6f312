"""A fitted model on disk: a folder of one JSON file and one safetensors file, read without running any code.

The JSON holds facts, the library's version, the name and checksum of the tensors' file, and a checksum of itself, so
that a damaged or half-copied model is refused. (They are no signature: who writes a file can write its checksum.) The
tensors' file is named by its content and written first: a save that is cut off leaves the model that was there before.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import rearview
from rearview.core.errors import InputError, RearviewError
from rearview.core.files import lock_folder, write_atomically

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
_WEIGHTS = "weights-*.safetensors"
MOST_JSON = 256 * 2**20
"""Bytes of a model's JSON file at most: the names of a million series fit."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The content of a folder: one kind of fitted model."""

    word: str
    """The name in sentences, such as "forecaster"."""
    manifest: str
    """The name of the JSON file."""
    format: int
    """The newest layout of the facts that can be read."""

    def save(self, folder: Path, facts: Mapping[str, object], tensors: "Mapping[str, Tensor]") -> None:
        """Write a model in place of the one of this kind that the folder holds; other files there stay.

        Of several processes that save to one folder, each waits for the one before it.
        """
        from safetensors.torch import save as pack

        content = pack({name: tensor.contiguous() for name, tensor in tensors.items()})
        digest = hashlib.sha256(content).hexdigest()
        weights = f"weights-{digest[:16]}.safetensors"
        head = {"format": self.format, "version": rearview.__version__, "weights": weights, "sha256": digest}
        gaps = sorted(name for name, tensor in tensors.items() if not _is_finite(tensor))
        whole = {**head, "gaps": gaps, **facts}
        text = json.dumps({**whole, "checksum": checksum(whole)}, indent=1)
        folder.mkdir(parents=True, exist_ok=True)
        with lock_folder(folder):
            before = self._weights_of(folder)
            write_atomically(folder / weights, content)
            write_atomically(folder / self.manifest, text)
            if before is not None and before != weights:
                (folder / before).unlink(missing_ok=True)

    def load(self, folder: Path) -> "tuple[dict[str, Any], dict[str, Tensor]]":
        """The facts and tensors that `save` wrote; a missing, damaged or newer model is refused."""
        while True:
            text = self._read(folder)
            facts = self._facts(folder, text)
            path = folder / Path(str(facts.get("weights"))).name
            try:
                content = _read_weights(path)
                break
            except FileNotFoundError:
                # Between the two reads another process may have saved a model here, and removed the one before.
                if self._read(folder) == text:
                    raise InputError(f"{path} is missing; copy the whole folder, or save the model again.") from None
        if hashlib.sha256(content).hexdigest() != facts.get("sha256"):
            raise InputError(f"{path} is damaged (its checksum differs); save the model again.")
        tensors = unpack_tensors(path, content)
        gaps = facts.get("gaps")  # models saved by 0.1.0 have no such list
        if isinstance(gaps, list):
            for name, tensor in tensors.items():
                if name not in gaps and not _is_finite(tensor):
                    raise InputError(f"{path} is damaged ({name} is not all finite numbers); save the model again.")
        return facts, tensors

    def _weights_of(self, folder: Path) -> str | None:
        """The name of the tensors' file of the model that a folder holds; a file that is no model is refused."""
        path = folder / self.manifest
        if not path.exists():
            return None
        try:
            name = json.loads(path.read_text(encoding="utf-8"))["weights"]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            name = None
        if not isinstance(name, str) or not fnmatch(name, _WEIGHTS) or Path(name).name != name:
            raise InputError(f"{path} is not of a saved {self.word} and is not written over; choose another folder.")
        return name

    def _read(self, folder: Path) -> str:
        path = folder / self.manifest
        if not path.is_file():
            below = sorted((*folder.glob(f"*/{self.manifest}"), *folder.glob(f"*/*/{self.manifest}")))
            hint = "Give the folder that `save` wrote."
            if others := [kind.word for kind in KINDS if (folder / kind.manifest).is_file()]:
                hint = f"It holds a {others[0]}, which `rearview predict` takes, too."
            elif below:
                hint = f"There is one in {' and in '.join(str(other.parent) for other in below)}."
            raise InputError(f"{folder} holds no saved {self.word}: {self.manifest} is missing. {hint}")
        size = path.stat().st_size
        if size > MOST_JSON:
            raise InputError(f"{path} has {size:,} bytes, more than the {MOST_JSON:,} that a model can have.")
        return path.read_text(encoding="utf-8", errors="replace")

    def _facts(self, folder: Path, text: str) -> dict[str, Any]:
        path = folder / self.manifest
        try:
            facts: dict[str, Any] = json.loads(text)
            version, written = int(facts["format"]), facts.get("version", "unknown")
        except RecursionError:
            raise InputError(f"{path} is damaged (it is nested too deeply); save the model again.") from None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as problem:
            raise InputError(f"{path} is damaged ({problem}); save the model again.") from problem
        if version > self.format:
            raise InputError(
                f"{path} was written by rearview {written} in format {version}, but this version reads up to "
                f"{self.format}; update rearview."
            )
        if facts.pop("checksum", None) != checksum(facts):
            raise InputError(f"{path} is damaged (its checksum differs); save the model again.")
        return facts


FORECASTER = Kind("forecaster", "forecaster.json", format=2)
DETECTOR = Kind("detector", "detector.json", format=2)
CLASSIFIER = Kind("classifier", "classifier.json", format=2)
KINDS = (FORECASTER, DETECTOR, CLASSIFIER)


def _read_weights(path: Path) -> bytes:
    """The content of a tensors' file, which is read only where its header fits its length."""
    from safetensors import SafetensorError, safe_open

    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a file; copy the whole folder, or save the model again.")
    try:
        with safe_open(path, "numpy"):
            pass
        return path.read_bytes()
    except SafetensorError as problem:
        raise InputError(f"{path} is damaged ({problem}); save the model again.") from problem
    except MemoryError:
        size = path.stat().st_size
        raise InputError(f"{path} has {size:,} bytes, which the memory of this machine does not hold.") from None


def _is_finite(tensor: "Tensor") -> bool:
    return not tensor.is_floating_point() or bool(tensor.isfinite().all())


def unpack_tensors(path: Path, content: bytes) -> "dict[str, Tensor]":
    """The tensors of a file whose header fits its length."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(content)
    except (SafetensorError, ValueError, TypeError, KeyError) as problem:
        raise InputError(f"{path} is damaged ({problem}); save the model again.") from problem


class DamagedModel(ValueError):
    """Parts of a model that contradict each other; the message says which."""


@contextmanager
def refuse_unreadable(folder: Path, facts: Mapping[str, object]) -> Iterator[None]:
    """Refuse facts that this version can't read, in one sentence, whatever they break inside."""
    try:
        yield
    except RearviewError:
        raise
    except DamagedModel as problem:
        raise InputError(f"{folder} is damaged ({problem}); save the model again.") from None
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as problem:
        raise InputError(
            f"{folder} does not fit this version of rearview ({rearview.__version__}): it was written by "
            f"{facts.get('version', 'an unknown one')} and something in it is missing or of another kind "
            f"({type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else 'no details'}); "
            "save the model again."
        ) from problem


def checksum(facts: Mapping[str, object]) -> str:
    """SHA-256 of facts, whatever the order in which they stand."""
    plain = json.loads(json.dumps(facts))
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def strip_prefix(prefix: str, items: Mapping[str, T]) -> dict[str, T]:
    """The items whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): item for name, item in items.items() if name.startswith(prefix)}
