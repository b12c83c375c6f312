"""A random state for each fit, although torch has one generator for all threads.

Networks draw from torch's own generator wherever dropout or a first weight asks for a number. So a fit keeps a state of
its own, which is torch's only while the fit draws: the caller's state is put back after it, and whoever else is to draw
from a state of its own waits for as long. A fit draws the same numbers alone, after another one, and beside one in
another thread. Code that draws from torch's generator in another thread without this draws from whatever state is there
at that moment.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import torch

_LOCK = RLock()


class RandomState:
    """The numbers that follow from a seed, on the CPU and on the device of a network."""

    def __init__(self, seed: int, device: torch.device | str = "cpu") -> None:
        """The stream that `torch.manual_seed(seed)` begins."""
        self.cuda = torch.device(device) if torch.device(device).type == "cuda" else None
        self._states = [torch.Generator().manual_seed(seed).get_state()]
        if self.cuda is not None:
            self._states.append(torch.Generator(self.cuda).manual_seed(seed).get_state())
        self._within = 0

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Let torch draw from this state within, and from the caller's again after it."""
        with _LOCK:
            self._within += 1
            try:
                if self._within > 1:
                    yield
                    return
                before = self._exchange(self._states)
                try:
                    yield
                finally:
                    self._states = self._exchange(before)
            finally:
                self._within -= 1

    def _exchange(self, states: list[torch.Tensor]) -> list[torch.Tensor]:
        """Put torch's generators to states and return those that they had."""
        before = [torch.get_rng_state()]
        torch.set_rng_state(states[0])
        if self.cuda is not None:
            before.append(torch.cuda.get_rng_state(self.cuda))
            torch.cuda.set_rng_state(states[1], self.cuda)
        return before


@contextmanager
def keep_caller_state() -> Iterator[None]:
    """Let torch draw on the CPU within, and put the caller's state back after it."""
    with _LOCK, torch.random.fork_rng(devices=[]):
        yield
