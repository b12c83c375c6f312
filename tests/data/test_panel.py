"""Panels: roles of columns, long and together, filling, centring, sentinels, real files and checked lengths."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rearview.core.errors import InputError, SettingsError
from rearview.data.infer.column_reader import sentinel_cells
from rearview.data.panel import Panel
from rearview.data.panel_array import Columns
from rearview.data.panel_checks import check_length, check_targets
from rearview.data.panel_reader import load
from rearview.data.step import Step


def counts(panel: Panel) -> dict[str, int]:
    """How often each thing was repaired or warned of."""
    return {finding.what: finding.count for finding in panel.findings if finding.kind != "inferred"}


def days(n: int, start: str = "2024-01-01") -> np.ndarray:
    return np.datetime64(start, "us") + np.arange(n) * np.timedelta64(1, "D")


def wide(n: int = 7) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    columns = {name: rng.normal(size=n) for name in ("load", "wind", "price", "holiday")}
    return pd.DataFrame({"date": days(n), **columns})


def long() -> pd.DataFrame:
    """Series b (5 days, from the 3rd), a (7 days) and c (3 days), rows mixed in order of time."""
    parts = []
    for name, n, start in (("b", 5, "2024-01-03"), ("a", 7, "2024-01-01"), ("c", 3, "2024-01-05")):
        level = {"b": 100.0, "a": 10.0, "c": 1000.0}[name]
        stamps = days(n, start)
        parts.append(pd.DataFrame({"unique_id": name, "ds": stamps, "y": level + np.arange(n), "heat": np.arange(n)}))
    return pd.concat(parts).sort_values("ds", kind="stable").reset_index(drop=True)


def test_every_column_of_a_wide_table_is_a_target_by_default() -> None:
    panel = load(wide())
    assert panel.columns == ("load", "wind", "price", "holiday")
    assert (panel.targets, panel.known, panel.series) == (4, 0, 1)
    assert panel.observed is None
    np.testing.assert_allclose(panel.original(slice(None), 0), wide()[list(panel.columns)], rtol=1e-6)


def test_target_known_and_drop_order_the_columns() -> None:
    panel = load(wide(), target="price", known=["holiday"], drop="wind")
    assert panel.target_names == ("price",)
    assert panel.input_names == ("load",)
    assert panel.known_names == ("holiday",)
    assert load(wide(), known="holiday").target_names == ("load", "wind", "price")


def test_text_beside_stamps_that_repeat_is_taken_for_ids() -> None:
    parts = [wide(9)[["date", "load"]].assign(agency=agency, sku=sku) for agency, sku in ("ax", "ay", "bx")]
    panel = load(pd.concat(parts))
    assert (panel.ids, panel.columns, panel.layout.id_col) == (("a/x", "a/y", "b/x"), ("load",), "agency/sku")
    with pytest.raises(InputError, match=r"several columns that could be forecast \('load' and 'wind'\).*--target-col"):
        load(pd.concat([part.assign(wind=1.5) for part in parts]))
    assert load(parts[0]).columns == ("load",)


def test_an_empty_target_reads_the_inputs_of_the_future() -> None:
    future = wide(2)[["date", "holiday"]]
    panel = load(future, target=(), known=["holiday"], freq="D")
    assert (panel.columns, panel.targets, panel.known) == (("holiday",), 0, 1)
    one_row = load(future[:1], target=(), known=["holiday"], freq=Step(1, "D"))
    assert one_row.values.shape == (1, 1)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"target": "laod"}, r"no column 'laod', which target.*Did you mean 'load'"),
        ({"known": ["holidays"]}, r"no column 'holidays', which known.*Did you mean 'holiday'"),
        ({"id_col": "shop"}, "no column 'shop', which id_col"),
        ({"target": "load", "known": ["load"]}, "'load' can't be a target and known at once"),
        ({"time_col": "date", "target": "date"}, "'date' can't be the time column and a target at once"),
        ({"time_col": "date", "drop": ["date"]}, "'date' can't be the time column and dropped"),
        ({"drop": ["load", "wind", "price", "holiday"]}, "no column to forecast"),
        ({"freq": "2"}, "freq '2' does not fit column 'date'"),
        ({"freq": "B"}, "off the grid, every business day"),
    ],
)
def test_roles_that_do_not_fit_are_refused(options: dict[str, object], why: str) -> None:
    with pytest.raises(InputError, match=why):
        load(wide(), **options)


def test_settings_that_do_not_exist_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"fill has no method 'lst'.*Did you mean 'last'"):
        load(wide(), fill="lst")
    with pytest.raises(SettingsError, match="choose one of the two"):
        load(long(), together=True, row_by_row=True)


def test_a_long_table_is_one_series_for_each_id_in_order_of_appearance() -> None:
    panel = load(long())
    assert panel.ids == ("a", "b", "c")
    assert panel.columns == ("y", "heat")
    assert panel.lengths.tolist() == [7, 5, 3]
    assert panel.layout.form == "long"
    assert counts(panel) == {}
    for number, (name, table) in enumerate(long().groupby("unique_id")):
        assert panel.ids[number] == name
        rows = slice(panel.offsets[number], panel.offsets[number + 1])
        np.testing.assert_allclose(panel.original(rows, number), table[["y", "heat"]])
        np.testing.assert_array_equal(panel.stamps[rows], table["ds"])


def test_other_names_other_kinds_of_ids_and_ids_in_several_columns() -> None:
    frame = long().rename(columns={"unique_id": "shop", "ds": "day", "y": "sold"})
    panel = load(frame, id_col="shop", time_col="day", target_col="sold", known="heat")
    assert (panel.layout.id_col, panel.layout.time_col, panel.layout.target_col) == ("shop", "day", "sold")
    assert panel.known_names == ("heat",)
    numbered = frame.assign(shop=frame["shop"].map({"a": 7, "b": 11, "c": 13}))
    assert load(numbered, id_col="shop", target_col="sold").ids == ("7", "11", "13")
    assert load(numbered.astype({"shop": float}), id_col="shop", target_col="sold").ids == ("7", "11", "13")
    grouped = pl.from_pandas(numbered.assign(town="x")).with_columns(pl.col("town").cast(pl.Categorical))
    joined = load(grouped, id_col=["town", "shop"], target_col="sold")
    assert joined.ids == ("x/7", "x/11", "x/13")
    assert joined.layout.id_col == "town/shop"
    np.testing.assert_array_equal(joined.values, panel.values)


def test_a_long_table_needs_one_target() -> None:
    frame = long().rename(columns={"y": "sold"})
    with pytest.raises(InputError, match=r"several columns.*'sold' and 'heat'.*target_col"):
        load(frame, id_col="unique_id")
    with pytest.raises(InputError, match="forecasts one column"):
        load(frame, id_col="unique_id", target=["sold", "heat"])
    assert load(frame, id_col="unique_id", drop="heat").target_names == ("sold",)


def test_columns_of_text_beside_a_clear_target_are_left_out_with_a_word() -> None:
    panel = load(long().assign(town="x", weather="sunny"))
    assert panel.columns == ("y", "heat")
    assert counts(panel) == {"text": 2}
    assert counts(load(wide().assign(town="x"), target="load")) == {"text": 1}
    whole = load(wide().assign(town="x"))
    assert whole.target_names == load(wide()).target_names
    assert counts(whole) == {"text": 1}
    with pytest.raises(InputError, match=r"'town' holds text \('x'\).*--drop"):
        load(wide()[["date"]].assign(town="x"))


def test_series_taken_together_are_columns_on_the_union_of_stamps() -> None:
    panel = load(long(), together=True, known="heat")
    assert panel.series == 1
    assert panel.columns == ("a", "b", "c", "heat/a", "heat/b", "heat/c")
    assert (panel.targets, panel.known, panel.layout.together) == (3, 3, True)
    assert counts(panel) == {"unaligned": 3 * 7 - 15}
    table = long().pivot(index="ds", columns="unique_id", values="y")
    np.testing.assert_array_equal(panel.stamps, table.index)
    np.testing.assert_allclose(panel.original(slice(None), 0)[:, :3], table.to_numpy())


def test_series_off_the_common_grid_can_not_be_taken_together() -> None:
    frame = long()
    late = frame["unique_id"] == "c"
    frame.loc[late, "ds"] += pd.Timedelta(hours=6)
    assert load(frame).series == 3
    with pytest.raises(InputError, match="series 'c' has the stamp 2024-01-05 06:00:00"):
        load(frame, together=True)


def test_integers_and_float32_numbers_come_back_exactly() -> None:
    rng = np.random.default_rng(2)
    integers = rng.integers(-3000, 1_000_000, 41).astype(float)
    singles = rng.normal(300, 4, 41).astype(np.float32)
    panel = load(pd.DataFrame({"ds": days(41), "count": integers, "single": singles, "one": 0.1}))
    np.testing.assert_array_equal(
        panel.original(slice(None), 0), np.column_stack([integers, singles, np.full(41, 0.1)])
    )
    assert np.all(np.abs(panel.values.mean(axis=0)) <= np.ptp(panel.values, axis=0))


def test_large_levels_keep_their_small_differences() -> None:
    values = 4e9 + np.arange(7) * 0.25
    panel = load(pd.DataFrame({"ds": days(7), "counter": values}))
    np.testing.assert_array_equal(panel.original(slice(None), 0)[:, 0], values)
    assert panel.values.dtype == np.float32


@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        ("last", [[None, 10, 10, 10, 40, 40], [None, None, 5, 5]]),
        ("linear", [[None, 10, 20, 30, 40, 40], [None, None, 5, 5]]),
        ("mean", [[None, 10, 25, 25, 40, 25], [None, None, 5, 5]]),
        ("zero", [[0, 10, 0, 0, 40, 0], [0, 0, 5, 0]]),
    ],
)
def test_missing_cells_are_filled_by_each_method(fill: str, expected: list[list[float | None]]) -> None:
    """None stands for the series' own centre, which is put where nothing was seen before."""
    nan = np.nan
    y = [nan, 10, nan, nan, 40, nan, nan, nan, 5, nan]
    frame = pd.DataFrame({"unique_id": list("aaaaaabbbb"), "ds": [*days(6), *days(4)], "y": y})
    panel = load(frame, fill=fill)
    pairs = zip(panel.centre[:, 0], expected, strict=True)
    wanted = [own if cell is None else cell for own, cells in pairs for cell in cells]
    centre = np.repeat(panel.centre[:, 0], panel.lengths)
    np.testing.assert_allclose(panel.values[:, 0] + centre, wanted)
    np.testing.assert_array_equal(panel.observed[:, 0], ~np.isnan(y))
    assert panel.first[:, 0].tolist() == [1, 8]
    assert counts(panel) == {"missing": 7}


def test_a_series_without_any_value_has_its_first_after_its_end() -> None:
    frame = pd.DataFrame({"unique_id": list("aaabbb"), "ds": [*days(3)] * 2, "y": [1.0, 2.0, 3.0, *[np.nan] * 3]})
    panel = load(frame)
    assert panel.first.tolist() == [[0], [6]]
    assert panel.values[3:].tolist() == [[0.0]] * 3


@given(
    cells=st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6, width=32)), min_size=3, max_size=60),
    cut=st.integers(1, 59),
)
def test_observed_cells_are_kept_and_fills_look_back_only(cells: list[float | None], cut: int) -> None:
    column = np.array([np.nan if cell is None else cell for cell in cells])
    offsets = np.array([0, min(cut, len(cells) - 1), len(cells)])
    columns = Columns(offsets, 1, "last")
    columns.put(0, column)
    back = columns.values[:, 0] + np.repeat(columns.centre[:, 0], np.diff(offsets))
    for start, end in pairwise(offsets):
        latest = None
        for row in range(start, end):
            latest = latest if np.isnan(column[row]) else column[row]
            if latest is None:
                assert columns.values[row, 0] == 0.0
            else:
                assert back[row] == pytest.approx(latest, rel=1e-6, abs=0.5)


def test_gaps_order_and_copies_are_repaired_and_counted() -> None:
    frame = wide(20)
    broken = pd.concat([frame.iloc[[0, 1, 2]], frame.iloc[5:], frame.iloc[[7]]])
    broken = broken.iloc[[*range(10), 11, 10, *range(12, len(broken))]]
    panel = load(broken)
    assert counts(panel) == {"unsorted": 2, "duplicates": 1, "gaps": 2}
    assert panel.values.shape[0] == 20
    np.testing.assert_array_equal(np.flatnonzero(~panel.observed[:, 0]), [3, 4])
    seen = panel.observed[:, 0]
    np.testing.assert_allclose(panel.original(slice(None), 0)[seen], frame.iloc[seen, 1:], rtol=1e-5)


def test_row_by_row_changes_nothing() -> None:
    frame = wide(9).iloc[[0, 1, 3, 2, 2, 5, 6, 7, 8]].assign(load=[1, 2, -9999, 4, 5, 6, 7, 8, 9])
    panel = load(frame, row_by_row=True)
    np.testing.assert_array_equal(panel.stamps, frame["date"])
    np.testing.assert_allclose(panel.original(slice(None), 0), frame.iloc[:, 1:], rtol=1e-3)
    assert counts(panel) == {}


def test_a_far_stamp_does_not_blow_up_the_grid() -> None:
    frame = wide(30)
    frame.loc[29, "date"] = pd.Timestamp("2104-01-01")
    with pytest.raises(InputError, match=r"every day, the stamps span 29,220 steps.*only 30 rows.*--freq"):
        load(frame)


def test_duplicates_name_both_rows_the_series_and_the_column() -> None:
    frame = long()
    again = frame.iloc[[4]].assign(heat=99)
    with pytest.raises(InputError) as refusal:
        load(pd.concat([frame, again]))
    name, stamp = frame.loc[4, "unique_id"], str(frame.loc[4, "ds"])[:10]
    message = str(refusal.value)
    assert message.startswith(
        f"the frame, row 4 and row {len(frame)}: the stamp {stamp} of series {name!r} stands twice"
    )
    assert "'heat'" in message


@pytest.mark.parametrize("sentinel", [-999.0, -9999.0, -99999.0])
def test_isolated_sentinels_are_missing(sentinel: float) -> None:
    frame = wide(40)
    frame.loc[[3, 17], "wind"] = sentinel
    panel = load(frame)
    assert counts(panel) == {"sentinels": 2}
    message = next(finding.message for finding in panel.findings if finding.what == "sentinels")
    assert f"{sentinel:g} in 'wind' (2)" in message
    assert not panel.observed[[3, 17], 1].any()
    assert counts(load(frame, sentinels=None)) == {}


def test_a_column_that_really_reaches_the_value_keeps_it() -> None:
    bounds = np.array([0, 5])
    assert sentinel_cells(np.array([-999.0, -950.0, -800.0, 0.0, 500.0]), bounds, "auto") is None
    assert sentinel_cells(np.array([-999.0, 1.0, 2.0, 3.0, np.nan]), bounds, "auto").tolist() == [True, *[False] * 4]
    assert sentinel_cells(np.full(5, -9999.0), bounds, "auto") is None
    # Each series has its own range: -999 is far from one and inside the other.
    two = np.array([-999.0, 1.0, 2.0, -999.0, -2000.0, 3000.0])
    assert sentinel_cells(two, np.array([0, 3, 6]), "auto").tolist() == [True, *[False] * 5]


@pytest.mark.parametrize("fill", [1e20, 2**31 - 1, -1e34, 9.969209968386869e36, 3.4028234663852886e38, -1e308])
def test_fill_values_are_missing_and_named(fill: float) -> None:
    frame = wide(40)
    frame.loc[[3, 17], "wind"] = fill
    panel = load(frame)
    assert counts(panel) == {"sentinels": 2}
    message = next(finding.message for finding in panel.findings if finding.what == "sentinels")
    assert f"{fill:g} in 'wind' (2)" in message
    assert not panel.observed[[3, 17], 1].any()
    if abs(fill) < 1e37:
        assert counts(load(frame, sentinels=None)) == {}
    else:
        with pytest.raises(InputError, match="too large for float32"):
            load(frame, sentinels=None)


def test_one_fill_value_is_missing_however_often_it_stands_there() -> None:
    frame = wide(40)
    frame.loc[:29, "wind"] = 1e20
    panel = load(frame)
    assert counts(panel) == {"sentinels": 30}
    assert np.flatnonzero(panel.observed[:, 1]).tolist() == [*range(30, 40)]


def test_values_beyond_float32_are_refused_by_column() -> None:
    frame = wide(40)
    with pytest.raises(InputError, match=r"column 'wind' holds values too large for float32 .*larger unit"):
        load(frame.assign(wind=frame["wind"] * 1e300))
    with pytest.raises(InputError, match=r"column 'wind' holds values that are all the same in float32"):
        load(frame.assign(wind=frame["wind"] * 1e-320))
    # Other fill values beyond float32 than one, as many as there are values.
    mixed = frame.assign(wind=np.where(frame.index % 2, frame["wind"], 1e300 * (1 + frame.index)))
    with pytest.raises(InputError, match=r"column 'wind' holds values too large for float32"):
        load(mixed)


@pytest.mark.parametrize(
    "column",
    [
        [1e18, 2e18, 3e18, 4e18, 5e18, 0.0],  # a column of that size
        [1e9, 1e11, 1e13, 1e15, 1e17, 1e19],  # one that grows to it
        [1.0, np.nan, np.nan, 1e20, np.nan, 1e20],  # as many of the one as of the other
        [1e12, 1e13, 1e14, 1e13, 1e12, 1e16],
    ],
)
def test_a_column_that_is_really_large_keeps_its_values(column: list[float]) -> None:
    assert sentinel_cells(np.array(column), np.array([0, 6]), "auto") is None


def test_a_fill_value_counts_in_its_own_series() -> None:
    column = np.array([1.0, 2.0, 1e20, 1e20, 3e20, 2e20, -9999.0, 5.0, 6.0])
    cells = sentinel_cells(column, np.array([0, 3, 6, 9]), "auto")
    assert np.flatnonzero(cells).tolist() == [2, 6]
    assert np.flatnonzero(sentinel_cells(column, np.array([0, 3, 6, 9]), "marks")).tolist() == [6]


def test_sentinels_named_by_the_caller_are_missing() -> None:
    frame = wide(9).assign(load=[1, -1, 3, 4, 77, 6, 7, 8, 9])
    panel = load(frame, sentinels=[-1, 77])
    assert counts(panel) == {"sentinels": 2}
    assert np.flatnonzero(~panel.observed[:, 0]).tolist() == [1, 4]


def test_constant_and_empty_columns_are_findings() -> None:
    frame = wide(9).assign(flat=3.0, nothing=np.nan)
    panel = load(frame, target="load")
    assert counts(panel) == {"constant": 1, "empty": 1}
    assert {finding.kind for finding in panel.findings if finding.what in ("constant", "empty")} == {"repaired"}
    as_targets = load(frame)
    assert as_targets.targets == 6
    assert {finding.kind for finding in as_targets.findings if finding.what in ("constant", "empty")} == {"warning"}
    for target, way_out in (("nothing", "bring rows with values, or name another"), (None, "--drop nothing")):
        with pytest.raises(InputError, match=rf"'nothing' has no value in any row.*nothing to forecast; .*{way_out}"):
            check_targets(load(frame, target=target))
    silent = long().assign(y=np.nan)
    for together in (False, True):
        with pytest.raises(
            InputError, match=r"series 'a', 'b' and 'c' have no value.*forecast; bring rows with values\.$"
        ):
            check_targets(load(silent, together=together))


def test_values_too_large_for_the_array_are_refused() -> None:
    with pytest.raises(InputError, match=r"row 2, column 'load' holds a value too large for float32 \(1e\+300\)"):
        load(wide(4).assign(load=[1.0, 2.0, 1e300, 4.0]), sentinels=None)


def test_a_panel_cut_at_a_date_holds_no_later_rows() -> None:
    panel = load(long())
    past = panel.until(np.datetime64("2024-01-04", "us"))
    assert past.ids == ("a", "b")
    assert past.lengths.tolist() == [4, 2]
    assert past.stamps.max() == np.datetime64("2024-01-04", "us")


def test_a_panel_shorter_than_lookback_and_horizon_is_refused() -> None:
    panel = load(long())
    check_length(panel, lookback=4, horizon=3)
    with pytest.raises(InputError, match=r"need 8 rows, but 'a' has 7, 'b' has 5, 'c' has 3;"):
        check_length(panel, lookback=5, horizon=3)
    many = pd.concat([long().assign(unique_id=long()["unique_id"] + suffix) for suffix in "xyz"])
    with pytest.raises(InputError, match=r"'ax' has 7.*and 4 more are no longer"):
        check_length(load(many), lookback=50, horizon=3)


def test_weather_row_by_row_and_repaired(real_data: Path) -> None:
    path = real_data / "forecasting" / "weather.csv"
    as_published = load(path, row_by_row=True)
    assert as_published.values.shape == (52_696, 21)
    assert counts(as_published) == {}
    mended = load(path)
    assert counts(mended) == {"duplicates": 1, "gaps": 9, "sentinels": 81}
    assert mended.values.shape == (52_704, 21)
    assert (~mended.observed).sum() == 81 + 9 * 21
    assert mended.step == Step(10, "min")


def test_small_real_files_are_read_with_their_step(real_data: Path) -> None:
    air = load(real_data / "small" / "AirPassengers.csv")
    assert (air.values.shape, air.step, air.layout.time_col) == ((144, 1), Step(1, "MS"), "Month")
    assert air.original(slice(0, 2), 0).ravel().tolist() == [112.0, 118.0]
    bikes = load(real_data / "small" / "bike_sharing_hourly.csv", time_col="ts", target="count", drop="date")
    assert (bikes.values.shape, bikes.step, bikes.targets) == ((78_421, 4), Step(1, "h"), 1)
    seen = load(real_data / "small" / "bike_sharing_hourly.csv", target="count")
    assert (seen.layout.time_col, seen.columns) == ("ts", bikes.columns)
    shops = load(
        real_data / "small" / "walmart_mini.csv", id_col=["Store", "Dept"], target_col="Weekly_Sales", known="IsHoliday"
    )
    assert (shops.series, set(shops.lengths.tolist()), shops.step) == (20, {143}, Step(1, "W"))
    assert shops.known_names == ("IsHoliday",)
    assert counts(shops) == {"missing": 9400}
    till = real_data / "small" / "bakery_transactions.csv"
    with pytest.raises(InputError, match=r"stands twice.*--every D --agg sum, or count"):
        load(till, drop=["Time", "Item"])
    daily = load(till, every="D", agg="count")
    assert (daily.columns, daily.step, int(daily.original(slice(None), 0).sum())) == (
        ("Transaction",),
        Step(1, "D"),
        21_293,
    )
    guessed = load(real_data / "small" / "walmart_mini.csv", target_col="Weekly_Sales", known="IsHoliday")
    assert (guessed.ids, guessed.layout.id_col) == (shops.ids, "Store/Dept")


def test_real_parquet_files_are_read_as_long_tables(real_data: Path) -> None:
    drinks = load(real_data / "small" / "stallion.parquet", id_col=["agency", "sku"], target_col="volume")
    assert (drinks.series, set(drinks.lengths.tolist()), drinks.step) == (350, {60}, Step(1, "MS"))
    assert "__index_level_0__" not in drinks.columns
    hourly = pl.read_parquet(real_data / "m4" / "M4_Hourly.parquet")
    rows = hourly.select("id", "train", ds=pl.int_ranges(pl.col("train").list.len())).explode("train", "ds")
    panel = load(rows, id_col="id", time_col="ds", target_col="train")
    assert panel.ids == tuple(hourly["id"])
    assert panel.lengths.tolist() == hourly["train"].list.len().to_list()
    assert panel.step == Step(1, "int")
    power = load(real_data / "forecasting_subset" / "electricity_321_last840h.parquet")
    assert power.values.shape == (840, 321)
    assert power.original(slice(0, 1), 0)[0, :2].tolist() == [12.0, 77.0]
