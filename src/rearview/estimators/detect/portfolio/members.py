"""Simple detectors over windows: the nearest cluster, the nearest remembered patch or shape, what other cells imply.

A window is a point whose cells are rows times channels. A member is fitted to windows of ordinary rows and says how far
off each cell of another window is, squared. What is large is kept in half precision, which scores do not show and a
saved detector does.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rearview.models.features.contract import TensorRecord

CENTRES = 32
LEARNED = 2_000
"""Windows that clusters are found among, evenly spaced."""
ROUNDS = 12
"""Times that centres move to the mean of their windows."""
PATCHES = 600
"""Windows that are remembered, at most."""
REMEMBERED = 680_000
"""Cells that are remembered: of windows of many channels there are fewer."""
COMPONENTS = 128
RIDGE = 0.1
"""Variance added to every cell, beside the mean variance of those that vary."""
IMPLIED = 20
"""Steps towards the cells that others imply; more of them change no score that shows."""
MOST_CELLS = 1_024
"""Cells of a window up to which all principal components are found; with more, the first ones are estimated."""


class Member(TensorRecord, ABC):
    """A fitted detector of windows."""

    __slots__ = ()
    centred: ClassVar[bool] = False
    """Whether each channel of a window has its mean taken out before the member sees it."""

    @classmethod
    @abstractmethod
    def fit(cls, windows: Float[Tensor, "window cell"], random: np.random.Generator) -> Self:
        """Learn what ordinary windows are like."""

    @abstractmethod
    def errors(self, windows: Float[Tensor, "window cell"]) -> Float[Tensor, "window cell"]:
        """The squared error of each cell."""

    @abstractmethod
    def shorten(self, rows: int, channels: int) -> "Member":
        """The same member for windows of fewer rows: the last ones of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Clusters(Member):
    """Windows clustered by k-means; the error of a cell is its distance from the nearest centre."""

    centres: Tensor
    """[centre, cell]."""

    @classmethod
    def fit(cls, windows: Float[Tensor, "window cell"], random: np.random.Generator) -> Self:
        return cls(find_centres(thin(windows, LEARNED), CENTRES, random).half())

    def errors(self, windows: Float[Tensor, "window cell"]) -> Float[Tensor, "window cell"]:
        return (windows - nearest(windows, self.centres.to(windows))).square()

    def shorten(self, rows: int, channels: int) -> "Clusters":
        return Clusters(self.centres[:, -rows * channels :])


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours(Member):
    """Windows of the ordinary rows, remembered; the error of a cell is its distance from the nearest of them."""

    patches: Tensor
    """[patch, cell]."""

    @classmethod
    def fit(cls, windows: Float[Tensor, "window cell"], random: np.random.Generator) -> Self:
        number = max(1, min(PATCHES, REMEMBERED // windows.shape[1]))
        some = torch.from_numpy(random.permutation(len(windows))[:number]).to(windows.device)
        return cls(windows[some].half())

    def errors(self, windows: Float[Tensor, "window cell"]) -> Float[Tensor, "window cell"]:
        return (windows - nearest(windows, self.patches.to(windows))).square()

    def shorten(self, rows: int, channels: int) -> "Neighbours":
        return Neighbours(self.patches[:, -rows * channels :])


class Shapes(Neighbours):
    """The same windows without their level: a channel that drifts is judged by how it moves."""

    __slots__ = ()
    centred = True

    @classmethod
    def of(cls, remembered: Neighbours, window: int) -> Self:
        """The shapes of what is remembered, so many rows each."""
        patches = remembered.patches.float().unflatten(1, (window, -1))
        return cls((patches - patches.mean(1, keepdim=True)).flatten(1).half())

    def shorten(self, rows: int, channels: int) -> "Shapes":
        return Shapes.of(Neighbours(self.patches[:, -rows * channels :]), rows)


@dataclass(frozen=True, slots=True, eq=False)
class Components(Member):
    """Principal components of windows in Mahalanobis form: how far a cell is from what all others of its window imply.

    With the covariance S of windows, ridged, and P = (S + ridge I)^-1, a cell x_i given all others has the mean
    x_i - (P x)_i / P_ii and the variance 1 / P_ii, so that its squared error in units of that variance is
    (P x)_i^2 / P_ii. With the components V of variances l, P = (I - V diag(l / (l + ridge)) V') / ridge.
    """

    mean: Tensor
    """[cell]."""
    axes: Tensor
    """[cell, component]: V sqrt(l / (l + ridge))."""
    ridge: Tensor
    """A single number."""

    @classmethod
    def fit(cls, windows: Float[Tensor, "window cell"], random: np.random.Generator) -> Self:
        mean = windows.mean(0)
        apart = windows - mean
        variance = apart.square().mean(0)
        varying = int((variance > 0).sum())
        ridge = RIDGE * variance.sum() / varying if varying else variance.new_ones(())
        values, vectors = find_components(apart, random)
        return cls(mean, (vectors * (values / (values + ridge)).sqrt()).contiguous().half(), ridge)

    def errors(self, windows: Float[Tensor, "window cell"]) -> Float[Tensor, "window cell"]:
        apart, axes, ridge = windows - self.mean, self.axes.to(windows), self.ridge
        weighed = (apart - apart @ axes @ axes.T) / ridge
        return weighed.square() * ridge / (1 - axes.square().sum(1)).clamp(min=1e-6)

    def imply(self, windows: Float[Tensor, "window cell"]) -> Float[Tensor, "window cell"]:
        """Windows whose missing cells, NaN, have their mean given all others.

        It is the least of x' P x over the missing cells, found by conjugate gradients from their mean.
        """
        missing = windows.isnan()
        some = missing.any(1)
        if not some.any():
            return windows
        hidden, axes = missing[some].to(windows), self.axes.to(windows)
        apart = (windows[some] - self.mean).nan_to_num(nan=0.0)
        left = -hidden * (apart - apart @ axes @ axes.T)
        direction, size = left, left.square().sum(1, keepdim=True)
        for _ in range(IMPLIED):
            bent = hidden * (direction - direction @ axes @ axes.T)
            curvature = (direction * bent).sum(1, keepdim=True)
            # Axes in half precision may leave a direction without curvature: there the mean stays.
            step = torch.where(curvature > 1e-6 * direction.square().sum(1, keepdim=True), size / curvature, 0.0)
            apart, left = apart + step * direction, left - step * bent
            smaller = left.square().sum(1, keepdim=True)
            direction = left + torch.where(size > 0, smaller / size, 0.0) * direction
            size = smaller
        implied = windows.clone()
        implied[some] = torch.where(missing[some], apart + self.mean, windows[some])
        return implied

    def shorten(self, rows: int, channels: int) -> "Components":
        """Some cells have the same covariance when others are not seen: B B' + ridge I, with rows of B = V sqrt(l)."""
        axes, ridge = self.axes.double(), self.ridge.double()
        share = axes.square().sum(0).clamp(max=1 - 1e-6)  # l / (l + ridge)
        some = (axes * (ridge / (1 - share)).sqrt())[-rows * channels :]
        left, values, _ = torch.linalg.svd(some, full_matrices=False)
        kept = left * (values.square() / (values.square() + ridge)).sqrt()
        return Components(self.mean[-rows * channels :], kept.to(self.axes), self.ridge)


def thin(windows: Tensor, most: int) -> Tensor:
    """At most so many windows, evenly spaced."""
    return windows if len(windows) <= most else windows[torch.linspace(0, len(windows) - 1, most).long()]


def nearest(windows: Float[Tensor, "window cell"], points: Float[Tensor, "point cell"]) -> Float[Tensor, "window cell"]:
    """The nearest point to each window."""
    return points[(points.square().sum(1) - 2 * windows @ points.T).argmin(1)]


def find_centres(
    windows: Float[Tensor, "window cell"], number: int, random: np.random.Generator
) -> Float[Tensor, "centre cell"]:
    """k-means: first centres drawn far apart (k-means++), then moved to the mean of the windows nearest to them."""
    centres = windows[[int(random.integers(len(windows)))]]
    apart = (windows - centres).square().sum(1)
    for _ in range(min(number, len(windows)) - 1):
        shares = apart.double().cpu().numpy()
        if not shares.sum() > 0:
            break  # every window is a centre already
        chosen = windows[int(random.choice(len(windows), p=shares / shares.sum()))]
        centres = torch.cat([centres, chosen[None]])
        apart = torch.minimum(apart, (windows - chosen).square().sum(1))
    for _ in range(ROUNDS):
        which = (centres.square().sum(1) - 2 * windows @ centres.T).argmin(1)
        total = torch.zeros_like(centres).index_add_(0, which, windows)
        count = torch.bincount(which, minlength=len(centres))[:, None]
        centres = torch.where(count > 0, total / count.clamp(min=1), centres)
    return centres


def find_components(
    apart: Float[Tensor, "window cell"], random: np.random.Generator
) -> tuple[Float[Tensor, " component"], Float[Tensor, "cell component"]]:
    """(variances, the largest first, and directions) of centred windows."""
    number = min(COMPONENTS, apart.shape[1])
    if apart.shape[1] <= MOST_CELLS:
        # Cells that never vary are left out, and single precision is not enough: with many of them no solver converges.
        varying = apart.any(0)
        some = apart[:, varying].double()
        values, vectors = torch.linalg.eigh(some.T @ some / len(some))
        axes = apart.new_zeros(apart.shape[1], len(values))
        axes[varying] = vectors.to(apart)
        return values.flip(0)[:number].clamp(min=0).to(apart), axes.flip(1)[:, :number]
    # Too many cells for all components: the range of the covariance from random directions (Halko et al., 2011).
    drawn = torch.from_numpy(random.normal(size=(apart.shape[1], number))).to(apart)
    for _ in range(3):
        drawn = torch.linalg.qr(apart.T @ (apart @ drawn)).Q
    _, values, right = torch.linalg.svd(apart @ drawn, full_matrices=False)
    values, right = values.square() / len(apart), drawn @ right.T
    missing = number - len(values)
    return torch.nn.functional.pad(values, (0, missing)), torch.nn.functional.pad(right, (0, missing))
