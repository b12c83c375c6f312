"""How much memory training on a large file takes: 2 million rows of 50 float32 columns, in parquet.

    python benchmarks/memory_large.py --out results/memory_large.csv

Each network is fitted by a `Forecaster` at its defaults in a process of its own (only the epoch is cut short: how
many batches are seen does not change how much memory they take). What counts is the process's peak beyond the array
itself, which has to be there, and beyond a process that has imported torch and done nothing.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from _gate import memory
from _rows import append, origin, show

ROWS, COLUMNS, HORIZON = 2_000_000, 50, 96
MODELS = ("dlinear", "itransformer")
WANTED_MIB = 1.5 * 1024
MIB = 1 << 20
SHOWN = ("model", "peak_mib", "idle_mib", "array_mib", "beyond_mib", "wanted_mib", "read_seconds", "fit_seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--windows", type=int, default=320, help="windows that training sees")
    parser.add_argument("--out", type=Path, help="CSV that the rows are added to")
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        PARTS[options.part](options)
    else:
        _compare(options)


def _compare(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "large.parquet"
        _ask("write", file, options)
        idle = _ask("idle", file, options)["peak"]
        array = 4 * options.rows * COLUMNS
        rows = []
        for model in MODELS:
            answer = _ask(model, file, options)
            rows.append(
                {
                    "model": model,
                    "peak_mib": answer["peak"] / MIB,
                    "idle_mib": idle / MIB,
                    "array_mib": array / MIB,
                    "beyond_mib": (answer["peak"] - idle - array) / MIB,
                    "wanted_mib": WANTED_MIB,
                    "reading_mib": (answer["peak_reading"] - idle - array) / MIB,
                    "read_seconds": answer["read_seconds"],
                    "fit_seconds": answer["fit_seconds"],
                    "rows": options.rows,
                    "columns": COLUMNS,
                    "training": json.dumps(answer["training"]),
                    "torch": answer["torch"],
                    **origin(),
                }
            )
    show(rows, SHOWN)
    append(options.out, rows)


def _ask(part: str, file: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What a part of this script, run as a process of its own, has to say."""
    words = [
        __file__,
        "--part",
        part,
        "--file",
        str(file),
        "--rows",
        str(options.rows),
        "--windows",
        str(options.windows),
    ]
    done = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def _write(options: argparse.Namespace) -> None:
    """A file of minutes: a day's wave in every column, each with its own phase, and noise."""
    random = np.random.default_rng(0)
    stamps = np.datetime64("2020-01-01", "us") + np.arange(options.rows) * np.timedelta64(60_000_000, "us")
    day = np.arange(options.rows) * (2 * np.pi / 1440)
    columns: dict[str, Any] = {"date": stamps}
    for number in range(COLUMNS):
        wave = np.sin(day + number) + 0.5 * random.standard_normal(options.rows)
        columns[f"sensor_{number}"] = (10 + 3 * wave).astype(np.float32)
    try:
        import polars as pl
    except ImportError:
        import pandas as pd

        pd.DataFrame(columns).to_parquet(options.file, index=False)
    else:
        pl.DataFrame(columns).write_parquet(options.file)
    print(json.dumps({}))


def _idle(options: argparse.Namespace) -> None:
    import torch

    print(json.dumps({"peak": memory("VmHWM"), "torch": torch.__version__}))


def _train(options: argparse.Namespace) -> None:
    import torch

    from rearview import Forecaster

    started = time.perf_counter()
    training = {"epochs": 1, "windows_per_epoch": options.windows}
    forecaster = Forecaster(options.part, horizon=HORIZON, training=training)
    panel = forecaster.read(str(options.file))
    read, peak_reading = time.perf_counter() - started, memory("VmHWM")
    forecaster.fit(panel)
    answer = {
        "peak": memory("VmHWM"),
        "peak_reading": peak_reading,
        "read_seconds": read,
        "fit_seconds": time.perf_counter() - started - read,
        "training": {name: choice.value for name, choice in forecaster.fitted.plan.training.items()},
        "torch": torch.__version__,
    }
    print(json.dumps(answer))


PARTS = {"write": _write, "idle": _idle, **dict.fromkeys(MODELS, _train)}


if __name__ == "__main__":
    main()
