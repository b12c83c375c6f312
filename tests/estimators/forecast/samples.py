"""Frames to forecast, and forecasters small enough to train in a moment."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from rearview import Forecaster

HORIZON, LOOKBACK = 5, 24
SMALL = {"width": 8, "heads": 2, "feed_forward": 16, "depth": 1}
QUICK = {"epochs": 2}


def forecaster(model: str = "patchtst", **asked: Any) -> Forecaster:
    """A tiny network, trained for two epochs."""
    sizes = {} if model in ("dlinear", "seasonal_naive") else SMALL
    given = {"horizon": HORIZON, "lookback": LOOKBACK, "settings": sizes, "training": QUICK, "device": "cpu", **asked}
    return Forecaster(model, **given)


def wave(length: int, seed: int = 0, level: float = 50.0) -> np.ndarray:
    """A daily wave with noise."""
    rng = np.random.default_rng(seed)
    return level + 10 * np.sin(np.arange(length) * 2 * np.pi / 24) + rng.normal(size=length)


def wide(length: int = 160, columns: tuple[str, ...] = ("load", "wind"), start: str = "2024-03-01") -> pd.DataFrame:
    """One hourly series of several columns."""
    stamps = pd.date_range(start, periods=length, freq="h")
    return pd.DataFrame({"date": stamps} | {name: wave(length, n, 50.0 * (n + 1)) for n, name in enumerate(columns)})


def long(lengths: dict[Any, int] | None = None, inputs: tuple[str, ...] = ()) -> pd.DataFrame:
    """Hourly series that end at the same stamp."""
    parts = []
    lengths = lengths or {"north": 160, "south": 130}
    for number, (name, length) in enumerate(lengths.items()):
        stamps = pd.date_range(end="2024-03-10 23:00", periods=length, freq="h")
        part = pd.DataFrame({"unique_id": name, "ds": stamps, "y": wave(length, number, 30.0 * (number + 1))})
        parts.append(part.assign(**{name: wave(length, 20 + n) for n, name in enumerate(inputs)}))
    return pd.concat(parts, ignore_index=True)


def as_kind(frame: pd.DataFrame, kind: str) -> Any:
    """A pandas frame as another library's."""
    return {"pandas": lambda: frame, "polars": lambda: pl.from_pandas(frame), "pyarrow": lambda: _arrow(frame)}[kind]()


def _arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


def to_pandas(frame: Any) -> pd.DataFrame:
    return frame if isinstance(frame, pd.DataFrame) else frame.to_pandas()


def numbers(frame: Any) -> np.ndarray:
    """The cells of a frame that are numbers."""
    return to_pandas(frame).select_dtypes("number").to_numpy()
