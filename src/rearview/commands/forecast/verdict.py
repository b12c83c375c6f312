"""The verdict: does the model beat the naive forecast, does a simpler one do better, did its intervals hold?"""

from typing import NamedTuple

import numpy as np

from rearview.core.wording import quantity
from rearview.estimators.forecast.backtest import Scores
from rearview.estimators.forecast.spec import AUTO

TOLERATED = 0.1
"""How far below its level an interval's coverage may fall before the verdict says so."""
MANY = 10
"""How many times an error is another from which on the percentage is no help."""
LEVEL = 0.005
"""Relative difference of two errors below which neither is said to beat the other: 0 % in print."""


class ScoredModel(NamedTuple):
    """A network, whether it is a baseline, and its scores."""

    name: str
    baseline: bool
    scores: Scores


def verdict(
    results: tuple[ScoredModel, ...], windows: int, horizon: int, *, skipped: bool = False, known: bool = False
) -> str:
    """Say whether the model beats the naive forecast, whether a simpler one does better, and which intervals failed.

    `known`: the networks had inputs known in the future, for which a baseline has no place.
    """
    if not windows or not results:
        why = "There was no backtest, as asked" if skipped else "The data is too short for a backtest"
        why = "The run was stopped before a backtest" if windows else why
        return f"{why}, so nothing is known about how good this forecast is."
    # MASE has no meaning where the history never changes from season to season; the MAE has.
    metric = "mase" if all(np.isfinite(result.scores.mase) for result in results) else "mae"
    errors = {result.name: float(getattr(result.scores, metric)) for result in results}
    models = [result for result in results if not result.baseline and result.name != "seasonal_naive"]
    over = f"{quantity(windows, 'backtest window')} of {quantity(horizon, 'step')}"
    if all(np.isnan(error) for error in errors.values()):
        return f"No value was observed in {over}, so nothing is known about how good this forecast is."
    if "seasonal_naive" not in errors or not models:
        listed = ", ".join(f"{name} has {metric.upper()} {error:.3g}" for name, error in errors.items())
        return f"Without {'a naive baseline' if models else 'a network'} there is no verdict: over {over}, {listed}."
    best = min(models, key=lambda result: errors[result.name])
    ours, theirs = errors[best.name], errors["seasonal_naive"]
    change = f", {abs(1 - ours / theirs) * 100:.0f} % {'lower' if ours < theirs else 'higher'}" if theirs else ""
    if theirs and ours > MANY * theirs:
        change = ", many times higher"
    beats = "beats" if ours < theirs else "does not beat"
    if theirs and abs(1 - ours / theirs) < LEVEL:
        beats, change = "is level with", ""
    numbers = f"{metric.upper()} {ours:.3g} against {theirs:.3g}{change}, over {over}"
    sentences = [f"{best.name} {beats} the seasonal naive forecast: {numbers}."]
    simpler = min(
        (result for result in results if result.baseline), key=lambda result: errors[result.name], default=None
    )
    # A portfolio has the naive forecast among its candidates, and has weighed it.
    if simpler is not None and best.name != AUTO and errors[simpler.name] < (1 - LEVEL) * ours:
        error = errors[simpler.name]
        sentences.append(
            f"{simpler.name} does better ({metric.upper()} {error:.3g}): use it with --model {simpler.name}"
            f"{', without --known and --future' if known else ''}."
        )
    failed = [level for level, share in best.scores.coverage.items() if share < level / 100 - TOLERATED]
    if failed:
        share = f"{100 * best.scores.coverage[max(failed)]:.0f} %"
        intervals = f"The {max(failed):g} % intervals of {best.name}"
        sentences.append(f"{intervals} held only {share} of the time: do not rely on them.")
    return " ".join(sentences)
