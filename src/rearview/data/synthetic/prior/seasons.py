"""Seasons: periods of the usual calendars, shapes within a period, profiles of weeks, drift of amplitude and phase."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from rearview.data.synthetic.prior.draws import Draw, standardise

HARMONICS = 8
PROFILE = 48
"""Points of a free shape within one period."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """A step width that series have, with its periods in steps, the shortest first; 0: there is none."""

    weight: float
    short: float
    middle: float = 0.0
    long: float = 0.0


CALENDARS = (
    Calendar(0.4, 60, 1440),  # minutes
    Calendar(0.5, 288, 2016),  # 5 minutes
    Calendar(0.9, 144, 1008),  # 10 minutes
    Calendar(1.0, 96, 672),  # 15 minutes
    Calendar(0.6, 48, 336),  # half hours
    Calendar(3.0, 24, 168, 8766),  # hours
    Calendar(2.5, 7, 365.25, 30.44),  # days
    Calendar(0.5, 5, 260.9, 21.75),  # working days
    Calendar(1.6, 52.18, 13.04),  # weeks
    Calendar(2.2, 12, 3),  # months
    Calendar(1.2, 4),  # quarters
    Calendar(0.3, 10),  # tens of days
)
"""How often each is drawn; the rest of the series get a period of no calendar."""
FREE = 0.12


@dataclass(frozen=True, slots=True)
class Periods:
    """The periods of every series in steps, each [count, 1]; 0 where a series has none."""

    short: Tensor
    middle: Tensor
    long: Tensor


def draw_periods(draw: Draw) -> Periods:
    """A calendar for every series; some get a period of their own and a multiple of it."""
    kinds = draw.constant(*(period for c in CALENDARS for period in (c.short, c.middle, c.long))).view(-1, 3)
    index = draw.pick([float(n) for n in range(len(CALENDARS))], [c.weight for c in CALENDARS]).long()[:, 0]
    usual = kinds[index]
    own = draw.log_uniform(3, 300)
    free = torch.cat([own, own * draw.pick([7.0, 4, 12, 2, 5]), torch.zeros_like(own)], dim=1)
    short, middle, long = torch.where(draw.chance(FREE), free, usual).split(1, dim=1)
    return Periods(short, middle, long)


def make_season(draw: Draw, period: Tensor) -> Tensor:
    """One season per series: harmonics or a free shape, its amplitude and phase drifting in some, standardised."""
    phase = draw.time / period.clamp(min=2) + draw.uniform()
    [rows] = draw.split(0.2)
    part = draw.part(rows)
    phase[rows] += part.uniform(0, 0.15) * _wander(part)
    shape = make_shape(draw, phase, period)
    swelling, growing = draw.split(0.25, 0.15)
    part = draw.part(swelling)
    shape[swelling] *= 1 + part.uniform(0.1, 0.6) * _wander(part)
    part = draw.part(growing)
    shape[growing] *= 1 + part.uniform(-0.8, 2) * part.time / part.length
    return standardise(shape) * (period > 0)


def make_shape(draw: Draw, phase: Tensor, period: Tensor) -> Tensor:
    """The course within a period: harmonics or a free shape, some with nights, peaks, or on and off, standardised."""
    shape = draw.fill(
        (0.5, lambda part, rows: _harmonics(part, phase[rows], period[rows].clamp(min=2))),
        (0.5, lambda part, rows: _profile(part, phase[rows])),
    )
    nights, peaks, switched = draw.split(0.12, 0.12, 0.06)
    shape[nights] = torch.relu(shape[nights] - draw.part(nights).uniform(-0.3, 0.8))
    shape[peaks] = torch.exp(shape[peaks].clamp(max=3))
    shape[switched] = torch.sign(shape[switched] - draw.part(switched).uniform(-0.5, 0.5))
    return standardise(shape)


def make_week(draw: Draw, day: Tensor) -> Tensor:
    """A level for each of seven days of `day` steps: free, or one for weekends; standardised."""
    start = draw.uniform(0, 7)
    which = torch.floor(draw.time / day.clamp(min=1) + start).long() % 7
    free = draw.normal(7) * (draw.uniform(width=7) < 0.6)
    weekend = torch.zeros(draw.count, 7, device=draw.device)
    weekend[:, 5:] = draw.normal() + 0.3 * draw.normal(2)
    levels = torch.where(draw.chance(0.6), weekend, free)
    return standardise(torch.gather(levels, 1, which.expand(draw.count, -1)))


def make_work_week(draw: Draw, day: Tensor) -> Tensor:
    """Days of `day` steps with one course on working days and another on days off, of a size of its own; standardised.

    Two days of seven are off, in some series one, in some a day here and there as well.
    """
    place = draw.time / day.clamp(min=2) + draw.uniform()
    which = torch.floor(place + torch.floor(draw.uniform(0, 7)))
    off = which % 7 >= torch.where(draw.chance(0.25), 6.0, 5.0)
    days = torch.rand(draw.count, draw.length, generator=draw.generator, device=draw.device)
    holiday = torch.gather(days, 1, (which - which[:, :1]).long()) < 0.03
    off |= holiday & draw.chance(0.3)
    worked = make_shape(draw, place, day)
    other = draw.uniform(0.1, 1) * make_shape(draw, place, day) + draw.normal()
    return standardise(torch.where(off, other, worked)) * (day > 0)


def open_by_season(draw: Draw, period: Tensor, x: Tensor) -> Tensor:
    """Nothing in one part of each period, in the other a course of which x lets through none, some or all.

    Solar power between nights and clouds, a shop between closing hours and quiet days; x itself where no period is.
    """
    phase = draw.time / period.clamp(min=2) + draw.uniform()
    arch = torch.cos(2 * math.pi * phase)
    course = torch.relu(torch.where(draw.chance(0.5), arch, make_shape(draw, phase, period)) - draw.uniform(-0.6, 0.6))
    share = torch.sigmoid(draw.uniform(0.5, 4) * (standardise(x) + draw.normal()))
    return torch.where(period > 0, course ** draw.uniform(0.4, 1.2) * share, x)


def _harmonics(draw: Draw, phase: Tensor, period: Tensor) -> Tensor:
    orders = torch.arange(1, HARMONICS + 1, device=draw.device)[None]
    amplitude = draw.normal(HARMONICS) / orders ** draw.uniform(0, 2.5)
    heard = (orders <= period / 2) & (orders <= 1 + torch.floor(draw.uniform(0, HARMONICS)))
    amplitude, shift = amplitude * heard, draw.uniform(width=HARMONICS)
    total = torch.zeros(draw.count, draw.length, device=draw.device)
    for n in range(HARMONICS):
        total += amplitude[:, n : n + 1] * torch.cos(2 * math.pi * ((n + 1) * phase + shift[:, n : n + 1]))
    return standardise(total)


def _profile(draw: Draw, phase: Tensor) -> Tensor:
    """A smooth free shape: random points of one period, smoothed around the circle, read with linear interpolation."""
    points = torch.fft.rfft(draw.normal(PROFILE))
    order = torch.arange(points.shape[1], device=draw.device)
    points = torch.fft.irfft(points * torch.exp(-order * draw.log_uniform(0.03, 0.6)), PROFILE)
    place = (phase % 1) * PROFILE
    left = place.long() % PROFILE
    weight = place - torch.floor(place)
    right = (left + 1) % PROFILE
    return standardise(torch.gather(points, 1, left) * (1 - weight) + torch.gather(points, 1, right) * weight)


def _wander(draw: Draw) -> Tensor:
    """A slow curve around 0 of size about 1, from four long waves."""
    total = torch.zeros(draw.count, draw.length, device=draw.device)
    for _ in range(4):
        total += 0.7 * torch.cos(2 * math.pi * (draw.time / draw.log_uniform(200, 4000) + draw.uniform()))
    return total
