"""The validation loss of a run, epoch after epoch: large batches, replayed from a CUDA graph where updates are."""

import time
from typing import Generic

import torch
from jaxtyping import Int
from torch import Tensor, nn

from rearview.train.capture import Graph, attempt, kept
from rearview.train.contract import Batch, Source, Task
from rearview.train.measure import Pool, add_criterion, device_of, evaluating, pooled
from rearview.train.settings import Settings


class Validation(Generic[Batch]):
    """What `evaluate` gives, again and again, for a model whose weights change in place."""

    def __init__(
        self,
        model: nn.Module,
        task: Task[Batch],
        source: Source[Batch],
        index: Int[Tensor, " window"],
        settings: Settings,
    ) -> None:
        self.model, self.task, self.source = model, task, source
        self.precision = settings.precision
        device = device_of(model)
        self.index = index.to(device)
        self.batch = settings.validation_batch or 4 * settings.batch
        self.pool = Pool(device)
        self.preparing_seconds = 0.0
        """What capturing took."""
        self.notes: list[str] = []
        self._full = self.index[: len(index) // self.batch * self.batch].view(-1, self.batch)
        self._place = torch.zeros(1, dtype=torch.int64, device=device)
        self._graph: Graph | None = None
        self._tried = False

    def __call__(self, *, capture: bool, at_once: int | None = None) -> float:
        """The loss with the weights as they are; with `capture` full batches are replayed, if they can be.

        Where memory is short, `at_once` says how many windows may go through at once.
        """
        if capture and at_once is None and not self._tried:
            self._capture()
        self.pool.clear()
        replays = 0 if self._graph is None else len(self._full)
        with evaluating(self.model):
            for _ in range(replays):
                assert self._graph is not None
                self._graph.replay()
            for some in torch.split(self.index[replays * self.batch :], min(self.batch, at_once or self.batch)):
                self._add(some)
        return pooled(self.pool, len(self.index))

    def _capture(self) -> None:
        self._tried = True
        if not len(self._full):
            return
        started = time.perf_counter()
        with evaluating(self.model):
            why = attempt(self._record)
        self.preparing_seconds = time.perf_counter() - started
        if why is not None:
            self.notes.append(f"Validation was not captured in a CUDA graph: {why}.")

    def _record(self) -> None:
        graph = Graph(self.index.device)
        graph.record(self._add_next, kept(graph.device, [*self.pool.tensors, self._place]))
        self._graph = graph

    def _add_next(self) -> None:
        self._add(self._full.index_select(0, self._place)[0])
        self._place.add_(1).remainder_(len(self._full))

    def _add(self, index: Int[Tensor, " some"]) -> None:
        add_criterion(self.pool, self.model, self.task, self.source, index, self.precision)
