"""Statistical models of single series: ETS, Theta and MSTL of statsforecast, and the seasonal naive forecast.

Nothing here imports torch, so that processes which share many series start quickly.
"""

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from statistics import NormalDist
from tempfile import TemporaryDirectory
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Name = Literal["seasonal_naive", "theta", "mstl", "ets"]
NAMES: tuple[Name, ...] = ("seasonal_naive", "theta", "mstl", "ets")
"""Cheapest first."""
MEANINGS = {
    "seasonal_naive": "the last season again, with normal intervals from seasonal differences",
    "theta": "AutoTheta: a line and exponential smoothing, seasons taken out first",
    "mstl": "seasons by repeated loess, exponential smoothing of the rest",
    "ets": "AutoETS: exponential smoothing with error, trend and season chosen by AICc",
}
PROBES = 3
SHARING = 20.0
"""Series that are timed, and the seconds of one process beyond which several share the others."""
LONGEST_ETS_SEASON = 24
"""Of longer seasons ETS would need as many states; it forecasts without one."""

FARTHEST = 10.0
"""Ranges of the past that a forecast may lie off after one step; a slope that wanders takes it n^1.5 as far in n."""
SECONDS = {"seasonal_naive": 0.0, "theta": 8e-5, "mstl": 1e-4, "ets": 7e-5}
"""Of a processor of 2024 for each row; a seasonal ETS, with its many forms, takes ten times as long."""


def estimate_seconds(model: Name, rows: int, seasons: tuple[int, ...]) -> float:
    """How long one fit and forecast takes, about."""
    seasonal_ets = model == "ets" and bool(seasons) and seasons[0] <= LONGEST_ETS_SEASON
    return SECONDS[model] * rows * (10 if seasonal_ets else 1)


def fit_and_forecast(
    model: Name,
    pasts: Sequence[Array],
    horizon: int,
    seasons: tuple[int, ...],
    levels: tuple[float, ...],
    workers: int = 1,
) -> tuple[list[Array], int]:
    """Each variable's steps ahead, [step, 1 + 2 x level] (point, then low and high), and how many fits failed."""
    forecasts, failed = list[Array](), 0
    began = time.monotonic()
    for done, past in enumerate(pasts):
        if done == PROBES and workers > 1 and (time.monotonic() - began) / PROBES * (len(pasts) - PROBES) > SHARING:
            others, more = _share(model, pasts[done:], horizon, seasons, levels, workers)
            return [*forecasts, *others], failed + more
        fitting = tuple(season for season in seasons if 2 * season + 2 <= len(past))
        one = None
        if model != "seasonal_naive":
            with suppress(Exception):  # whatever a fit breaks on, the naive forecast stands
                one = _fit(model, past, horizon, fitting, levels)
            failed += one is None or not np.isfinite(one).all()
        if one is None or not np.isfinite(one).all():
            one = _naive(past, horizon, fitting, levels)
        forecasts.append(one)
    return forecasts, failed


def _naive(past: Array, horizon: int, seasons: tuple[int, ...], levels: tuple[float, ...]) -> Array:
    """The last season again; intervals as wide as seasonal differences were, wider with every season ahead."""
    season = seasons[0] if seasons else 1
    steps = np.arange(horizon)
    point = past[-season:][steps % season]
    differences = past[season:] - past[:-season]
    spread = np.sqrt(np.square(differences).mean() if len(differences) else 0.0) * np.sqrt(1 + steps // season)
    reach = [NormalDist().inv_cdf((1 + level / 100) / 2) * spread for level in levels]
    return np.stack([point, *(side for one in reach for side in (point - one, point + one))], axis=-1)


def _fit(model: Name, past: Array, horizon: int, seasons: tuple[int, ...], levels: tuple[float, ...]) -> Array:
    from statsforecast import models

    if np.ptp(past) == 0 or len(past) < 4:
        return _naive(past, horizon, (), levels)
    season = seasons[0] if seasons else 1
    ets_season = season if season <= LONGEST_ETS_SEASON else 1
    makers: dict[str, Callable[[str], object]] = {
        "theta": lambda errors: models.AutoTheta(season_length=season),
        "ets": lambda errors: models.AutoETS(season_length=ets_season, model=f"{errors}ZZ"),
        "mstl": lambda errors: models.MSTL(list(seasons), trend_forecaster=models.AutoETS(model=f"{errors}ZN")),
    }
    if model == "mstl" and not seasons:
        model = "ets"
    whole = cast(list[int], [int(level) if level == int(level) else level for level in levels])

    def forecast(errors: str) -> Array:
        made = cast("models.AutoETS", makers[model](errors))
        parts: dict[str, NDArray[np.float64]] = made.forecast(y=past, h=horizon, level=whole or None)
        sides = [parts[f"{side}-{level}"] for level in whole for side in ("lo", "hi")]
        return np.stack([parts["mean"], *sides], axis=-1).astype(np.float64)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        steps = forecast("Z")
        # Errors in proportion to the level multiply: one value of a hundred times the others makes 1e20 of an interval.
        return forecast("A") if reaches_too_far(steps, past) else steps


def reaches_too_far(steps: Array, past: Array) -> bool:
    """Whether steps ahead lie farther off than walks whose steps, and whose slopes, are as large as the whole range."""
    farthest = FARTHEST * np.ptp(past) * len(steps) ** 1.5
    return not bool((np.abs(steps - past[-1]) <= farthest).all())


def _share(
    model: Name,
    pasts: Sequence[Array],
    horizon: int,
    seasons: tuple[int, ...],
    levels: tuple[float, ...],
    workers: int,
) -> tuple[list[Array], int]:
    """The same by several processes: plain ones, so that a caller's script needs no guard around its main part.

    Where the caller has started Ray, its machines share the work.
    """
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        workers = max(workers, int(ray.cluster_resources().get("CPU", 0)))
        task = ray.remote(fit_and_forecast)
        parts = [list(pasts[worker::workers]) for worker in range(min(workers, len(pasts)))]
        made = ray.get([task.remote(model, part, horizon, seasons, levels) for part in parts])
        spread: list[Array] = [np.empty(0)] * len(pasts)
        for worker, (some, _) in enumerate(made):
            spread[worker :: len(parts)] = some
        return spread, sum(count for _, count in made)
    settings = json.dumps({"model": model, "horizon": horizon, "seasons": seasons, "levels": levels})
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with TemporaryDirectory() as folder:
        running = []
        for worker in range(workers):
            part = [*pasts[worker::workers]]
            np.savez(f"{folder}/{worker}.npz", values=np.concatenate(part), lengths=[len(past) for past in part])
            command = [sys.executable, "-m", __name__, settings, f"{folder}/{worker}"]
            running.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE))
        forecasts: list[Array] = [np.empty(0)] * len(pasts)
        failed = 0
        try:
            for worker, process in enumerate(running):
                _, problem = process.communicate()
                if process.returncode:
                    raise RuntimeError(f"A process that fitted {model} broke off: {problem.decode()[-500:]}")
                with np.load(f"{folder}/{worker}.forecast.npz") as made:
                    forecasts[worker::workers] = list(made["forecasts"])
                    failed += int(made["failed"])
        finally:
            for process in running:
                process.kill()
                process.wait()
    return forecasts, failed


def _work(settings: str, stem: str) -> None:
    """The part of one process of `_share`."""
    given = json.loads(settings)
    with np.load(f"{stem}.npz") as part:
        pasts = np.split(part["values"], np.cumsum(part["lengths"])[:-1])
    seasons, levels = tuple(given["seasons"]), tuple(given["levels"])
    forecasts, failed = fit_and_forecast(given["model"], pasts, given["horizon"], seasons, levels)
    np.savez(f"{stem}.forecast.npz", forecasts=np.stack(forecasts), failed=failed)


if __name__ == "__main__":
    _work(*sys.argv[1:])
