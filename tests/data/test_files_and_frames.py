"""Reading: every dress of a file and every kind of frame gives the same panel, and stamps go back as they came."""

import gzip
import os
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rearview.core.errors import InputError
from rearview.data.infer.timestamps import localise
from rearview.data.infer.wall_time import to_wall_time
from rearview.data.panel import Layout, Panel
from rearview.data.panel_reader import load
from rearview.data.step import Step

PLAIN = b"date,a,b\n2024-01-01,1.5,10\n2024-01-02,2.5,20\n2024-01-03,,30\n2024-01-04,4.5,40\n"


def same(first: Panel, second: Panel) -> None:
    """Two panels hold the same, however they came."""
    for name in ("values", "centre", "observed", "offsets", "first", "stamps"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)
    for name in ("ids", "columns", "targets", "known", "step"):
        assert getattr(first, name) == getattr(second, name), name


def written(folder: Path, content: bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


DRESSES = {
    "semicolons": PLAIN.replace(b",", b";"),
    "decimal commas": PLAIN.replace(b",", b";").replace(b".", b","),
    "tabs": PLAIN.replace(b",", b"\t"),
    "tabs and decimal commas": PLAIN.replace(b",", b"\t").replace(b".", b","),
    "gzip": gzip.compress(PLAIN),
    "byte order mark": b"\xef\xbb\xbf" + PLAIN,
    "CRLF": PLAIN.replace(b"\n", b"\r\n"),
    "CR": PLAIN.replace(b"\n", b"\r"),
    "UTF-16": PLAIN.decode().encode("utf-16"),
    "quotes": b"\n".join(b",".join(b'"' + c + b'"' for c in line.split(b",")) for line in PLAIN.splitlines()),
    "blank lines": b"\n\n" + PLAIN.replace(b"2024-01-03", b"\n2024-01-03") + b"\n\n\n",
    "spaces": PLAIN.replace(b"date,a,b", b" date , a , b ").replace(b"2.5", b" 2.5 "),
    "words for missing": PLAIN.replace(b"-03,,", b"-03,NA,"),
    "nan": PLAIN.replace(b"-03,,", b"-03,NaN,"),
    "no last line end": PLAIN.rstrip(b"\n"),
    "slashes": PLAIN.replace(b"2024-01-", b"2024/01/"),
}


@pytest.mark.parametrize("dress", DRESSES)
def test_every_dress_of_a_csv_reads_the_same(dress: str, library: str, tmp_path: Path) -> None:
    plain = load(written(tmp_path, PLAIN))
    assert plain.values.shape == (4, 2)
    assert plain.observed is not None
    assert (~plain.observed).sum() == 1
    same(load(written(tmp_path, DRESSES[dress], "dressed.txt")), plain)


def test_separators_at_the_end_of_every_line_are_no_columns(library: str, tmp_path: Path) -> None:
    panel = load(written(tmp_path, PLAIN.replace(b"\n", b",,\n")))
    assert panel.columns == ("a", "b")
    assert [(found.what, found.message) for found in panel.findings if found.what == "blank"] == [
        ("blank", "Columns 'column 4' and 'column 5' have neither a name nor a value; they are left out.")
    ]
    valued = load(written(tmp_path, PLAIN.replace(b"\n", b",7\n").replace(b"b,7", b"b,")))
    assert valued.columns == ("a", "b", "column 4")
    asked = load(written(tmp_path, PLAIN.replace(b"\n", b",\n")), target="a", known="column 4")
    assert asked.columns == ("a", "b", "column 4")


def test_latin_1_and_replacement_characters_in_the_header(library: str, tmp_path: Path) -> None:
    latin = load(written(tmp_path, PLAIN.replace(b",a,", ",Wärme,".encode("latin-1"))))
    assert latin.columns == ("Wärme", "b")
    replaced = load(written(tmp_path, PLAIN.replace(b",a,", ",m\ufffd,".encode())))
    assert replaced.columns == ("m\ufffd", "b")


def test_line_numbers_count_quoted_line_ends_and_blank_lines(library: str, tmp_path: Path) -> None:
    content = b'date,"a\nwatt",b\n2024-01-01,1,1\n\n2024-01-02,2,2\n2024-01-03,x,3\n'
    with pytest.raises(InputError, match=r"line 6, column 'a watt' holds 'x'"):
        load(written(tmp_path, content))


def test_a_late_text_cell_is_found_after_thousands_of_numbers(library: str, tmp_path: Path) -> None:
    stamps = np.datetime64("2024-01-01T00:00") + np.arange(5000)
    lines = [f"{stamp},{number},{number}" for number, stamp in enumerate(stamps)]
    lines[4321] = f"{stamps[4321]},n.v.,4321"
    content = "\n".join(["date,a,b", *lines])
    with pytest.raises(InputError, match=r"line 4323, column 'a' holds 'n\.v\.'"):
        load(written(tmp_path, content.encode()))


def wide_frame(rows: int = 48) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"date": pd.date_range("2024-01-01", periods=rows, freq="h")})
    frame["a"] = rng.normal(size=rows)
    frame["b"] = rng.integers(0, 100, rows)
    # Sixty-fourths, so that a float32 written as text is the same number when it is read as a float64.
    frame["c"] = (rng.integers(-200, 200, rows) / 64).astype(np.float32)
    frame.loc[7, "a"] = np.nan
    return frame


def test_pandas_polars_arrow_and_files_give_the_same_panel(tmp_path: Path) -> None:
    frame = wide_frame()
    panel = load(frame)
    assert panel.layout.backend == "pandas"
    assert panel.step == Step(1, "h")
    polars = pl.from_pandas(frame)
    assert load(polars).layout.backend == "polars"
    assert load(pa.Table.from_pandas(frame)).layout.backend == "pyarrow"
    frame.to_csv(tmp_path / "table.csv", index=False)
    polars.write_parquet(tmp_path / "table.parquet")
    others = [
        polars,
        polars.lazy(),
        pa.Table.from_pandas(frame),
        tmp_path / "table.parquet",
        str(tmp_path / "table.csv"),
    ]
    for other in others:
        same(load(other), panel)


def test_dtypes_that_hold_numbers_and_missing_values() -> None:
    stamps = pd.date_range("2024-01-01", periods=4, freq="D")
    frame = pd.DataFrame({"ds": stamps, "x": [1.0, 0.0, 1.0, np.nan]})
    panel = load(frame)
    columns = {
        "nullable": pd.array([1, 0, 1, None], dtype="Int64"),
        "truth": pd.array([True, False, True, None], dtype="boolean"),
        "arrow": pd.array([1, 0, 1, None], dtype="int64[pyarrow]"),
        "objects": np.array([Decimal(1), 0, 1.0, None], dtype=object),
        "words": ["True", "false", "TRUE", None],
    }
    for column in columns.values():
        same(load(pd.DataFrame({"ds": stamps, "x": column})), panel)
    decimals = pl.Series([1, 0, 1, None]).cast(pl.Decimal(10, 2))
    same(load(pl.DataFrame({"ds": stamps.to_numpy(), "x": decimals})), panel)


def test_keys_beside_stamps_in_a_pandas_index_name_series() -> None:
    days = pd.date_range("2024-01-01", periods=8, freq="D")
    cells = np.random.default_rng(0).normal(size=16)
    for names in (["a", "b"], [7, 9]):
        long = pd.DataFrame({"unique_id": np.repeat(names, 8), "ds": [*days, *days], "y": cells})
        whole = load(long)
        keyed = pd.concat({name: rows.set_index("ds")[["y"]] for name, rows in long.groupby("unique_id")})
        named = long.rename(columns={"unique_id": "x"})
        for frame in (keyed, named.set_index(["x", "ds"]), named.set_index(["ds", "x"])["y"]):
            same(load(frame), whole)
    alone = named[named["x"] == 7]
    for frame in (alone.set_index(["x", "ds"]), alone.drop(columns="x").set_index("ds", append=True)):
        assert load(frame).columns == ("y",)
    hours = pd.MultiIndex.from_product([days, range(24)], names=["Date", "Hour"])
    hourly = load(pd.DataFrame({"y": np.arange(192.0)}, index=hours))
    assert hourly.series == 1
    assert len(hourly.values) == 192


def test_a_pandas_index_of_stamps_is_the_time_column() -> None:
    frame = wide_frame()
    panel = load(frame)
    indexed = load(frame.set_index("date"))
    same(indexed, panel)
    assert indexed.layout.time_index
    assert not panel.layout.time_index
    nameless = load(frame.set_index("date").rename_axis(None))
    assert nameless.layout.time_col == "date"
    same(load(frame.set_index(pd.PeriodIndex(frame["date"], freq="h")).drop(columns="date")), panel)
    long = frame.assign(unique_id="one", ds=frame["date"], y=frame["a"])[["unique_id", "ds", "y"]]
    same(load(long.set_index("unique_id")), load(long))


def test_a_pandas_index_of_text_or_years_is_the_time_column_where_there_is_no_other() -> None:
    frame = wide_frame()
    texts, columns = frame["date"].dt.strftime("%Y-%m-%d %H:%M"), ["a"]
    for name in ("date", "Datum", None):
        indexed = load(frame[columns].set_index(texts.rename(name)))
        same(indexed, load(frame[["date", *columns]]))
        assert (indexed.layout.time_index, indexed.layout.time_col) == (True, name or "date")
    dates = pd.Series([1.0, 2.0, 4.0], index=[date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 4)])
    assert load(dates).lengths.tolist() == [4]
    assert str(load(pd.DataFrame({"y": [1.0, 2.0, 3.0]}, index=pd.Index([2020, 2021, 2022], name="Year"))).step) == "YS"
    for rows in (pd.Index([5, 9, 11]), pd.Index([5, 9, 11], name="id"), pd.Index(["a", "b", "c"])):
        counted = load(pd.DataFrame({"y": [1.0, 2.0, 3.0]}, index=rows))
        assert [one.what for one in counted.findings if one.kind == "repaired"] == ["row numbers"]
    both = frame.set_index(texts.rename("Zeit"))
    assert load(both).layout.time_col == "date"


def test_integer_column_names_are_read_as_text() -> None:
    frame = pd.DataFrame({0: [1.0, 2.0, 3.0], 1: [4.0, 5.0, 6.0]}, index=pd.date_range("2024-01-01", periods=3))
    assert load(frame).columns == ("0", "1")


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(InputError, match=r"builtins\.dict.*pandas, polars or arrow"):
        load({"ds": [1, 2, 3]})
    with pytest.raises(InputError, match="frame is empty"):
        load(pl.DataFrame({"ds": [], "y": []}))
    doubled = pd.DataFrame([[1, 2.0, 3.0]], columns=["ds", "a", "a"])
    with pytest.raises(InputError, match=r"two columns called 'a' \(columns 2 and 3\)"):
        load(doubled)


def test_lists_are_refused_by_name(tmp_path: Path) -> None:
    frame = pl.DataFrame({"ds": [1, 2, 3], "train": [[1.0], [2.0], [3.0]]})
    with pytest.raises(InputError, match="'train' holds lists"):
        load(frame)


@pytest.mark.parametrize(
    ("texts", "first", "again"),
    [
        (["2024-01-31", "2024-02-29", "2024-03-31"], "2024-01-31", "2024-04-30"),
        (["1949-01", "1949-02", "1949-03"], "1949-01-01", "1949-04"),
        (["2001/02", "2002/03", "2003/04"], "2001-01-01", "2004/05"),
        (["2009-10", "2010-11", "2011-12"], "2009-01-01", "2012-13"),
        (["1998-99", "1999-00", "2000-01"], "1998-01-01", "2001-02"),
        (["2001–02", "2002–03", "2003–04"], "2001-01-01", "2004–05"),
        (["FY 2001/02", "FY 2002/03", "FY 2003/04"], "2001-01-01", "FY 2004/05"),
        (["1998 - 1999", "1999 - 2000", "2000 - 2001"], "1998-01-01", "2001 - 2002"),
        (["2019H1", "2019H2", "2020H1"], "2019-01-01", "2020H2"),
        (["S2 2019", "S1 2020", "S2 2020"], "2019-07-01", "S1 2021"),
        (["2001-01", "2001-02", "2001-03"], "2001-01-01", "2001-04"),
        (["31.01.2020", "01.02.2020", "02.02.2020"], "2020-01-31", "03.02.2020"),
        (["01/31/2020", "02/01/2020", "02/02/2020"], "2020-01-31", "02/03/2020"),
        (["2020/01/31", "2020/02/01", "2020/02/02"], "2020-01-31", "2020/02/03"),
        (["2020-01-01T00:00", "2020-01-01T01:00", "2020-01-01T02:00"], "2020-01-01", "2020-01-01T03:00"),
        (
            ["2020-01-01 00:00:00.1", "2020-01-01 00:00:00.2", "2020-01-01 00:00:00.3"],
            None,
            "2020-01-01 00:00:00.400000",
        ),
        (["2020-01-01 11:00 AM", "2020-01-01 12:00 PM", "2020-01-01 1:00 PM"], None, "2020-01-01 02:00 PM"),
        (["20240129", "20240130", "20240131"], "2024-01-29", "20240201"),
        (
            ["2020-01-01T00:00:00Z", "2020-01-01T01:00:00Z", "2020-01-01T02:00:00Z"],
            "2020-01-01",
            "2020-01-01T03:00:00+00:00",
        ),
        (
            ["2020-01-01 01:00+02:00", "2020-01-01 02:00+02:00", "2020-01-01 03:00+02:00"],
            "2019-12-31T23",
            "2020-01-01 04:00+02:00",
        ),
        (
            ["2020-01-01 00:00+05:30", "2020-01-02 00:00+05:30", "2020-01-03 00:00+05:30"],
            "2020-01-01",
            "2020-01-04 00:00+05:30",
        ),
    ],
)
def test_stamps_of_text_are_read_and_written_back(
    texts: list[str], first: str | None, again: str, tmp_path: Path
) -> None:
    lines = [f"{text},{number}" for number, text in enumerate(texts)]
    panel = load(written(tmp_path, "\n".join(["date,y", *lines]).encode()))
    if first is not None:
        assert panel.stamps[0] == np.datetime64(first, "us")
    assert localise(panel.step.after(panel.stamps[-1], 1), panel.layout).tolist() == [again]
    frame = pl.DataFrame({"date": texts, "y": [0.0, 1.0, 2.0]})
    from_frame = load(frame)
    same(from_frame, panel)
    assert localise(panel.step.after(panel.stamps[-1], 1), from_frame.layout).to_list() == [again]


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (["01/02/2020", "01/03/2020", "01/04/2020"], "2020-02-01 or as 2020-01-02"),
        (["2020-01-01", "2020-01-02", "2020-02-30"], "line 4.*'2020-02-30'.*day is out of range"),
        (["2020-01-01", "2020-01-02", "soon"], "line 4.*'soon' is not a stamp"),
        (["2020-01-01", "2020-01-02", "20-01-03"], "line 4.*stand otherwise than in other rows"),
        (["13/01/2020", "14/01/2020", "01/15/2020"], "line 4.*month"),
        (["2020-01-01 25:00", "2020-01-01 26:00", "2020-01-01 27:00"], "line 2.*time of day"),
        (
            ["2020-01-01 00:00", "2020-01-01 01:00Z", "2020-01-01 02:00Z"],
            "line 2.*no offset where others have Z.*or none",
        ),
        (["2020-01-01 00:00Z", "2020-01-01 01:00", "2020-01-01 02:00Z"], "line 3.*no offset.*time zones"),
        (["0.5", "1.5", "2.5"], "line 2.*'0.5' is not a stamp"),
    ],
)
def test_stamps_that_can_not_be_read_are_named(texts: list[str], why: str, tmp_path: Path) -> None:
    lines = [f"{text},{number}" for number, text in enumerate(texts)]
    with pytest.raises(InputError, match=why):
        load(written(tmp_path, "\n".join(["date,y", *lines]).encode()))


def test_integer_time_needs_a_name() -> None:
    frame = pd.DataFrame({"t": [0, 2, 4, 8], "y": [1.0, 2.0, 3.0, 5.0]})
    panel = load(frame)
    assert panel.step == Step(2, "int")
    assert panel.stamps.tolist() == [0, 2, 4, 6, 8]
    assert panel.layout.time_kind == "integer"
    assert localise(panel.step.after(panel.stamps[-1], 2), panel.layout).tolist() == [10, 12]
    renamed = frame.rename(columns={"t": "meter"})
    with pytest.raises(InputError, match=r"no time column.*'meter' and 'y'.*time_col"):
        load(renamed)
    assert load(renamed, time_col="meter").columns == ("y",)


BERLIN_HOURS = pd.date_range("2024-03-30 20:00", periods=72, freq="h", tz="Europe/Berlin")
BERLIN_DAYS = pd.date_range("2024-03-28", periods=9, freq="D", tz="Europe/Berlin")


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize(("stamps", "stored"), [(BERLIN_HOURS, "utc"), (BERLIN_DAYS, "wall")])
def test_time_zones_survive_a_clock_change(stamps: pd.DatetimeIndex, stored: str, kind: str) -> None:
    known, ahead = stamps[:-3], stamps[-3:]
    frame = pd.DataFrame({"ds": known, "y": np.arange(len(known), dtype=float)})
    given = {"pandas": frame, "polars": pl.from_pandas(frame), "pyarrow": pa.Table.from_pandas(frame)}[kind]
    panel = load(given)
    assert panel.layout.timezone == "Europe/Berlin"
    assert panel.layout.stored == stored
    assert len(panel.stamps) == len(known)
    assert any(finding.what == "timezone" for finding in panel.findings)
    back = localise(panel.step.after(panel.stamps[-1], 3), panel.layout)
    moments = [pd.Timestamp(moment) for moment in (back.to_pylist() if kind == "pyarrow" else back.to_list())]
    assert moments == list(ahead)
    assert {str(moment.tz) for moment in moments} == {"Europe/Berlin"}


def test_wall_is_what_a_local_clock_shows() -> None:
    panel = load(pd.DataFrame({"ds": BERLIN_HOURS, "y": np.arange(72.0)}))
    np.testing.assert_array_equal(to_wall_time(panel.stamps, panel.layout), BERLIN_HOURS.tz_localize(None).to_numpy())
    daily = load(pd.DataFrame({"ds": BERLIN_DAYS, "y": np.arange(9.0)}))
    np.testing.assert_array_equal(to_wall_time(daily.stamps, daily.layout), daily.stamps)


def test_a_midnight_that_the_clocks_skip_moves_on() -> None:
    # In Santiago the clocks went from 23:59:59 on 7 September 2024 to 01:00 on the 8th.
    layout = Layout("wide", "ds", timezone="America/Santiago", stored="wall", backend="pandas")
    stamps = np.array(["2024-09-07", "2024-09-08", "2024-09-09"], dtype="datetime64[us]")
    expected = ["2024-09-07 00:00:00-04:00", "2024-09-08 01:00:00-03:00", "2024-09-09 00:00:00-03:00"]
    assert [str(moment) for moment in localise(stamps, layout)] == expected
    polars = Layout("wide", "ds", timezone="America/Santiago", stored="wall", backend="polars")
    assert [str(moment) for moment in localise(stamps, polars)] == expected


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_dates_come_back_as_dates(kind: str) -> None:
    days = [date(2024, 1, 31), date(2024, 2, 29), date(2024, 3, 31)]
    columns = {"ds": days, "y": [1.0, 2.0, 3.0]}
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[kind](columns)
    panel = load(frame)
    assert panel.layout.time_kind == "date"
    assert panel.step == Step(1, "ME")
    back = localise(panel.step.after(panel.stamps[-1], 1), panel.layout)
    assert (back.to_pylist() if kind == "pyarrow" else back.to_list()) == [date(2024, 4, 30)]


def test_parquet_written_by_pandas_keeps_its_index_of_stamps(library: str, tmp_path: Path) -> None:
    frame = wide_frame()
    frame.set_index("date").rename_axis(None).to_parquet(tmp_path / "nameless.parquet")
    same(load(tmp_path / "nameless.parquet"), load(frame))
    frame[["a", "b", "c"]].assign(date=frame["date"])[::-1].to_parquet(tmp_path / "numbered.parquet")
    assert load(tmp_path / "numbered.parquet").columns == ("a", "b", "c")


def test_a_nameless_column_that_counts_rows_is_left_out(library: str, tmp_path: Path) -> None:
    wide_frame().to_csv(tmp_path / "with_index.csv")
    panel = load(tmp_path / "with_index.csv")
    same(panel, load(wide_frame()))
    assert [finding.count for finding in panel.findings if finding.what == "row counter"] == [1]


_WITHOUT = """
import sys
for package in {blocked}:
    sys.modules[package] = None
from rearview.data.panel_reader import load
panel = load({path!r})
sys.exit(0 if panel.values.shape == (4, 2) else 1)
"""


@pytest.mark.parametrize("blocked", [["polars"], ["pandas", "pyarrow"]])
def test_files_are_read_with_whichever_library_is_there(blocked: list[str], tmp_path: Path) -> None:
    code = _WITHOUT.format(blocked=blocked, path=str(written(tmp_path, PLAIN)))
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


_PEAK = """
import re
import sys
import narwhals, numpy, polars
from pathlib import Path
from rearview.data.panel_reader import load
def peak():  # of this process: the peak that getrusage knows begins at that of the parent
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024
before = peak()
panel = load(sys.argv[1])
print(panel.values.nbytes, peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak of one process")
def test_a_parquet_file_costs_its_array_and_little_more(tmp_path: Path) -> None:
    rows = 200_000
    rng = np.random.default_rng(5)
    stamps = np.datetime64("2024-01-01", "us") + np.arange(rows) * np.timedelta64(60, "s")
    columns = {f"c{number}": rng.standard_normal(rows, dtype=np.float32) for number in range(50)}
    pl.DataFrame({"date": stamps, **columns}).write_parquet(tmp_path / "large.parquet")
    command = [sys.executable, "-c", _PEAK, str(tmp_path / "large.parquet")]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "POLARS_MAX_THREADS": "1"}
    )
    array, peak = map(int, done.stdout.split())
    assert array == rows * 50 * 4
    # One more array would be 38 MiB, a float64 copy 76 MiB; a batch of columns and the reader's own pages are 100 MiB.
    assert peak < array + (110 << 20)


def test_load_stays_a_function_however_often_it_is_asked_for(tmp_path):
    import rearview.data as data

    (tmp_path / "a.csv").write_text("date,y\n2020-01-01,1\n2020-01-02,2\n2020-01-03,3\n")
    assert data.load(tmp_path / "a.csv").values.shape == data.load(tmp_path / "a.csv").values.shape == (3, 1)
