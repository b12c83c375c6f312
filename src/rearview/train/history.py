"""The history of a training run: loss curves, best epoch, and why it ended."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Ended = Literal["epochs", "patience", "time", "interrupted"]


@dataclass(frozen=True, slots=True)
class Epoch:
    """One pass over the training windows."""

    number: int
    """Counted from 1."""
    train_loss: float
    """Pooled over the epoch's windows, each as the weights were when it was visited."""
    validation_loss: float | None
    """Pooled over all validation windows at the epoch's end; None without validation."""
    learning_rate: float
    """In force at the epoch's last update."""
    seconds: float
    """Wall time, validation included."""


@dataclass(frozen=True, slots=True)
class History:
    """The history of a training run."""

    epochs: tuple[Epoch, ...]
    """The epochs that came to their end."""
    best_epoch: int | None
    """The epoch whose weights the model holds; None: those it had last."""
    ended: Ended
    """"epochs": all were done; "patience": no improvement for too long; "time": no time left; "interrupted": Ctrl-C."""
    steps: int
    """Updates of the weights."""
    windows: int
    """Windows visited, each counted as often as it was."""
    seconds: float
    """Wall time over all sessions of the run."""
    compiled: bool = False
    """Whether full batches ran through torch.compile."""
    captured: bool = False
    """Whether full updates were replayed from a CUDA graph."""
    preparing_seconds: float = 0.0
    """Wall time that compiling and capturing took, part of `seconds`; of this session alone."""
    notes: tuple[str, ...] = ()
    """Sentences on what ran differently from the settings, and why."""

    def to_dict(self) -> dict[str, object]:
        """Plain numbers and lists, ready for JSON."""
        return {**asdict(self), "epochs": [asdict(epoch) for epoch in self.epochs], "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> "History":
        """The history that `to_dict` wrote."""
        epochs = tuple(Epoch(**epoch) for epoch in facts["epochs"])
        return cls(**{**facts, "epochs": epochs, "notes": tuple(facts.get("notes", ()))})
