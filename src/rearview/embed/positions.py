"""Positions of tokens: a learned table, fixed sines and cosines, or a learned bias by the distance of two tokens."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional


def sinusoids(tokens: int, width: int) -> Float[Tensor, "{tokens} {width}"]:
    """PE[t, 2i] = sin(t / 10000^(2i/width)), PE[t, 2i+1] = cos(same); angles in float64, so long tables stay right."""
    t = torch.arange(tokens, dtype=torch.float64)[:, None]
    frequency = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
    table = torch.zeros(tokens, width, dtype=torch.float64)
    table[:, 0::2] = torch.sin(t * frequency)
    table[:, 1::2] = torch.cos(t * frequency)[:, : width // 2]
    return table.to(torch.get_default_dtype())


def standardised_sinusoids(tokens: int, width: int, rows: int = 5000) -> Float[Tensor, "{tokens} {width}"]:
    """The table less its mean, a tenth as wide as its standard deviation; both are taken over all of `rows` rows."""
    table = sinusoids(max(tokens, rows), width)
    counted = table[:rows].double()
    return ((table[:tokens].double() - counted.mean()) / (10 * counted.std())).to(table.dtype)


class Learned(nn.Module):
    """A learned table, one row a token, drawn from U(-0.02, 0.02)."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(tokens, width).uniform_(-0.02, 0.02))

    def forward(self, x: Float[Tensor, "batch group token width"]) -> Float[Tensor, "batch group token width"]:
        return x + self.table[: x.shape[2]]


class Sinusoidal(nn.Module):
    """The fixed table of sines and cosines; follows the module's dtype and device, and is not saved.

    With `standard` it is the `standardised_sinusoids`, which MICA's release adds.
    """

    def __init__(self, tokens: int, width: int, standard: bool = False) -> None:
        super().__init__()
        self.table: Tensor
        table = standardised_sinusoids(tokens, width) if standard else sinusoids(tokens, width)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Float[Tensor, "batch group token width"]) -> Float[Tensor, "batch group token width"]:
        return x + self.table[: x.shape[2]]


def buckets(tokens: int, count: int, distance: int) -> Int[Tensor, "{tokens} {tokens}"]:
    """T5's bucket of each key (column) as a query (row) sees it, of `count` buckets.

    Half of them are for keys after the query. Of each half, one half is for distances 0, 1, 2 ... by themselves; the
    others grow by the same factor each, up to `distance`, beyond which all keys share the last.
    """
    half = count // 2
    single = half // 2
    edges = [single * (distance / single) ** (step / (half - single)) for step in range(1, half - single)]
    # A key at an edge belongs to the further bucket; edges that are whole numbers must not be missed by rounding.
    limits = torch.tensor([*range(1, single + 1), *(math.ceil(edge - 1e-9) for edge in edges)])
    at = torch.arange(tokens)
    apart = at - at[:, None]
    return torch.bucketize(apart.abs(), limits, right=True) + half * (apart > 0)


class RelativeBias(nn.Module):
    """T5's position bias: what is added to a head's scores depends on the bucket of query and key alone."""

    def __init__(self, tokens: int, heads: int, count: int = 32, distance: int = 128) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(count, heads))
        self.buckets: Tensor
        self.register_buffer("buckets", buckets(tokens, count, distance), persistent=False)

    def forward(self, tokens: int) -> Float[Tensor, "head {tokens} {tokens}"]:
        """The bias of the first so many tokens."""
        return functional.embedding(self.buckets[:tokens, :tokens], self.table).permute(2, 0, 1).contiguous()
