"""The first sentence of a forecast, the parts of its series, and what known inputs do on its page."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rearview.commands.forecast.outlook import Steps, _summarise_series, round_to, write_outlook
from rearview.data.panel_reader import read_panel
from rearview.data.read_options import ReadOptions
from rearview.estimators.forecast.predictor import Forecasts
from rearview.report.forecast.views import Outlook


def write(path: Path, columns: dict[str, Any], start: str, step: str = "D") -> Path:
    rows = len(next(iter(columns.values())))
    days = np.datetime64(start, "D") + np.arange(rows) * np.timedelta64(1, step)
    lines = [",".join(["date", *columns])]
    lines += [f"{day},{','.join(str(cells[row]) for cells in columns.values())}" for row, day in enumerate(days)]
    path.write_text("\n".join(lines) + "\n")
    return path


def words_of(panel: Any, mean: Any, reach: float | None) -> tuple[str, Any]:
    bounds = {} if reach is None else {80.0: (mean - reach, mean + reach), 95.0: (mean - 2 * reach, mean + 2 * reach)}
    forecasts = Forecasts(np.arange(panel.series), mean, bounds, ())
    job = SimpleNamespace(spec=SimpleNamespace(horizon=mean.shape[-1]))
    return write_outlook(SimpleNamespace(panel=panel, job=job), SimpleNamespace(forecasts=forecasts))


def test_a_forecast_is_told_between_bounds_and_against_the_same_days_a_year_before(tmp_path: Path):
    sales = np.full(500, 400)
    sales[500 - 364 : 500 - 364 + 28] = 450
    panel = read_panel(
        write(tmp_path / "sales.csv", {"sales": sales + 2 * (np.arange(500) % 2)}, "2023-01-01"), ReadOptions()
    )
    words, (look,) = words_of(panel, np.full((1, 1, 28), 465.0), 55.0)
    assert words == (
        "Sales will likely be between 410 and 520 a day on average over the next 28 days, about 465; a year before it "
        "was 451."
    )
    assert (look.low, look.high, look.before) == (410, 520, 451)


def test_short_data_is_compared_with_its_last_steps_and_may_lack_intervals(tmp_path: Path):
    panel = read_panel(write(tmp_path / "a.csv", {"Load kW": 3.0 + np.arange(40) % 2}, "2024-01-01"), ReadOptions())
    words, _ = words_of(panel, np.full((1, 1, 5), 4.25), None)
    assert words == "Load kW will likely be about 4.25 a day over the next 5 days; in the last 5 days it was 3.60."


def test_medians_of_intermittent_demand_are_not_compared_with_means(tmp_path: Path):
    units = 5 * (np.arange(60) % 10 == 0)
    panel = read_panel(
        write(tmp_path / "a.csv", {"units": units, "load": 4 + np.arange(60) % 2}, "2024-01-01"), ReadOptions()
    )
    mean = np.stack([np.full(5, 0.01), np.full(5, 4.6)])[None]
    forecasts = Forecasts(np.arange(1), mean, {80.0: (mean - 0.01, mean + np.array([[0.7], [0.01]]))}, ())
    job = SimpleNamespace(spec=SimpleNamespace(horizon=5))
    words, (rare, steady) = write_outlook(SimpleNamespace(panel=panel, job=job), SimpleNamespace(forecasts=forecasts))
    assert np.isnan(rare.change)
    assert steady.change == pytest.approx(0)
    assert words == "Over the next 5 days, 1 of 2 is expected to be about as high as in the last 5 days."


def test_names_without_a_letter_are_told_from_numbers(tmp_path: Path):
    wave = np.arange(40) % 4
    panel = read_panel(write(tmp_path / "a.csv", {"2": 10 + wave, "7": 20 + wave}, "2024-01-01"), ReadOptions())
    words, _ = words_of(panel, np.stack([np.full(4, 12.65), np.full(4, 19.35)])[None], 1.0)
    assert (
        words == "Over the next 4 days, '2' will be about 10 % higher than in the last 4 days and '7' about 10 % lower."
    )


def test_a_few_columns_are_named_with_where_they_go(tmp_path: Path):
    wave = np.arange(40) % 4
    columns = {"up": 10 + wave, "down": 20 + wave, "still": 30 + wave}
    panel = read_panel(write(tmp_path / "a.csv", columns, "2024-01-01"), ReadOptions())
    mean = np.stack([np.full(4, level) for level in (12.65, 19.35, 31.5)])[None]
    words, looks = words_of(panel, mean, 1.0)
    assert words == (
        "Over the next 4 days, up will be about 10 % higher than in the last 4 days, still about as high and down "
        "about 10 % lower."
    )
    assert len(looks) == 3


def test_many_columns_are_counted_by_where_they_go(tmp_path: Path):
    wave = np.arange(40) % 4
    columns = {"up": 10 + wave, "down": 20 + wave} | {f"still {number}": 30 + wave for number in range(3)}
    panel = read_panel(write(tmp_path / "a.csv", columns, "2024-01-01"), ReadOptions())
    mean = np.stack([np.full(4, level) for level in (12.65, 19.35, 31.5, 31.5, 31.5)])[None]
    words, _ = words_of(panel, mean, 1.0)
    assert words == (
        "Over the next 4 days, 1 of 5 is expected higher and 1 lower than in the last 4 days. up rises most (+10 %), "
        "down falls most (−10 %)."
    )


@pytest.mark.parametrize(("count", "every"), [(2, "both"), (3, "all 3")])
def test_what_does_not_move_is_not_said_to_rise(tmp_path: Path, count: int, every: str):
    columns = {f"c{number}": 10 * (number + 1) + np.arange(40) % 4 for number in range(count)}
    panel = read_panel(write(tmp_path / "a.csv", columns, "2024-01-01"), ReadOptions())
    mean = np.stack([np.full(4, 10 * (number + 1) + 1.55) for number in range(count)])[None]
    words, _ = words_of(panel, mean, 1.0)
    assert words == f"Over the next 4 days, {every} are expected to be about as high as in the last 4 days."


@pytest.mark.parametrize(("value", "width", "text"), [(411.3, 106, "410"), (0.01234, 0.004, "0.0123"), (-5.0, 0, "-5")])
def test_numbers_are_rounded_to_what_their_width_leaves_certain(value: float, width: float, text: str):
    assert round_to(value, width) == text


@pytest.fixture(scope="module")
def promoted(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """The page of sales that promotions raise by 60."""
    from rearview.cli import main

    folder = tmp_path_factory.mktemp("promoted")
    rng = np.random.default_rng(3)
    promo = (np.arange(187) % 10 == 3).astype(int)
    sales = 200 + 20 * np.sin(np.arange(187) * 2 * np.pi / 7) + 60 * promo + rng.normal(0, 2, 187)
    write(folder / "sales.csv", {"sales": sales[:180].round(2), "promo": promo[:180]}, "2024-01-01")
    write(folder / "future.csv", {"promo": promo[180:]}, "2024-06-29")
    given = ["--horizon", "7", "--target", "sales", "--known", "promo", "--future", str(folder / "future.csv")]
    quick = ["--quick", "--windows", "2", "--out", str(folder / "out")]
    assert main(["forecast", str(folder / "sales.csv"), *given, *quick]) == 0
    page = (folder / "out" / "report.html").read_text(encoding="utf-8")
    found = re.search(r'id="report-data">(.*?)</script>', page)
    assert found is not None
    return page, json.loads(found[1])


def test_the_page_leads_with_the_outlook_and_then_the_verdict(promoted: tuple[str, dict[str, Any]]):
    page, _ = promoted
    lead = re.search(r'<p class="verdict">(.*?)</p>\s*<p class="judgement">(.*?)</p>', page)
    assert lead is not None
    assert re.fullmatch(
        r"Sales will likely be between [\d,.]+ and [\d,.]+ a day on average over the next 7 days, about .*", lead[1]
    )
    naive = r"the last season again would have been off by [\d.]+\. auto "
    assert re.match(rf"On past data it was off by [\d.]+ a day on average; {naive}", lead[2])


def test_the_page_draws_trend_season_effect_and_the_known_input(promoted: tuple[str, dict[str, Any]]):
    (series,) = promoted[1]["series"]
    parts = {part["name"]: part for part in series["parts"]}
    assert list(parts) == ["Trend", "Day of the week", "Effect of promo"]
    assert parts["Day of the week"]["phases"][0] == "Monday"
    assert max(parts["Effect of promo"]["y"]) == pytest.approx(60, rel=0.15)
    rate = re.search(r"\. promo makes \+([\d.]+)( %)?\.$", parts["Effect of promo"]["words"])
    assert rate is not None
    assert float(rate[1]) == pytest.approx(60, rel=0.15)
    assert [one["name"] for one in series["inputs"]] == ["promo"]
    assert sum(series["inputs"][0]["ahead"]) == 1
    assert promoted[1]["board"]["rows"][0][1] == "sales"


def test_a_rise_beyond_all_numbers_has_no_percentage() -> None:
    looks = [Outlook("", 1.0, 0.0, 2.0, before=1e-320, compared="in the last 3 days", spread=1.0)] * 2
    words = _summarise_series(
        ("n", "s"), looks, Steps(" a day", "3 days"), "in the last 3 days", "2 series", same_unit=True
    )
    assert words.startswith("Over the next 3 days, 2 series will together be about 2.00 a day.")


def test_all_series_that_rise_are_told_as_all() -> None:
    looks = [Outlook("", mean, 0.0, 9.0, before=2.0, compared="a year before", spread=1.0) for mean in (4.0, 5.0, 6.0)]
    words = _summarise_series(
        ("a", "b", "c"), looks, Steps(" a day", "3 days"), "a year before", "units of 3 series", same_unit=True
    )
    assert words == (
        "Over the next 3 days, units of 3 series will together be about 15.0 a day, 150 % more than a year before. "
        "All 3 are expected higher than a year before. c rises most (+200 %)."
    )
