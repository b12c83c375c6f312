"""Dilated shapelets: short pieces of training cases, and how near, where and how often they occur in a case.

After the random dilated shapelet transform (Guillaume, Vrain and Elloumi, 2022): a shapelet is every d-th step of a
piece of a training case, with or without its level and spread. Over the windows of a case it gives three features: the
smallest distance, its place, and the number of windows nearer than a threshold, which is a low quantile of distances to
another case of the shapelet's class.

Two things differ from the paper, so that all distances are matrix products: they are Euclidean, not Manhattan, and
shapelets come in blocks that share their dilation and channels.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from rearview.models.features.contract import Features, portion

LONGEST = 11
BLOCK = 64
"""Shapelets that share dilation, channels and normalisation."""
NORMALISED = 0.8
"""Share of blocks without level and spread."""
MOST_CHANNELS = 10
"""Channels that a block reads, at most."""
QUANTILES = (0.05, 0.10)
"""Between these quantiles of distances lies a threshold."""
SMALLEST = 1e-4
"""Standard deviation below which a window counts as flat, where cases are standardised."""


@dataclass(frozen=True, slots=True, eq=False)
class Shapelets(Features):
    """Pieces of training cases, in blocks."""

    dilations: Tensor
    """[block]."""
    normalised: Tensor
    """[block]: whether level and spread of a window are taken out."""
    channels: Tensor
    """[block, channel]."""
    pieces: Tensor
    """[block, shapelet, channel and step]."""
    thresholds: Tensor
    """[block, shapelet]: of mean squared differences."""
    cases: Tensor
    """[block, shapelet]: the training case that each was cut from."""

    @classmethod
    def draw(
        cls,
        values: Float[Tensor, "case channel time"],
        codes: NDArray[np.int64],
        number: int,
        random: np.random.Generator,
    ) -> "Shapelets":
        """Cut about so many shapelets from training cases of the classes `codes`."""
        cases, channels, steps = values.shape
        length = min(LONGEST, max(2, steps // 2))
        blocks = max(1, number // BLOCK)
        dilations = (2 ** random.uniform(0, np.log2((steps - 1) // (length - 1)), blocks)).astype(np.int64)
        normalised = random.permutation(blocks) < round(NORMALISED * blocks)
        reads = np.stack([random.permutation(channels)[:MOST_CHANNELS] for _ in range(blocks)])
        sources = random.integers(cases, size=(blocks, BLOCK))
        starts = (random.uniform(size=(blocks, BLOCK)) * (steps - (length - 1) * dilations[:, None])).astype(np.int64)
        mates = _same_class(codes, sources, random)
        shares = torch.from_numpy(random.uniform(*QUANTILES, size=(blocks, BLOCK)).astype(np.float32))
        pieces, thresholds = [], []
        for block in range(blocks):
            which = torch.from_numpy(np.stack([sources[block], mates[block]])).to(values.device)
            own, other = (
                _windows(
                    values[some], torch.from_numpy(reads[block]), int(dilations[block]), bool(normalised[block]), length
                )
                for some in which
            )
            piece = own[torch.arange(BLOCK), torch.from_numpy(starts[block])]
            apart = (other - piece[:, None]).square().mean(-1)
            level = torch.quantile(apart, shares[block].to(apart), dim=1).diagonal()
            pieces.append(piece)
            thresholds.append(level)
        return cls(
            torch.from_numpy(dilations),
            torch.from_numpy(normalised),
            torch.from_numpy(reads),
            torch.stack(pieces),
            torch.stack(thresholds),
            torch.from_numpy(sources),
        )

    def __call__(self, values: Float[Tensor, "case channel time"]) -> Float[Tensor, "case feature"]:
        width = self.pieces.shape[2]
        together = portion(values, values.shape[-1] * (width + BLOCK))
        return torch.cat([self._match(part) for part in values.split(together)])

    def sources(self) -> Tensor:
        return self.cases[:, None].expand(-1, 3, -1).flatten()

    def _match(self, values: Tensor) -> Tensor:
        features = []
        width = self.pieces.shape[2]
        length = width // self.channels.shape[1]
        facts = zip(self.dilations.tolist(), self.normalised.tolist(), strict=True)
        for block, (dilation, normalised) in enumerate(facts):
            windows = _windows(values, self.channels[block], dilation, normalised, length)
            pieces = self.pieces[block]
            apart = torch.baddbmm(
                windows.square().sum(-1, keepdim=True), windows, pieces.T.expand(len(values), -1, -1), alpha=-2
            )
            apart.add_(pieces.square().sum(-1)).div_(width)
            nearest, place = apart.min(dim=1)
            often = (apart < self.thresholds[block]).to(apart.dtype).mean(1)
            features += [nearest.clamp(min=0).sqrt(), place / apart.shape[1], often]
        return torch.cat(features, dim=1)


def _windows(values: Tensor, channels: Tensor, dilation: int, normalised: bool, length: int) -> Tensor:
    """[case, window, channel and step]: every window of a dilation."""
    read = values[:, channels.to(values.device)]
    many = values.shape[-1] - (length - 1) * dilation
    windows = torch.stack([read[..., step * dilation : step * dilation + many] for step in range(length)], dim=-1)
    if normalised:
        windows = windows - windows.mean(-1, keepdim=True)
        windows /= windows.square().mean(-1, keepdim=True).sqrt().clamp(min=SMALLEST)
    return windows.transpose(1, 2).flatten(2)


def _same_class(codes: NDArray[np.int64], sources: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    """For each case another one of its class; itself where it is alone."""
    mates = sources.copy()
    for code in np.unique(codes):
        members = np.flatnonzero(codes == code)
        rows = codes[sources] == code
        if len(members) > 1 and rows.any():
            own = np.searchsorted(members, sources[rows])
            mates[rows] = members[(own + random.integers(1, len(members), size=rows.sum())) % len(members)]
    return mates
