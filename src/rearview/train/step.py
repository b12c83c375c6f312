"""One update of the weights: gather, forward, backward, clip, update.

Nothing in here waits for the device: no value is read, no branch depends on one, and every full update has the same
shapes. So a full update can be captured in a CUDA graph.
"""

from dataclasses import dataclass
from types import FunctionType
from typing import Any, Generic

import torch
from jaxtyping import Int, Num
from torch import Tensor, nn

from rearview.train import parallel
from rearview.train.contract import Batch, Source, Task
from rearview.train.evaluation import Pool, autocast, device_of
from rearview.train.memory import Room, TooMuch
from rearview.train.settings import Settings


@dataclass(eq=False)
class Step(Generic[Batch]):
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
        if self.settings.clip is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.settings.clip)

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
