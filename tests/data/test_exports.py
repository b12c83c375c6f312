"""Files as other programs export them: each is read as a person would read it, and what was repaired is told."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rearview.core.errors import InputError
from rearview.data.infer.problems import MessyData
from rearview.data.panel import Panel
from rearview.data.panel_reader import load

ROWS = 40
DAYS = [datetime(2023, 1, 1) + timedelta(days=number) for number in range(ROWS)]
HOURS = [datetime(2023, 1, 1) + timedelta(hours=number) for number in range(ROWS)]
MONTHS = [datetime(2015 + number // 12, number % 12 + 1, 1) for number in range(ROWS)]
QUARTERS = [datetime(2010 + number // 4, number % 4 * 3 + 1, 1) for number in range(ROWS)]
WEEKS = [datetime(2021, 1, 4) + timedelta(weeks=number) for number in range(ROWS)]
VALUES = [1000 + 37 * number % 211 + 3 * number for number in range(ROWS)]


def german(number: float) -> str:
    return f"{number:,.2f}".replace(",", " ").replace(".", ",").replace(" ", ".")


def first_of(cell: str, body: list[str], every: int = ROWS) -> list[str]:
    """Lines of which the first of each block alone has this cell before the others."""
    return [f"{'' if number % every else cell}{line}" for number, line in enumerate(body)]


def rows(shape: str, stamps: list[datetime]) -> list[str]:
    """A line for each stamp of t (the stamp), e (an hour later), q (the quarter), v (the value), g (German) and n."""
    return [
        shape.format(t=t, e=t + timedelta(hours=1), q=(t.month + 2) // 3, v=v, g=german(v), n=n)
        for n, (t, v) in enumerate(zip(stamps, VALUES, strict=True))
    ]


@dataclass(frozen=True)
class Export:
    """The text of a file, and the stamps, columns and repairs that a person expects; its first column has `VALUES`."""

    text: str
    stamps: list[datetime]
    repairs: tuple[str, ...] = ()
    columns: int = 1
    ids: tuple[str, ...] = ("series",)
    encoding: str = "utf-8"


def lines(*parts: str | list[str]) -> str:
    return "\n".join(line for part in parts for line in ([part] if isinstance(part, str) else part)) + "\n"


_RULE = "-" * 40
_BOX = "+------------+-------+"
EXPORTS = {
    "list of an ERP": Export(
        lines(
            "01.03.2024  List   1",
            "",
            _RULE,
            "|Posted    |    Amount|Cur|",
            _RULE,
            rows("|{t:%d.%m.%Y}|{g:>10}|EUR|", DAYS),
            _RULE,
        ),
        DAYS,
        ("thousands",),
    ),
    "shell of a database": Export(
        lines(
            _BOX,
            "| day        | sales |",
            _BOX,
            rows("| {t:%Y-%m-%d} | {v:>5} |", DAYS),
            _BOX,
            "40 rows in set (0.00 sec)",
        ),
        DAYS,
        ("remark",),
    ),
    "another shell": Export(
        lines("    day     | sales ", "------------+-------", rows(" {t:%Y-%m-%d} | {v:>5}", DAYS), "(40 rows)"),
        DAYS,
        ("remark",),
    ),
    "Markdown": Export(lines("| day | sales |", "|---|---:|", rows("| {t:%Y-%m-%d} | {v} |", DAYS)), DAYS),
    "columns of spaces": Export(
        lines("date        sales   temp", rows("{t:%Y-%m-%d}  {v:>6}  {n:>5}", DAYS)), DAYS, columns=2
    ),
    "single spaces, date and time": Export(
        lines("date time load", rows("{t:%Y-%m-%d} {t:%H:%M} {v}", HOURS)), HOURS, ("date parts",)
    ),
    "UTF-16 without a mark": Export(lines("date,sales", rows("{t:%Y-%m-%d},{v}", DAYS)), DAYS, encoding="utf-16-le"),
    "text kept from a spreadsheet": Export(lines("date,sales", rows('="{t:%Y-%m-%d}","=""{v}"""', DAYS)), DAYS),
    "merged headers": Export(
        lines("date,North,,South,", ",sales,returns,sales,returns", rows("{t:%Y-%m-%d},{v},{n},5,6", DAYS)),
        DAYS,
        columns=4,
    ),
    "merged ids": Export(
        lines(
            "Store,Date,Units",
            first_of("Ulm", rows(",{t:%Y-%m-%d},{v}", DAYS)),
            first_of("Rom", rows(",{t:%Y-%m-%d},{v}", DAYS)),
        ),
        DAYS,
        ("filled down",),
        ids=("Ulm", "Rom"),
    ),
    "years and names of months": Export(
        lines("Year,Month,Sales", rows("{t.year},{t:%B},{v}", MONTHS), "Total,,9"), MONTHS, ("date parts", "total")
    ),
    "years in the first of their rows": Export(
        lines(
            "Year;Month;Sales",
            [(line[4:] if n % 12 else line) for n, line in enumerate(rows("{t.year};{t:%b};{v}", MONTHS))],
        ),
        MONTHS,
        ("date parts",),
    ),
    "years and weeks": Export(lines("year,week,sales", rows("{t:%G},{t:%V},{v}", WEEKS)), WEEKS, ("date parts",)),
    "years and quarters": Export(
        lines("Jahr;Quartal;Umsatz", rows("{t.year};Q{q};{v}", QUARTERS)),
        QUARTERS,
        ("date parts",),
    ),
    "quarters of financial years": Export(lines("Quarter,Revenue", rows("FY{t:%y} Q{q},{v}", QUARTERS)), QUARTERS),
    "months of an office of statistics": Export(lines("time,value", rows("{t:%Y}M{t:%m},{v}", MONTHS)), MONTHS),
    "hours in digits": Export(lines("Hour of Day,Sessions", rows("{t:%Y%m%d%H},{v}", HOURS)), HOURS),
    "minutes in digits": Export(lines("Zeitpunkt;Last", rows("{t:%Y%m%d%H%M};{v}", HOURS)), HOURS),
    "day in words": Export(lines("Day,Visitors", rows('"{t:%A, %B} {t.day}, {t.year}",{v}', DAYS)), DAYS),
    "spans of time": Export(
        lines("MTU,Price", rows("{t:%d.%m.%Y %H:%M} - {e:%d.%m.%Y %H:%M},{v}", HOURS)),
        HOURS,
        ("date order",),
    ),
    "beginning and end": Export(
        lines("from;until;load", rows("{t:%Y-%m-%d %H:%M};{e:%Y-%m-%d %H:%M};{v}", HOURS)), HOURS
    ),
    "dates in two orders": Export(
        lines("date,sales", rows("{t:%Y-%m-%d},{v}", DAYS)[:20], rows("{t:%d.%m.%Y},{v}", DAYS)[20:]),
        DAYS,
        ("date orders",),
    ),
    "weeks as spans": Export(
        lines(
            "Week,Sales",
            [f"{t:%d/%m/%Y} - {t + timedelta(days=6):%d/%m/%Y},{v}" for t, v in zip(WEEKS, VALUES, strict=True)],
        ),
        WEEKS,
    ),
    "names of zones": Export(
        lines("time,load", rows("{t:%Y-%m-%d %H:%M} CET,{v}", [t + timedelta(hours=1) for t in HOURS])), HOURS
    ),
    "quotation marks of a database": Export(lines("day,amount", rows("'{t:%Y-%m-%d}','{v}'", DAYS)), DAYS),
    "hour ending": Export(
        lines("Date,HE,MW", [f"{t:%m/%d/%Y},{t.hour + 1},{v}" for t, v in zip(HOURS, VALUES, strict=True)]),
        [t + timedelta(hours=1) for t in HOURS],
        ("date parts", "date order"),
    ),
    "periods of a day": Export(
        lines("Date,Period,MW", [f"{t:%Y-%m-%d},{t.hour + 1},{v}" for t, v in zip(HOURS, VALUES, strict=True)]),
        HOURS,
        ("date parts",),
    ),
    "days in the first of their rows": Export(
        lines(
            "Date,Hour,MW",
            [("" if t.hour else f"{t:%Y-%m-%d}") + f",{t.hour},{v}" for t, v in zip(HOURS, VALUES, strict=True)],
        ),
        HOURS,
        ("date parts",),
    ),
    "days of the year": Export(lines("date,v", rows("{t:%Y%j},{v}", DAYS)), DAYS),
    "pages marked between rows": Export(
        lines("date,v", rows("{t:%Y-%m-%d},{v}", DAYS)[:9], "# page 2", rows("{t:%Y-%m-%d},{v}", DAYS)[9:]),
        DAYS,
        ("remark",),
    ),
    "crowns": Export(lines("dato;sum", rows("{t:%Y-%m-%d};{g} kr.", DAYS)), DAYS, ("notation",)),
    "reais": Export(lines("data;valor", rows("{t:%Y-%m-%d};R$ {g}", DAYS)), DAYS, ("notation",)),
    "a box, merged ids, dollars": Export(
        lines(
            _BOX,
            "| store | day | amount |",
            _BOX,
            *(first_of(f"| {name} ", rows("| {t:%Y-%m-%d} | ${v:,} |", DAYS)) for name in ("A", "B")),
            _BOX,
        ).replace("\n| 2", "\n|   | 2"),
        DAYS,
        ("filled down", "notation"),
        ids=("A", "B"),
    ),
    "a title, years in the first of their rows, euros, a sum": Export(
        lines(
            "Report",
            "",
            "Jahr;Monat;Umsatz",
            [(line[4:] if n % 12 else line) for n, line in enumerate(rows("{t.year};{t.month};{g} €", MONTHS))],
            "Summe;;9,00 €",
        ),
        MONTHS,
        ("date parts", "total", "notation"),
    ),
    "spans, German numbers, a remark": Export(
        lines(
            "von;bis;Last",
            rows("{t:%Y-%m-%d %H:%M};{e:%Y-%m-%d %H:%M};{g}", HOURS),
            ";;",
            "Stand: heute; ohne Gewähr",
        ),
        HOURS,
        ("thousands", "remark"),
    ),
    "a name with another separator": Export(
        lines('"date";"sale,s"', rows('"{t:%Y-%m-%d}";"{g}"', DAYS)), DAYS, ("thousands",)
    ),
    "columns of an object": Export(json.dumps({"date": [f"{t:%Y-%m-%d}" for t in DAYS], "sales": VALUES}), DAYS),
    "columns of objects": Export(
        json.dumps({"date": {n: f"{t:%Y-%m-%d}" for n, t in enumerate(DAYS)}, "sales": dict(enumerate(VALUES))}), DAYS
    ),
    "answer of a server": Export(
        json.dumps(
            {
                "status": "ok",
                "data": [{"date": f"{t:%Y-%m-%d}", "sales": v} for t, v in zip(DAYS, VALUES, strict=True)],
            },
            indent=1,
        ),
        DAYS,
    ),
    "remarks with commas": Export(
        lines(
            "date,sales",
            rows("{t:%Y-%m-%d},{v}", DAYS),
            "",
            "Source: office",
            "Note: preliminary, see mail",
            "* estimated",
        ),
        DAYS,
        ("remark",),
    ),
    "euros beside shares with a point": Export(
        lines("date,euros,share", rows('{t:%Y-%m-%d},"€{v:,}",{n}.5%', DAYS)), DAYS, ("notation",), columns=2
    ),
}


def write(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "export.txt"
    path.write_bytes(text.encode(encoding))
    return path


def first_column(panel: Panel, series: int) -> list[float]:
    begin, end = panel.bounds()[series]
    return [round(float(cell), 4) for cell in panel.original(slice(begin, end), series)[:, 0]]


@pytest.mark.parametrize("name", EXPORTS)
@pytest.mark.usefixtures("library")
def test_an_export_is_read_as_a_person_would(name: str, tmp_path: Path) -> None:
    export = EXPORTS[name]
    panel = load(write(tmp_path, export.text, export.encoding))
    assert panel.ids == export.ids
    assert len(panel.columns) == export.columns
    for series, (begin, end) in enumerate(panel.bounds()):
        np.testing.assert_array_equal(panel.stamps[begin:end], np.array(export.stamps, dtype="datetime64[us]"))
        assert first_column(panel, series) == VALUES
    assert {one.what for one in panel.findings if one.kind == "repaired"} == set(export.repairs)


@pytest.mark.parametrize("above", [(), (_BOX,)])
def test_lines_between_rows_count_when_a_cell_is_named(above: tuple[str, ...], tmp_path: Path) -> None:
    body = rows("| {t:%Y-%m-%d} | {v} |", DAYS)
    body[6] = body[6].replace(str(VALUES[6]), "broken")
    with pytest.raises(MessyData, match=f"line {9 + len(above)}, column 'sales' holds 'broken'"):
        load(write(tmp_path, lines(*above, "| day | sales |", _BOX, body)))


def test_names_of_merged_headers_are_joined_and_lines_keep_their_numbers(tmp_path: Path) -> None:
    body = rows("{t:%Y-%m-%d},{v},{n}", DAYS)
    panel = load(write(tmp_path, lines("date,North,", ",sales,returns", body)))
    assert panel.columns == ("North sales", "North returns")
    body[0] = body[0].replace(str(VALUES[0]), "broken")
    with pytest.raises(MessyData, match="line 3, column 'North sales' holds 'broken'"):
        load(write(tmp_path, lines("date,North,", ",sales,returns", body)))


def test_a_blank_in_a_name_or_a_number_makes_no_table_of_spaces(tmp_path: Path) -> None:
    panel = load(write(tmp_path, lines("Energy use", [f"{v:,}".replace(",", " ") for v in VALUES])))
    assert panel.columns == ("Energy use",)
    assert first_column(panel, 0) == VALUES
    panel = load(write(tmp_path, lines("date time,load", rows("{t:%Y-%m-%d %H:%M},{v}", HOURS))))
    assert panel.columns == ("load",)


def test_stamps_apart_from_the_end_of_a_step_are_still_refused(tmp_path: Path) -> None:
    body = [f"{t:%Y-%m-%d},{t + timedelta(days=7 * n):%Y-%m-%d},{n}" for n, t in enumerate(DAYS)]
    with pytest.raises(MessyData, match=r"column 'due'.*time_col"):
        load(write(tmp_path, lines("date,due,load", body)))


def test_runs_of_an_id_that_repeat_a_stamp_are_not_filled_down(tmp_path: Path) -> None:
    body = [f"{'Ulm' if n == 0 else 'Rom' if n == 30 else ''},{DAYS[n % 20]:%Y-%m-%d},{n}" for n in range(40)]
    with pytest.raises(MessyData, match="stands twice"):
        load(write(tmp_path, lines("Store,Date,Units", body)))


@pytest.mark.parametrize("name", ["H{}", "Hour {}", "{}:00"])
def test_times_of_day_as_columns_are_rows(name: str, tmp_path: Path) -> None:
    first = 0 if ":" in name else 1
    header = ",".join(["Date", *(name.format(hour + first) for hour in range(24)), "Total"])
    body = [
        f"{day:%Y-%m-%d}," + ",".join(str(24 * n + hour) for hour in range(24)) + ",9" for n, day in enumerate(DAYS[:5])
    ]
    path = write(tmp_path, lines(header, body))
    panel = load(path)
    assert panel.stamps[[0, -1]].astype(str).tolist() == ["2023-01-01T00:00:00.000000", "2023-01-05T23:00:00.000000"]
    assert first_column(panel, 0) == list(range(120))
    assert [one.what for one in panel.findings if one.kind == "repaired"] == ["times in columns"]
    assert load(path, target=[name.format(5)]).columns[0] == name.format(5)


def test_a_name_of_two_lines_is_one_line(tmp_path: Path) -> None:
    panel = load(write(tmp_path, lines('date,"Sales\n(EUR)"', rows("{t:%Y-%m-%d},{v}", DAYS))))
    assert panel.columns == ("Sales (EUR)",)


def test_currencies_that_differ_are_named(tmp_path: Path) -> None:
    body = [f"{t:%Y-%m-%d},{'$' if n % 2 else '€'}{n}.50" for n, t in enumerate(DAYS)]
    with pytest.raises(MessyData, match=r"line 2, column 'amount' holds '€0.50' beside .* \(€, \$\)"):
        load(write(tmp_path, lines("date,amount", body)))


def test_days_or_months_in_doubt_tell_no_step(tmp_path: Path) -> None:
    body = [f"{month:02d}/{month % 12 + 1:02d}/2020,{month}" for month in range(1, 12)]
    with pytest.raises(MessyData) as refusal:
        load(write(tmp_path, lines("date,amount", body, "03/04/2020,broken")))
    assert [problem.what for problem in refusal.value.problems] == ["stamp", "number", "duplicates"]


def test_a_script_of_a_database_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is an SQL script"):
        load(write(tmp_path, "INSERT INTO sales (day, amount) VALUES\n('2023-01-01', 5);\n"))


def test_a_header_that_libraries_divide_otherwise_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read"):
        load(write(tmp_path, '"time","price"1.5","6"\n' + lines(rows('"{t:%Y-%m-%d}","{v}"', DAYS))))


@pytest.mark.parametrize("text", ["-----\n", "+----+\n| a |\n+----+\n", "-----\n\n-----\n"])
def test_a_drawing_without_rows_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is empty|has a header but no rows"):
        load(write(tmp_path, text))


def test_a_remark_with_more_marks_than_the_header_is_no_row(tmp_path: Path) -> None:
    text = lines("date;load;", rows("{t:%Y-%m-%d};{v};", DAYS), ";;", "As of: today; no; warranty; of any; kind")
    panel = load(write(tmp_path, text))
    assert first_column(panel, 0) == VALUES
    assert [one.place for one in panel.findings if one.what == "remark"] == ["line 43"]  # type: ignore[attr-defined]


def test_a_file_of_which_no_row_has_a_stamp_is_refused_with_what_was_left_out() -> None:
    counts = np.arange(ROWS, dtype=np.uint64) + np.uint64(2**63)  # beyond the whole numbers of 64 bits
    with pytest.raises(InputError, match=r"no row with a stamp and values\. 40 rows, .* hold a remark"):
        load(pd.DataFrame({"ds": counts, "y": [True, False] * (ROWS // 2)}))
