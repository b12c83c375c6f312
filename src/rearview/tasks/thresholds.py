"""From scores of ordinary rows to the score above which a row is an anomaly.

quantile   the share `quantile` of the scores lies below.
pot        peaks over threshold (Siffer et al., 2017): the excesses y = s - t over a high quantile t follow a
           generalised Pareto law, P(y > x) = (1 + xi x / sigma)^(-1 / xi), whose tail gives the score that a row
           exceeds with the probability `risk`:  z = t + sigma / xi ((risk n / n_t)^(-xi) - 1),  n scores of which n_t
           exceed t.
robust     for scores that hold anomalies themselves: median + 5 robust deviations (1.4826 times the median absolute
           deviation) of the cube root, which is nearly normal for sums of squares (Wilson and Hilferty, 1931). Up to
           half of the rows may be anomalies before it moves.

xi and sigma are those of the greatest likelihood. With theta = xi / sigma the likelihood is a function of theta alone
(Grimshaw, 1993): xi = mean log(1 + theta y), l(theta) = -n (log(xi / theta) + xi + 1); the exponential law is its limit
at theta = 0.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError

Rule = Literal["quantile", "pot", "robust"]
RULES: tuple[Rule, ...] = ("quantile", "pot", "robust")

PEAKS_ABOVE = 0.98
"""The quantile over which excesses are fitted."""
LEAST_PEAKS = 10
"""Excesses below which no tail is fitted."""
ROBUST_DEVIATIONS = 5.0
USUAL_BEYOND = 5
"""Weight of the usual quantile, in independent scores beyond it."""
_CANDIDATES = 400
_HALVINGS = 60

Scores = NDArray[np.float64]


def choose(
    scores: Scores, rule: Rule, *, quantile: float, risk: float, averaged: int = 1, usual: float | None = None
) -> tuple[float, str]:
    """Choose a threshold from scores by a rule, and say how; scores that are NaN do not count.

    Of scores that are each `averaged` over so many rows, as many fewer are independent, and hardly any is beyond their
    quantile, which is likely too low: below the `usual` one it is raised towards that, the fewer there are the more.
    """
    known = scores[np.isfinite(scores)]
    if not len(known):
        raise InputError("There is no score to draw a threshold from: no row could be scored; bring rows with values.")
    if rule == "robust":
        roots = np.cbrt(known)
        middle = float(np.median(roots))
        limit = (middle + ROBUST_DEVIATIONS * 1.4826 * float(np.median(np.abs(roots - middle)))) ** 3
        return limit, f"{ROBUST_DEVIATIONS:g} robust deviations of the cube root above the median"
    if rule == "pot":
        peaks = int((known > np.quantile(known, PEAKS_ABOVE)).sum())
        if peaks >= LEAST_PEAKS:
            return over_peaks(known, risk), f"peaks over threshold: exceeded by {risk:g} of ordinary rows"
        return float(known.max()), (
            f"the largest of {len(known):,} scores: {peaks} excesses are too few for a tail ({LEAST_PEAKS} needed)"
        )
    limit = float(np.quantile(known, quantile))
    if usual is not None and limit < usual:
        beyond = (1 - quantile) * len(known) / averaged
        limit = (beyond * limit + USUAL_BEYOND * usual) / (beyond + USUAL_BEYOND)
    return limit, f"{100 * quantile:g} % of {len(known):,} ordinary scores lie below"


def over_peaks(scores: Scores, risk: float) -> float:
    """The score that an ordinary row exceeds with the probability `risk`, never below the quantile of the peaks."""
    start = float(np.quantile(scores, PEAKS_ABOVE))
    peaks = scores[scores > start] - start
    shape, scale = pareto(peaks)
    ratio = risk * len(scores) / len(peaks)
    beyond = -scale * np.log(ratio) if abs(shape) < 1e-9 else scale / shape * (ratio**-shape - 1)
    return start + max(0.0, float(beyond))


def pareto(peaks: Scores) -> tuple[float, float]:
    """Shape xi and scale sigma of the generalised Pareto law of greatest likelihood for positive excesses."""
    mean, largest = float(peaks.mean()), float(peaks.max())
    # Above a shape of -1/2 the likelihood has a proper maximum; below it, it grows without bound at the border.
    low = -(1 - 1e-6) / largest
    spread = np.geomspace(1e-6, 1e4, _CANDIDATES // 2) / mean
    candidates = np.concatenate([-np.minimum(spread, -low), spread])
    likelihoods = np.array([_likelihood(peaks, theta) for theta in candidates])
    order = np.argsort(candidates)
    candidates, likelihoods = candidates[order], likelihoods[order]
    best = int(likelihoods.argmax())
    low, high = candidates[max(best - 1, 0)], candidates[min(best + 1, len(candidates) - 1)]
    ratio = (np.sqrt(5) - 1) / 2
    for _ in range(_HALVINGS):  # golden section
        first, second = high - ratio * (high - low), low + ratio * (high - low)
        if _likelihood(peaks, first) >= _likelihood(peaks, second):
            high = second
        else:
            low = first
    theta = (low + high) / 2
    exponential = -len(peaks) * (np.log(mean) + 1)
    if exponential >= _likelihood(peaks, theta):
        return 0.0, mean
    shape = float(np.log1p(theta * peaks).mean())
    return shape, shape / theta


def _likelihood(peaks: Scores, theta: float) -> float:
    """The log-likelihood at theta, its shape at its best; minus infinity where the shape is below -1/2."""
    shape = float(np.log1p(theta * peaks).mean())
    if theta == 0 or shape / theta <= 0 or shape < -0.5:
        return -np.inf
    return -len(peaks) * (np.log(shape / theta) + shape + 1)
