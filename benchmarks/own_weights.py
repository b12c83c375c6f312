"""Weights of each series' own beside weights that all series share, on development panels of more than 200 series.

    python benchmarks/own_weights.py --data-dir DATA --out results/own_weights.csv

Members that do not train forecast the last windows of a panel, end to end. For each of the last three origins the
windows before it weigh them, five at most, and the forecast from it is scored. `common` are the mean weights of 200
series, for all series alike; `own N` are these, tilted for each series by its own losses, beside which the shared ones
count for as much as N windows; `anew 30` are weights as panels up to 200 series have. Only members that the 200 series
gave a weight count. Ridge is fitted before all windows.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd

from _rows import append, origin
from _task_files import development_tasks, single
from _task_peers import task_step
from _tasks import Task
from rearview import Forecaster
from rearview.core.errors import RearviewError
from rearview.estimators.auto import weights
from rearview.estimators.auto.ensemble import GRID
from rearview.estimators.auto.fit import MOST_BACKTESTED
from rearview.estimators.auto.portfolio import list_candidates, panel_seasons
from rearview.estimators.auto.schedule import MOST_WINDOWS, choose_windows
from rearview.estimators.base import Session
from rearview.estimators.forecast.backtest import Backtest, backtest, ends_apart
from rearview.tasks import metrics

ORIGINS = 3
COUNTS = (0, 3, 10, 30, 100)
"""Windows that the shared losses count for."""


def panels(folder: Path) -> Iterator[Task]:
    """Whole development panels of more than 200 series, and the last 35 days of all meters of electricity."""
    yield from (task for task in development_tasks(folder) if len(task.series) > MOST_BACKTESTED)
    meters = pd.read_parquet(folder / "forecasting_subset" / "electricity_321_last840h.parquet")
    numbers = meters.select_dtypes("number").to_numpy().T
    yield Task("electricity/H/all", 24, 48, 1, tuple(single(column) for column in numbers))


def roll(task: Task, without: list[str]) -> tuple[list[str], list[float], list[Backtest]]:
    """Names and priors of the members, and their forecasts of all windows."""
    frames = [
        pd.DataFrame({"unique_id": f"s{n:05d}", "ds": pd.date_range("1990-01-01", periods=len(y), freq=step), "y": y})
        for step in [task_step(task)]
        for n, y in enumerate(task.series)
    ]
    forecaster = Forecaster(horizon=task.horizon)
    panel = forecaster.read_to_fit(pd.concat(frames, ignore_index=True))
    seasons = panel_seasons(panel, None)
    most = MOST_WINDOWS + ORIGINS
    with patch("rearview.estimators.auto.schedule.MOST_WINDOWS", most):
        windows = choose_windows(panel, task.horizon, seasons, None)
    names, priors, tests = [], [], []
    for candidate in list_candidates(panel, forecaster.spec, seasons, quick=True, workers=2):
        if candidate.name in without:
            continue
        began = time.process_time()
        try:
            test = backtest(
                panel,
                lambda rows, _, fit=candidate.fit: fit(rows, Session()),
                task.horizon,
                n_windows=windows,
                levels=GRID,
                own_ends=ends_apart(panel, task.horizon),
            )
        except RearviewError as problem:
            print(f"{task.name} {candidate.name}: left out, {problem}", flush=True)
            continue
        tests.append(test)
        names.append(candidate.name)
        priors.append(candidate.prior)
        error = metrics.mase(tests[-1].y, tests[-1].mean, tests[-1].absolute)
        print(f"{task.name} {candidate.name}: MASE {error:.3f}, {time.process_time() - began:.0f} s", flush=True)
    return names, priors, tests


def compare(names: list[str], priors: list[float], tests: list[Backtest]) -> Iterator[dict[str, object]]:
    """A row for each origin and way to weigh."""
    losses, windows = weights.measure_losses(tests), len(tests[0].y)
    sample = np.arange(0, losses.shape[2], -(-losses.shape[2] // MOST_BACKTESTED))
    for last in range(max(2, windows - ORIGINS), windows):
        seen = slice(max(0, last - MOST_WINDOWS), last)
        common = weights.choose_weights(losses[:, seen, sample], np.array(priors)).mean(axis=0)
        used = np.flatnonzero(common > 0)
        tables = {"common": np.tile(common[used], (losses.shape[2], 1))}
        tables["anew 30"] = weights.choose_weights(losses[used][:, seen], np.array(priors)[used])
        for count in COUNTS:
            with patch.object(weights, "OWN_WINDOWS", max(count, 1e-6)):
                tables[f"own {count}"] = weights.tilt_weights(common[used], losses[used][:, seen])
        parts = [cut(tests[n], last) for n in used]
        naive = score(cut(tests[0], last))
        for arm, table in tables.items():
            mean, intervals = weights.combine([p.mean for p in parts], [p.intervals for p in parts], GRID, table[None])
            own = score(replace(parts[0], mean=mean, intervals=intervals))
            yield {
                "windows": seen.stop - seen.start,
                "origin": windows - last,
                "arm": arm,
                "members": " ".join(f"{names[n]}:{common[n]:.2f}" for n in used),
                **{name: round(value, 6) for name, value in own.items()},
                **{f"naive_{name}": round(naive[name], 6) for name in ("mase", "crps", "scaled")},
            }


def cut(test: Backtest, window: int) -> Backtest:
    """One window of a backtest."""
    at = slice(window, window + 1)
    bounds = {level: (low[at], high[at]) for level, (low, high) in test.intervals.items()}
    return replace(test, y=test.y[at], mean=test.mean[at], intervals=bounds)


def score(test: Backtest) -> dict[str, float]:
    """MASE, CRPS, the mean quantile loss over the naive error of each series, and the share within 80 %."""
    shares = {0.5: test.mean}
    for level, (low, high) in test.intervals.items():
        shares |= {(1 - level / 100) / 2: low, (1 + level / 100) / 2: high}
    lost = [2 * np.nansum(np.maximum(q * (test.y - at), (q - 1) * (test.y - at))) for q, at in shares.items()]
    return {
        "mase": float(metrics.mase(test.y, test.mean, test.absolute)),
        "crps": float(np.mean(lost) / np.nansum(np.abs(test.y))),
        "scaled": float(np.nanmean(weights.measure_losses([test]))),
        "coverage": float(metrics.coverage(test.y, *test.intervals[80.0])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--only", default="", help="names of panels, by commas")
    parser.add_argument("--without", default="", help="members that are left out, by commas")
    parser.add_argument("--out", type=Path, required=True, help="CSV that the rows are added to")
    options = parser.parse_args()
    for task in panels(options.data_dir):
        if options.only and task.name not in options.only.split(","):
            continue
        rows = list(compare(*roll(task, options.without.split(","))))
        append(options.out, [{"task": task.name, "series": len(task.series), **row, **origin()} for row in rows])
        for row in rows:
            print(f"{task.name:20s} {row['origin']} {row['arm']:8s} " + "  ".join(
                f"{name} {row[name] / row[f'naive_{name}']:.4f}" for name in ("mase", "crps", "scaled")
            ), f"in 80 % {row['coverage']:.3f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
