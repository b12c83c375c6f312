"""Stand-ins for wide benchmark sets whose files are not at hand: generated, of the same width, length and step.

They are there to run what the real sets run, at their full width; a score on them says nothing of the real sets, so
they have names of their own. With h the hour of the day, every channel c is

    x_tc = level_c * daylight_t * (1 + day_c cos(h - peak_c) + half_c cos(2 (h - rush_c)) - rest_c weekend_t
                                     + a_c common_t + b_c region_(t - lag_c) + noise_tc),         nothing below 0

- common and region: slow processes, s_t = rho s_(t-1) + sqrt(1 - rho^2) u_t. All channels share the first; some twenty
  neighbours share the second, which reaches each after a lag of its own, so channels lead one another;
- daylight: 1, but for the sun's height in a set of solar plants, dark at night.

Fewer rows are the first rows of more.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import SettingsError
from rearview.core.files import read_yaml
from rearview.data.panel import Finding, Layout, Panel
from rearview.data.panel_array import panel_of_cells
from rearview.data.step import MICROSECONDS, Step

Floats = NDArray[np.float64]

_SEED = 20_160_701
_NEIGHBOURS = 20
"""Channels of a region, about."""
_ROWS_AT_ONCE = 2_048
"""Rows worked on at a time: sets of hundreds of channels are held once, not once for every term."""


@dataclass(frozen=True, slots=True)
class StandInKind:
    """The character of a set; shares are of a channel's level, times are hours."""

    level: float
    """The channels' levels spread around it."""
    spread: float
    """Deviation of the levels' logarithms."""
    day: float
    half_day: float
    peak: float
    rush: float
    weekend: float
    common: float
    regional: float
    noise: float
    memory: float
    """Hours over which the slow processes keep about a third of what they were."""
    longest_lag: float
    decimals: int
    """Of the values, as the real files have them."""
    dark: bool = False
    """Nothing at night."""


_DECLARED = read_yaml("rearview.data.datasets", "catalogue")["stand_ins"]
SETS = {
    name: (StandInKind(**_DECLARED["kinds"][kind]), str(start)) for name, (kind, start) in _DECLARED["sets"].items()
}
"""The sets that have stand-ins: their character, and when they begin."""


def make(rows: int, channels: int, step: Step, *, of: str) -> Panel:
    """The panel of a stand-in of the set `of`."""
    kind, start = SETS[of]
    message = f"These are {channels:,} generated series of the width of {of}; scores on them say nothing of {of}."
    return panel_of_cells(
        cells(rows, channels, step, kind, start),
        step.grid(np.datetime64(start, "us"), rows),
        step,
        Layout("wide", "date", source=f"a stand-in of {of}"),
        findings=(Finding("inferred", "generated", 0, message),),
    )


def cells(rows: int, channels: int, step: Step, kind: StandInKind, start: str) -> Floats:
    """[row, channel] of a stand-in."""
    if rows < 1:
        raise SettingsError(f"rows is {rows}; a stand-in has at least 1.")
    # Drawn channel by channel: a narrower set would have the first channels of a wider one.
    draws = np.random.default_rng([_SEED, 0]).standard_normal((channels, 8)).T
    shares = np.exp(0.3 * draws[:6])
    day, half_day, weekend = kind.day * shares[0], kind.half_day * shares[1], kind.weekend * shares[2]
    noise, common, regional = kind.noise * shares[3], kind.common * shares[4], kind.regional * shares[5]
    level, later = kind.level * np.exp(kind.spread * draws[6]), draws[7]
    region = np.arange(channels) // _NEIGHBOURS
    apart = step.count * MICROSECONDS[step.unit] / MICROSECONDS["h"]
    longest_lag = max(1, round(kind.longest_lag / apart))
    lags = np.arange(channels) * 7 % (longest_lag + 1)
    # [row, 1 + region]: the process of all channels, then one for each region, all of deviation 1.
    slow = np.random.default_rng([_SEED, 1]).standard_normal((rows + longest_lag, 2 + region[-1]))
    rho = np.exp(-apart / kind.memory)
    slow[1:] *= np.sqrt(1 - rho**2)
    for row in range(1, len(slow)):
        slow[row] += rho * slow[row - 1]
    since_monday = step.grid(np.datetime64(start, "us"), rows) - np.datetime64("1969-12-29", "us")
    all_hours, turn = since_monday.astype(np.int64) / MICROSECONDS["h"], 2 * np.pi / 24
    random, out = np.random.default_rng([_SEED, 2]), np.empty((rows, channels))
    for first in range(0, rows, _ROWS_AT_ONCE):
        hours = all_hours[first : first + _ROWS_AT_ONCE, None]
        places = first + np.arange(len(hours))[:, None] + longest_lag
        shape = 1 + day * np.cos(turn * (hours - kind.peak - later))
        shape += half_day * np.cos(2 * turn * (hours - kind.rush - later))
        shape -= weekend * (hours // 24 % 7 >= 5)
        shape += common * slow[places, 0]
        shape += regional * slow[places - lags, 1 + region]
        shape += noise * random.standard_normal((len(hours), channels), dtype=np.float32)
        if kind.dark:
            shape *= np.maximum(0.0, np.cos(turn * (hours - kind.peak)))
        out[first : first + len(hours)] = level * np.maximum(shape, 0.0)
    return np.round(out, kind.decimals)
