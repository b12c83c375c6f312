"""MICA's two paths and its gate by kernels of our own on a GPU, at the settings that these know.

They know softmax within a channel, of at most so many tokens as a tile holds, and a memory of all channels alike; a
beta gate with gradients and dropout, an MLP gate, residual scores beside it, where no gradient is wanted. Padding,
residual scores beside a beta, a bias that learns and a gate that somebody hooked into are left to the general form.
"""

import torch
from torch import Tensor, nn

from rearview.attention.contract import Carry, Inputs, Projected
from rearview.attention.mica.gates import Beta, Perceptron, Queries, Values
from rearview.attention.shared.execution import has_hooks
from rearview.attention.shared.fused import REACH, drop_seed, fits_short_kernel, needs_gradient, own_kernels_run
from rearview.attention.softmax import Layer as Softmax
from rearview.attention.softmax import join_carried


def mix_on_gpu(
    q: Queries, k: Queries, v: Values, local: Projected, gate: nn.Module, inputs: Inputs
) -> tuple[Values, Carry | None] | None:
    """The mixture that the gate makes of both paths, and what the next layer needs; None where no kernel does it."""
    plain = type(local) is Softmax and local.rotary is None and local.places is None and inputs.mask is None
    # Kernels want the channels of a token side by side, and those of a batch within what 32 bits count.
    near = all(part.stride(-1) == 1 and part.shape[1] * part.stride(1) < REACH for part in (q, k, v))
    if not (plain and near and own_kernels_run(q, k, v) and fits_short_kernel(q, v)):
        return None
    if any(has_hooks(part) for part in gate.modules()):
        return None
    bias = inputs.bias
    if bias is not None:
        if needs_gradient(bias) or any(size > 1 for size in bias.shape[:-3]):
            return None
        bias = bias.reshape(-1, *bias.shape[-2:])
    scale = local.site.per_head**-0.5
    if isinstance(gate, Beta) and inputs.carry is None:
        from rearview.attention.kernels.memory import fits, mix_with_memory

        if not fits(q, v):
            return None
        rate = local.site.dropout if local.training else 0.0
        return mix_with_memory(q, k, v, gate.beta.float().sigmoid(), bias, scale, drop_seed(q, rate), rate), None
    wanted = local.training or torch.is_grad_enabled()
    if wanted or not isinstance(gate, Perceptron):
        return None
    from rearview.attention.kernels import perceptron

    scored = join_carried(q, k, inputs)
    linear = [part for part in gate.layers if isinstance(part, nn.Linear)]
    if len(linear) > 3 or not perceptron.fits(q, v, scored[0], linear[0].out_features):
        return None
    middle: tuple[Tensor | None, Tensor | None] = (None, None)
    if len(linear) == 3:
        middle = linear[1].weight, linear[1].bias
    maps = perceptron.Maps(linear[0].weight, linear[0].bias, *middle, linear[-1].weight, linear[-1].bias)
    wider = None if scored[0] is q else scored
    mixed = perceptron.mix_by_perceptron(q, k, v, wider, bias, maps, gate.query, scale)
    return mixed, None if inputs.carry is None else scored
