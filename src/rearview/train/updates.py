"""The updates of an epoch, one after another: full ones replayed from a CUDA graph where they can be.

A replay gives what the plain update gives, within rounding. Where there is none (no GPU, too few updates, a network
that a graph can't hold, a smaller last update), the plain update runs, and a sentence in `notes` says why.
"""

import time
from collections.abc import Sequence
from typing import Generic

import torch
from jaxtyping import Int
from torch import Tensor

from rearview.train import optimise, parallel
from rearview.train.capture import Captured, attempt
from rearview.train.contract import Batch
from rearview.train.schedules import Rate
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
        self.graph: Captured[Batch] | None = None
        self.compiled = settings.compile and visited >= settings.batch
        self.preparing_seconds = 0.0
        """What compiling and capturing took."""
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
        optimise.set_rate(self.step.optimiser, self.rates[update])
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
        graph = Captured(self.step, self.full)
        graph.begin(self.order, self.rates, 0)
        graph.capture(self.rates[0])
        self.graph = graph


def obstacle(settings: Settings, device: torch.device, full: int) -> str | None:
    """Why there is no use in trying to capture a run with `full` full updates an epoch; None where there is."""
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
