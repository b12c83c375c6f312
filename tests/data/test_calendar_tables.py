"""Tables that lie on a calendar: a row for each year and a column for each month, or the other way round."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rearview.data.panel_reader import load

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
QUARTERS = ("Q1", "Q2", "Q3", "Q4")


def of_years(first: int, years: int, columns: tuple[str, ...]) -> pd.DataFrame:
    """A row for each year, its values counting on."""
    cells = np.arange(years * len(columns)).reshape(years, -1)
    return pd.DataFrame({"Year": np.arange(first, first + years)} | dict(zip(columns, cells.T, strict=True)))


@pytest.mark.parametrize(
    ("columns", "step"),
    [(MONTHS, "MS"), (tuple(map(str, range(1, 13))), "MS"), (("januar", *MONTHS[1:]), "MS"), (QUARTERS, "QS")],
)
def test_a_row_for_each_year_is_read_cell_by_cell(tmp_path: Path, columns: tuple[str, ...], step: str) -> None:
    table = of_years(2019, 3, columns)
    table.to_csv(tmp_path / "table.csv", index=False)
    for source in (tmp_path / "table.csv", table, table.set_index("Year")):
        panel = load(source)
        assert (str(panel.step), panel.columns) == (step, ("value",))
        np.testing.assert_array_equal(panel.original(slice(None), 0).ravel(), np.arange(3 * len(columns)))
        assert str(panel.stamps[0])[:10] == "2019-01-01"
        assert f"The columns are stamps, {columns[0]!r} first: each is read as a row." in panel.findings[0].message


def test_the_latest_year_may_come_first_and_be_unfinished() -> None:
    table = of_years(2019, 3, MONTHS).astype(float).iloc[::-1].assign(Annual=1.0)
    table.loc[table["Year"] == 2021, ["Nov", "Dec"]] = np.nan
    panel = load(table)
    assert panel.lengths.tolist() == [34]
    assert str(panel.stamps[-1])[:7] == "2021-10"
    assert panel.original(slice(33, 34), 0).item() == 33
    assert "'Annual' is left out" in panel.findings[0].message


def test_each_series_has_its_years() -> None:
    table = pd.concat(of_years(2019, 3, QUARTERS).assign(Region=name) for name in ("north", "south"))
    panel = load(table)
    assert (panel.ids, panel.lengths.tolist()) == (("north", "south"), [12, 12])


def test_what_is_no_whole_year_stays_as_it_is() -> None:
    table = of_years(2019, 5, MONTHS)
    assert load(table.drop(columns="Jan")).columns == MONTHS[1:]
    assert load(table.assign(gdp=1.0)).columns == (*MONTHS, "gdp")
    assert load(table, target=["Jan"]).target_names == ("Jan",)


@pytest.mark.parametrize("years", [2, 3, 5])
def test_a_row_for_each_month_is_read_with_few_years(years: int) -> None:
    table = of_years(2019, years, MONTHS).set_index("Year").T.rename_axis("Month").reset_index()
    panel = load(table.rename(columns=str))
    assert str(panel.step) == "MS"
    np.testing.assert_array_equal(panel.original(slice(None), 0).ravel(), np.arange(12 * years))
