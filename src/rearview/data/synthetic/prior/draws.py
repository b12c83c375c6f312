"""Random numbers for a batch of series: everything an ingredient draws comes from one seeded generator."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


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

    def pick(self, values: list[float], weights: list[float] | None = None) -> Tensor:
        """[count, 1]: one of the values, with odds by weight."""
        odds = torch.tensor(weights or [1.0] * len(values), device=self.device)
        index = torch.multinomial(odds, self.count, replacement=True, generator=self.generator)
        return torch.tensor(values, device=self.device)[index][:, None]


def standardise(x: Tensor) -> Tensor:
    """Each series with mean 0 and standard deviation 1; a constant one becomes 0."""
    x = x - x.mean(1, keepdim=True)
    return x / (x.std(1, keepdim=True) + 1e-6)


def filter_by(kernel: Tensor, x: Tensor) -> Tensor:
    """sum_{i <= t} kernel_(t - i) x_i for every series, by FFT."""
    size = 2 * x.shape[1]
    product = torch.fft.rfft(x, size) * torch.fft.rfft(kernel, size)
    return torch.fft.irfft(product, size)[:, : x.shape[1]]
