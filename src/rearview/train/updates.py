"""The updates of an epoch, one after another: full ones replayed from a CUDA graph where they can be.

An update gathers windows, goes forward and backward, clips and steps. Nothing in it waits for the device: no value is
read, no branch depends on one, and every full update has the same shapes. So a graph can hold all of it, from which
windows are next to the count of updates. What it reads from outside lies at fixed places on the device and is filled
once an epoch: the order of the windows and the rates. A small network's update is nearly all launches, and a replay is
one; between two of them the host does nothing and waits for nothing. torch's fused optimiser takes beta1 by value,
which a graph would freeze: under "onecycle", which drives beta1, the optimiser runs after the graph instead of in it.

A replay gives what the plain update gives, within rounding. Where there is none (no GPU, too few updates, a network
that a graph can't hold, a smaller last update), the plain update runs, and a sentence in `notes` says why.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Generic

import torch
from jaxtyping import Int, Num
from torch import Tensor, nn

from rearview.train import optimisation, parallel
from rearview.train.capture import Graph, attempt, preserve
from rearview.train.contract import Batch, Source, Task
from rearview.train.evaluation import Pool, autocast, device_of
from rearview.train.memory import Room, TooMuch
from rearview.train.optimisation import Rate
from rearview.train.settings import Settings

WORTHWHILE = 20
"""Full updates below which a run is over before a capture, at the cost of a handful, has paid for itself."""


@dataclass(eq=False)
class Update(Generic[Batch]):
    """One update of the weights, over up to batch * accumulate windows."""

    model: nn.Module
    task: Task[Batch]
    source: Source[Batch]
    optimiser: torch.optim.Optimizer
    settings: Settings

    def __post_init__(self) -> None:
        # For full batches alone: a smaller last one, or a larger one of validation, would be compiled a second time.
        self.compiled = CompiledModel(self.model) if self.settings.compile else None
        self.device = device_of(self.model)
        self.parameters: list[Tensor] = [p for group in self.optimiser.param_groups for p in group["params"]]
        self.pool = Pool(self.device)
        self.clip = self.settings.clip
        self.room = Room(self.model, self.settings, self.device)

    def __call__(self, index: Int[Tensor, " window"]) -> None:
        """Update the weights with the windows of `index`, and add their losses to the pool."""
        self.gradients(index)
        self.optimiser.step()
        self.optimiser.zero_grad()

    def gradients(self, index: Int[Tensor, " window"]) -> None:
        """Leave the windows' gradients, clipped, with the parameters, and add their losses to the pool."""
        if self.room.wide or not self._backward_fits(index):
            self.room.make(parallel.share(index), self._loss)
            self._backward(index)
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.clip)

    def _backward_fits(self, index: Int[Tensor, " window"]) -> bool:
        # Once this returns, what the broken pass held is free: an exception that is being handled would still hold it.
        try:
            self._backward(index)
        except TooMuch:
            return False
        return True

    def _backward(self, index: Int[Tensor, " window"]) -> None:
        if len(index) > self.room.at_once or parallel.size() > 1:
            self._backward_in_parts(parallel.share(index))
        else:
            total, number = self._forward(index)
            torch.autograd.backward(total / _divisor(number))

    def _backward_in_parts(self, index: Int[Tensor, " window"]) -> None:
        # How many cells there are is known after the last part only, so gradients of sums are gathered first.
        cells = torch.zeros((), device=self.device)
        for part in torch.split(index, self.room.at_once) if len(index) else ():
            total, number = self._forward(part)
            torch.autograd.backward(total)
            cells = cells + number
        cells = parallel.sum_gradients(self.parameters, cells)
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        torch._foreach_div_(gradients, _divisor(cells))

    def _forward(self, index: Int[Tensor, " part"]) -> tuple[Tensor, Tensor]:
        with self.room.watch(len(index)):
            total, number = self._loss(index)
        self.pool.add(total, number)
        return total, number

    def _loss(self, index: Int[Tensor, " part"]) -> tuple[Tensor, Tensor]:
        compiled = None if self.room.pending or len(index) != self.room.at_once else self.compiled
        windows = self.source.batch(index)
        with autocast(self.device, self.settings.precision):
            return self.task.loss(self.model if compiled is None else compiled, windows)


def _divisor(cells: Num[Tensor, ""]) -> Num[Tensor, ""]:
    """The number of cells, at least 1: a batch without an observed cell has a sum of 0 and pulls at nothing."""
    return torch.where(cells > 0, cells, 1)


class CompiledModel(nn.Module):
    """Gives what `model` gives; the first call compiles it, for the shapes of that call.

    torch keeps what it compiled with the code of a function, which all models of a class have in common, and gives up
    on code that was compiled for many: the ninth network of a process would run plainly, and nothing would say so. Here
    every model gets code of its own, and what was compiled goes with it.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

        def run(*arguments: object, **named: object) -> object:
            return model(*arguments, **named)

        own = FunctionType(run.__code__.replace(), run.__globals__, closure=run.__closure__)
        self._run = torch.compile(own, dynamic=False)

    def forward(self, *arguments: object, **named: object) -> object:
        return self._run(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        """Attributes of the model, which a task may read."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.model, name)


class Updates(Generic[Batch]):
    """Every update of a run, epoch by epoch."""

    def __init__(self, step: Update[Batch], visited: int) -> None:
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
        self.step.clip = self.rates[update].clip
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
    if settings.clip_halve_every is not None:
        return "the largest norm of their gradients changes"
    if not full:
        return f"no epoch has the {settings.windows_per_update:,} windows of a full update"
    updates = full * settings.epochs
    if settings.capture is None and updates < WORTHWHILE:
        return f"{updates} full updates are too few to pay for it"
    return None


class CapturedUpdates(Generic[Batch]):
    """The full updates of an epoch, `updates` of them, as replays of one graph."""

    def __init__(self, step: Update[Batch], updates: int) -> None:
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
                self._rate = torch.zeros((), device=device)
                optimisation.place_rate(optimiser, self._rate)
            self._graph.record(self._update, _preserve_training(self.step))
            self._gradients = [parameter.grad for parameter in self.step.parameters]
        except BaseException:
            optimisation.place_rate(optimiser, rate.learning_rate)
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
def _preserve_training(step: Update[Batch]) -> Iterator[None]:
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
