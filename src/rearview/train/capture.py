"""CUDA graphs: work on a device recorded once and replayed at the cost of one launch.

Random numbers come from torch's CUDA generator, which moves on with every replay; running statistics and sums of losses
are changed in place, so replays change them too.

Before a capture the work must have run a few times, so that everything is compiled and every table is built. Those
runs leave no trace, and in the last of them whatever a graph can't hold is refused.
"""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache

import torch
from torch import Tensor

from rearview.core.errors import RearviewError

WARM_UP = 2
"""Runs before the one that is checked: the first compiles and builds tables, the second finds them."""


class Graph:
    """Work on a device, to be done again and again at the cost of one launch."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._graph = torch.cuda.CUDAGraph()

    def record(self, work: Callable[[], None], untouched: AbstractContextManager[None]) -> None:
        """Make the graph of `work`, which first runs a few times within `untouched`, which undoes it.

        Where the work can't be held by a graph this raises.
        """
        stream = _capture_stream(self.device)
        with torch.cuda.device(self.device):
            with untouched:
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream):
                    for _ in range(WARM_UP):
                        work()
                    before = torch.get_rng_state()
                    with _refuse_waiting():
                        work()
                    if not torch.equal(before, torch.get_rng_state()):
                        raise RearviewError("it draws random numbers on the CPU, which every replay would repeat")
            with _record_into(self._graph, stream):
                work()

    def replay(self) -> None:
        """Do the work again, with what its tensors hold by now."""
        self._graph.replay()


def attempt(record: Callable[[], None]) -> str | None:
    """Try to record a graph; the reason in one line where that fails, else None."""
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


@contextmanager
def preserve(device: torch.device, tensors: Sequence[Tensor]) -> Iterator[None]:
    """Put these tensors and the random states back afterwards, once everything on the device is done."""
    copies = [tensor.detach().clone() for tensor in tensors]
    host, on_device = torch.get_rng_state(), torch.cuda.get_rng_state(device)
    try:
        yield
    finally:
        torch.cuda.synchronize(device)
        with torch.no_grad():
            for tensor, copy in zip(tensors, copies, strict=True):
                tensor.copy_(copy)
        torch.set_rng_state(host)
        torch.cuda.set_rng_state(on_device, device)


@cache
def _capture_stream(device: torch.device) -> torch.cuda.Stream:
    """The stream that captures of a device run on; one for all, since each new one has cuBLAS set memory aside."""
    return torch.cuda.Stream(device)


@contextmanager
def _record_into(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream) -> Iterator[None]:
    """Record what runs within into the graph instead of running it.

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
def _refuse_waiting() -> Iterator[None]:
    """Raise where the work would wait for the device, as a capture would, but in a place that can be left unharmed."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        # torch calls the mode a prototype, since it does not see everything; the capture itself sees the rest.
        warnings.simplefilter("ignore")
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
