"""Where data comes from: Excel, JSON lines, Arrow, standard input, several files, folders and arrays."""

import gzip
import io
import json
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from workbooks import workbook

from rearview.core.errors import InputError
from rearview.data.io import files
from rearview.data.io.files import column_names
from rearview.data.panel import Panel
from rearview.data.panel_reader import load

DAYS = [date(2020, 1, 1) + timedelta(days=day) for day in range(20)]
FRAME = pd.DataFrame({"date": [str(day) for day in DAYS], "v": np.arange(20) + 0.5, "w": np.arange(20) * 2.0})


def same_as_frame(panel: Panel) -> bool:
    stamps = np.array(DAYS, dtype="datetime64[us]")
    cells = panel.original(slice(None), 0)
    return bool(np.array_equal(panel.stamps, stamps) and np.array_equal(cells, FRAME[["v", "w"]].to_numpy()))


class TestExcel:
    pytestmark = pytest.mark.usefixtures("library")

    def test_a_sheet_is_read_by_name_and_the_first_without(self, tmp_path: Path) -> None:
        pytest.importorskip("python_calamine")
        rows = [["date", "v", "w"], *([day, v, w] for day, v, w in zip(DAYS, FRAME["v"], FRAME["w"], strict=True))]
        path = tmp_path / "book.xlsx"
        path.write_bytes(workbook(Notes=[], First=rows, Other=[["date", "z"], *([day, 1] for day in DAYS)]))
        panel = load(path)
        assert same_as_frame(panel)
        assert "The sheet is 'First'" in next(one.message for one in panel.findings if one.what == "sheet")
        assert load(path, sheet="Other").columns == ("z",)
        assert column_names(path) == ("date", "v", "w")
        with pytest.raises(InputError, match=r"no sheet 'Othr', which sheet .*Did you mean 'Other'"):
            load(path, sheet="Othr")

    def test_titles_units_totals_and_text_in_cells_are_met_as_in_other_files(self, tmp_path: Path) -> None:
        pytest.importorskip("python_calamine")
        cells: list[list[Any]] = [[day, f"${1000 + n:,}"] for n, day in enumerate(DAYS)]
        top = [["Sales of 2020"], [], [None, "day", "sold"], [None, None, "USD"]]
        path = tmp_path / "book.xlsx"
        path.write_bytes(workbook(Sheet=[*top, *([None, *row] for row in cells), [None, "Total", 1]]))
        panel = load(path)
        assert panel.original(slice(None), 0)[:, 0].tolist() == [1000.0 + n for n in range(20)]
        assert {one.what for one in panel.findings} >= {"units", "total", "notation"}
        cells[3][1] = "broken"
        path.write_bytes(workbook(Sheet=[*top, *([None, *row] for row in cells)]))
        with pytest.raises(InputError, match=r"row 8, column 'sold' holds 'broken'"):
            load(path)

    def test_a_workbook_without_its_reader_is_refused_with_what_to_install(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "python_calamine", None)
        path = tmp_path / "book.xlsx"
        path.write_bytes(workbook(Sheet=[["date", "v"]]))
        with pytest.raises(InputError, match=r"install python-calamine \(pip install .*\[excel\]'\)"):
            load(path)

    def test_an_archive_of_something_else_is_no_workbook(self, tmp_path: Path) -> None:
        pytest.importorskip("python_calamine")
        path = tmp_path / "book.xlsx"
        path.write_bytes(workbook(Sheet=[["date", "v"]])[:200])
        with pytest.raises(InputError, match="no Excel workbook that can be read"):
            load(path)
        FRAME.to_csv(path, index=False)
        with pytest.raises(InputError, match="is no Excel workbook, so it has no sheet 'a'"):
            load(path, sheet="a")


@pytest.mark.usefixtures("library")
class TestRecords:
    @pytest.mark.parametrize("packed", [False, True])
    @pytest.mark.parametrize("array", [False, True])
    def test_records_are_rows(self, packed: bool, array: bool, tmp_path: Path) -> None:
        records = FRAME.to_dict("records")
        text = json.dumps(records) if array else "\n".join(map(json.dumps, records)) + "\n\n"
        path = tmp_path / "air.jsonl"
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
        assert same_as_frame(load(path))
        assert column_names(path) == ("date", "v", "w")

    def test_a_line_that_is_no_record_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "air.jsonl"
        path.write_text('{"date": "2020-01-01", "v": 1}\n{"date": "2020-\n{"date": "2020-01-03", "v": 3}\n')
        with pytest.raises(InputError, match=r"air.jsonl, line 2 is no JSON record"):
            load(path)


@pytest.mark.usefixtures("library")
def test_arrow_files_are_read_by_their_content(tmp_path: Path) -> None:
    path = tmp_path / "air.feather"
    frame = FRAME.assign(date=pd.to_datetime(FRAME["date"]))
    frame.to_feather(path)
    assert same_as_frame(load(path))
    assert column_names(path) == ("date", "v", "w")
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(InputError, match="damaged arrow file"):
        load(path)


def test_standard_input_is_read_once_and_called_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def give(content: bytes) -> None:
        files._spool_stdin.cache_clear()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    give(FRAME.to_csv(index=False).encode())
    assert column_names("-") == ("date", "v", "w")
    panel = load("-")
    assert same_as_frame(panel)
    assert panel.layout.source == "standard input"
    give(b"date,v\n2020-01-01,1\n2020-01-02,x\n2020-01-03,3\n")
    with pytest.raises(InputError, match=r"^standard input, line 3, column 'v' holds 'x'"):
        load("-")
    give(b"date,v\n")
    with pytest.raises(InputError, match=r"^standard input has a header but no rows"):
        load("-")
    files._spool_stdin.cache_clear()


@pytest.mark.usefixtures("library")
class TestSeveralFiles:
    def write(self, folder: Path, **columns: list[str]) -> list[Path]:
        paths = []
        for name, cells in columns.items():
            paths.append(folder / f"{name}.csv")
            paths[-1].write_text("\n".join(cells) + "\n")
        return paths

    def rows(self, offset: int = 0) -> list[str]:
        return [f"{day},{offset + n}" for n, day in enumerate(DAYS)]

    def test_each_file_of_a_folder_or_list_is_a_series(self, tmp_path: Path) -> None:
        paths = self.write(tmp_path, a=["date,v", *self.rows()], b=["date,v", *self.rows(100)])
        (tmp_path / "readme.md").write_text("no data")
        for source in (tmp_path, str(tmp_path), paths, tuple(map(str, paths))):
            panel = load(source)
            assert (panel.ids, panel.columns, panel.layout.form) == (("a", "b"), ("v",), "long")
            assert panel.original(slice(20, 22), 1).ravel().tolist() == [100.0, 101.0]

    def test_files_that_name_their_values_differently_are_series_of_values(self, tmp_path: Path) -> None:
        self.write(tmp_path, a=["date,north", *self.rows()], b=["date,south", *self.rows()])
        assert (load(tmp_path).ids, load(tmp_path).columns) == (("a", "b"), ("value",))

    def test_long_files_keep_their_ids_and_named_ids_join_files(self, tmp_path: Path) -> None:
        long = ["store,date,v", *(f"{store},{row}" for store in "xy" for row in self.rows())]
        self.write(tmp_path, a=long, b=["store,date,v", *(f"z,{row}" for row in self.rows())])
        assert load(tmp_path, id_col="store").ids == ("x", "y", "z")
        assert load(tmp_path, id_col=["file", "store"]).ids == ("a/x", "a/y", "b/z")

    def test_repairs_and_problems_name_their_file(self, tmp_path: Path) -> None:
        paths = self.write(
            tmp_path,
            a=["date,v", ",kW", *self.rows(), "Total,9"],
            b=["date,v", ",kW", *self.rows(), "Source: x"],
        )
        panel = load(paths)
        found = {one.what: one for one in panel.findings if one.kind == "repaired"}
        assert {what: one.count for what, one in found.items()} == {"units": 2, "total": 1, "remark": 1}
        assert len(panel.values) == 40
        paths[1].write_text(paths[1].read_text().replace("2020-01-05,4", "2020-01-05,oops"))
        with pytest.raises(InputError, match=r"2 files, b.csv, line 7, column 'v' holds 'oops'"):
            load(paths)

    def test_files_of_different_columns_and_empty_folders_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="folder without a file of data"):
            load(tmp_path)
        self.write(tmp_path, a=["date,v,w", *(f"{row},1" for row in self.rows())], b=["date,z", *self.rows()])
        with pytest.raises(InputError, match=r"different columns: .*a.csv has 'date', 'v' and 'w', but .*b.csv has"):
            load(tmp_path)


def test_arrays_go_by_row_numbers() -> None:
    panel = load(np.arange(20.0))
    assert (panel.columns, panel.stamps.tolist(), str(panel.step)) == (("y",), list(range(1, 21)), "1")
    cells = np.arange(40.0).reshape(20, 2)
    cells[3, 1] = np.nan
    panel = load(cells)
    assert panel.columns == ("y1", "y2")
    np.testing.assert_array_equal(panel.original(slice(None), 0), cells)
    with pytest.raises(InputError, match=r"array of shape \(2, 2, 2\)"):
        load(np.zeros((2, 2, 2)))


@pytest.mark.usefixtures("library")
def test_numbers_alone_need_no_name(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_text("\n".join(str(number) for number in range(112, 140)))
    panel = load(path)
    assert (panel.columns, panel.original(slice(None), 0)[:2, 0].tolist()) == (("value",), [112.0, 113.0])
    path.write_text("\n".join([*(str(number) for number in range(112, 140)), "x"]))
    with pytest.raises(InputError, match="line 29, column 'value' holds 'x'"):
        load(path)
