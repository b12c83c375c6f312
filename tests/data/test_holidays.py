"""Public holidays become inputs by date, whatever the step; what has no dates or no such country is refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rearview.core.errors import InputError, SettingsError
from rearview.data.holidays import ANY
from rearview.data.panel import Panel
from rearview.data.panel_reader import load


def read(freq: str, start: str, rows: int, regions: object = "DE", **options: object) -> Panel:
    frame = pd.DataFrame({"date": pd.date_range(start, periods=rows, freq=freq), "y": np.arange(float(rows))})
    return load(frame, holidays=regions, **options)


def column(panel: Panel, name: str) -> dict[str, float]:
    """Stamp -> value, where it is not 0."""
    cells = panel.original(slice(0, panel.lengths[0]), 0)[:, panel.columns.index(name)]
    return {str(stamp)[:16]: value for stamp, value in zip(panel.stamps, cells.tolist(), strict=True) if value}


def test_days_have_the_holidays_of_their_date_by_name() -> None:
    panel = read("D", "2024-04-20", 40)
    assert panel.known_names == (ANY, "holiday: Labor Day", "holiday: Ascension Day", "holiday: Whit Monday")
    assert column(panel, "holiday: Ascension Day") == {"2024-05-09T00:00": 1}
    assert list(column(panel, ANY)) == ["2024-05-01T00:00", "2024-05-09T00:00", "2024-05-20T00:00"]
    assert "Public holidays of DE are inputs known in the future: 3 by name." in {f.message for f in panel.findings}


def test_parts_of_countries_and_several_of_them() -> None:
    assert "holiday: Corpus Christi" not in read("D", "2024-05-20", 20).columns
    assert column(read("D", "2024-05-20", 20, "DE-BY"), "holiday: Corpus Christi") == {"2024-05-30T00:00": 1}
    several = read("D", "2024-05-20", 20, ["DE", "AT", "DE-BY"])
    assert column(several, ANY) == {"2024-05-20T00:00": 3, "2024-05-30T00:00": 2}


def test_hours_have_the_holidays_of_their_local_date() -> None:
    zoned = pd.date_range("2024-04-29 22:00", periods=72, freq="h", tz="UTC").tz_convert("Europe/Berlin")
    panel = load(pd.DataFrame({"date": zoned, "y": np.arange(72.0)}), holidays="DE")
    assert panel.layout.stored == "utc"
    hours = list(column(panel, ANY))
    assert (len(hours), hours[0], hours[-1]) == (24, "2024-04-30T22:00", "2024-05-01T21:00")


@pytest.mark.parametrize(
    ("freq", "start", "rows", "counts"),
    [
        ("MS", "2024-03-01", 4, {"2024-03": 1, "2024-04": 1, "2024-05": 3}),
        ("ME", "2024-03-31", 4, {"2024-03": 1, "2024-04": 1, "2024-05": 3}),
        ("BMS", "2024-03-01", 4, {"2024-03": 1, "2024-04": 1, "2024-05": 3}),
        ("BME", "2024-03-29", 4, {"2024-03": 1, "2024-04": 1, "2024-05": 3}),
        ("W-MON", "2024-03-25", 3, {"2024-03-25": 1, "2024-04-01": 1}),
        ("W-SUN", "2024-03-31", 3, {"2024-03-31": 1, "2024-04-07": 1}),
        ("B", "2024-03-28", 4, {"2024-03-29": 1, "2024-04-01": 1}),
    ],
)
def test_longer_steps_count_the_holidays_they_hold(freq: str, start: str, rows: int, counts: dict[str, float]) -> None:
    found = column(read(freq, start, rows), ANY)
    width = len(next(iter(counts)))
    assert {stamp[:width]: value for stamp, value in found.items()} == counts


def test_what_has_no_use_for_holidays_is_refused() -> None:
    with pytest.raises(InputError, match="every quarter, and such rows have nearly the same holidays every year"):
        read("QS", "2020-01-01", 12)
    with pytest.raises(InputError, match="holidays need dates"):
        load(np.arange(20.0), holidays="DE")
    with pytest.raises(SettingsError, match="'XX', of which no holidays are known"):
        read("D", "2024-01-01", 10, "XX")
    with pytest.raises(SettingsError, match="DE has no part 'ZZ'; its parts are BB, BE"):
        read("D", "2024-01-01", 10, "DE-ZZ")
    with pytest.raises(SettingsError, match=r"'de', of which no holidays are known; .* Did you mean 'DE'\?"):
        read("D", "2024-01-01", 10, "de")
    with pytest.raises(InputError, match="has a column 'public holidays'"):
        load(pd.DataFrame({"date": pd.date_range("2024-01-01", periods=9), "y": 1.0, ANY: 2.0}), holidays="DE")


def test_series_taken_together_share_them(tmp_path: Path) -> None:
    days = pd.date_range("2024-04-28", periods=9)
    parts = [pd.DataFrame({"unique_id": name, "ds": days, "y": np.arange(9.0)}) for name in "ab"]
    panel = load(pd.concat(parts), holidays="DE", together=True)
    assert panel.columns == ("a", "b", ANY, "holiday: Labor Day")
    assert (panel.targets, panel.known) == (2, 2)
