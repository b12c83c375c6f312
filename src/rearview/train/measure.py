"""Pooled losses: sums over all windows divided by the number of all cells, never a mean of batch means."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor, nn

from rearview.core.errors import InputError
from rearview.train.contract import Batch, SelectingTask, Source, Task
from rearview.train.settings import Precision


class Pool:
    """Running sums of losses and cells, kept on the device: adding never waits for it, reading does."""

    def __init__(self, device: torch.device) -> None:
        self.total = torch.zeros((), dtype=torch.float64, device=device)
        self.number = torch.zeros((), dtype=torch.float64, device=device)

    def add(self, total: Float[Tensor, ""], number: Num[Tensor, ""]) -> None:
        self.total += total.detach()
        self.number += number

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        return self.total, self.number

    def clear(self) -> None:
        self.total.zero_()
        self.number.zero_()

    def mean(self) -> float:
        """Loss per cell so far; NaN where no cell was observed."""
        total, number = torch.stack((self.total, self.number)).tolist()
        return total / number if number else math.nan

    @property
    def empty(self) -> bool:
        return not self.number.item()


def device_of(model: nn.Module) -> torch.device:
    """Where the model is: the device of its first parameter or buffer, or the CPU if it has none."""
    first = next(model.parameters(), next(model.buffers(), None))
    return torch.device("cpu") if first is None else first.device


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """The context a forward pass runs in."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bfloat16")


def evaluate(
    model: nn.Module,
    task: Task[Batch],
    source: Source[Batch],
    index: Int[Tensor, " window"],
    *,
    batch: int = 128,
    precision: Precision = "float32",
) -> float:
    """The task's validation criterion (its loss, if it has none of its own) pooled over the windows of `index`.

    The model is measured in evaluation mode and left as it was; `batch` windows go through it at once.
    """
    device = device_of(model)
    pool = Pool(device)
    with evaluating(model):
        for some in torch.split(index.to(device), batch):
            add_criterion(pool, model, task, source, some, precision)
    return pooled(pool, len(index))


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode within, without gradients, and each of its modules in its own mode afterwards."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        # no_grad rather than inference_mode: a table that a model caches here must be fit for training later.
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True


def add_criterion(
    pool: Pool,
    model: nn.Module,
    task: Task[Batch],
    source: Source[Batch],
    index: Int[Tensor, " window"],
    precision: Precision,
) -> None:
    """Add the task's validation criterion on the windows of `index`, all at once, to the pool."""
    measure = task.validation if isinstance(task, SelectingTask) else task.loss
    windows = source.batch(index)
    with autocast(pool.total.device, precision):
        pool.add(*measure(model, windows))


def pooled(pool: Pool, windows: int) -> float:
    """The loss per cell of a pool filled from so many windows; without an observed cell there is none."""
    if pool.empty:
        raise InputError(
            f"None of the {windows} windows to measure on holds an observed cell, so there is no loss; "
            "use windows with observed values."
        )
    return pool.mean()
