"""Pooled losses: sums over all windows divided by the number of all cells, never a mean of batch means."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor, nn

from rearview.core.errors import InputError
from rearview.train.capture import Graph, attempt, preserve
from rearview.train.contract import Batch, SelectingTask, Source, Task
from rearview.train.settings import Precision


class Pool:
    """Running sums of losses and cells on the device: adding never waits for it, reading does."""

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
    """The device of the model's first parameter or buffer, or the CPU if it has none."""
    first = next(model.parameters(), next(model.buffers(), None))
    return torch.device("cpu") if first is None else first.device


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """The context a forward pass runs in."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bfloat16")


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Put the model in evaluation mode without gradients, and each of its modules back in its own mode afterwards."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        # no_grad rather than inference_mode: a table that a model caches here must be fit for training later.
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True


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
    return Evaluation(model, task, source, index, batch, precision)()


@dataclass(eq=False)
class Evaluation(Generic[Batch]):
    """`evaluate` for a model whose weights change in place: each call measures them as they are."""

    model: nn.Module
    task: Task[Batch]
    source: Source[Batch]
    index: Int[Tensor, " window"]
    batch: int
    precision: Precision

    def __post_init__(self) -> None:
        self.criterion = self.task.validation if isinstance(self.task, SelectingTask) else self.task.loss
        device = device_of(self.model)
        self.index = self.index.to(device)
        self.pool = Pool(device)
        self.preparing_seconds = 0.0
        """Seconds spent on capturing."""
        self.notes: list[str] = []
        self._full = self.index[: len(self.index) // self.batch * self.batch].reshape(-1, self.batch)
        self._place = torch.zeros(1, dtype=torch.int64, device=device)
        self._graph: Graph | None = None
        self._tried = False

    def __call__(self, *, capture: bool = False, at_once: int | None = None) -> float:
        """The loss with the weights as they are; with `capture` full batches are replayed, if they can be.

        Where memory is short, `at_once` says how many windows may go through at once.
        """
        if capture and at_once is None and not self._tried:
            self._tried = True
            if len(self._full):
                self._capture()
        self.pool.clear()
        replays = 0 if self._graph is None else len(self._full)
        with evaluation_mode(self.model):
            for _ in range(replays):
                assert self._graph is not None
                self._graph.replay()
            for some in torch.split(self.index[replays * self.batch :], min(self.batch, at_once or self.batch)):
                self._add(some)
        if self.pool.empty:
            raise InputError(
                f"None of the {len(self.index)} windows to measure on holds an observed cell, so there is no loss; "
                "use windows with observed values."
            )
        return self.pool.mean()

    def _capture(self) -> None:
        def add_next() -> None:
            self._add(self._full.index_select(0, self._place)[0])
            self._place.add_(1).remainder_(len(self._full))

        def record() -> None:
            graph = Graph(self.index.device)
            graph.record(add_next, preserve(graph.device, [*self.pool.tensors, self._place]))
            self._graph = graph

        started = time.perf_counter()
        with evaluation_mode(self.model):
            why = attempt(record)
        self.preparing_seconds = time.perf_counter() - started
        if why is not None:
            self.notes.append(f"Validation was not captured in a CUDA graph: {why}.")

    def _add(self, index: Int[Tensor, " some"]) -> None:
        windows = self.source.batch(index)
        with autocast(self.pool.total.device, self.precision):
            self.pool.add(*self.criterion(self.model, windows))
