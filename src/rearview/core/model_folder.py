"""A fitted model on disk: a folder of one JSON file and one safetensors file, read without running any code.

The JSON holds facts, the library's version, the name and checksum of the tensors' file, and a checksum of itself, so
that a changed or half-copied model is refused. The tensors' file is named by its content and written first: a save that
is cut off leaves the model that was there before.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import rearview
from rearview.core.errors import InputError, RearviewError
from rearview.core.files import write_atomically

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
_WEIGHTS = "weights-*.safetensors"


@dataclass(frozen=True, slots=True)
class Kind:
    """What a folder holds: one kind of fitted model."""

    word: str
    """What it is called in sentences, such as "forecaster"."""
    manifest: str
    """The name of the JSON file."""
    format: int
    """The newest layout of the facts that can be read."""

    def save(self, folder: Path, facts: Mapping[str, object], tensors: "Mapping[str, Tensor]") -> None:
        """Write a model; what an earlier one left behind goes."""
        from safetensors.torch import save as pack

        content = pack({name: tensor.contiguous() for name, tensor in tensors.items()})
        digest = hashlib.sha256(content).hexdigest()
        weights = f"weights-{digest[:16]}.safetensors"
        head = {"format": self.format, "version": rearview.__version__, "weights": weights, "sha256": digest}
        whole = {**head, **facts}
        text = json.dumps({**whole, "checksum": checksum(whole)}, indent=1)
        write_atomically(folder / weights, content)
        write_atomically(folder / self.manifest, text)
        for old in folder.glob(_WEIGHTS):
            if old.name != weights:
                old.unlink()

    def load(self, folder: Path) -> "tuple[dict[str, Any], dict[str, Tensor]]":
        """The facts and tensors that `save` wrote; a missing, changed or newer model is refused."""
        from safetensors.torch import load as unpack

        facts = self._facts(folder)
        path = folder / Path(str(facts.get("weights"))).name
        if not path.is_file():
            raise InputError(f"{path} is missing; copy the whole folder, or save the model again.")
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != facts.get("sha256"):
            raise InputError(f"{path} was changed after it was saved (its checksum differs); save the model again.")
        return facts, unpack(content)

    def discard(self, folder: Path) -> None:
        """Remove a saved model and nothing else; the folder goes too when it is empty then."""
        for path in (folder / self.manifest, *folder.glob(_WEIGHTS)):
            path.unlink(missing_ok=True)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()

    def _facts(self, folder: Path) -> dict[str, Any]:
        path = folder / self.manifest
        if not path.is_file():
            below = sorted((*folder.glob(f"*/{self.manifest}"), *folder.glob(f"*/*/{self.manifest}")))
            hint = "Give the folder that `save` wrote."
            if below:
                hint = f"There is one in {' and in '.join(str(other.parent) for other in below)}."
            raise InputError(f"{folder} holds no saved {self.word}: {self.manifest} is missing. {hint}")
        try:
            facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            version, written = int(facts["format"]), facts.get("version", "unknown")
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise InputError(f"{path} is damaged ({problem}); save the model again.") from problem
        if version > self.format:
            raise InputError(
                f"{path} was written by rearview {written} in format {version}, but this version reads up to "
                f"{self.format}; update rearview."
            )
        if facts.pop("checksum", None) != checksum(facts):
            raise InputError(f"{path} was changed after it was saved (its checksum differs); save the model again.")
        return facts


FORECASTER = Kind("forecaster", "forecaster.json", format=1)
DETECTOR = Kind("detector", "detector.json", format=2)
CLASSIFIER = Kind("classifier", "classifier.json", format=1)


@contextmanager
def refuse_unreadable(folder: Path, facts: Mapping[str, object]) -> Iterator[None]:
    """Refuse facts that this version can't read, in one sentence, whatever they break inside."""
    try:
        yield
    except RearviewError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as problem:
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
