"""Damaged and blown-up files: one sentence each, whatever another library raises or prints."""

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rearview.core.errors import InputError, SettingsError
from rearview.data.io import damage
from rearview.data.io.arrays import read_npz
from rearview.data.panel_reader import read_panel
from rearview.data.read_options import ReadOptions
from rearview.data.step import Step
from rearview.estimators.forecast.forecaster import stamps_ahead

DATES = [f"2024-01-{day:02d}" for day in range(1, 21)]


def test_a_file_that_expands_beyond_all_proportion_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b"date,a\n" + b"2024-01-01,0\n" * 100_000))
    monkeypatch.setattr(damage, "FREE_BYTES", 1 << 16)
    with pytest.raises(InputError, match=r"x.csv.gz expands to more than .* MiB, .* times its size .* unpack it"):
        read_panel(path, ReadOptions())
    assert damage.unpack(path, 4) == b"date"


def test_an_archive_that_expands_beyond_all_proportion_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, train=np.zeros((40_000, 1000), dtype=np.float64))
    with pytest.raises(InputError, match="expands to 305 MiB"):
        read_npz(path)


def test_an_array_whose_shape_is_beyond_any_memory_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", train=np.zeros((1000, 1)))
    content = (tmp_path / "x.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "y.npz", "w") as archive, zipfile.ZipFile(io.BytesIO(content)) as sound:
        archive.writestr("train.npy", sound.read("train.npy").replace(b"(1000, 1), }        ", b"(10000000000000, 1)}"))
    with pytest.raises(InputError, match=r"y\.npz holds an array that the memory of this machine does not hold"):
        read_npz(tmp_path / "y.npz")


def test_a_quoted_name_with_another_separator_does_not_swallow_the_rows(tmp_path: Path) -> None:
    rows = [f"{date},{number}" for number, date in enumerate(DATES)]
    (tmp_path / "x.csv").write_text("\n".join(['date,"&lt;b&gt;"', *rows]))
    assert read_panel(tmp_path / "x.csv", ReadOptions()).columns == ("&lt;b&gt;",)


def test_durations_too_long_for_the_calendar_are_refused(tmp_path: Path) -> None:
    days = pl.Series(np.arange(20) + 2**62).cast(pl.Duration("ms"))
    pl.DataFrame({"ds": days, "y": np.arange(20.0)}).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"column 'ds' holds Duration.* too long for the calendar"):
        read_panel(tmp_path / "x.parquet", ReadOptions(time_col="ds"))


@pytest.mark.parametrize(
    "content", [b"\x1f\x8b", b"\x1f\x8b\x08" + b"\xff" * 40, gzip.compress(b"date,a\n1,2\n", mtime=0)[:-9]]
)
def test_a_damaged_gzip_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.csv.gz").write_bytes(content)
    with pytest.raises(InputError, match="is a damaged gzip file"):
        read_panel(tmp_path / "x.csv.gz", ReadOptions())


def test_damaged_pages_of_a_parquet_file_are_refused_in_silence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    buffer = io.BytesIO()
    pl.DataFrame({"date": DATES, "a": np.arange(20.0)}).write_parquet(buffer, compression="snappy")
    refused = 0
    for place in range(4, len(buffer.getvalue()) - 8, 7):
        content = bytearray(buffer.getvalue())
        content[place : place + 3] = b"\xff\xff\xff"
        (tmp_path / "x.parquet").write_bytes(content)
        try:
            read_panel(tmp_path / "x.parquet", ReadOptions())
        except InputError:
            refused += 1
    assert refused > 10
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "content",
    [b"\xef\xbb\xbf", b"\xef\xbb\xbf\n\n", b'date,a\n2024-01-01,"' + b"x" * 140_000, b"h" * 300_000 + b",b\n1,2\n"],
)
def test_text_that_is_no_table_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(InputError) as refused:
        read_panel(tmp_path / "x.csv", ReadOptions())
    assert len(str(refused.value)) < 1000


def test_ids_that_are_no_names_are_refused() -> None:
    frame = pl.DataFrame({"unique_id": [[1], [2]] * 10, "ds": np.repeat(DATES[:10], 2), "y": np.arange(20.0)})
    with pytest.raises(InputError, match=r"column 'unique_id' holds List.*, which can't name series"):
        read_panel(frame, ReadOptions())


@pytest.mark.parametrize(
    ("stamps", "says"),
    [
        ([f"0000-01-{day:02d}" for day in range(1, 21)], "in the year 0000"),
        ([f"2024-01-{day:02d}T00:00:00+24:00" for day in range(1, 21)], "is not a stamp"),
        (np.arange(20, dtype=np.uint64) + np.uint64(2**63), "is beyond the whole numbers of 64 bits"),
        ([str(2**63 + day) for day in range(20)], "is not a stamp"),
    ],
)
def test_stamps_beyond_the_calendar_are_refused(stamps: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_panel(pl.DataFrame({"date": stamps, "a": np.arange(20.0)}), ReadOptions())


def test_a_forecast_beyond_the_calendar_is_refused() -> None:
    stamps = [f"9999-12-{day:02d}" for day in range(11, 31)]
    panel = read_panel(pl.DataFrame({"date": stamps, "a": np.arange(20.0)}), ReadOptions())
    stamps_ahead(panel, 1)
    with pytest.raises(InputError, match="in the year 10000"):
        stamps_ahead(panel, 2)


def test_a_step_longer_than_any_data_is_refused() -> None:
    for text in ("999999999999D", "9" * 30):
        with pytest.raises(SettingsError, match="longer than any data"):
            Step.parse(text)


def test_the_time_zone_that_a_file_can_not_be_read_in_is_named(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    dates = pa.array(np.array(DATES, dtype="datetime64[us]"), type=pa.timestamp("us", tz="Mars/Olympus"))
    pq.write_table(pa.table({"date": dates, "a": np.arange(20.0)}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="time zone 'Mars/Olympus'"):
        read_panel(tmp_path / "x.parquet", ReadOptions())


def test_a_stamp_of_a_zone_beyond_the_calendar_is_named(tmp_path: Path) -> None:
    stamps = pl.Series(DATES).str.to_datetime(time_unit="us").cast(pl.Int64)
    stamps = pl.concat([stamps[:-1], pl.Series([2**62])]).cast(pl.Datetime("us", "Europe/Berlin"))
    pl.DataFrame({"date": stamps, "a": range(20)}).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(InputError, match="row 19, column 'date': the stamp is beyond the calendar"):
        read_panel(tmp_path / "x.parquet", ReadOptions())
