"""MICA's learned parts beside attention itself: the gates that join both paths, and the weights of the channels.

A gate maps what both paths found, and the queries, to what goes to the output map. A weighting gives the logarithms of
the channels' weights: logarithms, because a channel that others outweigh by e^100 still counts once those are left out.
"""

from itertools import pairwise
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from rearview.embed import Dropout

GateName = Literal["mlp_query", "mlp", "shared", "channelwise", "layerwise", "layerwise_channelwise", "added"]
WeightingName = Literal["uniform", "static", "dynamic"]

ABSENT = -1e30  # the log-weight of a channel that takes no part: finite, so that nothing is NaN where none takes part

Values = Float[Tensor, "batch group head token value"]
Queries = Float[Tensor, "batch group head token key"]
Real = Bool[Tensor, "batch group token"] | None
LogWeights = Float[Tensor, "_ group heads"]


class Beta(nn.Module):
    """Eq. (7), sigmoid(beta) A_global + (1 - sigmoid(beta)) A_local: a beta per head, or per channel and head."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        beta = 0.01 * torch.rand(channels, heads)
        self.beta = nn.Parameter(beta - beta.mean(-1, keepdim=True))  # Eq. (8)

    def shares(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """The shares of the global and of the local path [channel, head, 1, 1]."""
        beta = self.beta.to(like.dtype)[..., None, None]
        return beta.sigmoid(), (-beta).sigmoid()

    def forward(self, across: Values, local: Values, q: Queries) -> Values:
        share, _ = self.shares(across)
        return torch.lerp(local.to(across.dtype), across, share)


class Perceptron(nn.Module):
    """Eq. (9), with the query eq. (10): the mixed vector itself, from one MLP for all heads, channels and tokens."""

    def __init__(self, values: int, query: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.query = query > 0
        widths = [2 * values + query, *[width] * (layers - 1)]
        hidden = [
            part for narrow, wide in pairwise(widths) for part in (nn.Linear(narrow, wide), nn.ReLU(), Dropout(dropout))
        ]
        self.layers = nn.Sequential(*hidden, nn.Linear(widths[-1], values))

    def forward(self, across: Values, local: Values, q: Queries) -> Values:
        parts = [across.to(local.dtype), local]
        return self.layers(torch.cat([*parts, q] if self.query else parts, dim=-1))


class Added(nn.Module):
    """A_local + A_global W: what the other channels say is added, by a map of each head that starts at 0."""

    def __init__(self, heads: int, values: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(heads, values, values))

    def forward(self, across: Values, local: Values, q: Queries) -> Values:
        return local + (across.to(local.dtype) @ self.weight.to(local.dtype))


class Static(nn.Module):
    """w = softmax over channels of one learned number per channel and head, all equal at the start."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.ones(channels, heads))

    def forward(self, q: Queries, real: Real) -> LogWeights:
        return drop_absent(self.scores.to(q.dtype).log_softmax(0)[None], real)


class Dynamic(nn.Module):
    """Eq. (25): w = softmax over channels of a linear map of the mean query of the channel's real tokens."""

    def __init__(self, keys: int) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.empty(keys).uniform_(-(keys**-0.5), keys**-0.5))

    def forward(self, q: Queries, real: Real) -> LogWeights:
        if real is None:
            mean = q.mean(-2)
        else:
            count = real.sum(-1).clamp(min=1)[:, :, None, None]
            mean = (q * real[:, :, None, :, None]).sum(-2) / count
        return drop_absent((mean * self.direction.to(q.dtype)).sum(-1), real)


class Fixed(nn.Module):
    """The user's weights, one per channel; a weight of 0 leaves the channel out."""

    logs: Tensor

    def __init__(self, weights: tuple[float, ...]) -> None:
        super().__init__()
        given = torch.tensor(weights, dtype=torch.float64)
        logs = (given / given.mean()).log().clamp(min=ABSENT)
        self.register_buffer("logs", logs[None, :, None], persistent=False)

    def forward(self, q: Queries, real: Real) -> LogWeights:
        return self.logs.to(q.dtype)


def drop_absent(logs: LogWeights, real: Real) -> LogWeights:
    """Log-weights without the channels that are padding from end to end."""
    return logs if real is None else logs.masked_fill(~real.any(-1)[..., None], ABSENT)
