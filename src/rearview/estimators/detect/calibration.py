"""The usual error of each channel and the threshold of each series, learned from rows held out from training.

A channel that can't be foretold has a large error at all times and would drown the others, so the error of a cell is
divided by what is usual for its series and channel. A series with enough held-out rows has a threshold of its own;
others share one that is drawn from all held-out rows together.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rearview.data.panel import Panel
from rearview.data.scale import Scaler
from rearview.estimators.detect.constant_channels import Channels
from rearview.estimators.detect.scoring import Scores, score
from rearview.estimators.detect.spec import DetectSpec
from rearview.models.contract import Model
from rearview.tasks import thresholds
from rearview.tasks.plan import GIVEN

ENOUGH = 10
"""Rows expected beyond a threshold, at least, for a series to have one of its own."""
LEAST_USUAL = 0.01
"""The least usual error, a tenth of a standard deviation squared: a channel met exactly is no hair trigger."""


@dataclass(frozen=True, slots=True, eq=False)
class Usual:
    """Usual errors of the series seen in training, and of others."""

    known: NDArray[np.float64]
    """[series, channel]: the error that cells are divided by; 1 where errors are taken as they are."""
    elsewhere: NDArray[np.float64]
    """[channel]: the same for series that were not seen in training."""

    @staticmethod
    def ones(series: int, channels: int) -> "Usual":
        """Errors are taken as they are."""
        return Usual(np.ones((series, channels)), np.ones(channels))

    def weigh(self, errors: NDArray[np.float32], panel: Panel, place: list[int | None]) -> Scores:
        """Scores of rows from errors [row, channel]; `place` says where each series stands among those of training."""
        usual = np.stack([self.elsewhere if p is None else self.known[p] for p in place])
        return weigh(np.divide(errors, np.repeat(usual, panel.lengths, axis=0), dtype=np.float32))


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Usual errors and thresholds of the series seen in training, and of others."""

    usual: Usual
    thresholds: NDArray[np.float64]
    """[series]."""
    threshold_elsewhere: float
    """The threshold drawn from all series together."""
    drawn: str
    """How the thresholds were chosen, in words."""
    notes: tuple[str, ...] = ()

    def limits(self, place: list[int | None]) -> NDArray[np.float64]:
        """[series]: the threshold of each series."""
        return np.array([self.threshold_elsewhere if p is None else self.thresholds[p] for p in place])


def calibrate(
    network: Model,
    panel: Panel,
    scaler: Scaler,
    border: NDArray[np.int64],
    spec: DetectSpec,
    words: str,
    constant: Channels | None = None,
) -> Calibration:
    """Learn usual errors and thresholds from the rows after `border[s]`; from all rows where none are held out.

    `words` names the held-out rows; `constant` [series, channel] are the channels that are held against their constant.
    """
    held = border < panel.lengths
    used = held if held.any() else ~held
    # A forecast of the first held-out rows looks back on rows before them; a window to give back lies among its own.
    context = spec.lookback if spec.mode == "forecast" and held.any() else 0
    begin = panel.offsets[:-1] + np.where(held, border - context, 0)
    part = panel.between(begin, np.where(used, panel.offsets[1:], begin))
    own = Scaler(scaler.mean[used], scaler.std[used])
    held_to = None if constant is None else constant[used]
    errors = score(network, part, own, spec.lookback, spec.mode, spec.step, held_to)
    for a, _ in part.bounds():
        errors[a : a + context] = np.nan
    series = np.flatnonzero(used)
    usual = find_usual(errors, part, series, panel.series, constant, balance=spec.balance)
    rows = usual.weigh(errors, part, list(series.tolist())).rows
    limits, pooled, drawn = draw_thresholds([rows[a:b] for a, b in part.bounds()], series, panel.series, spec)
    return Calibration(usual, limits, pooled, *describe_threshold(drawn, words, held=bool(held.any())))


def describe_threshold(drawn: str, words: str, *, held: bool) -> tuple[str, tuple[str, ...]]:
    """(how the thresholds were chosen, notes); `words` names the held-out rows, where some are `held`."""
    if held:
        return f"{drawn}, on {words}", ()
    note = "Too short to hold rows out: the threshold rests on training rows and is likely too low."
    return f"{drawn}, on the training rows", (note,)


def find_usual(
    errors: NDArray[np.float32],
    part: Panel,
    series: NDArray[np.int64],
    count: int,
    constant: Channels | None,
    *,
    balance: bool,
) -> Usual:
    """Mean errors of each series and of all, from those of some `series` among `count`; 1 without `balance`."""
    channels = errors.shape[1]
    if not balance:
        return Usual.ones(count, channels)
    if constant is None:
        constant = np.zeros((count, channels), dtype=bool)
    varying = errors
    if constant.any():
        # What is constant in one series says nothing of how well it is met where it varies.
        varying = np.where(np.repeat(constant[series], part.lengths, axis=0), np.float32(np.nan), errors)
    elsewhere = _means(varying, np.ones(channels))
    usual = np.where(constant, LEAST_USUAL, elsewhere)
    for s, (a, b) in zip(series.tolist(), part.bounds(), strict=True):
        usual[s] = _means(errors[a:b], usual[s])
    return Usual(usual, elsewhere)


def _means(errors: NDArray[np.float32], otherwise: NDArray[np.float64]) -> NDArray[np.float64]:
    """[channel]: the mean of the errors that are there, never below the least; `otherwise` where there is none."""
    seen = ~np.isnan(errors)
    total = np.where(seen, errors, 0).sum(axis=0, dtype=np.float64)
    number = seen.sum(axis=0)
    return np.maximum(np.where(number > 0, total / np.maximum(number, 1), otherwise), LEAST_USUAL)


def weigh(channels: NDArray[np.float32]) -> Scores:
    """The scores of rows: the mean over the channels that have one."""
    seen = ~np.isnan(channels)
    total, number = np.where(seen, channels, 0).sum(axis=1, dtype=np.float64), seen.sum(axis=1)
    return Scores(np.where(number > 0, total / np.maximum(number, 1), np.nan), channels)


def draw_thresholds(
    scored: list[NDArray[np.float64]], series: NDArray[np.int64], count: int, spec: DetectSpec, averaged: int = 1
) -> tuple[NDArray[np.float64], float, str]:
    """Thresholds [series], the one drawn from all scores together, and how they were drawn.

    `averaged`: the rows that each score is averaged over.
    """
    rule = spec.threshold
    if not isinstance(rule, str):
        return np.full(count, float(rule)), float(rule), GIVEN
    pooled, drawn = thresholds.choose(
        np.concatenate(scored), rule, quantile=spec.quantile, risk=spec.risk, averaged=averaged
    )
    limits = np.full(count, pooled)
    beyond = spec.risk if rule == "pot" else 1 - spec.quantile
    for s, rows in zip(series.tolist(), scored, strict=True):
        if count > 1 and np.isfinite(rows).sum() * beyond >= ENOUGH:
            limits[s] = thresholds.choose(rows, rule, quantile=spec.quantile, risk=spec.risk, averaged=averaged)[0]
    return limits, pooled, drawn
