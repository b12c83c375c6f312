"""The tasks as files hold them: 29 of GIFT-Eval's, met exactly, for tests; others for development.

GIFT-Eval (Aksu et al., 2024): 48 steps of minutes and hours, 30 days, 8 weeks, 12 months; ten and fifteen times as many
for the medium and long terms of minutes and hours; a tenth of the shortest series is tested, in at most 20 windows.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from _tasks import Floats, Task

HORIZONS = {"15min": 48, "10min": 48, "h": 48, "D": 30, "7D": 8, "MS": 12}
SEASONS = {"15min": 96, "10min": 144, "h": 24, "D": 1, "7D": 1, "MS": 12}
TERMS = {"short": 1, "medium": 10, "long": 15}
LETTERS = {"15min": "15T", "10min": "10T", "h": "H", "D": "D", "7D": "W", "MS": "M"}
MOST_WINDOWS = 20
FRAMES: dict[str, tuple[str, tuple[str, ...], str]] = {
    "ett1": ("forecasting/ETTm1.csv", ("15min", "h", "D", "7D"), "sum"),
    "jena_weather": ("forecasting/weather.csv", ("10min", "h", "D"), "mean"),
    "m_dense": ("gift/M_DENSE.csv", ("h", "D"), "mean"),
    "saugeen": ("monash/saugeenday_dataset.tsf", ("D", "7D", "MS"), "mean"),
    "us_births": ("monash/us_births_dataset.tsf", ("D", "7D", "MS"), "sum"),
    "hospital": ("monash/hospital_dataset.tsf", ("MS",), ""),
    "covid_deaths": ("gift/covid_deaths.csv", ("D",), ""),
}
"""Name -> file, steps (the file's own first), and how coarser ones are made of it."""


def test_tasks(folder: Path) -> Iterator[Task]:
    """The 29 GIFT-Eval tasks whose published reference these files meet."""
    for name, (file, steps, how) in FRAMES.items():
        finest = read_frame(folder / file)
        for step in steps:
            frame = finest if step == steps[0] else coarsen(finest, step, how)
            fine = step in ("15min", "10min", "h")
            for term in TERMS if fine else ("short",):
                horizon = HORIZONS[step] * TERMS[term]
                windows = min(max(1, math.ceil(0.1 * len(frame) / horizon)), MOST_WINDOWS)
                series = tuple(single(column) for column in frame.to_numpy().T)
                yield Task(f"{name}/{LETTERS[step]}/{term}", SEASONS[step], horizon, windows, series)
    for name, step, season, horizon in (("Hourly", "H", 24, 48), ("Weekly", "W", 1, 13)):
        table = pd.read_parquet(folder / "m4" / f"M4_{name}.parquet")
        series = tuple(single(np.concatenate(pair)) for pair in zip(table["train"], table["test"], strict=True))
        yield Task(f"m4_{name.lower()}/{step}/short", season, horizon, 1, series)


def practical_tests(folder: Path) -> Iterator[Task]:
    """Two tests beyond GIFT-Eval's: weekly influenza, whose level leaps, and a bakery's sales a day, a short series."""
    illness = read_frame(folder / "forecasting" / "national_illness.csv")
    yield Task("ili", 52, 24, 8, tuple(single(column) for column in illness.to_numpy().T))
    till = pd.read_csv(folder / "small" / "bakery_transactions.csv")
    by_day = till.groupby(pd.to_datetime(till["Date"]))["Transaction"].nunique().asfreq("D")
    yield Task("bakery", 7, 14, 4, (single(by_day.to_numpy(float)),))


def development_tasks(folder: Path) -> Iterator[Task]:
    """Tasks that decisions may rest on; none of their series is in the tests."""
    for name, season, horizon in (
        ("m3_monthly", 12, 18), ("m3_quarterly", 4, 8), ("tourism_monthly", 12, 24), ("tourism_quarterly", 4, 8),
        ("fred_md", 12, 12), ("electricity_weekly", 1, 8), ("traffic_weekly", 1, 8), ("solar_weekly", 1, 5),
    ):  # fmt: skip
        series = tuple(values for values in read_tsf(folder / "monash" / f"{name}_dataset.tsf").values())
        yield Task(name, season, horizon, 1, tuple(values for values in series if len(values) > 2 * season + horizon))
    for name, file, season, horizon, windows in (
        ("electricity", "electricity_7of321.csv", 24, 48, 10),
        ("electricity_long", "electricity_7of321.csv", 24, 480, 3),
        ("traffic", "traffic_6of862.csv", 24, 48, 10), ("traffic_long", "traffic_6of862.csv", 24, 480, 3),
        ("solar", "solar_12of137.csv", 144, 48, 10), ("solar_long", "solar_12of137.csv", 144, 480, 3),
    ):  # fmt: skip
        columns = read_frame(folder / "forecasting_subset" / file).to_numpy().T
        yield Task(name, season, horizon, windows, tuple(single(column) for column in columns))
    passengers = pd.read_csv(folder / "small" / "AirPassengers.csv").iloc[:, 1].to_numpy(float)
    yield Task("air_passengers", 12, 12, 3, (passengers,))
    bikes = pd.read_csv(folder / "small" / "bike_sharing_hourly.csv")["count"].to_numpy(float)
    yield Task("bike", 24, 48, 20, (bikes,))
    by_day = bikes[: len(bikes) // 24 * 24].reshape(-1, 24).sum(1)
    yield Task("bike_daily", 7, 30, 6, (by_day,))
    walmart = pd.read_csv(folder / "small" / "walmart_mini.csv")
    sales = [
        group.sort_values("Date")["Weekly_Sales"].to_numpy(float) for _, group in walmart.groupby(["Store", "Dept"])
    ]
    yield Task("walmart", 52, 13, 1, tuple(sales))
    stallion = pd.read_parquet(folder / "small" / "stallion.parquet")
    volumes = stallion.sort_values("date").groupby(["agency", "sku"], observed=True)["volume"]
    yield Task("stallion", 12, 6, 2, tuple(group.to_numpy(float) for _, group in volumes))


def single(values: Floats) -> Floats:
    """The numbers as float32 holds them, as the benchmark has them."""
    return values.astype(np.float32).astype(np.float64)


def read_frame(path: Path) -> pd.DataFrame:
    """Time by series; Jena's weather with its nine missing rows as gaps and its doubled row once."""
    if path.suffix == ".tsf":
        series = read_tsf(path)
        step = "MS" if path.name.startswith("hospital") else "D"
        start = read_start(path)
        length = len(next(iter(series.values())))
        return pd.DataFrame(series, index=pd.date_range(start, periods=length, freq=step))
    frame = pd.read_csv(path, index_col=0, parse_dates=True, encoding="latin-1").astype(float)
    return frame[~frame.index.duplicated()].asfreq("10min") if path.name == "weather.csv" else frame


def read_tsf(path: Path) -> dict[str, Floats]:
    """The series of a Monash file by name."""
    lines = path.read_text(encoding="latin-1").splitlines()
    rows = [line.strip() for line in lines[[line.lower().strip() for line in lines].index("@data") + 1 :]]
    return {
        row.split(":")[0]: np.array(row.split(":")[-1].replace("?", "nan").split(","), float) for row in rows if row
    }


def read_start(path: Path) -> str:
    """The date of the first value, which these files' series share."""
    lines = path.read_text(encoding="latin-1").splitlines()
    return lines[[line.lower().strip() for line in lines].index("@data") + 1].split(":")[1][:10]


def coarsen(frame: pd.DataFrame, step: str, how: str) -> pd.DataFrame:
    """Sums or means over calendar bins; a last bin that the data do not fill is dropped."""
    width = frame.index[1] - frame.index[0]
    bins = frame.resample(step).agg(how)
    after = pd.date_range(bins.index[-1], periods=2, freq=step)[1]
    return bins if frame.index[-1] + width >= after else bins.iloc[:-1]


KINDS: dict[str, Callable[[Path], Iterator[Task]]] = {
    "test": test_tasks, "development": development_tasks, "practical": practical_tests
}  # fmt: skip
"""Tasks by kind: `test` are the 29 of GIFT-Eval, `practical` two tests beyond them."""
