"""A kernel's two passes as one differentiable function, for eager code and for torch.compile.

Called from eager code, kernels go past torch's dispatcher, which costs more than a kernel on small tensors. A compiler
gets registered operators instead, which it can see into.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.library import triton_op, wrap_triton

from rearview.attention.kernels import plain
from rearview.attention.kernels.tiles import pack


def register(name: str, run: Callable[..., Any]) -> Any:
    """The operator `rearview::name` of `run(wrap, *inputs)`, whose annotations are its schema."""

    def visible(*inputs):
        return run(wrap_triton, *inputs)

    signature = inspect.signature(run)
    visible.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
    return triton_op(f"rearview::{name}", visible, mutates_args={})


class Operator:
    """The first output of `forward(wrap, *inputs)`, with the gradients of `backward(wrap, pull, *saved, *settings)`.

    Of the inputs the first so many are tensors or None, and saved; the others are settings. `keep` says which outputs
    are saved beside them. Backward returns the gradients of the first inputs; the others have none.
    """

    def __init__(
        self,
        name: str,
        forward: Callable[..., Any],
        backward: Callable[..., Any],
        tensors: int,
        *,
        keep: slice = slice(0),
        lay_out: Callable[[Tensor], Tensor] = pack,
    ) -> None:
        self.forward, self.backward = forward, backward
        self.tensors, self.keep, self.lay_out = tensors, keep, lay_out
        self.visible, self.visible_backward = register(name, forward), register(f"{name}_backward", backward)
        self.visible.register_autograd(self._pull_visibly, setup_context=self.remember)

    def __call__(self, *inputs) -> Tensor:
        if not torch.compiler.is_compiling():
            return _Eager.apply(self, *inputs)
        made = self.visible(*inputs)
        return made if isinstance(made, Tensor) else made[0]

    def remember(self, ctx, inputs, output) -> None:
        """Save what the way back needs."""
        outputs = () if isinstance(output, Tensor) else output
        ctx.save_for_backward(*inputs[: self.tensors], *outputs[self.keep])
        ctx.settings = inputs[self.tensors :]

    def gradients(self, run: Callable[..., Any], ctx, pull: Tensor, needs: Sequence[bool]) -> tuple[Tensor | None, ...]:
        """The gradients of all inputs, none for those that are not there; `needs` says which ones are asked for."""
        saved = ctx.saved_tensors
        made = run(pull, *saved, *ctx.settings)
        found = [None if part is None else gradient for part, gradient in zip(saved, made, strict=False)]
        return (*found, *[None] * (self.tensors + len(ctx.settings) - len(found)))

    def _pull_visibly(self, ctx, pull: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        return self.gradients(self.visible_backward, ctx, self.lay_out(pull), ctx.needs_input_grad)


class _Eager(torch.autograd.Function):
    @staticmethod
    def forward(ctx, operator: Operator, *inputs) -> Tensor:
        made = operator.forward(plain, *inputs)
        ctx.operator = operator
        operator.remember(ctx, inputs, made)
        return made if isinstance(made, Tensor) else made[0]

    @staticmethod
    @once_differentiable
    def backward(ctx, pull: Tensor) -> tuple[Tensor | None, ...]:
        operator = ctx.operator
        run = partial(operator.backward, plain)
        return None, *operator.gradients(run, ctx, operator.lay_out(pull), ctx.needs_input_grad[1:])
