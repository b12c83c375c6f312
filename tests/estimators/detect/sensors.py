"""Sensors with anomalies at known places, and detectors small enough to train in a moment."""

from typing import Any

import numpy as np
import pandas as pd

from rearview import Detector

LOOKBACK = 24
SMALL = {"width": 8, "heads": 2, "feed_forward": 16, "depth": 1}
SPIKE, SHIFT = (60, 64), (120, 135)
"""First row and row after the last of the anomalies of `broken`."""


def detector(model: str | None = "itransformer", **asked: Any) -> Detector:
    """A tiny network, trained for three epochs."""
    sizes = {} if model in ("dlinear", "seasonal_naive") else SMALL
    given = {"lookback": LOOKBACK, "settings": sizes, "training": {"epochs": 3}, "device": "cpu", **asked}
    return Detector(model, **given)


def ordinary(rows: int = 500, seed: int = 0, start: str = "2024-03-01") -> pd.DataFrame:
    """Three hourly sensors: two waves of one day, and noise."""
    rng = np.random.default_rng(seed)
    clock = np.arange(rows) * 2 * np.pi / 24
    noise = rng.normal(size=(3, rows))
    return pd.DataFrame(
        {
            "date": pd.date_range(start, periods=rows, freq="h"),
            "load": 50 + 10 * np.sin(clock) + 0.5 * noise[0],
            "heat": 5 + 3 * np.cos(clock) + 0.2 * noise[1],
            "noise": 100 + 2 * noise[2],
        }
    )


def broken(rows: int = 200, seed: int = 1) -> pd.DataFrame:
    """The same with a spike in heat and a shift in load, and labels."""
    frame = ordinary(rows, seed, "2024-06-01")
    frame.loc[SPIKE[0] : SPIKE[1] - 1, "heat"] += 15
    frame.loc[SHIFT[0] : SHIFT[1] - 1, "load"] += 40
    frame["label"] = 0
    for first, end in (SPIKE, SHIFT):
        frame.loc[first : end - 1, "label"] = 1
    return frame


def fleet(rows: int = 300) -> pd.DataFrame:
    """Two machines of very different levels, long: machine, date, and two sensors."""
    parts = []
    for number, name in enumerate(("small", "large")):
        part = ordinary(rows, number)[["date", "load", "heat"]]
        part[["load", "heat"]] *= 1000**number
        part.insert(0, "machine", name)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)
