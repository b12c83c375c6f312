"""Learning rates as pure functions of how far training has come.

No scheduler object holds state, so nothing needs saving and a resumed run finds its rate by arithmetic. Epochs count
from 1, as in the papers' code; the rates are those in force during the update.

"onecycle" is torch's OneCycleLR: over T updates, from rate / divide up to the rate at update pct_start T - 1, then down
to rate / divide / 10,000 at update T - 1, while beta1 goes 0.95, 0.85, 0.95. PatchTST's released code builds that
object in every run and steps it in some: the object alone sets the first epoch's rate and beta1, which
`patchtst_compat` repeats.

"halving" is torch's StepLR with a factor of a half, stepped after every update, as MICA is trained.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from rearview.train.settings import Settings

CYCLE_BETAS = (0.95, 0.85)
"""beta1 at the ends and at the peak of a cycle."""
CYCLE_FLOOR = 1e4
"""How far below its first rate a cycle ends."""


class Rate(NamedTuple):
    """What one update runs at."""

    learning_rate: float
    beta1: float


def rate(settings: Settings, epoch: int, update: int, updates: int) -> Rate:
    """The rate of an update: `update` counts from 0 within `epoch` (from 1), which has `updates` of them."""
    done = (epoch - 1) * updates + update
    total = (settings.schedule_epochs or settings.epochs) * updates
    if settings.schedule == "onecycle":
        return _one_cycle(settings, done, total)
    if settings.patchtst_compat:
        share = 1 / settings.divide if epoch == 1 else _factor(settings, epoch, done, total)
        return Rate(settings.learning_rate * share, CYCLE_BETAS[0])
    return Rate(settings.learning_rate * _factor(settings, epoch, done, total), settings.betas[0])


def _factor(settings: Settings, epoch: int, done: int, total: int) -> float:
    if settings.schedule == "type1":
        return float(0.5 ** max(epoch - 2, 0))
    if settings.schedule == "type3":
        return float(0.9 ** max(epoch - 4, 0))
    if settings.schedule == "halving" and settings.halve_every is not None:
        return float(0.5 ** (done // settings.halve_every))
    rise = math.ceil(settings.warmup * total)
    if done < rise:
        return (done + 1) / rise
    if settings.schedule == "cosine":
        return (1 + math.cos(math.pi * (done - rise) / max(total - rise, 1))) / 2
    return 1.0


def _one_cycle(settings: Settings, done: int, total: int) -> Rate:
    between = _ANNEAL[settings.anneal]
    low, high = settings.learning_rate / settings.divide, settings.learning_rate
    slow, fast = CYCLE_BETAS
    peak = settings.pct_start * total - 1
    if done <= peak:
        share = done / peak if peak else 0.0
        return Rate(between(low, high, share), between(slow, fast, share))
    share = (done - peak) / (total - 1 - peak)
    return Rate(between(high, low / CYCLE_FLOOR, share), between(fast, slow, share))


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) / 2 * (1 + math.cos(math.pi * share))


def _linear(start: float, end: float, share: float) -> float:
    return start + (end - start) * share


_ANNEAL: dict[str, Callable[[float, float, float], float]] = {"cosine": _cosine, "linear": _linear}
