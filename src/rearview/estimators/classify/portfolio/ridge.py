"""A linear classifier by least squares with a penalty, each class against the others, in closed form.

With centred features X, targets Y of +1 and -1 and the penalty a, the fit over the training cases is H Y with

    H = 1 1' / n + U diag(e / (e + a)) U',      X X' = U diag(e) U'

and the answers to the cases of a fold by the fit without them are Y_f - (I - H_ff)^-1 (Y - H Y)_f. One decomposition
thus gives every answer that is left out of a fit, for every penalty; the penalty with the smallest squared error stays.
With many cases the products of features take the place of those of cases (`Streamed`), and one fold is held out.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from rearview.models.features.contract import TensorRecord

PENALTIES = tuple(np.logspace(-3, 4, 12).tolist())
ALONE = 1e-9
"""What is left of a case whose own answer is all that its fit rests on."""


@dataclass(frozen=True, slots=True, eq=False)
class Ridge(TensorRecord):
    """A fitted linear map from features to a number for each class."""

    weights: Tensor
    """[feature, class]."""
    intercept: Tensor
    """[class]."""

    def decide(self, features: Float[Tensor, "case feature"]) -> Float[Tensor, "case class"]:
        """A number for each class: the larger, the likelier."""
        return features @ self.weights + self.intercept


@dataclass(frozen=True, slots=True, eq=False)
class RidgeFit:
    """A linear classifier with what is known of it from cross-validation."""

    ridge: Ridge
    left_out: Float[Tensor, "case class"]
    """Each training case's answer by a fit that did not see it; NaN where there is none."""
    penalty: float


def fit_ridge(
    features: Float[Tensor, "case feature"],
    codes: Int[Tensor, " case"],
    classes: int,
    folds: NDArray[np.int64],
    sources: Int[Tensor, " feature"] | None = None,
) -> RidgeFit:
    """Fit to cases that fit into memory; the cases of a fold are left out together.

    `sources` are the cases that features were cut from, -1 for none: where a case is left out, so are its features.
    """
    targets = signed_targets(codes, classes)
    level, centre = targets.mean(0), features.mean(0)
    centred = features - centre
    products = (centred @ centred.T).double()
    every = _Decomposed.of(products, targets)
    fold_of = torch.from_numpy(folds)
    members = [torch.nonzero(fold_of == fold)[:, 0].to(products.device) for fold in np.unique(folds)]
    if sources is None:
        left_out = every.leave_out(targets, members)
    else:
        left_out = torch.full((len(PENALTIES), *targets.shape), torch.nan, dtype=torch.float64, device=products.device)
        for some in members:
            own = centred[:, torch.isin(sources, some)]
            left_out[:, some] = _without_fold(products - (own @ own.T).double(), targets, some)
    errors = (left_out - targets).square().mean((1, 2))
    best = int(errors.argmin())
    weights = centred.T @ every.solve(PENALTIES[best]).to(features)
    ridge = Ridge(weights, level.to(features) - centre @ weights)
    return RidgeFit(ridge, left_out[best].float(), PENALTIES[best])


@dataclass(frozen=True, slots=True, eq=False)
class _Decomposed:
    """Products of centred cases, decomposed, and centred targets in their terms."""

    values: Tensor
    vectors: Tensor
    rotated: Tensor

    @classmethod
    def of(cls, products: Tensor, targets: Tensor) -> "_Decomposed":
        values, vectors = torch.linalg.eigh(products)
        return cls(values.clamp(min=0), vectors, vectors.T @ (targets - targets.mean(0)))

    def solve(self, penalty: float) -> Tensor:
        """[case, class]: what each case adds to the weights."""
        return self.vectors @ (self.rotated / (self.values + penalty)[:, None])

    def leave_out(self, targets: Tensor, members: list[Tensor]) -> Tensor:
        """[penalty, case, class]: the answer to each case by the fit without its fold."""
        by_penalty = []
        for penalty in PENALTIES:
            shrunk = self.values / (self.values + penalty)
            wrong = penalty * self.solve(penalty)
            answers = torch.empty_like(targets)
            for some in members:
                rows = self.vectors[some]
                unexplained = torch.eye(len(some)).to(rows) * (1 + ALONE) - (rows * shrunk) @ rows.T - 1 / len(targets)
                answers[some] = targets[some] - torch.linalg.solve(unexplained, wrong[some])
            by_penalty.append(answers)
        return torch.stack(by_penalty)


def _without_fold(products: Tensor, targets: Tensor, fold: Tensor) -> Tensor:
    """[penalty, case of the fold, class]: its answers by the fit to all other cases."""
    others = (
        torch.ones(len(targets), dtype=torch.bool, device=products.device).index_fill(0, fold, False).nonzero()[:, 0]
    )
    among, across = products[others][:, others], products[fold][:, others]
    # Centred on the others: the mean of the whole was taken out before, and theirs differs from it.
    mean = among.mean(0)
    centred = among - mean - mean[:, None] + mean.mean()
    across = across - across.mean(1, keepdim=True) - mean + mean.mean()
    fitted = _Decomposed.of(centred, targets[others])
    level = targets[others].mean(0)
    return torch.stack([level + across @ fitted.solve(penalty) for penalty in PENALTIES])


class Streamed:
    """Sums over training cases that come in portions, from which a linear classifier follows; memory is one portion.

    Features must be standardised, if only roughly: products of raw ones would lose their digits.
    """

    def __init__(self, features: int, classes: int) -> None:
        self.classes = classes
        self.cases = 0
        self.products = torch.zeros(features, features, dtype=torch.float64)
        self.sums = torch.zeros(features, dtype=torch.float64)
        self.with_targets = torch.zeros(features, classes, dtype=torch.float64)
        self.targets = torch.zeros(classes, dtype=torch.float64)

    def add(self, features: Float[Tensor, "case feature"], codes: Int[Tensor, " case"]) -> None:
        """Take in a portion of cases."""
        targets = signed_targets(codes, self.classes)
        self.cases += len(features)
        self.products += (features.T @ features).cpu()
        self.sums += features.sum(0, dtype=torch.float64).cpu()
        self.with_targets += (features.T @ targets.to(features)).cpu()
        self.targets += targets.sum(0).cpu()

    def solve(self, penalty: float) -> Ridge:
        """The classifier of the cases so far."""
        mean, level = self.sums / self.cases, self.targets / self.cases
        products = self.products - self.cases * torch.outer(mean, mean)
        products.diagonal().add_(penalty)
        weights = torch.cholesky_solve(
            self.with_targets - self.cases * torch.outer(mean, level), torch.linalg.cholesky(products)
        )
        return Ridge(weights.float(), (level - mean @ weights).float())


def signed_targets(codes: Tensor, classes: int) -> Float[Tensor, "case class"]:
    """+1 for a case's own class, -1 for the others."""
    return 2 * functional.one_hot(codes, classes).double() - 1
