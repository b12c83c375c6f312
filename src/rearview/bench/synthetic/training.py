"""Training on samples that are drawn afresh for every step, with a look at fixed test sets now and then.

The one training loop does the work. An epoch is a stretch of steps between two looks, and its "windows" are only
counted: a source draws as many new samples as it is asked for. Where steps are replayed from a CUDA graph, the draws
are part of the graph, since they come from the device's own generator.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from rearview import train
from rearview.train.contract import Batch, Source, Task
from rearview.train.evaluation import evaluation_mode

Measure = Callable[[], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Measured:
    """What a look at the test sets showed."""

    step: int
    seconds: float
    train_loss: float
    values: Mapping[str, float]


Keep = Callable[[Measured], None]


@dataclass(frozen=True, slots=True)
class Training:
    """How a training went."""

    looks: tuple[Measured, ...]
    steps: int
    in_time: bool
    """Whether all steps were done before time ran out."""
    seconds: float
    captured: bool

    def last_quarter(self, metric: str) -> list[float]:
        """A metric at the looks of the last quarter of training."""
        values = [look.values[metric] for look in self.looks]
        return values[-max(1, len(values) // 4) :]


class _Watch(train.Silent):
    """Looks at the end of every stretch, and ends training once its time is up."""

    def __init__(self, network: nn.Module, measure: Measure, stretch: int, seconds: float | None, keep: Keep) -> None:
        self.network, self.measure, self.stretch, self.keep = network, measure, stretch, keep
        self.started = time.perf_counter()
        self.until = None if seconds is None else self.started + seconds
        self.looks: list[Measured] = []
        self.late = False

    def epoch(self, epoch: train.Epoch) -> None:
        with evaluation_mode(self.network):
            values = dict(self.measure())
        now = time.perf_counter()
        self.looks.append(Measured(epoch.number * self.stretch, now - self.started, epoch.train_loss, values))
        self.keep(self.looks[-1])
        self.late = self.until is not None and now + epoch.seconds > self.until
        if self.late:
            # The loop ends in good order on an interrupt, whoever makes it.
            raise KeyboardInterrupt


def train_stretches(
    network: nn.Module,
    task: Task[Batch],
    source: Source[Batch],
    settings: train.Settings,
    *,
    stretch: int,
    measure: Measure,
    seconds: float | None,
    keep: Keep,
) -> Training:
    """Train in place for settings.epochs stretches of `stretch` steps, `seconds` at most, looking after each."""
    watch = _Watch(network, measure, stretch, seconds, keep)
    samples = torch.arange(stretch * settings.windows_per_update)
    history = train.fit(network, task, source, samples, None, settings, progress=watch)
    if history.ended == "interrupted" and not watch.late:
        # Ctrl-C: a row of a run cut short by hand would pass for a whole one.
        raise KeyboardInterrupt
    in_time = len(history.epochs) == settings.epochs
    return Training(tuple(watch.looks), history.steps, in_time, history.seconds, history.captured)
