"""MiniRocket and MultiRocket: the 84 kernels of nine taps of which three weigh 2 and six weigh -1, at many dilations.

A kernel's output C(t) over a case is compared with biases b, which are quantiles of the kernel's output over a training
case. MiniRocket (Dempster, Schmidt and Webb, 2021) keeps the share of t with C(t) > b. MultiRocket (Tan and others,
2022) keeps four numbers, of the series and of its first differences:

    share        the share of t with C(t) > b
    stretch      the longest run without C(t) < b
    mean         the mean of C(t) + b over t with C(t) > b, 0 where there is none
    mean place   the mean of t over t with C(t) > b, -1 where there is none

Every second kernel, beginning with the second one at dilations of even place and with the first at the others, leaves
out those t at which it would reach beyond the series. With several channels a kernel reads the sum of a few of them.
The authors' code shifts the four left taps over differences by a step too few; here they are where the paper has them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from rearview.models.features.contract import Features, RecordT, TensorRecord, portion

TAPS = 9
SHORTEST = TAPS + 1
"""Steps of the shortest series that MultiRocket reads: nine differences."""
HEAVY = tuple(combinations(range(TAPS), 3))
"""The places of the three heavy taps of each kernel."""
MOST_DILATIONS = 32
MOST_CHANNELS = 9
"""Channels that a kernel sums, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Kernels(TensorRecord):
    """The kernels with their dilations, channels and biases."""

    dilations: Tensor
    """[dilation], ascending."""
    counts: Tensor
    """[dilation]: biases of each kernel there."""
    channels: Tensor
    """[dilation, kernel, channel]: 1 where a kernel reads a channel, 0 elsewhere."""
    biases: Tensor
    """By dilation, then kernel, then place among its biases."""

    @classmethod
    def draw(
        cls: type[RecordT], values: Float[Tensor, "case channel time"], biases: int, random: np.random.Generator
    ) -> RecordT:
        """Draw about so many biases over all kernels from training cases."""
        _, channels, steps = values.shape
        dilations, counts = _space_dilations(steps, biases // len(HEAVY))
        reads = _draw_channels(len(dilations), channels, random)
        each = len(HEAVY) * sum(counts)
        golden = torch.from_numpy((np.arange(1, each + 1) * ((np.sqrt(5) + 1) / 2) % 1).astype(np.float32))
        drawn = torch.from_numpy(random.integers(len(values), size=(len(dilations), len(HEAVY))))
        thresholds, done = [], 0
        for place, (dilation, count) in enumerate(zip(dilations, counts, strict=True)):
            case = values[drawn[place].to(values.device)].cpu()  # one for each kernel
            series = (case * reads[place][:, :, None]).sum(1)[None]
            output = functional.conv1d(
                series, _kernel_weights()[:, None], dilation=dilation, padding=TAPS // 2 * dilation, groups=len(HEAVY)
            )[0]
            wanted = golden[done : done + len(HEAVY) * count].view(len(HEAVY), count)
            thresholds.append(_interpolate(output.sort(dim=1).values, wanted).flatten())
            done += len(HEAVY) * count
        return cls.from_tensors(
            {
                "dilations": torch.tensor(dilations),
                "counts": torch.tensor(counts),
                "channels": reads,
                "biases": torch.cat(thresholds),
            }
        )

    def outputs(self, values: Float[Tensor, "case channel time"], place: int) -> tuple[Tensor, Tensor]:
        """Outputs at a dilation, [case, kernel, time]: of kernels over the whole series, and of those within it."""
        dilation = int(self.dilations[place])
        reach = TAPS // 2 * dilation
        weights = _kernel_weights().to(values)[:, None] * self.channels[place].to(values)[:, :, None]
        whole = functional.conv1d(values, weights, dilation=dilation, padding=reach)
        first = place % 2
        return whole[:, first::2], whole[:, 1 - first :: 2, reach : values.shape[-1] - reach]


def _kernel_weights() -> Float[Tensor, "kernel tap"]:
    return torch.full((len(HEAVY), TAPS), -1.0).scatter(1, torch.tensor(HEAVY), 2.0)


def _space_dilations(steps: int, each: int) -> tuple[list[int], list[int]]:
    """Dilations, spaced evenly in their logarithm, and biases of a kernel at each of them."""
    many = min(each, MOST_DILATIONS)
    spaced = np.logspace(0, np.log2((steps - 1) / (TAPS - 1)), many, base=2).astype(np.int64)
    dilations, times = np.unique(spaced, return_counts=True)
    counts = (times * (each / many)).astype(np.int64)
    for extra in range(each - int(counts.sum())):
        counts[extra % len(counts)] += 1
    return dilations.tolist(), counts.tolist()


def _draw_channels(dilations: int, channels: int, random: np.random.Generator) -> Tensor:
    """[dilation, kernel, channel]: few channels more often than many, as the logarithm of their number is even."""
    most = np.log2(min(channels, MOST_CHANNELS) + 1)
    reads: NDArray[np.float32] = np.zeros((dilations, len(HEAVY), channels), dtype=np.float32)
    for place in np.ndindex(dilations, len(HEAVY)):
        number = int(2 ** random.uniform(0, most)) if channels > 1 else 1
        reads[place][random.choice(channels, number, replace=False)] = 1
    return torch.from_numpy(reads)


def _interpolate(ordered: Tensor, shares: Tensor) -> Tensor:
    """[row, share]: quantiles of sorted rows, linear between neighbours."""
    place = shares * (ordered.shape[1] - 1)
    below = place.floor().long()
    above = (below + 1).clamp(max=ordered.shape[1] - 1)
    low, high = ordered.gather(1, below), ordered.gather(1, above)
    return low + (high - low) * (place - below)


def _pool(kernels: Kernels, values: Tensor, pool: Callable[[Tensor, Tensor], Tensor], numbers: int) -> Tensor:
    """[case, number, kernel and bias]: so many `numbers` of each kernel's output and bias, dilation by dilation."""
    cases, dilations = len(values), len(kernels.dilations)
    counts = kernels.counts.tolist()
    by_dilation = kernels.biases.split([len(HEAVY) * count for count in counts])
    pooled = values.new_empty(cases, numbers, len(kernels.biases))
    together = portion(values, len(HEAVY) * max(counts) * values.shape[-1])
    for begin in range(0, cases, together):
        part, done = values[begin : begin + together], 0
        for place in range(dilations):
            biases = by_dilation[place].view(len(HEAVY), -1)
            into = pooled[begin : begin + together, :, done : done + biases.numel()].unflatten(2, biases.shape)
            for first, output in zip((place % 2, 1 - place % 2), kernels.outputs(part, place), strict=True):
                in_time = output.permute(2, 0, 1).unsqueeze(-1)
                into[:, :, first::2] = pool(in_time, biases[first::2]).movedim(0, 1)
            done += biases.numel()
    return pooled


def _share(output: Float[Tensor, "time case kernel 1"], bias: Float[Tensor, "kernel bias"]) -> Tensor:
    """[1, case, kernel, bias]."""
    return (output > bias).to(output.dtype).mean(0, keepdim=True)


def _four_numbers(output: Float[Tensor, "time case kernel 1"], bias: Float[Tensor, "kernel bias"]) -> Tensor:
    """[4, case, kernel, bias]."""
    steps = len(output)
    above = output - bias
    held = (above >= 0).to(output.dtype)
    one = output.new_ones(())
    gap = torch.ones_like(above[0])
    longest = gap.clone() if steps > 1 else torch.zeros_like(gap)
    for step in range(1, steps - 1):
        torch.addcmul(one, gap, held[step], out=gap)
        torch.maximum(longest, gap, out=longest)
    weights = torch.stack([torch.ones(steps), torch.arange(steps)]).to(output)
    positive = (above > 0).to(output.dtype)
    count, place = (weights @ positive.flatten(1)).unflatten(1, gap.shape)
    excess = (weights[:1] @ above.clamp_(min=0).flatten(1)).view(gap.shape)
    some, safe = count > 0, count.clamp(min=1)
    mean = torch.where(some, excess / safe + 2 * bias, 0.0)
    return torch.stack([count / steps, longest, mean, torch.where(some, place / safe, -1.0)])


@dataclass(frozen=True, slots=True, eq=False)
class MiniRocket(Kernels, Features):
    """Shares alone, of the series: by dilation, then kernel, then bias."""

    def __call__(self, values: Float[Tensor, "case channel time"]) -> Float[Tensor, "case feature"]:
        return _pool(self, values, _share, 1).flatten(1)


@dataclass(frozen=True, slots=True, eq=False)
class MultiRocket(Kernels, Features):
    """All four numbers of one series: shares, then stretches, means and mean places, each as MiniRocket orders them."""

    def __call__(self, values: Float[Tensor, "case channel time"]) -> Float[Tensor, "case feature"]:
        return _pool(self, values, _four_numbers, 4).flatten(1)
