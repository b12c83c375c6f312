"""The weighted vote of several classifiers, with probabilities that mean what they say.

Each member's numbers d become log-probabilities log softmax(t d + o log p), where p are the shares of the classes in
training: t makes a member as sure as it is right, and o undoes its leaning towards large or small classes (a linear
classifier answers with a rare class too rarely). Both make the true classes of left-out training cases likeliest. The
vote is softmax(sum over members of w log-probabilities), with weights w of at least 0 that do the same, drawn towards
equal shares so that few cases can't put all weight on one member by luck. The weights need not sum to 1: members that
agree when they are right may be surer together than each alone.
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
OFFSET_PULL = 0.25
"""Cases that the pull of o towards 0, and of t towards the best t without o, is worth."""
STEPS = 50


@dataclass(frozen=True, slots=True, eq=False)
class Vote(TensorRecord):
    """Factors, offsets and weights, in the order of the members."""

    factors: Tensor
    """[member]: what a member's numbers are multiplied by before they are made probabilities."""
    offsets: Tensor
    """[member, class]: what is added to them."""
    weights: Tensor
    """[member]."""

    def combine(self, decisions: Float[Tensor, "member case class"]) -> Float[Tensor, "case class"]:
        """Probabilities; a member that has no answer to a case (NaN) does not count for it."""
        each = self._log_probabilities(decisions)
        return torch.softmax(torch.einsum("m,mnc->nc", self.weights, each.nan_to_num(0.0)), dim=-1)

    def pick(self, places: list[int]) -> "Vote":
        """The vote of some members."""
        return Vote(self.factors[places], self.offsets[places], self.weights[places])

    def _log_probabilities(self, decisions: Tensor) -> Tensor:
        numbers = self.factors[:, None, None] * decisions.double() + self.offsets[:, None]
        return torch.log_softmax(numbers, dim=-1).clamp(min=UNLIKELIEST)


def fit_vote(left_out: Float[Tensor, "member case class"], codes: Int[Tensor, " case"]) -> Vote:
    """Factors, offsets and weights from answers to cases that a member's fit did not see; NaN where there is none."""
    decisions = left_out.double()
    known = decisions.isfinite().all(-1)
    # n correct answers do not prove that the next one is: a share of 1 / (n + 1) goes to all classes.
    classes, doubt = decisions.shape[-1], 1 / (len(codes) + 1)
    truth = (1 - doubt) * functional.one_hot(codes, classes).double() + doubt / classes
    calibrated = [_calibrate(one[some], truth[some]) for one, some in zip(decisions, known, strict=True)]
    factors, offsets = (torch.stack(parts) for parts in zip(*calibrated, strict=True))
    together = known.all(0)
    vote = Vote(factors, offsets, torch.zeros_like(factors))
    each, truth = vote._log_probabilities(decisions[:, together]), truth[together]
    # A member that does no better than the classes' shares has learned nothing, and gets no weight.
    shares = truth.mean(0)
    useful = -(truth * each).sum(-1).mean(1) < -torch.xlogy(shares, shares).sum()
    useful = useful if useful.any() else ~useful
    equal = factors.new_full((int(useful.sum()),), 1 / int(useful.sum()))
    vote.weights[useful] = _fit_terms(each[useful], truth, equal, torch.full_like(equal, PULL), torch.zeros_like(equal))
    return vote


def _calibrate(decisions: Float[Tensor, "case class"], truth: Float[Tensor, "case class"]) -> tuple[Tensor, Tensor]:
    """The factor and the offsets of the smallest cross-entropy."""
    loss = [functional.cross_entropy(factor * decisions, truth) for factor in SHARPEST]
    factor = SHARPEST[int(torch.stack(loss).argmin())]
    shares = truth.mean(0).log()
    start, pull = decisions.new_tensor([1.0, 0.0]), decisions.new_tensor([OFFSET_PULL, OFFSET_PULL])
    lowest = decisions.new_tensor([0.0, -torch.inf])
    terms = torch.stack([factor * decisions, shares.expand_as(decisions)])
    times, leaning = _fit_terms(terms, truth, start, pull, lowest)
    return factor * times, leaning * shares


def _fit_terms(
    terms: Float[Tensor, "term case class"],
    truth: Float[Tensor, "case class"],
    start: Float[Tensor, " term"],
    pull: Float[Tensor, " term"],
    lowest: Float[Tensor, " term"],
) -> Float[Tensor, " term"]:
    """The weights w, at least `lowest`, for which softmax(sum of w terms) has the smallest cross-entropy, with a pull
    of so many cases towards the start; by Newton's method, as the loss is convex."""
    cases = max(1, terms.shape[1])
    weights, pull = start.clone(), pull / cases
    true = (truth * terms).sum(-1).mean(1)

    def loss(at: Tensor) -> Tensor:
        mixed = torch.einsum("m,mnc->nc", at, terms)
        return mixed.logsumexp(-1).mean() - at @ true + (pull * (at - start).square()).sum() / 2

    for _ in range(STEPS):
        likely = torch.softmax(torch.einsum("m,mnc->nc", weights, terms), dim=-1)
        expected = torch.einsum("nc,mnc->mn", likely, terms)
        slope = expected.mean(1) - true + pull * (weights - start)
        free = (weights > lowest) | (slope < 0)
        if not free.any() or slope[free].abs().max() < 1e-9:
            break
        second = torch.einsum("nc,mnc,knc->mk", likely, terms, terms) - expected @ expected.T
        curve = second / cases + torch.diag(pull)
        step = torch.zeros_like(weights)
        step[free] = torch.linalg.solve(curve[free][:, free], slope[free])
        size, before = 1.0, loss(weights)
        while size > 1e-6 and loss((weights - size * step).maximum(lowest)) > before:
            size /= 2
        weights = (weights - size * step).maximum(lowest)
    return weights
