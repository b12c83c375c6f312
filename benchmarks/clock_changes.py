"""Forecasts of the day around changes of clocks: hourly rows with stamps in UTC, or in the time zone that they are of.

    python benchmarks/clock_changes.py --out results/clock_changes.csv
    python benchmarks/clock_changes.py --models auto --kinds load --seeds 2 --out results/clock_changes.csv

Simulated: a load that goes by the clock on the wall and by the week; solar power and temperature, which go by the sun.
"""

import argparse
import logging
from pathlib import Path

import numpy as np
import pandas as pd

import rearview as rv
from _rows import append, origin, show

ZONE = "Europe/Berlin"
CHANGES = {"spring": "2024-03-31", "autumn": "2024-10-27"}
BEFORE, HORIZON = 42, 24
"""Days of history before a change, and hours that are forecast."""
AFTER = (-2.5, -0.5, 1.5, 3.5, 10.0)
"""Days from the midnight before a change to the first hour that is forecast."""
KINDS = ("load", "solar", "temperature")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", default="glance", help="separated by commas; auto is without networks that train")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="CSV that the rows are added to")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    rows = []
    for model in options.models.split(","):
        for kind in options.kinds.split(","):
            for change in CHANGES:
                for after in AFTER:
                    for stamps in ("UTC", ZONE):
                        errors = [measure(model, kind, change, after, stamps, seed) for seed in range(options.seeds)]
                        row = {"model": model, "kind": kind, "change": change, "days_after": after, "stamps": stamps}
                        rows.append({**row, "seeds": options.seeds, "mae": float(np.mean(errors))})
                        show(rows[-1:])
    append(options.out, [{**row, **origin()} for row in rows])


def measure(model: str, kind: str, change: str, after: float, stamps: str, seed: int) -> float:
    """The mean absolute error of the day that follows, against the series without its noise."""
    start = pd.Timestamp(CHANGES[change], tz="UTC") - pd.Timedelta(days=BEFORE)
    moments = pd.date_range(start, periods=24 * (BEFORE + 15), freq="h")
    cut = round(24 * (BEFORE + after))
    values, truth = make(kind, moments, np.random.default_rng(seed))
    past = pd.DataFrame({"ds": moments.tz_convert(stamps), "y": values})[:cut]
    forecaster = rv.Forecaster(model, horizon=HORIZON).fit(past, quick=model == "auto")
    return float(np.abs(forecaster.predict()["y"].to_numpy() - truth[cut : cut + HORIZON]).mean())


def make(kind: str, moments: pd.DatetimeIndex, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(a series with noise, the same without)."""
    local = moments.tz_convert(ZONE)
    hour = np.asarray(local.hour if kind == "load" else moments.hour + 50 / 60, dtype=float)
    days = -(-len(moments) // 24)
    if kind == "load":
        humps = (20 * np.exp(-(((hour - 8) / 2) ** 2)), 25 * np.exp(-(((hour - 19) / 2.5) ** 2)))
        day = 60 + sum(humps) - 15 * np.exp(-(((hour - 3) / 3) ** 2))
        truth = day * np.where(local.dayofweek >= 5, 0.8, 1.0)
        return truth + rng.normal(size=len(truth)), truth
    if kind == "solar":
        half = 6 + 2.2 * np.sin(2 * np.pi * (np.asarray(moments.dayofyear) - 80) / 365)
        clear = 100 * np.maximum(np.cos(np.minimum(np.abs(hour - 12) / half, 1) * np.pi / 2), 0)
        truth = clear * np.repeat(rng.uniform(0.5, 1, days), 24)[: len(hour)]
        return truth, truth
    weather = np.interp(np.arange(len(hour)) / 24, np.arange(days + 1), np.cumsum(rng.normal(0, 0.75, days + 1)))
    truth = 10 + weather + 4 * np.cos((hour - 15) * 2 * np.pi / 24)
    return truth + rng.normal(0, 0.3, len(truth)), truth


if __name__ == "__main__":
    main()
