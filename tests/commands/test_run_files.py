"""CSV files that a spreadsheet opens without running anything."""

import csv
import io

import numpy as np
import pytest

from rearview.commands.run_files import csv_content

PAYLOADS = ["=1+1", "=cmd|' /C calc'!A0", "+SUM(A1)", "-2+3", "@SUM(A1)", "\t=1", "-id"]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_name_that_looks_like_a_formula_is_quoted(payload: str) -> None:
    columns = {"unique_id": [payload, "north", "-5", "+1.5e3"], payload: np.array([-1.5, 2.0, np.nan, -4.0])}
    header, *rows = csv.reader(io.StringIO(csv_content(columns).decode()))
    assert header == ["unique_id", f"'{payload}"]
    assert [row[0] for row in rows] == [f"'{payload}", "north", "-5", "+1.5e3"]
    assert [row[1] for row in rows] == ["-1.5", "2.0", "", "-4.0"]


def test_columns_without_formulas_stay_as_they_are() -> None:
    assert csv_content({"ds": np.array(["2024-01-01"], dtype="datetime64[D]"), "y": [1.0]}).endswith(b",1.0\n")
