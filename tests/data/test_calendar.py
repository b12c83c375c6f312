"""Calendar features against the field's own numbers, against Python's calendar, and at the edges."""

import datetime
import json
import re
from pathlib import Path

import numpy as np
import pytest

from rearview.core.errors import SettingsError
from rearview.data import calendar
from rearview.data.step import UNITS, Step

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "time_features.npz", allow_pickle=False)
SETS = json.loads(str(GOLDEN["config"]))["sets"]
STEP = {"hourly": "h", "min15": "15min", "min10": "10min", "daily": "D", "weekly": "W"}
FEATURES = dict.fromkeys(UNITS, 0) | {"us": 6, "s": 6, "min": 5, "h": 4, "D": 3, "B": 3, "W": 2}
FEATURES |= dict.fromkeys(("MS", "ME", "QS", "QE", "BMS", "BME", "BQS", "BQE"), 1)


def stamps_of(name: str) -> np.ndarray:
    return GOLDEN[f"input_stamp/{name}"].astype("datetime64[s]").astype("datetime64[us]")


@pytest.mark.parametrize("name", STEP)
def test_features_are_the_published_ones(name):
    ours = calendar.features(stamps_of(name), STEP[name])
    assert ours.dtype == np.float32
    np.testing.assert_array_equal(ours, GOLDEN[f"output/{name}"].astype(np.float32))


@pytest.mark.parametrize("name", STEP)
def test_names_are_the_published_ones(name):
    snake = tuple(re.sub(r"(?<!^)(?=[A-Z])", "_", word).lower() for word in SETS[name]["features"])
    assert calendar.names(STEP[name]) == snake


@pytest.mark.parametrize("name", ["min15", "min10", "daily", "weekly"])
def test_an_hourly_step_gives_the_hourly_set_whatever_the_stamps(name):
    ours = calendar.features(stamps_of(name), "h")
    np.testing.assert_array_equal(ours, GOLDEN[f"output/{name}_as_h"].astype(np.float32))


def test_a_day_of_every_kind_agrees_with_pythons_calendar():
    days = [datetime.date(1899, 12, 28) + datetime.timedelta(days=13 * n) for n in range(4000)]
    stamps = np.array(days, "datetime64[us]")
    week_day, month_day, year_day = calendar.features(stamps, Step(1, "D"))
    iso_week = calendar.features(stamps, Step(1, "W"))[1]
    month = calendar.features(stamps, Step(1, "MS"))[0]

    def expected(count, largest):
        return np.array([count(day) / largest - 0.5 for day in days], np.float32)

    np.testing.assert_array_equal(week_day, expected(lambda day: day.weekday(), 6))
    np.testing.assert_array_equal(month_day, expected(lambda day: day.day - 1, 30))
    np.testing.assert_array_equal(year_day, expected(lambda day: day.timetuple().tm_yday - 1, 365))
    np.testing.assert_array_equal(iso_week, expected(lambda day: day.isocalendar().week - 1, 52))
    np.testing.assert_array_equal(month, expected(lambda day: day.month - 1, 11))


def test_seconds_and_fractions_of_a_second():
    stamps = np.array(["2020-02-29T23:59:58.900000", "1969-12-31T23:59:59.000001"], "datetime64[us]")
    for unit in ("s", "us"):
        second, minute, hour = calendar.features(stamps, Step(1, unit))[:3]
        np.testing.assert_array_equal(second, np.array([58 / 59 - 0.5, 0.5], np.float32))
        assert minute.tolist() == hour.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("unit", "count"),
    FEATURES.items(),
)
def test_every_unit_has_its_set_within_bounds(unit, count):
    stamps = np.arange("1999-12-25", "2005-01-09", 7 * 86_400 + 3_661, dtype="datetime64[s]").astype("datetime64[us]")
    ours = calendar.features(stamps, Step(1, unit))
    assert ours.shape == (count, len(stamps))
    assert len(calendar.names(Step(1, unit))) == count
    assert np.all(np.abs(ours) <= 0.5)


def test_integer_time_has_no_calendar():
    integers = np.arange(11, dtype=np.int64)
    assert calendar.features(integers, Step(1, "int")).shape == (0, 11)
    with pytest.raises(SettingsError, match=r"int64, which has no calendar.*hour_of_day"):
        calendar.features(integers, "h")


def test_no_stamps_give_empty_calendar_features():
    assert calendar.features(np.array([], "datetime64[us]"), "h").shape == (4, 0)
