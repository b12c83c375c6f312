"""Other libraries on the tasks of `tasks.py`, each as its documentation would have a newcomer use it.

Each is fitted once, to the rows before a task's first window, and forecasts each window from the rows before it.
"""

import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from _tasks import QUANTILES, Floats, Task, fill_gaps

LEVELS = (20.0, 40.0, 60.0, 80.0)
MONTH, QUARTER, WEEK, DAY, HOUR = "MS", "QS", "7D", "D", "h"
STEPS = {
    "m3_monthly": MONTH, "m3_quarterly": QUARTER, "tourism_monthly": MONTH, "tourism_quarterly": QUARTER,
    "fred_md": MONTH, "electricity_weekly": WEEK, "traffic_weekly": WEEK, "solar_weekly": WEEK, "electricity": HOUR,
    "traffic": HOUR, "electricity_long": HOUR, "traffic_long": HOUR, "solar": "10min", "solar_long": "10min",
    "air_passengers": MONTH, "bike": HOUR, "bike_daily": DAY, "walmart": WEEK, "stallion": MONTH, "ili": WEEK,
    "bakery": DAY, "15T": "15min", "10T": "10min", "H": HOUR, "D": DAY, "W": WEEK, "M": MONTH,
}  # fmt: skip
"""The step of a task, by its name or the middle part of it."""
FEATURES = {
    "10min": ["hour", "dayofweek"], "15min": ["hour", "dayofweek"], HOUR: ["hour", "dayofweek"],
    DAY: ["dayofweek", "month"], WEEK: ["month"], MONTH: ["month"], QUARTER: ["quarter"],
}  # fmt: skip
"""Calendar features of a step."""
SERIES_AT_ONCE = {"jena_weather/10T/long": 2}
"""Series of a training step of neuralforecast where its 32 need more than 24 GiB; it draws 1,024 of their windows."""
Arm = Callable[[Task], Floats]


def task_step(task: Task) -> str:
    """The step of a task, as pandas writes it."""
    parts = task.name.split("/")
    return STEPS[parts[1] if len(parts) > 1 else parts[0]]


def task_frame(task: Task, window: int) -> pd.DataFrame:
    """The rows known at the start of a window, long, with stamps of the task's step."""
    step = task_step(task)
    frames = []
    for which, at, past, _ in task.cases():
        if at == window:
            stamps = pd.date_range("1990-01-01", periods=len(past), freq=step)
            frames.append(pd.DataFrame({"unique_id": f"s{which:05d}", "ds": stamps, "y": past}))
    return pd.concat(frames, ignore_index=True)


def read_cells(frame: pd.DataFrame, name: str, task: Task) -> Floats:
    """[series, step, quantile] of a long forecast with columns such as name-lo-80, sorted by series and time."""
    low = [f"{name}-lo-{level:g}" for level in LEVELS[::-1]]
    high = [f"{name}-hi-{level:g}" for level in LEVELS]
    cells = frame[[*low, name, *high]].to_numpy(float)
    return cells.reshape(len(task.series), task.horizon, len(QUANTILES))


def filled_frame(task: Task, window: int) -> pd.DataFrame:
    """The same rows without gaps, for libraries that take none."""
    frame = task_frame(task, window)
    frame["y"] = frame.groupby("unique_id")["y"].transform(lambda values: fill_gaps(values.to_numpy(float)))
    return frame


def lightgbm(task: Task) -> Floats:
    """Trees over lags, calendar and rolling means, one model for all series, conformal intervals (mlforecast)."""
    from lightgbm import LGBMRegressor
    from mlforecast import MLForecast
    from mlforecast.lag_transforms import RollingMean
    from mlforecast.target_transforms import LocalStandardScaler
    from mlforecast.utils import PredictionIntervals

    season = max(task.season, 1)
    shortest = min(len(past) for _, window, past, _ in task.cases() if not window)
    lags = [lag for lag in sorted({1, 2, 3, season, season + 1, 2 * season}) if lag < shortest // 3]
    rolling: dict[int, list[Any]] = {1: [RollingMean(min(max(season, 4), max(2, shortest // 4)), min_samples=1)]}
    model = MLForecast(
        {"lightgbm": LGBMRegressor(verbosity=-1, n_jobs=len(os.sched_getaffinity(0)), random_state=0)},
        freq=task_step(task), lags=lags or [1], lag_transforms=rolling, date_features=FEATURES[task_step(task)],
        target_transforms=[LocalStandardScaler()],
    )  # fmt: skip
    windows = min(5, (shortest - max(lags or [1]) - 4) // task.horizon - 1)
    intervals = PredictionIntervals(n_windows=windows, h=task.horizon) if windows >= 2 else None
    model.fit(filled_frame(task, 0), prediction_intervals=intervals, static_features=[])
    result = np.empty(task.shape)
    for window in range(task.windows):
        if window:  # not by predict's new_df, whose new intervals mix up the series (mlforecast 1.1.0)
            model.update(filled_frame(task, window).groupby("unique_id").tail(task.horizon))
        levels = list(LEVELS) if intervals else None
        made = model.predict(task.horizon, level=levels).sort_values(["unique_id", "ds"])
        if not intervals:  # too short for conformal windows: a point alone, which stands for every quantile
            made = made.assign(
                **{f"lightgbm-{side}-{level:g}": made["lightgbm"] for side in ("lo", "hi") for level in LEVELS}
            )
        made.columns = [name.replace(".0", "") for name in made.columns]
        result[:, window] = read_cells(made, "lightgbm", task)
    return np.sort(result, -1)


def neuralforecast(name: str, seconds: float) -> Arm:
    """A network of neuralforecast with its defaults, quantile losses and a time limit.

    A minute of one core ends the training long before its steps are done; each fit prints how many were.
    """

    def run(task: Task) -> Floats:
        import neuralforecast.models
        from neuralforecast import NeuralForecast
        from neuralforecast.losses.pytorch import MQLoss

        shortest = min(len(past) for _, window, past, _ in task.cases() if not window)
        lookback = max(2, min(max(2 * task.horizon, 2 * task.season), 1024, shortest - task.horizon))
        network = getattr(neuralforecast.models, name)(
            h=task.horizon, input_size=lookback, loss=MQLoss(level=list(LEVELS)), scaler_type="standard", random_seed=0,
            start_padding_enabled=True, max_time={"seconds": seconds}, enable_progress_bar=False, logger=False,
            enable_checkpointing=False, batch_size=SERIES_AT_ONCE.get(task.name, 32),
        )  # fmt: skip
        model = NeuralForecast([network], freq=task_step(task))
        model.fit(filled_frame(task, 0))
        steps = len(model.models[0].train_trajectories)
        print(f"{task.name:20s} {name}: {steps} of {network.max_steps} training steps", flush=True)
        result = np.empty(task.shape)
        for window in range(task.windows):
            made = model.predict(df=filled_frame(task, window)).reset_index()
            made = made.sort_values(["unique_id", "ds"]).rename(columns={f"{name}-median": name})
            made.columns = [column.replace(".0", "") for column in made.columns]
            result[:, window] = read_cells(made, name, task)
        return np.sort(result, -1)

    return run


def autogluon(seconds: float) -> Arm:
    """AutoGluon's ensemble within a time limit, without networks whose weights must be downloaded."""

    def run(task: Task) -> Floats:
        from autogluon.timeseries import TimeSeriesDataFrame, TimeSeriesPredictor

        def read(window: int) -> Any:
            return TimeSeriesDataFrame.from_data_frame(task_frame(task, window), "unique_id", "ds")

        result = np.empty(task.shape)
        with tempfile.TemporaryDirectory() as folder:
            model = TimeSeriesPredictor(
                prediction_length=task.horizon, target="y", freq=task_step(task), quantile_levels=list(QUANTILES),
                eval_metric="WQL", path=folder, verbosity=0,
            )  # fmt: skip
            model.fit(
                read(0),
                time_limit=int(seconds),
                excluded_model_types=["Chronos", "Chronos2", "Toto", "Toto2"],
                random_seed=0,
            )
            for window in range(task.windows):
                made = model.predict(read(window)).reset_index().sort_values(["item_id", "timestamp"])
                cells = made[[f"{quantile:g}" for quantile in QUANTILES]].to_numpy(float)
                result[:, window] = cells.reshape(len(task.series), task.horizon, len(QUANTILES))
        return np.sort(result, -1)

    return run
