"""Hydra: groups of random kernels that compete at every step (Dempster, Schmidt and Webb, 2023).

At each step of a case the kernel of a group with the largest output gains that output, and the kernel with the smallest
output a count of one. The gains and counts over the whole case are the features. Half of the groups read the series,
half its first differences; with several channels a group reads the sum of a few of them.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from rearview.models.features.contract import Features, portion

TAPS = 9
KERNELS = 8
"""Kernels of a group."""
MOST_CHANNELS = 8
"""Channels that a group sums, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Hydra(Features):
    """The kernels and the channels that they read."""

    weights: Tensor
    """[dilation, series or differences, group, kernel, tap]; dilations are powers of two."""
    channels: Tensor
    """[dilation, series or differences, group, place]: the channels that are summed; one may be named twice."""

    @classmethod
    def draw(cls, channels: int, steps: int, groups: int, random: np.random.Generator) -> "Hydra":
        """Draw kernels for so many groups, half of them for differences."""
        dilations = int(np.log2((steps - 1) / (TAPS - 1))) + 1
        half = groups // 2
        weights = random.standard_normal((dilations, 2, half, KERNELS, TAPS)).astype(np.float32)
        weights -= weights.mean(-1, keepdims=True)
        weights /= np.abs(weights).sum(-1, keepdims=True)
        summed = 1 if channels == 1 else int(np.clip(channels // 2, 2, MOST_CHANNELS))
        places = random.integers(channels, size=(dilations, 2, half, summed))
        return cls(torch.from_numpy(weights), torch.from_numpy(places))

    def __call__(self, values: Float[Tensor, "case channel time"]) -> Float[Tensor, "case feature"]:
        groups, kernels = self.weights.shape[2:4]
        together = portion(values, groups * kernels * values.shape[-1])
        return torch.cat([self._compete(part) for part in values.split(together)])

    def _compete(self, values: Tensor) -> Tensor:
        groups, kernels = self.weights.shape[2:4]
        series = (values, values.diff())
        gains = []
        for place, (both, read) in enumerate(zip(self.weights, self.channels, strict=True)):
            for one, weights, channels in zip(series, both, read, strict=True):
                summed = one[:, channels.flatten()].unflatten(1, channels.shape).sum(2)
                output = functional.conv1d(
                    summed,
                    weights.flatten(0, 1)[:, None],
                    dilation=2**place,
                    padding=TAPS // 2 * 2**place,
                    groups=groups,
                ).unflatten(1, (groups, kernels))
                largest, smallest = output.amax(2, keepdim=True), output.amin(2, keepdim=True)
                gains.append(((output == largest) * largest).sum(-1))
                gains.append((output == smallest).to(output.dtype).sum(-1))
        return torch.cat(gains, dim=1).flatten(1)
