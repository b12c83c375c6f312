"""The weighted vote of several classifiers, with probabilities that mean what they say.

Each member's numbers d become log-probabilities log softmax(t d), with the t that makes the true classes of left-out
training cases likeliest. The vote is softmax(sum over members of w log-probabilities), with weights w of at least 0
that do the same, drawn towards equal shares so that few cases can't put all weight on one member by luck. The weights
need not sum to 1: members that agree when they are right may be surer together than each alone.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from rearview.models.features.contract import TensorRecord

SHARPEST = 10 ** torch.linspace(-2, 3, 101, dtype=torch.float64)
"""Factors that are tried on a member's numbers."""
UNLIKELIEST = -12.0
"""Log-probability of a class, at least: one sure mistake must not outvote all others."""
PULL = 50.0
"""Cases that the pull towards equal weights is worth."""
STEPS = 50


@dataclass(frozen=True, slots=True, eq=False)
class Vote(TensorRecord):
    """Factors and weights, in the order of the members."""

    factors: Tensor
    """[member]: what a member's numbers are multiplied by before they are made probabilities."""
    weights: Tensor
    """[member]."""

    def combine(self, decisions: Float[Tensor, "member case class"]) -> Float[Tensor, "case class"]:
        """Probabilities; a member that has no answer to a case (NaN) does not count for it."""
        each = _log_probabilities(decisions.double(), self.factors)
        return torch.softmax(torch.einsum("m,mnc->nc", self.weights, each.nan_to_num(0.0)), dim=-1)


def fit_vote(left_out: Float[Tensor, "member case class"], codes: Int[Tensor, " case"]) -> Vote:
    """Factors and weights from answers to cases that a member's fit did not see; NaN where there is none."""
    decisions = left_out.double()
    known = decisions.isfinite().all(-1)
    truth = _doubt(codes, decisions.shape[-1])
    factors = torch.stack([_sharpest(one[some], truth[some]) for one, some in zip(decisions, known, strict=True)])
    together = known.all(0)
    each, truth = _log_probabilities(decisions[:, together], factors), truth[together]
    # A member that does no better than the classes' shares has learned nothing, and gets no weight.
    shares = truth.mean(0)
    useful = -(truth * each).sum(-1).mean(1) < -torch.xlogy(shares, shares).sum()
    useful = useful if useful.any() else ~useful
    weights = torch.zeros_like(factors)
    weights[useful] = _weigh(each[useful], truth)
    return Vote(factors, weights)


def _log_probabilities(decisions: Tensor, factors: Tensor) -> Tensor:
    return torch.log_softmax(factors[:, None, None] * decisions, dim=-1).clamp(min=UNLIKELIEST)


def _doubt(codes: Int[Tensor, " case"], classes: int) -> Float[Tensor, "case class"]:
    """The true classes, less the share of one mistake beyond those that were seen: n correct answers do not prove
    that the next one is."""
    doubt = 1 / (len(codes) + 1)
    return (1 - doubt) * functional.one_hot(codes, classes).double() + doubt / classes


def _sharpest(decisions: Float[Tensor, "case class"], truth: Float[Tensor, "case class"]) -> Tensor:
    """The factor of the smallest cross-entropy."""
    loss = [functional.cross_entropy(factor * decisions, truth) for factor in SHARPEST]
    return SHARPEST[int(torch.stack(loss).argmin())]


def _weigh(each: Float[Tensor, "member case class"], truth: Float[Tensor, "case class"]) -> Float[Tensor, " member"]:
    """Weights by Newton's method, kept at 0 or above; the loss is convex."""
    members, cases, _ = each.shape
    equal = each.new_full((members,), 1 / members)
    weights, pull = equal.clone(), PULL / max(1, cases)
    true = (truth * each).sum(-1).mean(1)

    def loss(at: Tensor) -> Tensor:
        mixed = torch.einsum("m,mnc->nc", at, each)
        return mixed.logsumexp(-1).mean() - at @ true + pull * (at - equal).square().sum() / 2

    for _ in range(STEPS):
        likely = torch.softmax(torch.einsum("m,mnc->nc", weights, each), dim=-1)
        expected = torch.einsum("nc,mnc->mn", likely, each)
        slope = expected.mean(1) - true + pull * (weights - equal)
        free = (weights > 0) | (slope < 0)
        if not free.any() or slope[free].abs().max() < 1e-9:
            break
        second = torch.einsum("nc,mnc,knc->mk", likely, each, each) - expected @ expected.T
        curve = second / cases + pull * torch.eye(members).to(each)
        step = torch.zeros_like(weights)
        step[free] = torch.linalg.solve(curve[free][:, free], slope[free])
        size, before = 1.0, loss(weights)
        while size > 1e-6 and loss((weights - size * step).clamp(min=0)) > before:
            size /= 2
        weights = (weights - size * step).clamp(min=0)
    return weights
