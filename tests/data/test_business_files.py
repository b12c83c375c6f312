"""Files as offices and machines write them: dates in other words, dates and times apart, stamps as columns, units."""

from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from workbooks import workbook

from rearview.data.infer.problems import MessyData
from rearview.data.panel import Panel
from rearview.data.panel_reader import load

DAYS = [date(2021, 1, 1) + timedelta(days=number) for number in range(60)]
MONTHS = [date(2015 + number // 12, number % 12 + 1, 1) for number in range(60)]
WEEKS = [date(2018, 1, 1) + timedelta(weeks=number) for number in range(60)]
GERMAN = "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split()  # noqa: SIM905
FRENCH = ["janv.", "févr.", "mars", "avr.", "mai", "juin", "juil.", "août", "sept.", "oct.", "nov.", "déc."]


def read(folder: Path, *lines: str, **options: object) -> Panel:
    path = folder / "file.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return load(path, **options)  # type: ignore[arg-type]


def cells(panel: Panel, series: int = 0) -> list[float]:
    begin, end = panel.bounds()[series]
    return [round(float(cell), 4) for cell in panel.original(slice(begin, end), series)[:, 0]]


WRITTEN = {
    "two digits": (DAYS, [f"{day:%d.%m.%y}" for day in DAYS]),
    "two digits, month first": (DAYS, [f"{day:%m/%d/%y}" for day in DAYS]),
    "two digits, year first": (DAYS, [f"{day:%y-%m-%d}" for day in DAYS]),
    "weekday": (DAYS, [f"{day:%a %d %b %Y}" for day in DAYS]),
    "long weekday": (DAYS, [f'"{day:%A, %d.%m.%Y}"' for day in DAYS]),
    "month by number": (MONTHS, [f"{month:%m-%Y}" for month in MONTHS]),
    "month in digits": (MONTHS, [f"{month:%Y%m}" for month in MONTHS]),
    "apostrophe": (MONTHS, [f"{month:%b}'{month:%y}" for month in MONTHS]),
    "German": (MONTHS, [f"{GERMAN[month.month - 1]} {month.year}" for month in MONTHS]),
    "French": (MONTHS, [f"{FRENCH[month.month - 1]} {month.year}" for month in MONTHS]),
    "calendar week": (WEEKS, [f"KW {week:%V}/{week:%G}" for week in WEEKS]),
    "week in words": (WEEKS, [f"Week {int(week.strftime('%V'))} {week:%G}" for week in WEEKS]),
    "quarter first": (MONTHS[::3], [f"{(month.month + 2) // 3}Q{month:%y}" for month in MONTHS[::3]]),
    "financial year": (
        [date(year, 1, 1) for year in range(1980, 2010)],
        [f"FY{year}" for year in range(1980, 2010)],
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_dates_in_other_words_are_read(name: str, tmp_path: Path) -> None:
    days, texts = WRITTEN[name]
    panel = read(tmp_path, "month,y", *(f"{text},{number}" for number, text in enumerate(texts)))
    np.testing.assert_array_equal(panel.stamps, np.array(days, dtype="datetime64[us]"))
    assert cells(panel) == list(range(len(days)))


def test_two_digits_that_may_be_day_month_or_year_are_refused_with_every_reading(tmp_path: Path) -> None:
    with pytest.raises(MessyData, match="2003-02-01 or as 2003-01-02 or as 2001-02-03"):
        read(tmp_path, "date,y", "01.02.03,1", "05.04.03,2", "09.11.04,3")


def test_a_day_that_does_not_exist_is_not_called_a_short_year(tmp_path: Path) -> None:
    stamps = [f"{day:%d.%m.%Y}" for day in DAYS]
    stamps[7] = "31.02.2021"
    with pytest.raises(MessyData, match=r"line 9.*'31.02.2021' is not a stamp \(day is out of range for month\)"):
        read(tmp_path, "date,y", *(f"{stamp},1" for stamp in stamps))


HOURS = [datetime(2023, 3, 1) + timedelta(hours=number) for number in range(72)]


@pytest.mark.parametrize(
    ("names", "written"),
    [
        (("Date", "Time"), "%Y-%m-%d,%H:%M"),
        (("Datum", "Uhrzeit"), "%d.%m.%Y,%H:%M:%S"),
        (("date", "hour"), "%m/%d/%Y,%H"),
        (("day", "time"), "%Y-%m-%d,%I:%M %p"),
    ],
)
def test_days_and_times_in_columns_of_their_own_are_one_stamp(
    names: tuple[str, str], written: str, tmp_path: Path
) -> None:
    rows = [f"{hour.strftime(written)},{number}" for number, hour in enumerate(HOURS)]
    panel = read(tmp_path, ",".join([*names, "load"]), *rows)
    np.testing.assert_array_equal(panel.stamps, np.array(HOURS, dtype="datetime64[us]"))
    assert (panel.columns, panel.series, cells(panel)) == (("load",), 1, list(range(72)))
    assert "date parts" in {finding.what for finding in panel.findings}


def test_a_day_and_a_time_that_never_changes_stay_days(tmp_path: Path) -> None:
    panel = read(tmp_path, "date,time,y", *(f"{day},16:00,1" for day in DAYS))
    np.testing.assert_array_equal(panel.stamps, np.array(DAYS, dtype="datetime64[us]"))


def test_the_hour_may_be_a_known_input_too(tmp_path: Path) -> None:
    rows = [f"{hour:%Y-%m-%d},{hour.hour},1" for hour in HOURS]
    panel = read(tmp_path, "date,hour,load", *rows, known=["hour"])
    assert panel.columns == ("load", "hour")
    assert str(panel.step) == "h"


@pytest.mark.parametrize("shape", ["%Y-%m", "%b %Y", "%Y"])
def test_stamps_as_columns_are_rows(shape: str, tmp_path: Path) -> None:
    days = [date(1980 + number, 1, 1) for number in range(40)] if shape == "%Y" else MONTHS
    header = ",".join(["store", *(day.strftime(shape) for day in days), "Total"])
    lines = [",".join([store, *(str(place + 10 * number) for number in range(len(days))), "9"])
             for place, store in enumerate("ab")]  # fmt: skip
    panel = read(tmp_path, header, *lines, ",".join(["Total", *("7" for _ in days), "9"]))
    assert panel.ids == ("a", "b")
    assert cells(panel, 1) == [1 + 10 * number for number in range(len(days))]
    np.testing.assert_array_equal(panel.stamps[: len(days)], np.array(days, dtype="datetime64[us]"))


def test_only_a_row_called_a_total_is_left_out_and_that_is_told(tmp_path: Path) -> None:
    header = "product,2015-01,2015-02,2015-03,2015-04,2015-05"
    panel = read(tmp_path, header, "Phone Max,1,2,3,4,5", "Average Joe,2,3,4,5,6", "Grand total:,3,5,7,9,11")
    assert panel.ids == ("Phone Max", "Average Joe")
    told = [finding.message for finding in panel.findings if finding.what == "stamps in columns"]
    assert len(told) == 1
    assert "Row 'Grand total:' adds up others and is left out." in told[0]


def test_a_cell_below_a_stamp_is_named_by_line_and_column(tmp_path: Path) -> None:
    with pytest.raises(MessyData, match=r"line 3, column '2015-02'.*'broken'"):
        read(tmp_path, "store,2015-01,2015-02,2015-03,2015-04", "a,1,2,3,4", "b,1,broken,3,4")


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["5 kWh", "7.5 kWh", "1200 kWh"], [5, 7.5, 1200]),
        (["5.5k", "1.2M", "3k"], [5500, 1.2e6, 3000]),
        (["1,5 Mio.", "2,25 Mio.", "3,0 Mio."], [1.5e6, 2.25e6, 3e6]),
        (["12.5-", "3.0", "4.5-"], [-12.5, 3, -4.5]),
        (["12*", "13", "14**"], [12, 13, 14]),
        (["'12", "'13.5", "'14"], [12, 13.5, 14]),
        (["1,23,456.50", "12,34,567.00", "99.00"], [123456.5, 1234567, 99]),
        (["12", "#DIV/0!", "--"], [12, np.nan, np.nan]),
    ],
)
def test_numbers_as_offices_write_them(texts: list[str], numbers: list[float], tmp_path: Path) -> None:
    panel = read(tmp_path, "date;y;z", *(f"{day};{text};1" for day, text in zip(DAYS, texts, strict=False)))
    np.testing.assert_allclose(panel.original(slice(0, 3), 0)[:, 0], numbers, rtol=1e-6)


@pytest.mark.parametrize(
    "texts", [["5 kWh", "7 MWh", "8 kWh"], ["5 apples", "7 pears", "8 apples"], ["5A", "7A", "8A"]]
)
def test_words_that_differ_and_letters_that_touch_a_number_are_no_units(texts: list[str], tmp_path: Path) -> None:
    with pytest.raises(MessyData, match="holds text"):
        read(tmp_path, "date;y", *(f"{day};{text}" for day, text in zip(DAYS, texts, strict=False)))


def test_headers_and_totals_between_rows_are_left_out(tmp_path: Path) -> None:
    rows = [f"{month:%Y-%m},{number}" for number, month in enumerate(MONTHS[:36])]
    panel = read(tmp_path, "month,y", *rows[:12], "2015 Total,66", *rows[12:24], "month,y", *rows[24:], "Max,35")
    assert cells(panel) == list(range(36))
    assert {finding.what: finding.count for finding in panel.findings if finding.kind == "repaired"} == {
        "header": 1,
        "total": 2,
    }


def test_a_file_without_a_header_has_names_given(tmp_path: Path) -> None:
    panel = read(tmp_path, *(f"{day},{number},7.5" for number, day in enumerate(DAYS)))
    assert (panel.columns, cells(panel)) == (("value 1", "value 2"), list(range(60)))


def test_days_as_spreadsheets_count_them(tmp_path: Path) -> None:
    panel = read(tmp_path, "Date,y", *(f"{44197 + number},1" for number in range(60)))
    np.testing.assert_array_equal(panel.stamps, np.array(DAYS, dtype="datetime64[us]"))


def test_ids_of_orders_are_nothing_to_forecast(tmp_path: Path) -> None:
    rows = [f"{1000 + number},{hour},{number}" for number, hour in enumerate(HOURS)]
    panel = read(tmp_path, "order_id,time,amount", *rows)
    assert panel.columns == ("amount",)
    assert "row ids" in {finding.what for finding in panel.findings}


def test_a_log_of_orders_is_told_how_it_becomes_a_series(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    minutes = np.sort(rng.integers(0, 60 * 24 * 40, 300))
    rows = [f"{n},{datetime(2023, 1, 1) + timedelta(minutes=int(m))},c{n % 9},{n}" for n, m in enumerate(minutes)]
    lines = ("order_id,timestamp,customer,amount", *rows)
    with pytest.raises(MessyData) as refusal:
        read(tmp_path, *lines)
    assert "--every D --agg sum" in {problem.flag for problem in refusal.value.problems}
    assert read(tmp_path, *lines, every="D", agg="sum").columns == ("amount",)


def test_a_sheet_of_remarks_and_rows_above_the_header_are_passed_over(tmp_path: Path) -> None:
    rows = [[day, number, f"{number + 0.5} €"] for number, day in enumerate(DAYS[:25])]
    above: list[list[object]] = [
        ["Sales", None, "Region: North"],
        [],
        ["Date", "Units", "Revenue"],
        [None, "pcs", "EUR"],
    ]
    path = tmp_path / "book.xlsx"
    path.write_bytes(workbook(Notes=[["made by Ann"]], Sales=[*above, *rows, ["Total", 300, None]]))
    panel = load(path)
    assert (panel.columns, cells(panel)) == (("Units", "Revenue"), list(range(25)))


def test_a_sheet_without_a_header_has_names_given(tmp_path: Path) -> None:
    path = tmp_path / "book.xlsx"
    path.write_bytes(workbook(S=[[day, number] for number, day in enumerate(DAYS)]))
    panel = load(path)
    assert (panel.columns, cells(panel)) == (("value",), list(range(60)))


def test_months_as_columns_of_a_sheet_are_rows(tmp_path: Path) -> None:
    path = tmp_path / "book.xlsx"
    path.write_bytes(workbook(S=[["Budget"], ["Store", *MONTHS[:20]], ["a", *range(20)], ["b", *range(20)]]))
    panel = load(path)
    assert (panel.ids, cells(panel)) == (("a", "b"), list(range(20)))


@pytest.mark.parametrize("parts", [[f"{month:%B}" for month in MONTHS[:12]], [str(month) for month in range(1, 13)]])
def test_years_as_columns_and_months_as_rows_are_one_series(parts: list[str], tmp_path: Path) -> None:
    lines = [f"{part},{row},{12 + row},{24 + row},{36 + row if row < 7 else ''}" for row, part in enumerate(parts)]
    panel = read(tmp_path, "Month,2015,2016,2017,2018", *lines)
    assert (panel.series, cells(panel)) == (1, list(range(43)))
    np.testing.assert_array_equal(panel.stamps, np.array(MONTHS[:43], dtype="datetime64[us]"))


def test_counts_that_never_repeat_are_no_ids(tmp_path: Path) -> None:
    rows = [f"{day},{1000 + 7 * number},{900 - number}" for number, day in enumerate(DAYS)]
    assert read(tmp_path, "date,orders,humid", *rows).columns == ("orders", "humid")


def test_a_time_of_day_that_is_dropped_makes_no_stamp(tmp_path: Path) -> None:
    rows = [f"{hour:%Y-%m-%d},{hour:%H:%M},1" for hour in HOURS]
    panel = read(tmp_path, "Date,Time,sold", *rows, drop=["Time"], every="D", agg="sum")
    assert (str(panel.step), cells(panel)) == ("D", [24, 24, 24])
