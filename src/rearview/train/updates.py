"""The updates of an epoch, one after another: full ones replayed from a CUDA graph where they can be.

A small network's update is nearly all launches, and a replay is one. The graph holds all of an update: which windows
are next, their gather, forward, backward, clipping, the learning rate, the optimiser, and the count of updates. What it
reads from outside lies at fixed places on the device and is filled once an epoch: the order of the windows and the
rates. Between two replays the host does nothing and waits for nothing. torch's fused optimiser takes beta1 by value,
which a graph would freeze: under "onecycle", which drives beta1, the optimiser runs after the graph instead of in it.

A replay gives what the plain update gives, within rounding. Where there is none (no GPU, too few updates, a network
that a graph can't hold, a smaller last update), the plain update runs, and a sentence in `notes` says why.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Generic

import torch
from jaxtyping import Int
from torch import Tensor

from rearview.train import optimisation, parallel
from rearview.train.capture import Graph, attempt, preserve
from rearview.train.contract import Batch
from rearview.train.optimisation import Rate
from rearview.train.settings import Settings
from rearview.train.step import Step

WORTHWHILE = 20
"""Full updates below which a run is over before a capture, at the cost of a handful, has paid for itself."""


class Updates(Generic[Batch]):
    """Every update of a run, epoch by epoch."""

    def __init__(self, step: Step[Batch], visited: int) -> None:
        """`visited`: the windows of an epoch."""
        settings = step.settings
        self.step = step
        self.size = parallel.windows_per_update(settings)
        self.full, self.rest = divmod(visited, self.size)
        self.graph: CapturedUpdates[Batch] | None = None
        self.compiled = settings.compile and visited >= settings.batch
        self.preparing_seconds = 0.0
        """Seconds spent on compiling and capturing."""
        self.notes: list[str] = []
        self._prepared = False

    @property
    def captured(self) -> bool:
        return self.graph is not None

    def begin(self, order: Int[Tensor, " visited"], rates: Sequence[Rate], first: int) -> None:
        """Lay out an epoch: its windows in order, the rate of each update, and the update to start with."""
        self.order, self.rates = order, rates
        if not self._prepared:
            self._prepared = True
            self._prepare()
        if self.graph is not None:
            self.graph.begin(order, rates, first)

    def __call__(self, update: int) -> None:
        """Do an update of the epoch that was laid out; from the first on they come in order."""
        if self.graph is not None and update < self.full:
            self.graph.replay(self.rates[update])
            return
        started = time.perf_counter()
        optimisation.set_rate(self.step.optimiser, self.rates[update])
        self.step(self.order[update * self.size : (update + 1) * self.size])
        if self.compiled and not self.preparing_seconds and update < self.full:
            self.preparing_seconds = time.perf_counter() - started

    def _prepare(self) -> None:
        settings, device = self.step.settings, self.step.device
        if settings.capture is False or (settings.capture is None and device.type != "cuda"):
            return
        why = obstacle(settings, device, self.full)
        if why is None:
            started = time.perf_counter()
            why = attempt(self._capture)
            self.preparing_seconds = time.perf_counter() - started
        if why is not None:
            self.notes.append(f"Updates were not captured in a CUDA graph: {why}.")
        elif self.rest:
            self.notes.append(
                f"The last update of each epoch, of {self.rest:,} windows instead of {self.size:,}, ran outside the "
                "CUDA graph."
            )

    def _capture(self) -> None:
        graph = CapturedUpdates(self.step, self.full)
        graph.begin(self.order, self.rates, 0)
        graph.capture(self.rates[0])
        self.graph = graph


def obstacle(settings: Settings, device: torch.device, full: int) -> str | None:
    """The reason not to capture a run with `full` full updates an epoch; None: no reason."""
    if device.type != "cuda":
        return f"that takes a GPU, and the model is on the {device.type}"
    if parallel.size() > 1:
        return f"{parallel.size()} processes share each of them"
    if not full:
        return f"no epoch has the {settings.windows_per_update:,} windows of a full update"
    updates = full * settings.epochs
    if settings.capture is None and updates < WORTHWHILE:
        return f"{updates} full updates are too few to pay for it"
    return None


class CapturedUpdates(Generic[Batch]):
    """The full updates of an epoch, `updates` of them, as replays of one graph."""

    def __init__(self, step: Step[Batch], updates: int) -> None:
        self.step = step
        self.updates = updates
        device = step.device
        self._order = torch.zeros(updates, step.settings.windows_per_update, dtype=torch.int64, device=device)
        self._rates = torch.zeros(updates, device=device)
        self._place = torch.zeros(1, dtype=torch.int64, device=device)
        self._graph = Graph(device)
        self._whole = step.settings.schedule != "onecycle"
        self._gradients: list[Tensor | None] = []

    def begin(self, order: Int[Tensor, " visited"], rates: Sequence[Rate], first: int) -> None:
        """Lay out an epoch, to be gone through from its update `first` on."""
        self._order.copy_(order[: self._order.numel()].view_as(self._order))
        self._rates.copy_(torch.tensor([rate.learning_rate for rate in rates[: self.updates]]))
        self._place.fill_(first)

    def capture(self, rate: Rate) -> None:
        """Make the graph for the epoch that was laid out, with the beta1 of `rate`.

        It leaves no trace in what training reads or changes. Where the update can't be captured it raises, and the step
        can be used as before.
        """
        optimiser, device = self.step.optimiser, self.step.device
        optimisation.set_rate(optimiser, rate)
        try:
            if self._whole:
                self._rate = optimisation.rate_on_device(optimiser, device)
            self._graph.record(self._update, _preserve_training(self.step))
            self._gradients = [parameter.grad for parameter in self.step.parameters]
        except BaseException:
            optimisation.rate_on_host(optimiser, rate)
            raise
        finally:
            optimiser.zero_grad()

    def replay(self, rate: Rate) -> None:
        """Do the next update, which runs at `rate`."""
        self._graph.replay()
        if not self._whole:
            optimisation.set_rate(self.step.optimiser, rate)
            for parameter, gradient in zip(self.step.parameters, self._gradients, strict=True):
                parameter.grad = gradient
            self.step.optimiser.step()
            self.step.optimiser.zero_grad()

    def _update(self) -> None:
        self.step.optimiser.zero_grad()
        self.step.gradients(self._order.index_select(0, self._place)[0])
        if self._whole:
            self._rate.copy_(self._rates.index_select(0, self._place)[0])
            with optimisation.capturable(self.step.optimiser):
                self.step.optimiser.step()
        # Round and round, so that there is always a next one, while warming up too.
        self._place.add_(1).remainder_(self.updates)


@contextmanager
def _preserve_training(step: Step[Batch]) -> Iterator[None]:
    """Put weights, buffers, moments, sums and random states back afterwards; gradients are dropped."""
    known = optimisation.state_tensors(step.optimiser)
    with preserve(step.device, [*step.model.parameters(), *step.model.buffers(), *step.pool.tensors, *known]):
        try:
            yield
        finally:
            torch.cuda.synchronize(step.device)
            old = {id(tensor) for tensor in known}
            for tensor in optimisation.state_tensors(step.optimiser):
                if id(tensor) not in old:
                    tensor.zero_()
