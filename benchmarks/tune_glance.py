"""How to train glance further: on windows of 512 rows, of half the rows, or filled up to what forecasts read.

    python benchmarks/tune_glance.py --data-dir DATA --only electricity,traffic,bike,bike_daily --series 4 \
        --windows 512,half --seconds 15 --out results/glance_tuning.csv
    python benchmarks/tune_glance.py --data-dir DATA --only m3_monthly,tourism_monthly,electricity_weekly --series 8 \
        --windows half,filled --seconds 8 --out results/glance_tuning.csv

Development tasks alone, the last two windows of each. A row holds the loss on the rows that training held out, and
MASE and CRPS over seasonal naive's, of weights that went a share of the way from those that ship to those that training
ended with. Seconds are those of the processor, of one thread (OMP_NUM_THREADS=1).
"""

import argparse
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from _task_files import development_tasks
from _task_peers import LEVELS, read_cells, task_frame
from _tasks import Floats, Task, score, seasonal_naive
from rearview import Forecaster, train
from rearview.bench.runs.provenance import commit
from rearview.core.settings import settings_from
from rearview.data.scale import Scaler
from rearview.data.split import split
from rearview.data.windows import Source
from rearview.estimators.forecast import zero_shot
from rearview.estimators.forecast.zero_shot import ZeroShot
from rearview.models.contract import Shape
from rearview.models.patch_hosts.glance import Network
from rearview.tasks.objectives import Forecast
from tasks import add_row, thin

SHARES = (0.0, 0.5, 1.0)
Weights = dict[str, torch.Tensor]


def tune(task: Task, windows: str, seconds: float) -> tuple[Forecaster, dict[float, tuple[Weights, float]], int]:
    """A forecaster with the weights that ship; weights and held-out loss of each share; rows of a window."""
    forecaster = Forecaster(model="glance", horizon=task.horizon, level=LEVELS, intervals="quantile").fit(
        task_frame(task, 0)
    )
    start, panel = forecaster.fitted, forecaster.rows
    assert isinstance(start, ZeroShot)
    network = start.network
    assert isinstance(network, Network)
    horizon, quantiles = min(task.horizon, network.reach), network.settings.quantiles
    least = min(start.lookback, (int(panel.lengths.max()) - 2 * horizon) // 2, 512 if windows == "512" else 2048)
    lookback = start.lookback if windows == "filled" else least
    cut = split(panel, least, horizon, calibrate=False)
    source = Source(panel, Scaler.fit(panel, cut.rows), cut.train + cut.validation, lookback, horizon, inputs=False)
    tokens, order = network.choose_grain(lookback, horizon).count_tokens(lookback, horizon), torch.arange(len(source))
    learned, held = order[: len(cut.train)], order[len(cut.train) :]
    held = held[:: max(1, -(-len(held) * tokens // zero_shot.TOKENS_HELD))]
    shape = Shape(1, lookback, horizon * len(quantiles))
    learner = Network(shape, replace(network.settings, answer="quantiles"), start.attention)
    learner.load_state_dict(network.state_dict())
    values = {name: choice.value for name, choice in zero_shot.TUNING.items()}
    values |= {"batch": max(1, min(32, zero_shot.TOKENS_LEARNED // tokens)), "updates_per_epoch": 5}
    asked = Forecast(horizon, quantiles=quantiles)
    loop = settings_from(train.Settings, "Training", values)
    train.fit(learner, asked, source, learned, held, loop, progress=train.follower(False), seconds=seconds)
    first, last = network.state_dict(), {name: one.clone() for name, one in learner.state_dict().items()}
    found = {}
    for share in SHARES:
        state = {name: torch.lerp(first[name], last[name], share) for name in first}
        learner.load_state_dict(state)
        found[share] = state, train.evaluate(learner, asked, source, held)
    return forecaster, found, lookback


def forecast(task: Task, forecaster: Forecaster, state: Weights) -> Floats:
    """Forecasts of all windows by some weights."""
    assert isinstance(forecaster.fitted, ZeroShot)
    forecaster.fitted.network.load_state_dict(state)
    result = np.empty(task.shape)
    for window in range(task.windows):
        made = forecaster.predict(task_frame(task, window), level=LEVELS).sort_values(["unique_id", "ds"])
        result[:, window] = read_cells(made, forecaster.name, task)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--only", required=True, help="names of tasks, by commas")
    parser.add_argument("--series", type=int, default=4, help="series of a task, at most")
    parser.add_argument("--windows", default="512,filled", help="512, half, filled: by commas")
    parser.add_argument("--seconds", type=float, default=15.0, help="of training")
    parser.add_argument("--out", type=Path, required=True, help="CSV to add rows to")
    options = parser.parse_args()
    time.perf_counter = time.process_time
    for whole in development_tasks(options.data_dir):
        if whole.name not in options.only.split(","):
            continue
        task = thin(whole, options.series, 2, None)
        naive = score(task, seasonal_naive(task))
        for windows in options.windows.split(","):
            forecaster, found, lookback = tune(task, windows, options.seconds)
            for share, (state, loss) in found.items():
                own = score(task, forecast(task, forecaster, state))
                row = {
                    "task": task.name,
                    "windows": windows,
                    "rows_read": lookback,
                    "share": share,
                    "seconds": options.seconds,
                    "held_out_loss": round(loss, 6),
                    "mase": round(own.mase / naive.mase, 4),
                    "crps": round(own.crps / naive.crps, 4),
                    "commit": commit(),
                    "created": datetime.now(UTC).isoformat(timespec="seconds"),
                }
                add_row(options.out, row)
                print(row, flush=True)


if __name__ == "__main__":
    main()
