"""The demo's data: two years of a district's energy, hourly, seven coupled channels, made from a seed.

Every channel is shaped like equation 6 of the CAPS paper, with noise added:

    y_t = mu_0 + beta t  +  sum_p a_p cos(omega_p t + phi_p)  +  sum_{i <= t} rho^(t - i) u_i  +  noise_t
          trend             season                               shocks

- trend: `Channel.level` (mu_0) and `Channel.growth` (beta, given per year);
- season: cosines of a day, half a day, a week and a year; a `Wave` holds a_p and, for phi_p, the hour of its peak;
- shocks: sparse impulses u_i that fade at the channel's own rate `Channel.rho`. Impulses come from `ShockSource`s that
  several channels share: a weather front reaches the wind at once, the temperature three hours later, the load after
  six, each with a factor of its own;
- noise: normal, independent from hour to hour.

Channels are coupled a second time: heat, gas and price respond to what others did hours before (`Channel.follows`).
A follower adds factor * other[t - lag], part by part, so the parts of every channel still add up. What is to come
is thus partly written in the recent past of the channel and of its neighbours, where a seasonal copy can't see it.

Every part is rounded to 1/1024, so sums are exact in float64 and the totals exact in float32 as well.
"""

import itertools
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import SettingsError

Floats = NDArray[np.float64]

ROWS = 17_520
START = np.datetime64("2023-01-01T00:00:00", "us")

_HOURS_A_YEAR = 8_760
_BURN_IN = 2_000
"""Hours simulated before the first row, so that the first rows too feel older shocks and their neighbours' past."""
_GRAIN = 1_024


@dataclass(frozen=True, slots=True)
class Wave:
    """One cosine: its period and the hour of its first peak after the start, both in hours."""

    period: float
    amplitude: float
    peak: float


@dataclass(frozen=True, slots=True)
class Follow:
    """A response to what another channel did `lag` hours before."""

    channel: str
    factor: float
    lag: int


@dataclass(frozen=True, slots=True)
class Channel:
    """One channel; the symbols are those of the equation above."""

    name: str
    level: float
    growth: float
    waves: tuple[Wave, ...]
    rho: float
    noise: float
    follows: tuple[Follow, ...] = ()


@dataclass(frozen=True, slots=True)
class ShockSource:
    """A source of impulses, and the channels they reach: channel -> (factor, lag in hours)."""

    every: float
    """Hours between two impulses on average."""
    signed: bool
    """Whether impulses go both ways, or up only."""
    reaches: dict[str, tuple[float, int]]


@dataclass(frozen=True, slots=True)
class EnergyParts:
    """The parts of the demo's data, each [row, channel]; they add up to it exactly."""

    stamps: NDArray[np.datetime64]
    names: tuple[str, ...]
    trend: Floats
    season: Floats
    shocks: Floats
    noise: Floats

    @property
    def total(self) -> Floats:
        return self.trend + self.season + self.shocks + self.noise


_day, _half_day, _week, _year = (partial(Wave, period) for period in (24.0, 12.0, 168.0, float(_HOURS_A_YEAR)))
_MIDSUMMER = 4_800.0
_MIDWINTER = 420.0
_WEDNESDAY_NOON = 84.0
_SATURDAY_NOON = 156.0

# fmt: off
CHANNELS = (
    Channel("wind_mw", 320.0, 8.0, (_day(14.0, 14.0), _year(20.0, _MIDWINTER)), rho=0.97, noise=4.0),
    Channel("temperature_c", 11.0, 0.1, (_day(4.5, 15.0), _year(9.0, _MIDSUMMER)), rho=0.985, noise=0.25),
    Channel("load_mw", 420.0, 12.0,
            (_day(70.0, 17.0), _half_day(28.0, 8.0), _week(32.0, _WEDNESDAY_NOON), _year(30.0, _MIDWINTER)),
            rho=0.94, noise=6.0),
    Channel("ev_kw", 1_300.0, 180.0, (_day(420.0, 20.0), _half_day(110.0, 9.0), _week(140.0, _SATURDAY_NOON)),
            rho=0.88, noise=30.0),
    Channel("heat_mw", 240.0, -3.0, (_day(16.0, 7.0), _half_day(9.0, 7.0), _week(6.0, _WEDNESDAY_NOON)),
            rho=0.95, noise=2.0, follows=(Follow("temperature_c", -6.5, 4),)),
    Channel("gas_mw", 310.0, -6.0, (_week(8.0, _WEDNESDAY_NOON),), rho=0.96, noise=3.0,
            follows=(Follow("load_mw", 0.55, 2), Follow("wind_mw", -0.5, 1), Follow("heat_mw", 0.45, 3))),
    Channel("price_eur", 82.0, 2.0, (_day(5.0, 19.0),), rho=0.9, noise=1.2,
            follows=(Follow("load_mw", 0.12, 3), Follow("wind_mw", -0.16, 5), Follow("gas_mw", 0.1, 4))),
)
# fmt: on
SOURCES = (
    ShockSource(72.0, signed=True, reaches={"wind_mw": (30.0, 0), "temperature_c": (-2.2, 3), "load_mw": (22.0, 6)}),
    ShockSource(60.0, signed=False, reaches={"load_mw": (45.0, 0), "ev_kw": (140.0, 2)}),
    ShockSource(96.0, signed=True, reaches={"heat_mw": (18.0, 0), "gas_mw": (14.0, 5)}),
    ShockSource(120.0, signed=False, reaches={"price_eur": (14.0, 0), "ev_kw": (-120.0, 8)}),
)
"""Weather fronts, public events, work on the heat network, shortages on the market."""


def demo(rows: int = ROWS, seed: int = 0) -> dict[str, NDArray[np.generic]]:
    """Column name -> column: "date" (datetime64[us]), then the channels. Fewer rows are the first rows of more."""
    parts = demo_components(rows, seed)
    columns: dict[str, NDArray[np.generic]] = {"date": parts.stamps}
    return columns | dict(zip(parts.names, np.ascontiguousarray(parts.total.T), strict=True))


def demo_components(rows: int = ROWS, seed: int = 0) -> EnergyParts:
    """The parts (trend, season, shocks, noise) that add up to `demo(rows, seed)` exactly."""
    if rows < 1:
        raise SettingsError(f"rows is {rows}, but the demo's data has at least 1 row")
    hours = np.arange(-_BURN_IN, rows, dtype=np.float64)
    draws = np.random.default_rng([seed, 0]).standard_normal((len(hours), len(CHANNELS)))
    impulses = _impulses(len(hours), seed)
    season: dict[str, Floats] = {}
    shocks: dict[str, Floats] = {}
    noise: dict[str, Floats] = {}
    for index, channel in enumerate(CHANNELS):
        name, waves = channel.name, np.zeros_like(hours)
        for wave in channel.waves:
            waves += wave.amplitude * np.cos(2 * np.pi * (hours - wave.peak) / wave.period)
        season[name] = _add_responses(waves, channel, season)
        shocks[name] = _add_responses(_fade(impulses[name], channel.rho), channel, shocks)
        noise[name] = _add_responses(channel.noise * draws[:, index], channel, noise)
    trend = {channel.name: channel.level + channel.growth * hours / _HOURS_A_YEAR for channel in CHANNELS}
    return EnergyParts(
        stamps=START + np.arange(rows) * np.timedelta64(1, "h"),
        names=tuple(channel.name for channel in CHANNELS),
        trend=_round(trend),
        season=_round(season),
        shocks=_round(shocks),
        noise=_round(noise),
    )


def write_demo(path: Path | str, rows: int = ROWS, seed: int = 0) -> Path:
    """Write `demo(rows, seed)` as a CSV file that reads back to the same numbers; returns its path."""
    parts = demo_components(rows, seed)
    dates = np.char.replace(np.datetime_as_string(parts.stamps, unit="s"), "T", " ").tolist()
    lines = [",".join(["date", *parts.names])]
    lines += [",".join([date, *map(repr, row)]) for date, row in zip(dates, parts.total.tolist(), strict=True)]
    target = Path(path)
    target.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    return target


def _impulses(hours: int, seed: int) -> dict[str, Floats]:
    """The impulses u that reach each channel, mostly zero."""
    reached = {channel.name: np.zeros(hours) for channel in CHANNELS}
    for index, source in enumerate(SOURCES):
        # One row of draws an hour, from a generator of the source's own: a longer run begins like a shorter one.
        chance, size, sign = np.random.default_rng([seed, 1, index]).random((hours, 3)).T
        impulse = np.where(chance < 1.0 / source.every, 0.5 - np.log1p(-size), 0.0)
        if source.signed:
            impulse = np.where(sign < 0.5, -impulse, impulse)
        for name, (factor, lag) in source.reaches.items():
            reached[name] += factor * _delay(impulse, lag)
    return reached


def _fade(impulses: Floats, rho: float) -> Floats:
    """sum_{i <= t} rho^(t - i) u_i, as the recurrence s_t = rho s_{t-1} + u_t."""
    return np.fromiter(itertools.accumulate(impulses.tolist(), lambda state, new: rho * state + new), np.float64)


def _add_responses(own: Floats, channel: Channel, parts: dict[str, Floats]) -> Floats:
    """A channel's own part and its responses to the same part of the channels that it follows."""
    for follow in channel.follows:
        own = own + follow.factor * _delay(parts[follow.channel], follow.lag)
    return own


def _delay(values: Floats, lag: int) -> Floats:
    return np.concatenate([np.zeros(lag), values[: len(values) - lag]])


def _round(part: dict[str, Floats]) -> Floats:
    """[row, channel] of a part without the burn-in, on the grid that makes sums exact."""
    return np.round(np.stack([part[channel.name][_BURN_IN:] for channel in CHANNELS], axis=1) * _GRAIN) / _GRAIN
