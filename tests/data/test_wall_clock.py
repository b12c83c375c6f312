"""Rows of a time zone by the clock on the wall: changes of clocks, what has no place on it, what goes by the sun."""

import numpy as np
import pandas as pd
import pytest

from rearview.data.infer.wall_time import clock_changes, offsets_at, to_wall_time
from rearview.data.panel import Clock, Panel
from rearview.data.panel_reader import load
from rearview.data.wall_clock import follow_clock, on_clock, spare_rows

SPRING, AUTUMN = "2024-03-31", "2024-10-27"


def zoned(stamps: pd.DatetimeIndex, values: np.ndarray | None = None) -> Panel:
    """By default each value is the minute of the day on the wall."""
    minutes = np.asarray(60.0 * stamps.hour + stamps.minute)
    return load(pd.DataFrame({"ds": stamps, "y": minutes if values is None else values}))


def hours(start: str, count: int, zone: str = "Europe/Berlin", freq: str = "h") -> pd.DatetimeIndex:
    return pd.date_range(start, periods=count, freq=freq, tz=zone)


def wall(panel: Panel) -> list[str]:
    return [str(one)[:16] for one in to_wall_time(panel.stamps, panel.layout)]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo", "+05:30"])
def test_offsets_are_those_of_the_clocks_at_every_moment(zone: str) -> None:
    moments = pd.date_range("2024-01-01", "2025-01-01", freq="7h", tz="UTC")
    local = moments.tz_convert(zone if zone != "+05:30" else "Asia/Kolkata")
    expected = (local.tz_localize(None) - moments.tz_localize(None)).to_numpy()
    np.testing.assert_array_equal(offsets_at(moments.tz_localize(None).to_numpy(), zone), expected)


def test_clocks_are_changed_at_an_exact_moment() -> None:
    year = np.datetime64("2024-01-01", "us"), np.datetime64("2025-01-01", "us")
    found = {zone: clock_changes(*year, zone).astype(str).tolist() for zone in ("Europe/Berlin", "Australia/Lord_Howe")}
    assert found["Europe/Berlin"] == ["2024-03-31T01:00:00.000000", "2024-10-27T01:00:00.000000"]
    assert found["Australia/Lord_Howe"] == ["2024-04-06T15:00:00.000000", "2024-10-05T15:30:00.000000"]
    moment = np.datetime64("2024-03-31T01:00", "us")
    assert len(clock_changes(moment, year[1], "Europe/Berlin")) == 1
    assert len(clock_changes(year[0], moment, "Europe/Berlin")) == 1


def test_an_hour_that_clocks_skip_is_missing() -> None:
    panel = follow_clock(zoned(hours(f"{SPRING} 00:00", 7)), 3)
    rows = on_clock(panel)
    assert wall(rows) == [f"{SPRING}T{hour:02d}:00" for hour in range(8)]
    np.testing.assert_array_equal(rows.original(slice(0, 8), 0)[:, 0], [0, 60, np.nan, 180, 240, 300, 360, 420])
    assert rows.values[2] == rows.values[1]
    assert rows.clock is None
    assert on_clock(rows) is rows


def test_of_an_hour_that_clocks_repeat_the_second_pass_stands() -> None:
    panel = zoned(hours(f"{AUTUMN} 00:00", 13, freq="30min"), np.arange(13.0))
    rows = on_clock(follow_clock(panel, 3))
    assert wall(rows) == [f"{AUTUMN}T0{half // 2}:{30 * (half % 2):02d}" for half in range(11)]
    assert rows.original(slice(0, 11), 0)[:, 0].tolist() == [0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 12]
    assert rows.observed is None


@pytest.mark.parametrize("day", [SPRING, AUTUMN])
@pytest.mark.parametrize("freq", ["h", "15min"])
def test_rows_end_before_the_first_step_ahead_wherever_clocks_are_changed(day: str, freq: str) -> None:
    stamps = hours(f"{day} 00:00", 24, freq=freq)
    for count in range(3, 24):
        panel = follow_clock(zoned(stamps[:count]), 6)
        ahead = panel.ahead(panel.offsets[1:] - 1, 6)
        rows = on_clock(panel, ahead)
        shown = to_wall_time(rows.stamps, rows.layout)
        assert (np.diff(shown) == np.diff(stamps.tz_convert(None).to_numpy())[0]).all()
        assert shown[-1] < to_wall_time(ahead[0], panel.layout).min()
        there = ~np.isnan(rows.original(slice(0, len(shown)), 0)[:, 0])
        minutes = (shown - shown.astype("datetime64[D]")).astype("timedelta64[m]").astype(float)
        np.testing.assert_array_equal(rows.original(slice(0, len(shown)), 0)[there, 0], minutes[there])


def test_each_series_of_a_long_table_has_its_own_changes() -> None:
    parts = [hours(f"{SPRING} 00:00", 5), hours(f"{SPRING} 04:00", 3), hours("2024-10-26 23:00", 6)]
    frame = pd.concat(
        [pd.DataFrame({"unique_id": f"s{n}", "ds": part, "y": part.hour * 1.0}) for n, part in enumerate(parts)]
    )
    frame.loc[(frame["unique_id"] == "s2").to_numpy() & (frame["y"] > 22).to_numpy(), "y"] = np.nan
    rows = on_clock(follow_clock(load(frame), 2))
    assert rows.lengths.tolist() == [6, 3, 5]
    assert rows.first[:, 0].tolist() == [0, 6, 10]
    np.testing.assert_array_equal(rows.original(slice(9, 14), 2)[:, 0], [np.nan, 0, 1, 2, 3])


@pytest.mark.parametrize("start", ["2024-02-01", "2024-07-01"])
def test_without_a_change_of_clocks_rows_are_as_they_were(start: str) -> None:
    panel = follow_clock(zoned(hours(start, 200)), 24)
    assert panel.clock == Clock("Europe/Berlin", "+01:00" if start < "2024-03" else "+02:00")
    rows = on_clock(panel, panel.ahead(panel.offsets[1:] - 1, 24))
    assert rows.values is panel.values
    np.testing.assert_array_equal(rows.stamps, panel.stamps)
    assert wall(rows) == wall(panel)
    assert [one for one in panel.findings if one.what == "clock"] == []


@pytest.mark.parametrize(
    "stamps",
    [
        hours("2024-03-01", 900, "UTC"),
        hours("2024-03-01", 900, "Etc/GMT-2").tz_convert("+02:00"),
        hours("2024-03-01", 900).tz_localize(None),
        hours("2024-03-01", 60, freq="D"),
    ],
)
def test_only_time_zones_have_clocks_that_are_changed(stamps: pd.DatetimeIndex) -> None:
    panel = zoned(stamps)
    assert follow_clock(panel, 24) is panel
    assert spare_rows(panel) == 0


@pytest.mark.parametrize(("zone", "freq"), [("Europe/Berlin", "2h"), ("Australia/Lord_Howe", "h")])
def test_steps_that_a_change_does_not_hold_whole_have_no_place_on_the_clock(zone: str, freq: str) -> None:
    panel = follow_clock(zoned(hours("2024-03-01", 900, zone, freq).tz_convert(zone)), 24)
    assert on_clock(panel) is panel
    assert [one for one in panel.findings if one.what == "clock"] == []


@pytest.mark.parametrize(("freq", "per_hour"), [("h", 1), ("20min", 3)])
@pytest.mark.parametrize("start", ["2024-03-10", "2024-10-06"])
@pytest.mark.parametrize("days", [24, 29])
def test_what_goes_by_the_sun_is_told_by_the_days_around_a_change(
    freq: str, per_hour: int, start: str, days: int
) -> None:
    stamps = hours(start, days * 24 * per_hour, "UTC", freq)
    rng = np.random.default_rng(3)
    noise = rng.normal(size=len(stamps)) / 3
    local = stamps.tz_convert("Europe/Berlin")
    sun, people = (np.asarray(5 * np.exp(-(((one.hour + one.minute / 60 - 11) / 3) ** 2))) for one in (stamps, local))
    solar, load_ = (follow_clock(zoned(local, values + noise), 24) for values in (sun, people))
    assert solar.clock is None
    assert load_.clock is not None
    (said,), (told,) = ([one.message for one in panel.findings if one.what == "clock"] for panel in (solar, load_))
    assert said.startswith("Clocks in Europe/Berlin are changed 1 time")
    assert "go by the sun all the same" in said
    assert "by the clock on the wall" in told


def test_a_change_ahead_is_told() -> None:
    panel = follow_clock(zoned(hours("2024-03-20", 260)), 24)
    assert panel.clock is not None
    assert [one.kind for one in panel.findings if one.what == "clock"] == ["inferred"]
