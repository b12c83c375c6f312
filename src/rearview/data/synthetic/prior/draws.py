"""Random numbers for a batch of series: everything an ingredient draws comes from one seeded generator."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise

import torch
from torch import Tensor

FEW = 16
"""Below so many series, shares of them are rounded at random."""


@dataclass(frozen=True, slots=True)
class Draw:
    """`count` series of `length` steps, and the generator that every number comes from."""

    count: int
    length: int
    generator: torch.Generator

    @property
    def device(self) -> torch.device:
        return self.generator.device

    @property
    def time(self) -> Tensor:
        """[1, length]: 0, 1, 2, ..."""
        return torch.arange(self.length, dtype=torch.float32, device=self.device)[None]

    def uniform(self, low: float = 0.0, high: float = 1.0, width: int = 1) -> Tensor:
        """[count, width], even between two bounds."""
        return low + (high - low) * torch.rand(self.count, width, generator=self.generator, device=self.device)

    def log_uniform(self, low: float, high: float, width: int = 1) -> Tensor:
        """[count, width], even on the logarithmic scale."""
        return torch.exp(self.uniform(math.log(low), math.log(high), width))

    def normal(self, width: int = 1) -> Tensor:
        """[count, width], standard normal."""
        return torch.randn(self.count, width, generator=self.generator, device=self.device)

    def noise(self) -> Tensor:
        """[count, length], standard normal."""
        return self.normal(self.length)

    def chance(self, share: float) -> Tensor:
        """[count, 1]: True for this share of the series."""
        return self.uniform() < share

    def pick(self, values: Sequence[float], weights: Sequence[float] | None = None) -> Tensor:
        """[count, 1]: one of the values, with odds by weight."""
        odds = list(accumulate(weights or [1.0] * len(values)))
        edges = self.constant(*(edge / odds[-1] for edge in odds[:-1]))
        return self.constant(*values)[torch.searchsorted(edges, self.uniform())]

    def constant(self, *values: float) -> Tensor:
        """Numbers on the device of the generator."""
        return _place(values, self.device)

    def split(self, *shares: float) -> list[Tensor]:
        """Numbers of series, drawn for each share without overlap; what the shares leave over is in none."""
        order = self.shuffle()
        # Where series are few, whole shares would leave rare kinds out for good. On a GPU nobody waits for a number.
        start = self.uniform()[0].item() if 0 < self.count < FEW and self.device.type == "cpu" else 0.5
        edges = [0, *(int(self.count * sum(shares[: n + 1]) + start) for n in range(len(shares)))]
        return [order[a:b] for a, b in pairwise(edges)]

    def shuffle(self) -> Tensor:
        """The numbers of all series in random order."""
        return self.uniform()[:, 0].argsort()

    def part(self, rows: Tensor) -> "Draw":
        """As many series as these, of the same length and from the same generator."""
        return replace(self, count=len(rows))

    def fill(self, *kinds: tuple[float, Callable[["Draw", Tensor], Tensor]]) -> Tensor:
        """[count, length]: each kind makes its share of the series, given their numbers; 0 where there is none."""
        filled = torch.zeros(self.count, self.length, device=self.device)
        for rows, (_, make) in zip(self.split(*(share for share, _ in kinds)), kinds, strict=True):
            if len(rows):
                filled[rows] = make(self.part(rows), rows)
        return filled


@lru_cache(maxsize=64)
def _place(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Made once: a CUDA graph can't copy numbers from the host."""
    return torch.tensor(values, device=device)


def standardise(x: Tensor) -> Tensor:
    """Each series with mean 0 and standard deviation 1; a constant one becomes 0."""
    x = x - x.mean(1, keepdim=True)
    return x / (x.square().mean(1, keepdim=True).sqrt() + 1e-6)


def filter_by(kernel: Tensor, x: Tensor) -> Tensor:
    """sum_{i <= t} kernel_(t - i) x_i for every series, by FFT."""
    size = 2 * x.shape[1]
    product = torch.fft.rfft(x, size) * torch.fft.rfft(kernel, size)
    return torch.fft.irfft(product, size)[:, : x.shape[1]]
