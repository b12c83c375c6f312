"""The demo's data: repeatable, made of its parts, coupled, and worth forecasting."""

import csv

import numpy as np
import pytest

from rearview.core.errors import SettingsError
from rearview.data.synthetic import energy

RHO = {channel.name: channel.rho for channel in energy.CHANNELS}


@pytest.fixture(scope="module")
def parts():
    return energy.demo_components()


def test_two_years_of_seven_hourly_channels():
    columns = energy.demo()
    assert next(iter(columns)) == "date"
    assert len(columns) == 8
    assert {len(column) for column in columns.values()} == {17_520}
    assert columns["date"][0] == np.datetime64("2023-01-01T00:00")
    assert np.all(np.diff(columns["date"]) == np.timedelta64(1, "h"))


def test_a_seed_gives_the_same_bits_again_and_another_seed_other_values():
    first, again, other = energy.demo(seed=3), energy.demo(seed=3), energy.demo(seed=4)
    for name in first:
        assert first[name].tobytes() == again[name].tobytes()
        assert name == "date" or not np.any(first[name][:50] == other[name][:50])


def test_a_short_run_is_the_beginning_of_a_long_one():
    short, long = energy.demo(rows=97, seed=5), energy.demo(rows=1009, seed=5)
    for name in short:
        np.testing.assert_array_equal(short[name], long[name][:97])


def test_the_parts_add_up_exactly_in_any_order_and_in_float32(parts):
    total = np.stack([column for name, column in energy.demo().items() if name != "date"], axis=1)
    np.testing.assert_array_equal(parts.noise + (parts.shocks + (parts.season + parts.trend)), total)
    np.testing.assert_array_equal(total.astype(np.float32).astype(np.float64), total)


@pytest.mark.parametrize("name", ["wind_mw", "temperature_c", "load_mw", "ev_kw"])
def test_shocks_are_sparse_impulses_that_fade_at_rho(parts, name):
    shocks = parts.shocks[:, parts.names.index(name)]

    def struck(rho):
        """The share of hours whose shocks are not rho times those of the hour before, but for their rounding."""
        return np.mean(np.abs(shocks[1:] - rho * shocks[:-1]) > 1 / 1024)

    assert 0.005 < struck(RHO[name]) < 0.05
    assert struck(RHO[name] - 0.01) > 0.5


def test_a_front_reaches_temperature_three_hours_after_wind(parts):
    wind, temperature = (np.diff(parts.shocks[:, parts.names.index(name)]) for name in ("wind_mw", "temperature_c"))
    by_lag = [np.corrcoef(wind[: len(wind) - lag], temperature[lag:])[0, 1] for lag in range(9)]
    assert int(np.argmin(by_lag)) == 3
    assert by_lag[3] < -0.9


def test_heat_follows_temperature_part_by_part(parts):
    heat, temperature = (parts.noise[:, parts.names.index(name)] for name in ("heat_mw", "temperature_c"))
    by_lag = [np.corrcoef(temperature[: len(heat) - lag], heat[lag:])[0, 1] for lag in range(9)]
    assert int(np.argmin(by_lag)) == 4
    assert by_lag[4] < -0.4


def test_the_trend_is_a_line_and_the_day_shows_in_the_season(parts):
    assert np.abs(np.diff(parts.trend, n=2, axis=0)).max() <= 2 / 1024
    load = parts.season[:, parts.names.index("load_mw")]
    spectrum = np.abs(np.fft.rfft(load - load.mean()))
    assert np.argmax(spectrum) == len(load) // 24


def test_channels_in_watts_are_positive(parts):
    for name, column in zip(parts.names, parts.total.T, strict=True):
        assert name == "temperature_c" or column.min() > 0, name


def linear_forecast(values, inputs, channel, rows, steps=24):
    """Least squares from the last rows of some channels to the next rows of one; fitted on the first 13,000 rows."""
    channels = [channel, *inputs]
    level = values[rows[:, None] - np.arange(1, 25)].mean(axis=1)
    past = np.concatenate(
        [values[rows[:, None] - np.arange(1, 49)][..., c] - level[:, [c]] for c in channels]
        + [np.ones((len(rows), 1))],
        axis=1,
    )
    ahead = values[rows[:, None] + np.arange(steps)][..., channel] - level[:, [channel]]
    fitted = rows < 13_000
    weights = np.linalg.lstsq(past[fitted], ahead[fitted], rcond=None)[0]
    return past[~fitted] @ weights + level[~fitted][:, [channel]]


@pytest.mark.parametrize("name", ["load_mw", "price_eur"])
def test_the_past_beats_a_seasonal_copy_and_the_neighbours_help(parts, name):
    values, channel = parts.total, parts.names.index(name)
    rows = np.arange(168, len(values) - 24, 5)
    late = rows[rows >= 13_000]
    truth = values[late[:, None] + np.arange(24)][..., channel]
    copy = values[late[:, None] + np.arange(24) - 24][..., channel]
    neighbours = [c for c in range(len(parts.names)) if c != channel]

    def error(forecast):
        return np.mean((forecast - truth) ** 2)

    alone = error(linear_forecast(values, [], channel, rows))
    together = error(linear_forecast(values, neighbours, channel, rows))
    assert alone < 0.75 * error(copy)
    assert together < 0.95 * alone


def test_the_file_reads_back_to_the_same_numbers(tmp_path):
    path = energy.write_demo(tmp_path / "demo.csv", rows=53, seed=2)
    with path.open(newline="") as file:
        header, *lines = csv.reader(file)
    columns = energy.demo(rows=53, seed=2)
    assert header == list(columns)
    assert lines[25][0] == "2023-01-02 01:00:00"
    for index, name in enumerate(header[1:], start=1):
        assert [float(line[index]) for line in lines] == columns[name].tolist()


def test_no_rows_are_refused():
    with pytest.raises(SettingsError, match="rows is 0"):
        energy.demo(rows=0)
