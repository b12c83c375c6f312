"""How long forecasts without training take: one series, and a thousand, frames in and out, after warm-up.

    python benchmarks/zero_shot_latency.py --out results/zero_shot_latency.csv

Intervals are the network's own (`intervals="none"` leaves their correction by a backtest out). Wanted on two cores: one
series of 512 rows within 30 ms, 1,000 of them within 10 s.
"""

import argparse
import resource
import statistics
import time
from pathlib import Path

import numpy as np
import polars as pl
import torch

from _rows import append, origin, show
from rearview import Forecaster

ROWS, HORIZON = 512, 48
CASES = ((1, 30, 0.030), (1000, 3, 10.0))
"""Series, rounds, seconds wanted."""


def make_frame(series: int) -> pl.DataFrame:
    """Daily seasons and a walk for every series, an hour a row."""
    random, hours = np.random.default_rng(0), np.arange(ROWS)
    values = random.normal(size=(series, ROWS)).cumsum(1) * 0.2 + 3 * np.sin(2 * np.pi * hours / 24)
    start = np.datetime64("2024-01-01T00", "h")
    return pl.DataFrame(
        {
            "unique_id": np.repeat([f"s{number}" for number in range(series)], ROWS),
            "ds": np.tile((start + hours).astype("datetime64[us]"), series),
            "y": values.ravel(),
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="CSV to add rows to")
    options = parser.parse_args()
    made = []
    for series, rounds, wanted in CASES:
        frame = make_frame(series)
        forecaster = Forecaster(model="glance", horizon=HORIZON, intervals="none").fit(frame)
        forecaster.predict(frame)
        taken = []
        for _ in range(rounds):
            started = time.perf_counter()
            forecaster.predict(frame)
            taken.append(time.perf_counter() - started)
        row = {"series": series, "rows": ROWS, "horizon": HORIZON, "median_s": round(statistics.median(taken), 4)}
        row |= {"least_s": round(min(taken), 4), "wanted_s": wanted, "rounds": rounds}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        made.append({**row, "peak_gib": round(peak, 2), "threads": torch.get_num_threads(), **origin()})
    show([{name: row[name] for name in ("series", "rows", "median_s", "least_s", "wanted_s")} for row in made])
    append(options.out, made)


if __name__ == "__main__":
    main()
