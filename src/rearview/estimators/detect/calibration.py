"""The usual error of each channel and the threshold of each series, learned from rows held out from training.

A channel that is hard to predict has large errors at all times and would dominate the others, so the error of a cell is
divided by the mean error of its series and channel. A series with enough held-out rows has a threshold of its own;
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
"""The least usual error, a tenth of a standard deviation squared: a perfect fit must not make tiny errors alarms."""


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
        return average_channels(np.divide(errors, np.repeat(usual, panel.lengths, axis=0), dtype=np.float32))


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


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """The rows held out from training; all rows of all series where none are."""

    panel: Panel
    series: NDArray[np.int64]
    """The place of each of its series among those of training."""
    count: int
    """Series of training."""
    scaler: Scaler
    constant: Channels | None
    """[series of training, channel]: the channels that are held against their constant."""
    empty: bool
    """Whether no rows could be held out, so that these are the training rows."""
    context: int
    """Rows at the beginning of each series that are there to look back on alone."""

    @classmethod
    def of(
        cls, panel: Panel, scaler: Scaler, border: NDArray[np.int64], constant: Channels | None, context: int = 0
    ) -> "HeldOut":
        """The rows of each series after `border[s]`, and `context` rows before them."""
        held = border < panel.lengths
        used = held if held.any() else ~held
        begin = panel.offsets[:-1] + np.where(held, border - context, 0)
        part = panel.between(begin, np.where(used, panel.offsets[1:], begin))
        scaler = Scaler(scaler.mean[used], scaler.std[used])
        empty = not held.any()
        return cls(part, np.flatnonzero(used), panel.series, scaler, constant, empty, 0 if empty else context)

    @property
    def place(self) -> list[int | None]:
        """`series` as a list."""
        return list(self.series.tolist())

    @property
    def own_constant(self) -> Channels | None:
        """`constant` for the series that have rows here."""
        return None if self.constant is None else self.constant[self.series]

    def split(self, rows: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """The numbers [row] of each series."""
        return [rows[a:b] for a, b in self.panel.bounds()]

    def describe(self, drawn: str, words: str) -> tuple[str, tuple[str, ...]]:
        """(how thresholds were chosen, notes); `words` name the held-out rows."""
        if not self.empty:
            return f"{drawn}, on {words}", ()
        note = "Too short to hold rows out: the threshold rests on training rows and is likely too low."
        return f"{drawn}, on the training rows", (note,)


def calibrate(network: Model, held: HeldOut, spec: DetectSpec, words: str) -> Calibration:
    """Learn usual errors and thresholds; `words` name the held-out rows."""
    errors = score(network, held.panel, held.scaler, spec.lookback, spec.mode, spec.step, held.own_constant)
    for a, _ in held.panel.bounds():
        errors[a : a + held.context] = np.nan
    usual = find_usual(errors, held, balance=spec.balance)
    limits, pooled, drawn = draw_thresholds(usual.weigh(errors, held.panel, held.place).rows, held, spec)
    return Calibration(usual, limits, pooled, *held.describe(drawn, words))


def find_usual(errors: NDArray[np.float32], held: HeldOut, *, balance: bool) -> Usual:
    """Mean errors of each series and of all; 1 without `balance`."""
    channels, constant = errors.shape[1], held.constant
    if not balance:
        return Usual.ones(held.count, channels)
    if constant is None:
        constant = np.zeros((held.count, channels), dtype=bool)
    varying = errors
    if constant.any():
        # The error of a channel that is constant in one series says nothing about series in which it varies.
        rows = np.repeat(constant[held.series], held.panel.lengths, axis=0)
        varying = np.where(rows, np.float32(np.nan), errors)
    elsewhere = np.maximum(_mean(varying, 0, np.ones(channels)), LEAST_USUAL)
    usual = np.where(constant, LEAST_USUAL, elsewhere)
    for s, (a, b) in zip(held.series.tolist(), held.panel.bounds(), strict=True):
        usual[s] = np.maximum(_mean(errors[a:b], 0, usual[s]), LEAST_USUAL)
    return Usual(usual, elsewhere)


def _mean(errors: NDArray[np.float32], axis: int, otherwise: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """The mean of the known errors along an axis; `otherwise` where none is known."""
    known = ~np.isnan(errors)
    total, number = np.where(known, errors, 0).sum(axis=axis, dtype=np.float64), known.sum(axis=axis)
    return np.where(number > 0, total / np.maximum(number, 1), otherwise)


def average_channels(channels: NDArray[np.float32]) -> Scores:
    """The scores of rows: the mean over the channels that have one."""
    return Scores(_mean(channels, 1, np.nan), channels)


def draw_thresholds(
    scores: NDArray[np.float64], held: HeldOut, spec: DetectSpec, averaged: int = 1, usual: float | None = None
) -> tuple[NDArray[np.float64], float, str]:
    """Thresholds [series], the one drawn from all scores [row] together, and how they were drawn.

    `averaged`: the rows that each score is averaged over; `usual`: the quantile that such scores usually have.
    """
    rule = spec.threshold
    if not isinstance(rule, str):
        return np.full(held.count, float(rule)), float(rule), GIVEN

    def choose(some: NDArray[np.float64]) -> tuple[float, str]:
        return thresholds.choose(some, rule, quantile=spec.quantile, risk=spec.risk, averaged=averaged, usual=usual)

    pooled, drawn = choose(scores)
    limits = np.full(held.count, pooled)
    beyond = spec.risk if rule == "pot" else 1 - spec.quantile
    for s, rows in zip(held.series.tolist(), held.split(scores), strict=True):
        if held.count > 1 and np.isfinite(rows).sum() * beyond >= ENOUGH:
            limits[s], _ = choose(rows)
    return limits, pooled, drawn
