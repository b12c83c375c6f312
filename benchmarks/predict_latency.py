"""How long one forecast takes: a frame in, a frame with intervals out, after warm-up, everything in between included.

    python benchmarks/predict_latency.py --out results/predict_latency.csv

The network is of PatchTST's published size (look-back 336, horizon 96, width 128, 16 heads, 3 layers) and one series
comes as a new frame of its last 336 rows or of two years. What it has learned does not matter here, so it trains for
one step.
"""

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from _rows import Row, append, origin, show
from rearview import Forecaster
from rearview.bench.runs.provenance import device_words
from rearview.data.synthetic.energy import demo

LOOKBACK, HORIZON = 336, 96
SIZES = {"width": 128, "heads": 16, "feed_forward": 256, "depth": 3, "patch": 16, "stride": 8}
WANTED = 10.0
WARM_UPS = 10
TRAINED = 2_000  # rows: enough for training, stopping and calibration windows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path, help="CSV that the rows are added to")
    options = parser.parse_args()
    columns = demo()
    calls: dict[tuple[str, str, int], Callable[[], Any]] = {}
    for kind in ("pandas", "polars"):
        if importlib.util.find_spec(kind) is None:
            print(f"{kind} is not installed and left out.")
            continue
        for form in ("wide", "long"):
            forecaster = _fitted(_frame(kind, form, columns, TRAINED), options.device)
            for rows in (LOOKBACK, len(columns["date"])):
                frame = _frame(kind, form, columns, rows)
                calls[kind, form, rows] = partial(forecaster.predict, frame, level=[80, 95])
    taken: dict[tuple[str, str, int], list[float]] = {key: [] for key in calls}
    for turn in range(WARM_UPS + options.rounds):
        for key, call in calls.items():
            started = time.perf_counter()
            call()
            if turn >= WARM_UPS:
                taken[key].append(1000 * (time.perf_counter() - started))
    common = {"wanted_ms": WANTED, "rounds": options.rounds, "device": device_words(torch.device(options.device))}
    common |= {"threads": torch.get_num_threads(), "torch": torch.__version__, **origin()}
    rows_made = [_row(key, times) | common for key, times in taken.items()]
    show(rows_made, SHOWN)
    append(options.out, rows_made)


SHOWN = ("frame", "form", "rows", "median_ms", "p95_ms", "least_ms", "wanted_ms")


def _frame(kind: str, form: str, columns: dict[str, Any], rows: int) -> Any:
    """The last rows of one series, wide (date, value) or long (unique_id, ds, y)."""
    dates, values = columns["date"][-rows:], columns["load_mw"][-rows:]
    if form == "wide":
        cells = {"date": dates, "load_mw": values}
    else:
        cells = {"unique_id": np.repeat("load_mw", rows), "ds": dates, "y": values}
    if kind == "pandas":
        import pandas as pd

        return pd.DataFrame(cells)
    import polars as pl

    return pl.DataFrame(cells)


def _fitted(frame: Any, device: str) -> Forecaster:
    training = {"epochs": 1, "windows_per_epoch": 8, "batch": 8}
    forecaster = Forecaster(
        "patchtst", horizon=HORIZON, lookback=LOOKBACK, settings=SIZES, training=training, device=device
    )
    return forecaster.fit(frame)


def _row(key: tuple[str, str, int], times: list[float]) -> Row:
    kind, form, rows = key
    return {
        "frame": kind,
        "form": form,
        "rows": rows,
        "median_ms": statistics.median(times),
        "p95_ms": statistics.quantiles(times, n=20)[-1],
        "least_ms": min(times),
    }


if __name__ == "__main__":
    main()
