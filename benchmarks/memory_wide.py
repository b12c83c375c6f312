"""How much memory training on many channels takes: 862 of them, as many as Traffic has, at 96 steps of look-back.

    python benchmarks/memory_wide.py --out results/memory_wide.csv

Each network is trained in a process of its own at its published settings and batch for Traffic, for a few updates and a
validation (how many does not change how much memory they take). The peak is that of the whole process, with python,
torch and the data in it. `memory` is the setting of that name, in GiB; `--memory none` shows what it saves.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from _gate import memory
from _rows import append, origin, show

CHANNELS, LOOKBACK, HORIZON = 862, 96, 96
NETWORKS: dict[str, tuple[str, str | None]] = {
    "itransformer": ("itransformer", None),
    "patchtst": ("patchtst", None),
    "patchtst+mica": ("patchtst", "mica"),
}
WANTED_GIB = 6.0
GIB = 1 << 30
SHOWN = ("network", "batch", "memory_gib", "peak_gib", "wanted_gib", "idle_gib", "seconds_per_update", "note")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--network", action="append", choices=list(NETWORKS), help="may be given more than once")
    parser.add_argument("--memory", default="4", help="GiB that an update may take, auto or none")
    parser.add_argument("--updates", type=int, default=2)
    parser.add_argument("--out", type=Path, help="CSV that the rows are added to")
    parser.add_argument("--part", choices=list(NETWORKS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(json.dumps(train_one(options)))
        return
    rows = []
    for network in options.network or NETWORKS:
        words = ["--part", network, "--memory", options.memory, "--updates", str(options.updates)]
        done = subprocess.run([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True, check=True)
        row = {"network": network, **json.loads(done.stdout), "wanted_gib": WANTED_GIB, **origin()}
        rows.append(row)
        show([row], SHOWN)
        append(options.out, [row])


def train_one(options: argparse.Namespace) -> dict[str, Any]:
    """Train a network in this process."""
    import torch

    from rearview import models, train
    from rearview.bench import presets
    from rearview.data.datasets import catalogue
    from rearview.tasks.objectives import Forecast

    idle = memory("VmHWM")
    model, attention = NETWORKS[options.part]
    preset = presets.preset(model, catalogue.get("Traffic"), lookback=LOOKBACK, horizon=HORIZON)
    batch = preset.training["batch"]
    source = _source(batch * (options.updates + 1))
    torch.manual_seed(0)
    network = models.create(
        model, channels=CHANNELS, lookback=LOOKBACK, steps=HORIZON, attention=attention, **preset.settings
    )
    named: dict[str, Any] = {"auto": "auto", "none": None}
    limit = named[options.memory] if options.memory in named else float(options.memory)
    settings = train.Settings(epochs=1, batch=batch, memory=limit)
    order = torch.arange(len(source))
    started = time.perf_counter()
    history = train.fit(
        network, Forecast(HORIZON), source, order[:-batch], order[-batch:], settings, progress=train.Silent()
    )
    return {
        "batch": batch,
        "memory_gib": settings.memory,
        "peak_gib": memory("VmHWM") / GIB,
        "idle_gib": idle / GIB,
        "seconds_per_update": (time.perf_counter() - started) / options.updates,
        "train_loss": history.epochs[-1].train_loss,
        "note": " ".join(history.notes),
        "channels": CHANNELS,
        "lookback": LOOKBACK,
        "horizon": HORIZON,
        "settings": json.dumps(dict(preset.settings)),
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def _source(count: int) -> Any:
    """So many windows of waves of a day, each channel's with its own phase, and noise."""
    import pandas as pd

    from rearview import data
    from rearview.data.scale import Scaler
    from rearview.data.windows import Source, list_windows

    random = np.random.default_rng(0)
    rows = count + LOOKBACK + HORIZON - 1
    day = np.arange(rows)[:, None] * (2 * np.pi / 24) + np.arange(CHANNELS)
    waves = (np.sin(day) + 0.5 * random.standard_normal(day.shape)).astype(np.float32)
    frame = pd.DataFrame(waves, columns=[f"sensor_{number}" for number in range(CHANNELS)])
    frame.insert(0, "date", pd.date_range("2020-01-01", periods=rows, freq="h"))
    panel = data.load(frame)
    return Source(panel, Scaler.fit(panel), list_windows(panel, LOOKBACK, HORIZON), LOOKBACK, HORIZON)


if __name__ == "__main__":
    main()
