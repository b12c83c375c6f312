"""Tasks of benchmarks/gift.py: windows, scores by hand, and the published reference met on real data."""

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

PUBLISHED = {  # GIFT-Eval's own seasonal naive: MASE, CRPS
    "ett1/15T/short": (0.93415496, 0.24136395),
    "ett1/H/short": (0.97731762, 0.24036844),
}


@pytest.fixture
def tasks(benchmark_scripts: Path) -> ModuleType:
    return importlib.import_module("_tasks")


def small(tasks: ModuleType, **changed: object):
    values = np.array([1.0, 3, 2, 4, 3, 5, 4, 7])
    return tasks.Task(**{"name": "small", "season": 2, "horizon": 2, "windows": 2, "series": (values,), **changed})


def test_windows_lie_end_to_end_at_the_end(tasks: ModuleType) -> None:
    cases = [(window, past.tolist(), truth.tolist()) for _, window, past, truth in small(tasks).cases()]
    assert cases == [(0, [1, 3, 2, 4], [3, 5]), (1, [1, 3, 2, 4, 3, 5], [4, 7])]


def test_scores_by_hand(tasks: ModuleType) -> None:
    task = small(tasks, windows=1)
    forecast = np.full(task.shape, 5.0)
    found = tasks.score(task, forecast)
    # Seasonal differences of the past are all 1; the errors are 1 and 2.
    assert found.mase == pytest.approx(1.5)
    # Quantile q: 2 ((1 - q) 1 + q 2) / 11, on average at q = 0.5.
    assert found.crps == pytest.approx(2 * (0.5 + 1.0) / 11)
    assert (found.coverage, found.truths) == (0, 2)


def test_missing_truths_do_not_count(tasks: ModuleType) -> None:
    values = np.array([1.0, 3, 2, 4, 3, 5, np.nan, 7])
    task = small(tasks, windows=1, series=(values,))
    assert tasks.score(task, np.full(task.shape, 5.0)).truths == 1


def test_a_forecast_with_gaps_is_refused(tasks: ModuleType) -> None:
    task = small(tasks)
    with pytest.raises(ValueError, match="no missing values"):
        tasks.score(task, np.full(task.shape, np.nan))


def test_the_naive_forecast_repeats_the_season_and_widens(tasks: ModuleType) -> None:
    forecast = tasks.seasonal_naive(small(tasks, horizon=4, windows=1))[0, 0]
    assert forecast[:, 4].tolist() == [2, 4, 2, 4]
    width = forecast[:, -1] - forecast[:, 0]
    assert width[2] / width[0] == pytest.approx(2**0.5)


def test_gaps_are_filled_with_the_value_before(tasks: ModuleType) -> None:
    assert tasks.fill_gaps(np.array([np.nan, 2, np.nan, np.nan, 5])).tolist() == [2, 2, 2, 2, 5]


def test_the_published_reference_is_met(tasks: ModuleType, benchmark_scripts: Path, real_data: Path) -> None:
    files = importlib.import_module("_task_files")
    met = {}
    for task in files.test_tasks(real_data):
        if task.name in PUBLISHED:
            found = tasks.score(task, tasks.seasonal_naive(task))
            met[task.name] = (found.mase, found.crps)
        if len(met) == len(PUBLISHED):
            break
    assert met.keys() == PUBLISHED.keys()
    for name, numbers in PUBLISHED.items():
        assert met[name] == pytest.approx(numbers, rel=1e-5)


def test_a_frame_of_a_window_holds_the_rows_before_it(tasks: ModuleType) -> None:
    peers = importlib.import_module("_task_peers")
    task = small(tasks, name="made/H/short", series=(np.arange(8.0), np.arange(6.0)))
    frame = peers.task_frame(task, 1)
    assert frame.groupby("unique_id")["y"].apply(list).to_dict() == {
        "s00000": [0, 1, 2, 3, 4, 5],
        "s00001": [0, 1, 2, 3],
    }
    assert frame["ds"].diff().dropna().iloc[0].total_seconds() == 3600


def test_cells_are_read_from_the_lowest_quantile_to_the_highest(tasks: ModuleType) -> None:
    pandas = pytest.importorskip("pandas")
    peers = importlib.import_module("_task_peers")
    task = small(tasks, windows=1)
    columns = {f"m-{side}-{level:g}": sign * level for side, sign in (("lo", -1), ("hi", 1)) for level in peers.LEVELS}
    frame = pandas.DataFrame({**columns, "m": 0.0}, index=range(task.horizon))
    assert peers.read_cells(frame, "m", task)[0, 0].tolist() == [-80, -60, -40, -20, 0, 20, 40, 60, 80]
