"""What a file does not say of itself and reading finds out: its encoding, offsets that differ, seconds since 1970."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rearview.core.errors import InputError
from rearview.data.infer.timestamps import localise
from rearview.data.panel import Panel
from rearview.data.panel_reader import load

BERLIN = pd.date_range("2024-03-30 20:00", periods=72, freq="h", tz="Europe/Berlin")


def said(panel: Panel, what: str) -> list[tuple[str, str]]:
    return [(finding.kind, finding.message) for finding in panel.findings if finding.what == what]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_lines_may_be_longer_than_a_sample(encoding: str, tmp_path: Path) -> None:
    names = [f"sensor_{number:0110d}\u00e9" for number in range(2_400)]
    lines = [
        f"2024-01-0{day}," + ",".join(f"{day}.{number:0110d}" for number in range(len(names))) for day in (1, 2, 3)
    ]
    path = tmp_path / "wide.csv"
    path.write_bytes("\n".join([",".join(["date", *names]), *lines]).encode(encoding))
    panel = load(path)
    assert panel.columns == tuple(names)
    assert panel.values.shape == (3, len(names))
    path.write_bytes(b"date," + b"x" * 300_000 + b"\n2024-01-01,1\n2024-01-02,2\n")
    with pytest.raises(InputError, match=r"line 1 can't be read as a row \(field larger"):
        load(path)


@pytest.mark.parametrize(
    ("name", "encoding", "called"),
    [("Umsatz \u20ac", "cp1252", "Windows-1252"), ("W\u00e4rme\x81", "latin-1", "Latin-1")],
)
def test_an_encoding_that_was_guessed_is_reported(name: str, encoding: str, called: str, tmp_path: Path) -> None:
    path = tmp_path / "excel.csv"
    path.write_bytes(f"date;{name}\n2024-01-01;1\n2024-01-02;2\n2024-01-03;3\n".encode(encoding))
    panel = load(path)
    assert panel.columns == (name,)
    assert said(panel, "encoding") == [
        (
            "inferred",
            f"The file is not in UTF-8 and was read as {called}, which is a guess; save it in UTF-8 if a name looks "
            "wrong.",
        )
    ]
    for shown in ("utf-8", "utf-8-sig", "utf-16"):
        path.write_bytes(f"date;{name}\n2024-01-01;1\n2024-01-02;2\n2024-01-03;3\n".encode(shown))
        assert said(load(path), "encoding") == []


@pytest.mark.parametrize("written", ["Europe/Berlin", "UTC", "Etc/GMT-2"])
def test_stamps_with_offsets_are_given_back_in_the_zone_that_is_named(written: str, tmp_path: Path) -> None:
    moments = BERLIN.tz_convert(written)
    path = tmp_path / "a.csv"
    pd.DataFrame({"time": [moment.isoformat() for moment in moments], "y": np.arange(72.0)}).to_csv(path, index=False)
    panel = load(path, timezone="Europe/Berlin")
    assert [str(one) for one in localise(panel.stamps, panel.layout)] == [moment.isoformat() for moment in BERLIN]
    assert said(panel, "timezone")[0][1].endswith(
        "stamps are counted in UTC and forecasts are given in "
        + ("Europe/Berlin." if written == "Europe/Berlin" else "it.")
    )


@pytest.mark.parametrize("objects", [True, False])
def test_stamps_over_a_change_of_clocks_are_counted_in_utc(objects: bool) -> None:
    stamps = BERLIN.astype(object) if objects else [moment.isoformat() for moment in BERLIN]
    frame = pd.DataFrame({"ds": stamps, "y": np.arange(72.0)})
    panel = load(frame)
    np.testing.assert_array_equal(panel.stamps, BERLIN.tz_convert("UTC").tz_localize(None).to_numpy())
    assert (panel.layout.timezone, panel.layout.stored, str(panel.step)) == ("Europe/Berlin", "utc", "h")
    assert said(panel, "timezone") == [
        (
            "repaired",
            "Stamps have offsets from +01:00 to +02:00; stamps are counted in UTC and forecasts are given in "
            "Europe/Berlin, whose clocks have these offsets; name another zone with timezone (--timezone).",
        )
    ]
    ahead = localise(panel.ahead(np.array([71]), 1)[0], panel.layout)
    following = BERLIN[-1:] + pd.Timedelta(hours=1)
    assert list(ahead) == list(following if objects else [following[0].isoformat()])
    panel = load(frame, timezone="UTC")
    assert panel.layout.timezone == "UTC"
    assert said(panel, "timezone")[0][1].endswith("forecasts are given in it.")


@pytest.mark.parametrize("objects", [True, False])
def test_offsets_that_change_at_another_hour_are_those_of_no_zone(objects: bool) -> None:
    stamps = [moment.tz_convert("Etc/GMT-1" if place < 20 else "Etc/GMT-2") for place, moment in enumerate(BERLIN)]
    stamps = stamps if objects else [moment.isoformat() for moment in stamps]
    panel = load(pd.DataFrame({"ds": stamps, "y": np.arange(72.0)}))
    np.testing.assert_array_equal(panel.stamps, BERLIN.tz_convert("UTC").tz_localize(None).to_numpy())
    assert (panel.layout.timezone, panel.layout.stored, str(panel.step)) == ("UTC", "utc", "h")
    assert said(panel, "timezone") == [
        (
            "repaired",
            "Stamps have offsets from +01:00 to +02:00; stamps are counted in UTC and forecasts are given in it.",
        )
    ]


def test_days_over_a_change_of_clocks_stay_days() -> None:
    days = pd.date_range("2024-03-28", periods=9, freq="D", tz="Europe/Berlin")
    panel = load(pd.DataFrame({"ds": [moment.isoformat() for moment in days], "y": np.arange(9.0)}))
    assert (panel.layout.timezone, str(panel.step)) == (None, "D")
    np.testing.assert_array_equal(panel.stamps, days.tz_localize(None).to_numpy())
    assert localise(panel.stamps[:1], panel.layout).tolist() == ["2024-03-28T00:00:00"]
    assert "days are kept as local time and forecasts are given without an offset" in said(panel, "timezone")[0][1]


@pytest.mark.parametrize("freq", [None, "D"])
@pytest.mark.parametrize("zoned", [True, False])
def test_midnights_of_utc_in_local_time_are_counted_in_utc_whether_their_step_is_given(
    freq: str | None, zoned: bool
) -> None:
    days = pd.date_range("2024-03-28", periods=9, freq="D", tz="UTC")
    local = days.tz_convert("Europe/Berlin")
    stamps = local if zoned else [moment.isoformat() for moment in local]
    panel = load(pd.DataFrame({"ds": stamps, "y": np.arange(9.0)}), freq=freq)
    assert (panel.layout.stored, str(panel.step)) == ("utc", "D")
    np.testing.assert_array_equal(panel.stamps, days.tz_localize(None).to_numpy())


def test_stamps_of_which_some_have_no_offset_are_refused() -> None:
    stamps = [moment.isoformat() for moment in BERLIN]
    stamps[5] = stamps[5][:-6]
    with pytest.raises(InputError, match=r"row 5, column 'ds'.*no offset where the first row has \+01:00.*or none\."):
        load(pd.DataFrame({"ds": stamps, "y": np.arange(72.0)}))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_time_that_counts_from_1970_is_read_as_dates_and_given_back_as_it_came(unit: str) -> None:
    days = pd.date_range("2023-01-01", periods=9, freq="D").as_unit(unit)
    counts = days.astype("int64")
    panel = load(pd.DataFrame({"time": counts, "y": np.arange(9.0)}))
    ((kind, words),) = said(panel, "unix time")
    assert kind == "repaired"
    assert f"{counts[0]} is read as 2023-01-01 in UTC" in words
    assert str(panel.step) == "D"
    np.testing.assert_array_equal(panel.stamps, days.to_numpy().astype("datetime64[us]"))
    assert localise(panel.stamps[:2], panel.layout).tolist() == counts[:2].tolist()
    if unit in ("s", "ms"):  # of finer ones a step has more digits than it may
        whole = load(pd.DataFrame({"time": counts, "y": np.arange(9.0)}), freq=str(counts[1] - counts[0]))
        assert whole.step.unit == "int"
    assert said(load(pd.DataFrame({"time": np.arange(9), "y": np.arange(9.0)})), "unix time") == []


def test_text_that_reads_as_stamps_is_not_left_out() -> None:
    frame = pd.DataFrame({"time": np.arange(9), "y": np.arange(9.0), "when": "2024-05-01"})
    with pytest.raises(InputError, match=r"'when' holds text .*if it is the time column"):
        load(frame)
