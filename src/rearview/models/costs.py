"""The cost of a network at given sizes: parameters, FLOPs of a forward pass, tokens of a window.

Nothing is computed and no memory is taken: tensors have shapes and no values, so a network of 600 channels is counted
as fast as one of 7. Networks whose shapes depend on values (a graph's edges) run once for real instead.

FLOPs are those of matrix products and convolutions, two for a product and its sum, of one window in evaluation. What is
done value by value (norms, softmax, activations, recurrences) is left out; the products of queries and keys and of
weights and values are in it, however the attention is computed.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from rearview import models
from rearview.attention import Spec
from rearview.attention.contract import Attention
from rearview.core.random_state import keep_caller_state

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a network."""

    parameters: int
    """Numbers that are trained."""
    flops: int
    """FLOPs of the forward pass of one window."""
    map_flops: int
    """Those of them that linear maps and convolutions take: one matrix for all that goes through. The others are
    products of two batches, as of queries with keys and of weights with values."""
    tokens: int | None
    """Tokens of one window, those of all channels together; None: the network has no attention."""

    def lines(self) -> list[str]:
        """The cost as lines of text."""
        tokens = [] if self.tokens is None else [f"tokens per window: {self.tokens:,}"]
        return [
            *tokens,
            f"parameters: {self.parameters:,}",
            f"FLOPs of a forward pass, one window: {_short(self.flops)}",
        ]


def cost(
    name: str, *, channels: int, lookback: int, steps: int, attention: Spec = None, adapters: Any = (), **settings: Any
) -> Cost:
    """The cost of a network that is created with these sizes and settings, which are `models.create`'s."""

    create = partial(models.create, name, channels=channels, lookback=lookback, steps=steps, attention=attention)

    def count(mode: AbstractContextManager[object]) -> Cost:
        with mode:
            model = create(adapters=adapters, **settings).eval()
            parameters = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
            past = torch.zeros(1, channels, lookback)
            # The counter follows gradients where there are any, also into parameters that have none yet. Fused
            # attention is taken apart, so that it is counted in the same way wherever it runs.
            model.requires_grad_(False)
            with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
                model(past)
        operations = counter.get_flop_counts().get("Global", {})
        of_batches = sum(int(operations.get(product, 0)) for product in (aten.bmm, aten.baddbmm))
        flops = int(counter.get_total_flops())
        first = next((part.site for part in model.modules() if isinstance(part, Attention)), None)
        return Cost(parameters, flops, flops - of_batches, None if first is None else first.groups * first.tokens)

    with keep_caller_state():
        try:
            return count(FakeTensorMode())
        except (DataDependentOutputException, DynamicOutputShapeException):
            return count(nullcontext())


def _short(number: int) -> str:
    """1,234,567 as 1.23 million, as the papers print it."""
    for size, word in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.3g} {word}"
    return str(number)
