"""Residual sums: the bias, activation, dropout, sum and norm between a block's products.

On a GPU in training, where it pays, they are one kernel each way (`kernels`), which also adds the bias of the product
before: its gradient is then a sum of numbers that are at hand. Everywhere else, evaluation included, the modules run
one after the other as they are.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from rearview.attention.shared.execution import has_hooks
from rearview.attention.shared.fused import drop_seed
from rearview.embed import Dropout
from rearview.models import kernels


def widen(x: Tensor, layer: nn.Module, activation: nn.Module, drop: Dropout) -> Tensor:
    """drop(activation(layer(x)))."""
    function: Literal["relu", "gelu", "gelu_tanh"] = "relu"
    if isinstance(activation, nn.GELU):
        function = "gelu_tanh" if activation.approximate == "tanh" else "gelu"
    known = isinstance(activation, (nn.ReLU, nn.GELU))  # torch before 2.7 can't compile a union
    if not known or not kernels.run(x) or not _replaceable(drop, activation):
        return drop(activation(layer(x)))
    from rearview.models.kernels.branch import activate

    product, bias = _product(x, layer)
    return activate(product, bias, function, drop_seed(x, drop.rate), drop.rate)


def add(
    x: Tensor, branch: Tensor, drop: Dropout, norm: nn.Module | None = None, mask: Tensor | None = None, *,
    narrow: nn.Module | None = None,
) -> Tensor:  # fmt: skip
    """norm(x + drop(narrow(branch))), without the norm or the map that is not given."""
    fits = kernels.run(x, branch) and x.shape[:-1] == branch.shape[:-1] and _replaceable(drop, norm)
    if fits and isinstance(norm, nn.LayerNorm) and _norm_fits(norm, x, branch):
        return _add_norm(x, *_product(branch, narrow), norm, drop)
    if fits and drop.rate > 0:
        from rearview.models.kernels import branch as kernel

        summed = kernel.add(x, *_product(branch, narrow), drop_seed(x, drop.rate), drop.rate)
    else:
        summed = x + drop(branch if narrow is None else narrow(branch))
    return summed if norm is None else norm(summed, mask)


def layer_norm(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    """norm(x), not by way of its module."""
    if norm.training and kernels.run(x) and _norm_fits(norm, x):
        return _add_norm(x, None, None, norm, None)
    return functional.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


def _add_norm(
    x: Tensor, branch: Tensor | None, bias: Tensor | None, norm: nn.LayerNorm, drop: Dropout | None
) -> Tensor:
    from rearview.models.kernels.norm import add_norm

    seed, rate = (None, 0.0) if drop is None else (drop_seed(x, drop.rate), drop.rate)
    return add_norm(x, branch, bias, norm.weight, norm.bias, seed, rate, norm.eps, norm.weight.dtype)


def _norm_fits(norm: nn.LayerNorm, x: Tensor, branch: Tensor | None = None) -> bool:
    """Whether a program can hold a row, and the norm gives what torch's would, in the same type."""
    from rearview.models.kernels.norm import WIDEST

    if norm.normalized_shape != x.shape[-1:] or x.shape[-1] > WIDEST or norm.weight is None or norm.bias is None:
        return False
    summed = x.dtype if branch is None else torch.promote_types(x.dtype, branch.dtype)
    given = torch.float32 if torch.is_autocast_enabled(x.device.type) else summed
    return norm.weight.dtype == norm.bias.dtype == given


def _replaceable(drop: Dropout, other: nn.Module | None) -> bool:
    """Whether a kernel may stand for these two: in training, and where nobody waits for their calls."""
    return drop.training and drop.rate < 1 and not has_hooks(drop) and (other is None or not has_hooks(other))


def _product(x: Tensor, layer: nn.Module | None) -> tuple[Tensor, Tensor | None]:
    """The layer's output and the bias still to be added, that of a plain linear map."""
    if layer is None:
        return x, None
    if type(layer) is not nn.Linear or has_hooks(layer):
        return layer(x), None
    return functional.linear(x, layer.weight), layer.bias
