"""The protocols that the loop relies on: a source of batches, and a task with a loss."""

from typing import Protocol, TypeVar, runtime_checkable

from jaxtyping import Float, Int, Num
from torch import Tensor, nn

from rearview.core.errors import RearviewError

Batch = TypeVar("Batch")
BatchOut = TypeVar("BatchOut", covariant=True)
BatchIn = TypeVar("BatchIn", contravariant=True)


class TrainingError(RearviewError):
    """Training ran and failed: the message names the epoch, what went wrong and what usually helps."""


class Diverged(TrainingError):
    """A loss is no finite number any more."""


@runtime_checkable
class Source(Protocol[BatchOut]):
    """A source of batches; the loop never looks inside one."""

    def batch(self, index: Int[Tensor, " window"], /) -> BatchOut:
        """The windows of `index` (on any device) in one gather, on the device the model is on."""


@runtime_checkable
class Task(Protocol[BatchIn]):
    """A task: the loss of a model on a batch."""

    def loss(self, model: nn.Module, batch: BatchIn, /) -> tuple[Float[Tensor, ""], Num[Tensor, ""]]:
        """The sum of the losses over the observed cells of the batch, and the number of those cells.

        A sum and a number, not a mean: batches of unequal size or with unequal gaps pool without a bias.
        """


@runtime_checkable
class SelectingTask(Task[BatchIn], Protocol[BatchIn]):
    """A task that picks the best weights by something other than its training loss."""

    def validation(self, model: nn.Module, batch: BatchIn, /) -> tuple[Float[Tensor, ""], Num[Tensor, ""]]:
        """The selection criterion, lower is better, in the form of `loss`."""
