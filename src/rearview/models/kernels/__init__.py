"""GPU kernels for what stands between a block's products: training on a GPU takes them where they pay.

On the device they take a fraction of the time of the operations that they stand for. Called from Python, each way, they
take more of the host's: a step that is bound by its launches loses what it gains.
"""

import torch
from torch import Tensor

from rearview.attention.kernels import available

REACH = 1 << 31
"""Numbers of a tensor that the kernels can count: they do so in 32 bits."""
MANY = 1 << 23
"""Numbers of a tensor from which on a step is bound by the device, whoever launches it."""


def run(x: Tensor, *others: Tensor) -> bool:
    """Whether the kernels can take these tensors, and pay: on a GPU, of a type and size they know, and as they are.

    A compiler fuses plain operations by itself, and a transformation of functions (`torch.func`) can't see into a
    kernel: both are left to torch.
    """
    if torch.compiler.is_compiling() or not available(x.device) or torch._C._are_functorch_transforms_active():
        return False
    from rearview.attention.kernels.tiles import KNOWN

    known = all(part.dtype in KNOWN and 0 < part.numel() < REACH for part in (x, *others))
    return known and all(other.device == x.device for other in others) and pay(x)


def pay(x: Tensor) -> bool:
    """Whether there are many numbers, or launches are no matter, as in a step that is recorded as a CUDA graph.

    Recording needs a stream of its own, and so do the runs before it, which have to launch the same.
    """
    return x.numel() >= MANY or torch.cuda.current_stream(x.device) != torch.cuda.default_stream(x.device)
