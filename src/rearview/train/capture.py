"""Full updates as one CUDA graph: a small network's update is nearly all launches, and a replay is one launch.

The graph of an update holds all of it: which windows are next, their gather, forward, backward, clipping, the learning
rate, the optimiser, and the count of updates. What it reads from outside lies at fixed places on the device and is
filled once an epoch: the order of the windows and the rates. Between two replays the host does nothing and waits for
nothing.

Random numbers come from torch's CUDA generator, which moves on with every replay; running statistics and sums of
losses are changed in place, so replays change them too. torch's fused optimiser takes beta1 by value, which a graph
would freeze: under "onecycle", which drives beta1, the optimiser runs after the graph instead of in it.

Before a capture the work must have run a few times, so that everything is compiled and every table is built. Those
runs leave no trace, and in the last of them whatever a graph can't hold is refused.
"""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Generic

import torch
from jaxtyping import Int
from torch import Tensor

from rearview.core.errors import RearviewError
from rearview.train import optimise
from rearview.train.contract import Batch
from rearview.train.schedules import Rate
from rearview.train.step import Step

WARM_UP = 2
"""Runs before the one that is watched: the first compiles and builds tables, the second finds them."""


class NotCapturable(RearviewError):
    """The work can't be held by a graph; the message says why."""


class Graph:
    """Work on a device, to be done again and again at the cost of one launch."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._graph = torch.cuda.CUDAGraph()

    def record(self, work: Callable[[], None], untouched: AbstractContextManager[None]) -> None:
        """Make the graph of `work`; within `untouched`, which undoes it, `work` runs a few times first.

        Where the work can't be held by a graph this raises.
        """
        with torch.cuda.device(self.device):
            with untouched, _on_stream(_aside(self.device)):
                _warm_up(work)
            with _recording(self._graph, _aside(self.device)):
                work()

    def replay(self) -> None:
        """Do the work again, with what its tensors hold by now."""
        self._graph.replay()


def attempt(record: Callable[[], None]) -> str | None:
    """Why a graph can't be made, in one line; None where it could."""
    outside = sys.exception()
    try:
        record()
    except Exception as problem:
        # Whatever is wrong with the work itself, doing it plainly will say. The end of a broken capture raises again.
        first: BaseException = problem
        while first.__context__ is not None and first.__context__ is not outside:
            first = first.__context__
        return str(first).strip().partition("\n")[0].rstrip(".") or type(first).__name__
    return None


def _warm_up(work: Callable[[], None]) -> None:
    for _ in range(WARM_UP):
        work()
    drawn = torch.get_rng_state()
    with _no_waiting():
        work()
    if not torch.equal(drawn, torch.get_rng_state()):
        raise NotCapturable("it draws random numbers on the CPU, which every replay would repeat")


@contextmanager
def kept(device: torch.device, tensors: Sequence[Tensor]) -> Iterator[None]:
    """These tensors and the random states afterwards as they were before, once everything on the device is done."""
    copies = [tensor.detach().clone() for tensor in tensors]
    host, drawn = torch.get_rng_state(), torch.cuda.get_rng_state(device)
    try:
        yield
    finally:
        torch.cuda.synchronize(device)
        with torch.no_grad():
            for tensor, copy in zip(tensors, copies, strict=True):
                tensor.copy_(copy)
        torch.set_rng_state(host)
        torch.cuda.set_rng_state(drawn, device)


class Captured(Generic[Batch]):
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
        optimise.set_rate(optimiser, rate)
        try:
            if self._whole:
                self._rate = optimise.rate_on_device(optimiser, device)
            self._graph.record(self._update, _untouched(self.step))
            self._gradients = [parameter.grad for parameter in self.step.parameters]
        except BaseException:
            optimise.rate_on_host(optimiser, rate)
            raise
        finally:
            optimiser.zero_grad()

    def replay(self, rate: Rate) -> None:
        """Do the next update, which runs at `rate`."""
        self._graph.replay()
        if not self._whole:
            optimise.set_rate(self.step.optimiser, rate)
            for parameter, gradient in zip(self.step.parameters, self._gradients, strict=True):
                parameter.grad = gradient
            self.step.optimiser.step()
            self.step.optimiser.zero_grad()

    def _update(self) -> None:
        self.step.optimiser.zero_grad()
        self.step.gradients(self._order.index_select(0, self._place)[0])
        if self._whole:
            self._rate.copy_(self._rates.index_select(0, self._place)[0])
            with optimise.capturable(self.step.optimiser):
                self.step.optimiser.step()
        # Round and round, so that there is always a next one, while warming up too.
        self._place.add_(1).remainder_(self.updates)


@cache
def _aside(device: torch.device) -> torch.cuda.Stream:
    """The stream that captures of a device run on; one for all, since each new one has cuBLAS set memory aside."""
    return torch.cuda.Stream(device)


@contextmanager
def _on_stream(stream: torch.cuda.Stream) -> Iterator[None]:
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield


@contextmanager
def _recording(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream) -> Iterator[None]:
    """What runs within goes into the graph instead of to the device.

    A capture that breaks leaves torch on the stream of the capture, and its generator in the belief that the capture
    goes on; both are put right.
    """
    generator = torch.cuda.default_generators[stream.device_index]
    before, random = torch.cuda.current_stream(), generator.get_state()
    try:
        with torch.cuda.graph(graph, stream=stream):
            yield
    except BaseException:
        torch.cuda.set_stream(before)
        generator.graphsafe_set_state(torch.Generator(generator.device).graphsafe_get_state())
        generator.set_state(random)
        raise


@contextmanager
def _untouched(step: Step[Batch]) -> Iterator[None]:
    """Weights, buffers, moments, sums and random states afterwards as they were before; gradients are dropped."""
    known = optimise.state_tensors(step.optimiser)
    with kept(step.device, [*step.model.parameters(), *step.model.buffers(), *step.pool.tensors, *known]):
        try:
            yield
        finally:
            torch.cuda.synchronize(step.device)
            old = {id(tensor) for tensor in known}
            for tensor in optimise.state_tensors(step.optimiser):
                if id(tensor) not in old:
                    tensor.zero_()


@contextmanager
def _no_waiting() -> Iterator[None]:
    """Whatever would wait for the device raises, as a capture would, but in a place that can be left unharmed."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        # torch calls the mode a prototype, since it does not see everything; the capture itself sees the rest.
        warnings.simplefilter("ignore")
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
