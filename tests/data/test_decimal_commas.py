"""Decimal commas: read where they can be nothing else, told, and refused with advice where they can."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rearview.core.errors import InputError
from rearview.data.panel_reader import load

pytestmark = pytest.mark.usefixtures("library")


def written(folder: Path, content: bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_a_column_of_decimal_commas_beside_one_of_points_is_read_and_reported(separator: str, tmp_path: Path) -> None:
    lines = ["date,a,b", *(f"2024-01-0{day},{day}0;25,{day}.5" for day in range(1, 8)), "2024-01-08,,8.5"]
    content = "\n".join(lines).replace(",", separator).replace("0;25", "0,25")
    panel = load(written(tmp_path, content.encode()))
    plain = "\n".join(lines).replace("0;25", "0.25")
    points = load(written(tmp_path, plain.encode(), "plain.csv"))
    np.testing.assert_array_equal(panel.original(slice(None), 0), points.original(slice(None), 0))
    assert [found.message for found in panel.findings if found.what == "decimal comma"] == [
        "Column 'a' has numbers with a decimal comma: '10,25' is read as 10.25. A point in other columns is taken for "
        "a decimal point."
    ]


def test_decimal_commas_after_hundreds_of_whole_numbers_are_read(tmp_path: Path) -> None:
    cells = [*map(str, range(300)), *(f"{number},5" for number in range(300, 400))]
    hours = pd.date_range("2024-01-01", periods=400, freq="h")
    lines = [f"{hour:%Y-%m-%d %H:%M};{cell}" for hour, cell in zip(hours, cells, strict=True)]
    panel = load(written(tmp_path, "\n".join(["date;a", *lines]).encode()))
    assert panel.original(slice(299, 301), 0).ravel().tolist() == [299.0, 300.5]
    everywhere = load(written(tmp_path, b"date;a\n2024-01-01;1,5\n2024-01-02;2,5\n2024-01-03;3\n", "all.csv"))
    assert ("inferred", "decimal comma") in {(found.kind, found.what) for found in everywhere.findings}


@pytest.mark.parametrize(
    ("header", "cell", "words"),
    [
        (
            "date,a,b",
            '"50,13"',
            r"line 2, column 'a' holds '50,13', which may.*decimal comma.*\(3 of 3 cells\).*--drop",
        ),
        ("date;a;b", "1.05,13", r"line 2, column 'a' holds '1.05,13', which may.*decimal point and nothing between"),
        ("date;a;b", "7.5", r"line 3, column 'a' holds '50,13', which may.*\(2 of 3 cells\).*1234\.5\.$"),
    ],
)
def test_numbers_in_a_doubtful_notation_are_refused_with_advice(
    header: str, cell: str, words: str, tmp_path: Path
) -> None:
    separator = header[4]
    others = '"50,13"' if separator == "," else "50,13"
    cells = [cell, others, others] if "7.5" in cell else [cell] * 3
    lines = [f"2024-01-0{day}{separator}{one}{separator}1.5" for day, one in enumerate(cells, start=1)]
    path = written(tmp_path, "\n".join([header, *lines]).encode())
    with pytest.raises(InputError, match=words):
        load(path)
    if len(set(cells)) == 1:
        assert load(path, target="b").columns == ("b",)


@pytest.mark.parametrize(("cells", "other"), [("1.050,13 -2.000,5 7", "1.5 2.5 3.5"), ("1,050.13 -2,000.5 7", "1 2 3")])
def test_marks_between_thousands_are_read_where_decimals_show_what_they_are(
    cells: str, other: str, tmp_path: Path
) -> None:
    pairs = enumerate(zip(cells.split(), other.split(), strict=True), start=1)
    lines = ["date;a;b", *(f"2024-01-0{day};{cell};{beside}" for day, (cell, beside) in pairs)]
    panel = load(written(tmp_path, "\n".join(lines).encode()))
    assert panel.original(slice(None), 0)[:, 0].tolist() == pytest.approx([1050.13, -2000.5, 7.0])
    assert panel.original(slice(None), 0)[:, 1].tolist() == [float(cell) for cell in other.split()]
    assert [found.message for found in panel.findings if found.kind == "repaired"] == [
        f"Column 'a' has numbers with marks between thousands: {cells.split()[0]!r} is read as 1050.13."
    ]


def test_a_point_between_thousands_is_one_in_all_columns_of_a_file_that_shows_it(tmp_path: Path) -> None:
    lines = ["Datum;Umsatz;Besucher;Grad", "01.01.2024;1.050,13;1.234;5,5", "02.01.2024;980,00;999;-6"]
    panel = load(written(tmp_path, "\n".join([*lines, "13.01.2024;1.000,00;2.000.000;7"]).encode()), freq="D")
    expected = [[1050.13, 1234.0, 5.5], [980.0, 999.0, -6.0], [1000.0, 2_000_000.0, 7.0]]
    np.testing.assert_allclose(panel.original(slice(None), 0)[[0, 1, -1]], expected, rtol=1e-6)
    assert "Columns 'Umsatz' and 'Besucher' have numbers with marks" in " ".join(f.message for f in panel.findings)


def test_a_point_after_hundreds_of_whole_numbers_is_not_taken_for_a_decimal_point(tmp_path: Path) -> None:
    days = pd.date_range("2024-01-01", periods=400, freq="D")
    lines = [f"{day:%Y-%m-%d};{number},5;{number if number < 399 else '1.234'}" for number, day in enumerate(days)]
    panel = load(written(tmp_path, "\n".join(["date;a;b", *lines]).encode()))
    assert panel.original(slice(-1, None), 0).tolist() == [[399.5, 1234.0]]


@pytest.mark.parametrize("before", [3, 300])
def test_a_point_after_a_nought_is_never_one_between_thousands(before: int, tmp_path: Path) -> None:
    days = pd.date_range("2024-01-01", periods=before + 1, freq="D")
    lines = [f"{day:%Y-%m-%d};1.234,5;{'7' if number < before else '0.125'}" for number, day in enumerate(days)]
    panel = load(written(tmp_path, "\n".join(["date;a;b", *lines]).encode()))
    assert panel.original(slice(-1, None), 0).tolist() == [[1234.5, 0.125]]
    mixed = [f"{day:%Y-%m-%d};{'1,500' if number < before else '0.125'}" for number, day in enumerate(days)]
    with pytest.raises(InputError, match="line 2, column 'a' holds '1,500', which may be a number with a decimal"):
        load(written(tmp_path, "\n".join(["date;a", *mixed]).encode(), "mixed.csv"))


@pytest.mark.parametrize("before", [0, 300])
def test_a_comma_between_thousands_is_one_in_all_columns_of_a_file_that_shows_it(before: int, tmp_path: Path) -> None:
    days = pd.date_range("2024-01-01", periods=before + 3, freq="D")
    cells = [*["999.5"] * before, "1,234.50", "-1,000,000.25", ""]
    lines = [f"{day:%Y-%m-%d};{cell};{1 + n},000;7" for n, (day, cell) in enumerate(zip(days, cells, strict=True))]
    panel = load(written(tmp_path, "\n".join(["date;a;b;c", *lines]).encode()), sentinels=None)
    expected = [[1234.5, 1000.0 * (before + 1), 7.0], [-1_000_000.25, 1000.0 * (before + 2), 7.0]]
    np.testing.assert_allclose(panel.original(slice(before, before + 2), 0), expected, rtol=1e-6)
    assert [found.message for found in panel.findings if found.what in ("decimal comma", "thousands")] == [
        "Columns 'a' and 'b' have numbers with marks between thousands: '1,234.50' is read as 1234.50."
    ]
    lines[0] = lines[0].replace("1,000", "10,25")
    with pytest.raises(
        InputError, match="line 2, column 'b' holds '10,25', which may be a number with a decimal comma"
    ):
        load(written(tmp_path, "\n".join(["date;a;b;c", *lines]).encode(), "doubtful.csv"))


def test_commas_are_not_taken_for_marks_between_thousands_after_decimals_that_have_them(tmp_path: Path) -> None:
    days = pd.date_range("2024-01-01", periods=300, freq="D")
    lines = [f"{day:%Y-%m-%d};{'1,500' if number < 299 else '1,234.5'};2,5" for number, day in enumerate(days)]
    with pytest.raises(InputError, match="column 'a' holds '1,500', which may be a number with a decimal comma"):
        load(written(tmp_path, "\n".join(["date;a;b", *lines]).encode()))


def test_a_dash_is_a_missing_value(tmp_path: Path) -> None:
    panel = load(written(tmp_path, b"date,a\n2024-01-01,1\n2024-01-02,-\n2024-01-03,-3\n"))
    np.testing.assert_array_equal(panel.original(slice(None), 0).ravel(), [1.0, np.nan, -3.0])
