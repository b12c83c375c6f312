"""Muon for the matrices of a stack, Adam for the rest, both able to run inside a CUDA graph.

Muon (Jordan et al., 2024) replaces the momentum of a matrix by the nearest orthogonal one, found by five Newton-Schulz
steps, so that every direction of a weight learns at the same pace. Learning rates are tensors, which a captured step
reads.
"""

import torch
from torch import Tensor, nn

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


def orthogonalise(gradient: Tensor, rounds: int = 5) -> Tensor:
    """[..., row, column]: the orthogonal factor of each matrix, roughly; singular values end between 0.7 and 1.2."""
    a, b, c = NEWTON_SCHULZ
    x = gradient.bfloat16() if gradient.is_cuda else gradient.float()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(rounds):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return (x.mT if tall else x).float()


class Muon(torch.optim.Optimizer):
    """Momentum, made orthogonal, for matrices of one shape at a time; decoupled weight decay."""

    def __init__(self, matrices: list[nn.Parameter], rate: Tensor, momentum: float = 0.95, decay: float = 0.0) -> None:
        super().__init__(matrices, {"lr": rate, "momentum": momentum, "decay": decay})
        self.by_shape: dict[torch.Size, list[nn.Parameter]] = {}
        for matrix in matrices:
            self.by_shape.setdefault(matrix.shape, []).append(matrix)
            self.state[matrix]["momentum"] = torch.zeros_like(matrix)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        [group] = self.param_groups
        rate, momentum, decay = group["lr"], group["momentum"], group["decay"]
        for shape, matrices in self.by_shape.items():
            gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
            buffers = [self.state[matrix]["momentum"] for matrix in matrices]
            torch._foreach_mul_(buffers, momentum)
            torch._foreach_add_(buffers, gradients, alpha=1 - momentum)
            ahead = torch._foreach_mul(buffers, momentum)
            torch._foreach_add_(ahead, gradients, alpha=1 - momentum)
            updates = orthogonalise(torch.stack(ahead)) * (max(1.0, shape[0] / shape[1]) ** 0.5)
            for matrix, update in zip(matrices, updates.unbind(0), strict=True):
                matrix.mul_(1 - rate * decay).sub_(rate * update)


def make_optimisers(
    network: nn.Module, stack: nn.Module, matrix_rate: Tensor, rate: Tensor
) -> tuple[Muon, torch.optim.AdamW]:
    """Muon for the two-dimensional weights of the stack, Adam for everything else."""
    matrices = [weight for weight in stack.parameters() if weight.dim() == 2]
    taken = {id(weight) for weight in matrices}
    others = [weight for weight in network.parameters() if id(weight) not in taken]
    on_gpu = others[0].is_cuda
    adam = torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.98), weight_decay=0.01, fused=on_gpu, capturable=on_gpu)
    return Muon(matrices, matrix_rate, decay=0.1), adam
