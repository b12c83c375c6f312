"""Members of a portfolio: simple classifiers that each give a number for every class of a case.

A member is fitted to training cases and says what it would have answered to each of them had it not seen it. It reads a
`CaseSample`, which computes the features that several members share once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from rearview.data.cases.case_set import Cases
from rearview.estimators.classify.fit import Fitted, network_logits
from rearview.estimators.classify.portfolio.blocks import BlockName, FeatureBlock
from rearview.estimators.classify.portfolio.forest import Forest
from rearview.estimators.classify.portfolio.ridge import Ridge
from rearview.estimators.classify.portfolio.warping import warped_distances
from rearview.models.features.contract import TensorRecord

BANDS = (0.05, 0.1, 0.2)
"""Shares of the steps that a warped path may stray from the diagonal."""
LEAST_SHARE = 1e-3
"""Share of a class that no tree has seen at a leaf."""


@dataclass(slots=True, eq=False)
class CaseSample:
    """Some cases as members read them."""

    cases: Cases
    values: Float[Tensor, "case channel time"]
    """Scaled, without gaps, of one length."""
    blocks: Mapping[BlockName, FeatureBlock]
    computed: dict[BlockName, Tensor] = field(default_factory=dict)

    def features(self, names: tuple[BlockName, ...]) -> Float[Tensor, "case feature"]:
        """The features of some blocks, side by side."""
        for name in names:
            if name not in self.computed:
                self.computed[name] = self.blocks[name](self.values)
        return torch.cat([self.computed[name] for name in names], dim=1)


class Member(Protocol):
    """A fitted classifier."""

    def decide(self, sample: CaseSample) -> Float[Tensor, "case class"]:
        """A number for each class: the larger, the likelier."""


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """A linear classifier of some blocks of features."""

    blocks: tuple[BlockName, ...]
    ridge: Ridge

    def decide(self, sample: CaseSample) -> Float[Tensor, "case class"]:
        return self.ridge.decide(sample.features(self.blocks))


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """A forest over one block of features."""

    blocks: tuple[BlockName, ...]
    forest: Forest

    def decide(self, sample: CaseSample) -> Float[Tensor, "case class"]:
        return log_shares(self.forest.vote(sample.features(self.blocks)))


def log_shares(shares: Float[Tensor, "case class"]) -> Float[Tensor, "case class"]:
    """Shares of the classes as numbers that a vote can sharpen or blunt."""
    return (shares + LEAST_SHARE).log()


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours(TensorRecord):
    """The training cases themselves: a class is as likely as its nearest case is near."""

    values: Tensor
    """[case, channel, time]."""
    codes: Tensor
    """[case]."""
    band: Tensor
    """Steps that a warped path may stray from the diagonal."""
    classes: Tensor
    """How many there are."""

    def decide(self, sample: CaseSample) -> Float[Tensor, "case class"]:
        distances = warped_distances(shorten(sample.values, self.values.shape[-1]), self.values, int(self.band))
        return nearest_by_class(distances, self.codes, int(self.classes))


def fit_neighbours(
    values: Float[Tensor, "case channel time"], codes: Int[Tensor, " case"], classes: int
) -> tuple[Neighbours, Float[Tensor, "case class"], float]:
    """(the classifier, answers to each case without it, the share of steps that a path may stray)."""
    bands = {share: max(1, round(share * values.shape[-1])) for share in BANDS}
    left_out = {}
    for share, band in bands.items():
        distances = warped_distances(values, values, band).fill_diagonal_(torch.inf)
        left_out[share] = nearest_by_class(distances, codes, classes)
    best = max(BANDS, key=lambda share: int((left_out[share].argmax(1) == codes).sum()))
    return Neighbours(values, codes, torch.tensor(bands[best]), torch.tensor(classes)), left_out[best], best


def nearest_by_class(
    distances: Float[Tensor, "case other"], codes: Int[Tensor, " other"], classes: int
) -> Float[Tensor, "case class"]:
    """Minus the distance to the nearest case of each class; a class without any is as far as the farthest case."""
    apart = distances.sqrt()
    farthest = torch.where(apart.isfinite(), apart, 0.0).amax()
    nearest = apart.new_full((len(apart), classes), torch.inf)
    nearest.scatter_reduce_(1, codes.expand(len(apart), -1), apart, "amin")
    return -torch.where(nearest.isfinite(), nearest, farthest)


def shorten(values: Float[Tensor, "case channel time"], steps: int) -> Float[Tensor, "case channel time"]:
    """Values on `steps` evenly spaced points, where there are more."""
    if values.shape[-1] <= steps:
        return values
    return torch.nn.functional.interpolate(values, size=steps, mode="linear", align_corners=True)


@dataclass(frozen=True, slots=True, eq=False)
class Networks:
    """Networks of one kind, each trained without one fold of the cases; their mean counts."""

    fitted: tuple[Fitted, ...]

    def decide(self, sample: CaseSample) -> Float[Tensor, "case class"]:
        each = [torch.log_softmax(network_logits(one, sample.cases), dim=-1) for one in self.fitted]
        return torch.stack(each).mean(0).to(sample.values.device)


def draw_folds(codes: NDArray[np.int64], folds: int, random: np.random.Generator) -> NDArray[np.int64]:
    """[case]: a fold for each, in which every class has its share."""
    drawn = np.empty(len(codes), dtype=np.int64)
    done = 0
    for code in np.unique(codes):
        members = random.permutation(np.flatnonzero(codes == code))
        drawn[members] = (done + np.arange(len(members))) % folds
        done += len(members)
    return drawn
