"""Forecasters on the tasks of a practitioner: the portfolio, its members alone, their mean, and other libraries.

    python benchmarks/tasks.py --data-dir DATA --arms auto_quick,ets,theta,mstl --series 25 --out results/tasks.csv
    PEERS/bin/python benchmarks/tasks.py --data-dir DATA --arms lightgbm,nhits --series 25 --out results/tasks.csv

Development tasks decide; tests are for finished candidates, and every row is a look at them. An arm is fitted once,
before the first window of a task, and forecasts from the rows before each window. Rows that the file holds already are
skipped, but for those of another `--look`. With `--clock processor`, seconds are those of the processor, for a busy
machine (one thread: OMP_NUM_THREADS=1). Each library is imported by its arm alone, so that each can run in an
environment of its own:

| arms | need |
|---|---|
| auto, auto_quick, glance, patchtst, itransformer (_prime, _places), patchtst_mica | rearview |
| ets, theta, mstl, statistics_mean | rearview |
| lightgbm | mlforecast, lightgbm |
| nhits, patchtst_nf | neuralforecast |
| autogluon | autogluon.timeseries; without pretrained weights |
"""

import argparse
import csv
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import numpy as np

from _rows import read
from _task_files import KINDS
from _task_peers import LEVELS, Arm, autogluon, lightgbm, neuralforecast, read_cells, task_frame
from _tasks import Floats, Task, fill_gaps, relative, score, seasonal_naive

COUPLED = {
    "itransformer": ("itransformer", None),
    "itransformer_prime": ("itransformer", "prime"),
    "itransformer_places": ("itransformer", {"name": "softmax", "places": True}),
    "patchtst_mica": ("patchtst", "mica"),
}
"""Arms that are networks which mix series, and their attention: the series of a task are the columns of one."""
MEANS = {"statistics_mean": ("ets", "theta", "mstl")}
"""Arms that are the mean of other arms' quantiles."""


def arms(seconds: float, without: str = "") -> dict[str, Arm]:
    """Every arm by name, but for the means."""
    return {
        "seasonal_naive": seasonal_naive,
        **{name: statistical(name) for name in ("ets", "theta", "mstl")},
        "auto_quick": fit_arm("auto", True, seconds, without=without),
        "auto": fit_arm("auto", False, seconds, without=without),
        "glance": fit_arm("glance", False, seconds),
        "patchtst": fit_arm("patchtst", False, seconds),
        **{
            name: fit_arm(model, False, seconds, attention=own, together=True) for name, (model, own) in COUPLED.items()
        },
        "lightgbm": lightgbm,
        "nhits": neuralforecast("NHITS", seconds),
        "patchtst_nf": neuralforecast("PatchTST", seconds),
        "autogluon": autogluon(seconds),
    }


def fit_arm(model: str, quick: bool, seconds: float, device: str = "auto", without: str = "", **options: object) -> Arm:
    """A forecaster of rearview, fitted before the first window; a portfolio without a member that is named."""

    def run(task: Task) -> Floats:
        from rearview.estimators.auto import fit

        listed = fit.list_candidates
        with patch.object(
            fit, "list_candidates", lambda *a, **k: [one for one in listed(*a, **k) if one.name != without]
        ):
            return forecast_windows(task)

    def forecast_windows(task: Task) -> Floats:
        from rearview import Forecaster

        result = np.empty(task.shape)
        forecaster = Forecaster(model=model, horizon=task.horizon, level=LEVELS, device=device, **options)
        for window in range(task.windows):
            frame = task_frame(task, window)
            if not window:
                forecaster.fit(frame, time_limit=seconds, quick=quick)
            made = forecaster.predict(None if not window else frame, level=LEVELS).sort_values(["unique_id", "ds"])
            result[:, window] = read_cells(made, forecaster.name, task)
        return result

    return run


def statistical(name: str) -> Arm:
    """A model of statsforecast, fitted to the last 2,000 rows before each window; no time limit."""

    def run(task: Task) -> Floats:
        from rearview.tasks.statistical_models import fit_and_forecast

        result = np.empty(task.shape)
        seasons = (task.season,) if task.season > 1 else ()
        for which, window, past, _ in task.cases():
            [cells], _ = fit_and_forecast(name, [fill_gaps(past)[-2_000:]], task.horizon, seasons, LEVELS)  # type: ignore[arg-type]
            result[which, window] = cells[:, [7, 5, 3, 1, 0, 2, 4, 6, 8]]
        return result

    return run


def forecast(
    name: str, task: Task, known: dict[str, Arm], made: dict[str, tuple[Floats, float]]
) -> tuple[Floats, float]:
    """An arm's forecast of a task and its seconds, a mean's with its members'; what is in `made` is not made again."""
    if name not in made:
        members = [forecast(member, task, known, made) for member in MEANS.get(name, ())]
        began = time.perf_counter()
        values = np.mean([member for member, _ in members], axis=0) if members else known[name](task)
        made[name] = values, time.perf_counter() - began + sum(seconds for _, seconds in members)
    return made[name]


def thin(task: Task, series: int | None, windows: int | None, origins: int | None) -> Task:
    """A task with at most so many series, drawn by a fixed seed, and its last windows, or as many as are asked for."""
    if origins is not None:
        least = (origins + 3) * task.horizon
        long = tuple(values for values in task.series if len(values) >= least)
        task = replace(task, series=long, windows=origins) if long else task
    kept = np.arange(len(task.series))
    if series is not None and len(kept) > series:
        kept = np.sort(np.random.default_rng(1).permutation(len(kept))[:series])
    return replace(
        task,
        series=tuple(task.series[place] for place in kept.tolist()),
        windows=min(task.windows, windows or task.windows),
    )


def add_row(path: Path, row: dict[str, object]) -> None:
    """Add a row to a CSV; columns that its header lacks are added at the end, empty in older rows."""
    older: list[dict[str, str]] = []
    names: list[str] = []
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            older, names = list(reader), list(reader.fieldnames or ())
    new = [name for name in row if name not in names]
    with path.open("w" if new else "a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*names, *new], restval="")
        if new:
            writer.writeheader()
            writer.writerows(older)
        writer.writerow(row)


def processor_seconds() -> float:
    """Seconds that the processor has spent on this process and on those it waited for."""
    return sum(os.times()[:4])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--tasks", choices=tuple(KINDS), default="development")
    parser.add_argument("--only", default="", help="names of tasks, by commas")
    parser.add_argument("--arms", default="auto_quick", help=", ".join([*arms(0.0), *MEANS]))
    parser.add_argument("--series", type=int, help="series of a task, at most")
    parser.add_argument("--windows", type=int, help="windows of a task, at most; the last ones")
    parser.add_argument("--origins", type=int, help="windows of a development task, whatever its own number")
    parser.add_argument("--without", default="", help="a member that portfolios do without")
    parser.add_argument("--seconds", type=float, default=180.0, help="time limit of a fit")
    parser.add_argument("--clock", choices=("wall", "processor"), default="wall", help="what a second is of")
    parser.add_argument("--look", type=int, default=1, help="which look at the tasks it is")
    parser.add_argument("--out", type=Path, required=True, help="CSV to add rows to")
    options = parser.parse_args()
    if options.origins is not None and options.tasks != "development":
        parser.error("the windows of tests are theirs; --origins is for development")
    if options.clock == "processor":  # before the first arm imports its library
        time.monotonic = time.perf_counter = processor_seconds
    known = arms(options.seconds, options.without)
    done = read(options.out) if options.out.exists() else []
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    wanted = set(filter(None, options.only.split(",")))
    totals: dict[str, tuple[dict[str, object], dict[str, object]]] = {}
    failed: list[str] = []
    for whole in KINDS[options.tasks](options.data_dir):
        if wanted and whole.name not in wanted:
            continue
        task = thin(whole, options.series, options.windows, options.origins)
        naive = score(task, seasonal_naive(task))
        made: dict[str, tuple[Floats, float]] = {}
        for arm in options.arms.split(","):
            named = f"{arm} without {options.without}" if options.without and arm.startswith("auto") else arm
            facts = {"tasks": options.tasks, "task": task.name, "arm": named, "series": len(task.series)}
            facts |= {"windows": task.windows, "seconds_limit": options.seconds}
            alike = [row for row in done if all(row[key] == str(value) for key, value in facts.items())]
            if any(int(row.get("look") or 1) == options.look for row in alike):
                continue
            try:
                cells, seconds = forecast(arm, task, known, made)
                own = score(task, cells)
            except Exception as problem:  # another library's, of any kind: the other tasks are worth having
                failed.append(f"{task.name} {arm}: {type(problem).__name__}: {problem}")
                print(failed[-1], file=sys.stderr, flush=True)
                continue
            row = {
                **facts,
                **{key: round(value, 6) for key, value in asdict(own).items()},
                "naive_mase": round(naive.mase, 6),
                "naive_crps": round(naive.crps, 6),
                "seconds": round(seconds, 2),
                "commit": commit.strip(),
                "device": "cpu",
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
                "clock": options.clock,
                "look": options.look,
            }
            add_row(options.out, row)
            scores, reference = totals.setdefault(arm, ({}, {}))
            scores[task.name], reference[task.name] = own, naive
            print(
                f"{task.name:20s} {arm:16s} MASE {own.mase / naive.mase:.3f}  CRPS {own.crps / naive.crps:.3f}  "
                f"80 % cover {own.coverage:.2f}, width {own.width:.2f}, score {own.interval_score:.2f}  "
                f"{row['seconds']} s",
                flush=True,
            )
    for arm, (scores, reference) in totals.items():
        mase, crps = relative(scores, reference)  # type: ignore[arg-type]
        print(f"{arm}: relative MASE {mase:.4f}, CRPS {crps:.4f} over {len(scores)} tasks")
    if failed:
        sys.exit(f"{len(failed)} forecasts failed and have no row")


if __name__ == "__main__":
    main()
