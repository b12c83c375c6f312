"""A model, a task and a source small enough to train in a blink, with all that makes resuming hard."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from rearview import train

INPUTS, HIDDEN, OUTPUTS = 5, 11, 3
WINDOWS, HELD_OUT = 47, 23

Cells = tuple[Tensor, Tensor, Tensor]


class Table:
    """Rows of inputs, targets and which targets were observed; calls `watch` with the number of each gather."""

    def __init__(self, watch: Callable[[int], None] = lambda gathers: None, dtype: torch.dtype = torch.float32) -> None:
        draw = torch.Generator().manual_seed(13)
        rows = WINDOWS + HELD_OUT
        self.inputs = torch.randn(rows, INPUTS, generator=draw, dtype=torch.float64).to(dtype)
        mixing = torch.randn(INPUTS, OUTPUTS, generator=draw, dtype=torch.float64).to(dtype)
        noise = torch.randn(rows, OUTPUTS, generator=draw, dtype=torch.float64).to(dtype)
        self.targets = self.inputs @ mixing + 0.3 * noise
        self.observed = torch.rand(rows, OUTPUTS, generator=draw) < 0.7
        self.watch = watch
        self.gathers = 0
        self.seen: list[Tensor] = []

    def batch(self, index: Tensor, /) -> Cells:
        self.gathers += 1
        self.seen.append(index.cpu())
        self.watch(self.gathers)
        return self.inputs[index], self.targets[index], self.observed[index]

    def to(self, device: str) -> "Table":
        self.inputs, self.targets = self.inputs.to(device), self.targets.to(device)
        self.observed = self.observed.to(device)
        return self


class Squares:
    """Squared errors over the observed cells."""

    def loss(self, model: nn.Module, batch: Cells, /) -> tuple[Tensor, Tensor]:
        inputs, targets, observed = batch
        errors = (model(inputs) - targets).square() * observed
        return errors.sum(), observed.sum()


def network(dropout: float = 0.3, norm: bool = True, seed: int = 7) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return nn.Sequential(
            # Without a bias before the norm, whose gradient would be rounding noise alone.
            nn.Linear(INPUTS, HIDDEN, bias=not norm),
            nn.BatchNorm1d(HIDDEN) if norm else nn.Identity(),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(HIDDEN, OUTPUTS),
        )


TRAIN = torch.arange(WINDOWS)
VALIDATION = torch.arange(WINDOWS, WINDOWS + HELD_OUT)


def same_weights(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def without_seconds(history: train.History) -> dict[str, object]:
    facts = history.to_dict()
    del facts["seconds"], facts["preparing_seconds"]
    for epoch in facts["epochs"]:
        del epoch["seconds"]
    return facts
