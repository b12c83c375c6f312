"""A model behind torch.compile, compiled for itself alone.

torch keeps what it compiled with the code of a function, which all models of a class have in common, and gives up on
code that was compiled for many: the ninth network of a process would run plainly, and nothing would say so. Here every
model gets code of its own, and what was compiled goes with it.
"""

from types import FunctionType
from typing import Any

import torch
from torch import nn


class Compiled(nn.Module):
    """Gives what `model` gives; the first call compiles it, for the shapes of that call."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

        def run(*given: Any, **named: Any) -> Any:
            return model(*given, **named)

        own = FunctionType(run.__code__.replace(), run.__globals__, closure=run.__closure__)
        self._run = torch.compile(own, dynamic=False)

    def forward(self, *given: Any, **named: Any) -> Any:
        return self._run(*given, **named)

    def __getattr__(self, name: str) -> Any:
        """What a task may read from the model."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.model, name)
