"""Two runs to report on: an ordinary one, and one in which everything that can be odd is odd."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from rearview.data.panel import Finding
from rearview.report.common.summary import Curve, DataFacts
from rearview.report.forecast.page import ForecastSummary
from rearview.report.forecast.views import Forecast, Prediction, Score, SeriesView, StepErrors, Window

sys.path.insert(0, str(Path(__file__).parent))

MODELS = ("patchtst", "dlinear", "seasonal_naive")
COLUMNS = ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
COMMAND = "rearview forecast 'load data.csv' --horizon 48 --model patchtst --level 80,95 --seed 7 --out demo"

ODD_NAMES = (
    "</script><script>document.title = 'broken'</script>",
    "<img src=x onerror=\"document.title = 'broken'\">",
    "Straße & Söhne «Zürich» 東京 🚆",
    'it\'s "quoted", with\ta tab and a comma',
    "a very long name without any place to break " + "x" * 180,
    "$title ${data} $$ {{braces}} %(percent)s \\u003c",
    "\u202eright to left\u202c",
    " ",
)


def _predictions(
    truth: NDArray[np.float64], draw: np.random.Generator, levels: Sequence[float]
) -> dict[str, Prediction]:
    found = {}
    for rank, model in enumerate(MODELS):
        mean = truth + (0.3 + 0.5 * rank) * draw.standard_normal(len(truth))
        spread = 1.0 + 0.04 * np.arange(len(truth))
        wanted = levels if rank < 2 else ()
        found[model] = Prediction(
            mean, {level: (mean - spread * level / 40, mean + spread * level / 40) for level in wanted}
        )
    return found


@pytest.fixture(scope="session")
def seven() -> ForecastSummary:
    """Seven hourly columns, three models, five backtest windows, all sections filled."""
    draw = np.random.default_rng(7)
    past, ahead, count = 400, 48, 5
    hours = np.datetime64("2024-03-01T00", "us") + np.arange(past + ahead) * np.timedelta64(1, "h")
    views = []
    for place, name in enumerate(COLUMNS):
        clock = np.arange(past + ahead)
        truth = (
            12
            + 3 * place
            + 4 * np.sin(clock * 2 * np.pi / 24 + place)
            + 0.01 * clock
            + draw.normal(0, 0.5, past + ahead)
        )
        values = truth[:past].copy()
        values[120:131] = np.nan
        windows = []
        for start in range(past - count * ahead, past, ahead):
            part = slice(start, start + ahead)
            windows.append(
                Window(hours[start - 1], hours[part], truth[part], _predictions(truth[part], draw, (80.0, 95.0)))
            )
        forecast = Forecast(hours[past:], _predictions(truth[past:], draw, (80.0, 95.0)))
        views.append(SeriesView(name, hours[:past], values, forecast, tuple(windows)))
    steps = np.arange(1, ahead + 1)
    return ForecastSummary(
        title="Forecast of load data.csv, 48 steps of 1 hour",
        verdict="patchtst beats the seasonal naive forecast: its error is 31 % lower, and lower in every column.",
        command=COMMAND,
        created="2025-11-15T08:30:00+00:00",
        version="0.1.0",
        device="cpu",
        seconds=83.4,
        series=tuple(views),
        data=DataFacts((("Source", "load data.csv"), ("Rows", "17,520"), ("Missing cells", "1.2 %")), 1, 7, "1 hour"),
        scores=(
            Score("patchtst", 0.4213, 0.4411, 0.7122, 8.312, 0.8012, 0.1533, {80.0: 0.784, 95.0: 0.943}),
            Score(
                "dlinear", 0.5519, 0.5207, 0.8408, 9.871, 0.9124, 0.1811, {80.0: 0.803, 95.0: 0.961}, is_baseline=True
            ),
            Score("seasonal_naive", 0.8126, 0.6411, 1.0353, 12.02, 1.104, is_baseline=True),
        ),
        error_by_step={
            model: StepErrors(0.2 + 0.15 * rank + 0.03 * np.sqrt(steps), 0.1 + 0.1 * rank + 0.02 * np.sqrt(steps))
            for rank, model in enumerate(MODELS)
        },
        curves={
            "patchtst": Curve(0.3 + 0.7 * 0.8 ** np.arange(23), 0.42 + 0.5 * 0.75 ** np.arange(23), 13, "patience"),
            "dlinear": Curve(0.4 + 0.6 * 0.7 ** np.arange(20), 0.5 + 0.4 * 0.7 ** np.arange(20), 20, "epochs"),
        },
        findings=(
            Finding(
                "inferred", "layout", 0, "Wide file: the time column is 'date', and 7 numeric columns are forecast."
            ),
            Finding("inferred", "step", 0, "The step is 1 hour; 99.9 % of the differences are 1 hour."),
            Finding("repaired", "gaps", 11, "11 steps are absent from the file and count as missing."),
            Finding("repaired", "unsorted", 2, "2 rows were out of order and were sorted."),
            Finding("warning", "sentinels", 1204, "1,204 cells of column 'OT' hold -9999 and count as missing."),
        ),
        settings={
            "Model": {
                "model": ("patchtst", ""),
                "lookback": (336, "14 times the daily season of 24 steps, as the series are long enough."),
                "patch": (16, "Two thirds of a day: short enough to follow the season."),
                "width": (128, ""),
                "attention": ("softmax", ""),
            },
            "Training": {
                "epochs": (30, "17,000 training windows: each is seen often enough."),
                "learning_rate": (0.0001, ""),
                "clip": (None, ""),
                "betas": ((0.9, 0.999), ""),
                "compile": (False, ""),
            },
            "Intervals": {"levels": ((80, 95), "As asked for on the command line.")},
        },
        notes=("Intervals are split-conformal, from 240 calibration windows before the first cutoff.",),
    )


@pytest.fixture(scope="session")
def odd() -> ForecastSummary:
    """300 series of unequal length in integer time: odd names, gaps, one window or none, no intervals, flat lines."""
    draw = np.random.default_rng(11)
    ahead = 7
    views = []
    for place in range(300):
        name = ODD_NAMES[place] if place < len(ODD_NAMES) else f"shop {place:03d}"
        past = 3 + 17 * (place % 11)
        values = 1e9 + np.cumsum(draw.standard_normal(past)) if place % 2 else np.full(past, 5.0)
        values[draw.random(past) < 0.3] = np.nan
        stamps = np.arange(1000, 1000 + past, dtype=np.int64)
        mean = np.full(ahead, np.nan if place == 3 else 7.25)
        unbounded = {90.0: (np.full(ahead, -np.inf), np.full(ahead, np.inf))} if place % 5 == 0 else {}
        windows = (
            (Window(stamps[-2], stamps[-1:], values[-1:], {"<b>net</b>": Prediction(np.array([6.5]))}),)
            if place % 3
            else ()
        )
        forecast = Forecast(np.arange(1000 + past, 1000 + past + ahead), {"<b>net</b>": Prediction(mean, unbounded)})
        views.append(SeriesView(name, stamps, values, forecast, windows))
    nan = float("nan")
    return ForecastSummary(
        title="Forecast of <odd> & 'strange'.csv",
        verdict="No verdict: <script>alert(1)</script> the baselines could not be scored.",
        command="rearview forecast \"<odd> & 'strange'.csv\" --horizon 7 </script>",
        created="2025-11-15",
        version="0.1.0",
        device="cuda <0>",
        seconds=4000.0,
        series=tuple(views),
        data=DataFacts((("Source", "<odd> & 'strange'.csv"),), 300, 1, "1", "t <i>"),
        scores=(Score("<b>net</b>", nan, nan, nan, nan, nan),),
        findings=(Finding("warning", "<u>names", 3, "Column '<script>' is odd."),),
        settings={"<Model>": {"<name>": ("<value>", "<reason>")}},
    )
