"""Blocks of features that members of a portfolio share, and how many features there are for so many cases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from rearview.models.features.contract import Features
from rearview.models.features.hydra import Hydra
from rearview.models.features.quantiles import IntervalQuantiles
from rearview.models.features.rocket import MultiRocket
from rearview.models.features.shapelets import Shapelets

BlockName = Literal["series", "differences", "hydra", "shapelets", "quantiles"]
"""MultiRocket of the series and of its differences; groups of competing kernels; shapelets; interval quantiles."""
KINDS: Mapping[BlockName, type[Features]] = {
    "series": MultiRocket,
    "differences": MultiRocket,
    "hydra": Hydra,
    "shapelets": Shapelets,
    "quantiles": IntervalQuantiles,
}
FLAT = 1e-6
"""Standard deviation, beside a feature's mean, below which it does not vary."""


@dataclass(frozen=True, slots=True)
class FeatureCounts:
    """How many features to draw."""

    biases: int
    """Of MultiRocket's kernels, over series and over differences each."""
    groups: int
    """Of Hydra's kernels."""
    shapelets: int


LARGE = FeatureCounts(biases=84 * 30, groups=64, shapelets=8_000)
"""About 50,000 features, where all of them fit into memory for every case."""
SMALL = FeatureCounts(biases=84 * 4, groups=16, shapelets=640)
"""About 6,000 features, whose products with one another fit into memory."""


@dataclass(frozen=True, slots=True, eq=False)
class FeatureBlock:
    """A transform and the scale of its features."""

    name: BlockName
    transform: Features
    centre: Tensor
    """[feature]; 0 where features are not scaled here."""
    spread: Tensor
    """[feature]; 1 where features are not scaled here."""

    def __call__(self, values: Float[Tensor, "case channel time"]) -> Float[Tensor, "case feature"]:
        return self._scale(self._raw(values))

    def fit_scale(
        self, values: Float[Tensor, "case channel time"]
    ) -> tuple["FeatureBlock", Float[Tensor, "case feature"]]:
        """(the block scaled by training cases, their features)."""
        raw = self._raw(values)
        centre, spread = raw.mean(0), raw.std(0, correction=0)
        # A feature that does not vary in training says nothing, however far a new case is from it.
        spread = torch.where(spread > FLAT * (1 + centre.abs()), spread, torch.inf)
        if self.name == "quantiles":
            # Trees split at random places between the extremes, so that extremes must not be far from all other values.
            centre = raw.median(0).values
            apart = (raw - centre).abs().median(0).values
            spread = torch.where(apart > FLAT * (1 + centre.abs()), apart, spread)
        if self.name == "hydra":
            # A kernel that rarely wins gets a larger spread, so that its rare gains do not count for much.
            spread = spread + (raw == 0).to(raw).mean(0) ** 4
        block = FeatureBlock(self.name, self.transform, centre, spread)
        return block, block._scale(raw)

    def to(self, device: torch.device | str) -> "FeatureBlock":
        """The same on another device."""
        return FeatureBlock(self.name, self.transform.to(device), self.centre.to(device), self.spread.to(device))

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """What a model's folder holds of it."""
        return {
            **self.transform.tensors(f"{prefix}transform."),
            f"{prefix}centre": self.centre,
            f"{prefix}spread": self.spread,
        }

    def _raw(self, values: Tensor) -> Tensor:
        features = self.transform(values.diff() if self.name == "differences" else values)
        return features.clamp(min=0).sqrt() if self.name == "hydra" else features

    def _scale(self, raw: Tensor) -> Tensor:
        scaled = (raw - self.centre) / self.spread
        if self.name == "quantiles":
            return scaled.asinh()
        return scaled * (raw != 0) if self.name == "hydra" else scaled


def draw_block(
    name: BlockName,
    values: Float[Tensor, "case channel time"],
    codes: NDArray[np.int64],
    sizes: FeatureCounts,
    random: np.random.Generator,
) -> FeatureBlock:
    """Draw a transform from training cases; its features are not scaled yet."""
    transform: Features
    if name == "series":
        transform = MultiRocket.draw(values, sizes.biases, random)
    elif name == "differences":
        transform = MultiRocket.draw(values.diff(), sizes.biases, random)
    elif name == "hydra":
        transform = Hydra.draw(values.shape[1], values.shape[2], sizes.groups, random)
    elif name == "shapelets":
        transform = Shapelets.draw(values, codes, sizes.shapelets, random)
    else:
        transform = IntervalQuantiles()
    return FeatureBlock(name, transform.to(values.device), values.new_zeros(()), values.new_ones(()))


def load_block(name: str, tensors: Mapping[str, Tensor]) -> FeatureBlock:
    """The block that `FeatureBlock.tensors` described, by the part of its tensors' names behind the prefix."""
    known: Sequence[BlockName] = get_args(BlockName)
    which = known[known.index(name)]
    parts = {key.removeprefix("transform."): tensor for key, tensor in tensors.items()}
    return FeatureBlock(which, KINDS[which].from_tensors(parts), tensors["centre"], tensors["spread"])
