"""Steps: aliases, words, calendar arithmetic for every unit, seasons, and inference from stamps."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rearview.core.errors import InputError, SettingsError
from rearview.data.infer.frequency import infer_step
from rearview.data.panel_reader import load
from rearview.data.step import MONTHS, UNITS, Step

# A start on the grid of each unit: 31 January 2020 is a Friday and a month end in a leap year.
STARTS = dict.fromkeys(UNITS, "2020-01-31T06:30:00") | {
    **dict.fromkeys(("QE", "YE", "BQE", "BYE"), "2019-12-31"),
    **dict.fromkeys(("BMS", "BQS", "BYS"), "2020-01-01T06:30:00"),
}


def infer(series: list[np.ndarray]) -> Step:
    """The step of some series."""
    return infer_step(np.concatenate(series), np.cumsum([0, *map(len, series)]))


def stamp(text: str) -> np.datetime64:
    return np.datetime64(text, "us")


def start_of(step: Step) -> np.generic:
    return np.int64(-7) if step.unit == "int" else stamp(STARTS[step.unit])


def days(stamps: NDArray[np.generic]) -> list[str]:
    return [str(one)[:10] for one in stamps]


@pytest.mark.parametrize(
    ("text", "step", "canonical", "words"),
    [
        ("15min", Step(15, "min"), "15min", "every 15 minutes"),
        ("h", Step(1, "h"), "h", "every hour"),
        ("60min", Step(1, "h"), "h", "every hour"),
        ("H", Step(1, "h"), "h", "every hour"),
        ("T", Step(1, "min"), "min", "every minute"),
        ("S", Step(1, "s"), "s", "every second"),
        ("90s", Step(90, "s"), "90s", "every 90 seconds"),
        ("100ms", Step(100_000, "us"), "100ms", "every 100 milliseconds"),
        ("ms", Step(1000, "us"), "ms", "every millisecond"),
        ("250us", Step(250, "us"), "250us", "every 250 microseconds"),
        ("24h", Step(1, "D"), "D", "every day"),
        ("7D", Step(1, "W"), "W", "every week"),
        ("W-SUN", Step(1, "W"), "W", "every week"),
        ("B", Step(1, "B"), "B", "every business day"),
        ("MS", Step(1, "MS"), "MS", "every month"),
        ("M", Step(1, "ME"), "ME", "every month end"),
        ("2MS", Step(2, "MS"), "2MS", "every 2 months"),
        ("3ME", Step(1, "QE"), "QE", "every quarter end"),
        ("QS-OCT", Step(1, "QS"), "QS", "every quarter"),
        ("Q", Step(1, "QE"), "QE", "every quarter end"),
        ("12MS", Step(1, "YS"), "YS", "every year"),
        ("A", Step(1, "YE"), "YE", "every year end"),
        ("Y", Step(1, "YE"), "YE", "every year end"),
        ("BM", Step(1, "BME"), "BME", "every business month end"),
        ("2BME", Step(2, "BME"), "2BME", "every 2 months, at business month ends"),
        ("3BMS", Step(1, "BQS"), "BQS", "every business quarter start"),
        ("BQE-NOV", Step(1, "BQE"), "BQE", "every business quarter end"),
        ("12BME", Step(1, "BYE"), "BYE", "every business year end"),
        ("1", Step(1, "int"), "1", "integer steps of 1"),
        (" 5 ", Step(5, "int"), "5", "integer steps of 5"),
    ],
)
def test_a_step_is_parsed_from_its_alias_and_put_into_words(text: str, step: Step, canonical: str, words: str) -> None:
    assert Step.parse(text) == step
    assert str(step) == canonical
    assert Step.parse(canonical) == step
    assert step.words() == words


@pytest.mark.parametrize("text", ["hourly", "", "-1h", "0h", "0", "1.5h", "h15", "MIN"])
def test_unknown_steps_are_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        Step.parse(text)


def test_a_refused_step_says_what_is_accepted() -> None:
    with pytest.raises(SettingsError, match=r"'mins'.*Did you mean 'min'.*15min.*whole number"):
        Step.parse("mins")
    with pytest.raises(SettingsError, match="no unit 'fortnight'"):
        Step(1, "fortnight")


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("unit", UNITS)
def test_grid_after_and_distance_agree(unit: str, count: int) -> None:
    step = Step(count, unit)
    start = start_of(step)
    grid = step.grid(start, 41)
    assert grid[0] == start
    assert np.all(grid[1:] > grid[:-1])
    assert step.distance(start, grid).tolist() == list(range(41))
    assert step.on_grid(start, grid).all()
    if unit not in MONTHS or unit.endswith("E"):
        np.testing.assert_array_equal(step.after(grid[20], 20), grid[21:])
    assert step.distance(grid[7:8], grid[3:4]).tolist() == [-4]


@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit not in ("us", "int")])
def test_a_stamp_beside_the_grid_is_seen(unit: str) -> None:
    step = Step(1, unit)
    start = start_of(step)
    grid = step.grid(start, 9)
    off = grid + np.timedelta64(1, "us")
    assert not step.on_grid(start, off).any()
    assert step.distance(start, off).tolist() == list(range(9))


def test_month_ends_stick_to_month_ends() -> None:
    assert days(Step(1, "ME").after(stamp("2023-01-31"), 3)) == ["2023-02-28", "2023-03-31", "2023-04-30"]
    assert days(Step(1, "ME").after(stamp("2024-02-29"), 2)) == ["2024-03-31", "2024-04-30"]
    assert days(Step(1, "QE").after(stamp("2023-11-30"), 2)) == ["2024-02-29", "2024-05-31"]
    assert days(Step(1, "YE").after(stamp("2024-02-29"), 4))[-1] == "2028-02-29"


def test_other_days_of_the_month_are_kept_and_clamped() -> None:
    assert days(Step(1, "MS").after(stamp("2023-01-15"), 2)) == ["2023-02-15", "2023-03-15"]
    assert days(Step(1, "MS").grid(stamp("2023-01-30"), 3)) == ["2023-01-30", "2023-02-28", "2023-03-30"]
    assert days(Step(1, "YS").grid(stamp("2020-02-29"), 5)) == [
        f"202{y}-02-{29 if y % 4 == 0 else 28}" for y in range(5)
    ]


@pytest.mark.parametrize("unit", ["MS", "QS", "YS"])
@pytest.mark.parametrize("first", ["2023-01-30", "2023-02-28", "2024-02-29", "2022-11-29", "2023-03-31", "2024-05-30"])
def test_the_day_of_a_series_is_continued_from_any_of_its_stamps(unit: str, first: str) -> None:
    step = Step(1, unit)
    whole = step.grid(stamp(first), 41)
    for begin in range(3):
        bounds = np.array([begin]), np.array([41])
        anchor = step.anchors(whole, *bounds)
        for last in range(begin + 12, 35):
            np.testing.assert_array_equal(step.after(whole[last : last + 1], 5, anchor)[0], whole[last + 1 : last + 6])


def test_a_shortened_february_does_not_become_the_day() -> None:
    thirtieth = Step(1, "MS").grid(stamp("2022-11-30"), 4)
    anchor = Step(1, "MS").anchors(thirtieth, np.array([0]), np.array([4]))[0]
    assert days(thirtieth[-1:]) == ["2023-02-28"]
    assert days(Step(1, "MS").after(thirtieth[-1], 3, anchor)) == ["2023-03-30", "2023-04-30", "2023-05-30"]
    # A stamp that is no whole step from the others goes its own way.
    assert days(Step(1, "MS").after(stamp("2023-02-03"), 1, anchor)) == ["2023-03-03"]


def test_ends_of_short_months_do_not_tell_the_day() -> None:
    dates = np.array(["2023-02-28", "2024-02-28", "2024-02-29", "2023-04-30", "2023-01-30", "2023-01-31"], "M8[us]")
    told = [False, True, False, False, True, True]
    assert Step(1, "MS").tells_day(dates).tolist() == told
    assert Step(2, "QS").tells_day(dates).tolist() == told
    assert Step(1, "ME").tells_day(dates).all()
    assert Step(1, "D").tells_day(dates).all()
    assert Step(1, "int").tells_day(np.arange(6)).all()


def test_months_on_a_late_day_may_begin_in_february_with_gaps_and_as_series_together() -> None:
    stamps = pd.to_datetime(["2023-02-28", "2023-03-30", "2023-04-30", "2023-06-30", "2023-07-30"])
    expected = np.array(
        ["2023-02-28", "2023-03-30", "2023-04-30", "2023-05-30", "2023-06-30", "2023-07-30"], dtype="datetime64[us]"
    )
    one = load(pd.DataFrame({"date": stamps, "y": np.arange(5.0)}))
    assert one.step == Step(1, "MS")
    np.testing.assert_array_equal(one.stamps, expected)
    np.testing.assert_array_equal(one.ahead(np.array([0, 5]), 2)[0], expected[1:3])
    frame = pd.DataFrame({"unique_id": ["a"] * 5 + ["b"] * 4, "ds": [*stamps, *stamps[1:]], "y": np.arange(9.0)})
    np.testing.assert_array_equal(load(frame).stamps, [*expected, *expected[1:]])
    np.testing.assert_array_equal(load(frame, together=True).stamps, expected)
    other = frame.assign(ds=[*stamps, *(stamp.replace(day=28) for stamp in stamps[1:])])
    with pytest.raises(
        InputError, match=r"series 'a' has the stamp 2023-03-30, .*others' grid \(every month from 2023-03-28\)"
    ):
        load(other, together=True, freq="MS")


def test_calendar_steps_keep_the_time_of_day() -> None:
    assert str(Step(1, "ME").after(stamp("2023-01-31T17:45:00"), 1)[0]) == "2023-02-28T17:45:00.000000"
    assert str(Step(1, "B").after(stamp("2023-01-06T17:45:00"), 1)[0]) == "2023-01-09T17:45:00.000000"


def test_business_days_skip_weekends() -> None:
    assert days(Step(1, "B").after(stamp("2024-03-01"), 3)) == ["2024-03-04", "2024-03-05", "2024-03-06"]
    assert not Step(1, "B").on_grid(stamp("2024-03-01"), np.array([stamp("2024-03-02")])).any()


def test_a_step_has_the_seasons_of_its_calendar() -> None:
    expected = {
        "h": (24, 168),
        "15min": (96, 672),
        "10min": (144, 1008),
        "min": (1440, 10_080),
        "s": (60, 3600),
        "100ms": (10, 600),
        "D": (7, 365),
        "B": (5, 260),
        "W": (52,),
        "MS": (12,),
        "ME": (12,),
        "2MS": (6,),
        "QE": (4,),
        "BME": (12,),
        "BQS": (4,),
        "YS": (1,),
        "1": (1,),
        "7h": (24,),
    }
    assert {text: Step.parse(text).seasons for text in expected} == expected
    assert all(Step.parse(text).season == seasons[0] for text, seasons in expected.items())


# Every second business day is not told from every second day with gaps, so it is left out here.
@pytest.mark.parametrize(
    ("unit", "count"), [(unit, count) for unit in UNITS for count in (1, 2) if unit + str(count) != "B2"]
)
def test_the_step_is_inferred_from_stamps_with_gaps(unit: str, count: int) -> None:
    step = Step(count, unit)
    # A month end would make month starts look like month ends.
    grid = step.grid(stamp("2020-01-01") if unit in ("MS", "QS", "YS") else start_of(step), 60)
    with_gaps = np.delete(grid, [4, 5, 17, 30, 31, 32, 33])
    assert infer([with_gaps]) == step
    assert infer([with_gaps[:20], grid[25:]]) == step


def test_days_business_days_weeks_and_months_are_distinguished() -> None:
    monday = stamp("2024-03-04")
    assert infer([Step(1, "D").grid(monday, 5)]) == Step(1, "D")
    assert infer([Step(1, "B").grid(monday, 6)]) == Step(1, "B")
    assert infer([Step(4, "W").grid(monday, 30)]) == Step(4, "W")
    assert infer([Step(1, "MS").grid(stamp("2024-01-15"), 9)]) == Step(1, "MS")
    assert infer([Step(1, "MS").grid(stamp("2024-01-30"), 9)]) == Step(1, "MS")
    assert infer([Step(1, "YS").grid(stamp("2021-02-28"), 9)]) == Step(1, "YS")
    assert infer([np.array([3, 5, 7, 13])]) == Step(2, "int")


@pytest.mark.parametrize("stamps", [np.arange(0), np.array([stamp("2024-01-01")]), np.array([1, 2])])
def test_too_few_stamps_are_refused(stamps: NDArray[np.generic]) -> None:
    with pytest.raises(InputError, match=r"fewer than 3 stamps.*--freq"):
        infer([stamps])


@pytest.mark.parametrize("seed", range(20))
def test_irregular_seconds_are_refused_not_guessed(seed: int) -> None:
    seconds = np.cumsum(np.random.default_rng(seed).integers(1, 30, 200))
    with pytest.raises(InputError, match=r"no regular step.*--freq"):
        infer([seconds.astype("datetime64[s]").astype("datetime64[us]")])


@pytest.mark.parametrize("unit", ["BMS", "BME", "BQS", "BQE", "BYS", "BYE"])
def test_first_and_last_business_days_are_those_of_pandas(unit: str) -> None:
    stamps = pd.date_range("2015-01-01", periods=60, freq=unit).to_numpy().astype("datetime64[us]")
    step = infer([stamps[:40]])
    assert step == Step(1, unit)
    assert step.after(stamps[39], 20).tolist() == stamps[40:].tolist()


def test_a_month_stamped_on_another_day_than_the_others_is_named_with_the_flags_that_read_it() -> None:
    for freq, day, most, flag in (
        ("BME", "2015-10-29", "the last business day", "--every BME --agg last"),
        ("ME", "2015-10-29", "the last day", "--every ME --agg last"),
        ("BMS", "2015-10-05", "the first business day", "--every BMS --agg last"),
        ("MS", "2015-10-02", "day 1", "--every MS --agg last"),
    ):
        stamps = pd.date_range("2015-02-01", periods=60, freq=freq).to_numpy().astype("datetime64[us]")
        stamps[8] = stamp(day)
        with pytest.raises(InputError, match=rf"59 of 60 stamps are {most} of their month, but {day} .*{flag}"):
            infer([stamps])
        every, agg = flag.split()[1::2]
        series = load(pd.DataFrame({"date": stamps, "price": np.arange(60.0)}), every=every, agg=agg)
        assert len(series.values) == 60
        assert str(series.step) == every


@pytest.mark.parametrize(
    ("seconds", "early", "late", "flag"),
    [
        (60, 0, 5, "--every min --agg mean"),
        (60, 3, 3, "--every 5min --agg mean"),
        (3600, 0, 500, "--every h --agg mean"),
        (3600, 200, 200, "--every 6h --agg mean"),
        (86_400, 0, 9000, "--every D --agg mean"),
    ],
)
def test_a_clock_that_is_not_exact_is_refused_with_the_flags_that_gather_its_rows(
    seconds: int, early: int, late: int, flag: str
) -> None:
    stray = np.random.default_rng(0).integers(-early, late + 1, 300)
    stamps = stamp("2024-01-01") + (np.arange(300) * seconds + stray).astype("timedelta64[s]")
    with pytest.raises(InputError, match=rf"one comes about every .*but not exactly so\. {flag} gathers"):
        infer([stamps])
    every = flag.split()[1]
    panel = load(pd.DataFrame({"date": stamps, "y": 1.0}), every=every, agg="mean")
    assert "gaps" not in [finding.what for finding in panel.findings]


def test_months_on_any_day_are_refused_with_the_flags_that_read_them() -> None:
    days = pd.date_range("2015-02-01", periods=60, freq="MS") + pd.to_timedelta(np.arange(60) * 7 % 25, unit="D")
    with pytest.raises(InputError, match=r"Each month holds one stamp.*--every ME --agg last"):
        infer([days.to_numpy().astype("datetime64[us]")])


@pytest.mark.parametrize(
    ("unit", "inside"),
    [("ME", "2024-02-29"), ("QE", "2024-03-31"), ("YE", "2024-12-31"), ("BME", "2024-02-29"), ("BQE", "2024-03-29")],
)
def test_gathered_steps_are_stamped_at_their_end(unit: str, inside: str) -> None:
    assert days(Step(1, unit).floor(np.array([stamp("2024-02-15")]))) == [inside]


def test_a_step_that_is_over_is_not_called_unfinished() -> None:
    through_march = pd.date_range("2020-01-01", "2024-03-31")
    for every in ("ME", "QE", "BME", "MS", "QS"):
        panel = load(pd.DataFrame({"date": through_march, "y": 1.0}), every=every, agg="sum")
        assert "unfinished" not in [finding.what for finding in panel.findings], every
    early = pd.date_range("2020-01-01", "2024-02-10")
    panel = load(pd.DataFrame({"date": early, "y": 1.0}), every="QE", agg="sum")
    assert any("The last step, to 2024-03-31, has rows up to 2024-02-10" in one.message for one in panel.findings)


@given(
    count=st.integers(1, 400),
    unit=st.sampled_from([unit for unit in UNITS if unit != "B"]),
    start=st.integers(-(10**9), 4 * 10**9),
    steps=st.integers(-50, 50),
)
def test_shift_is_undone_by_distance(count: int, unit: str, start: int, steps: int) -> None:
    step = Step(count, unit)
    if unit == "int":
        moment: np.generic = np.int64(start)
    else:
        moment = np.datetime64(start, "s").astype("datetime64[us]")
        moment = step.shift(moment, 0)[()]
    assert step.distance(moment, step.shift(moment, steps)) == steps
