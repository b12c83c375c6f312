"""Tables with columns called unique_id and ds but none called y: long where nothing is forecast, else refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rearview.core.errors import InputError
from rearview.data.panel_reader import load


def entities(ids: list, *, overlap: bool) -> pd.DataFrame:
    """Two entities of two channels, long but without y; their stamps overlap, or follow one another."""
    stamps = pd.date_range("2024-01-01", periods=18, freq="h")
    return pd.DataFrame(
        {
            "unique_id": np.repeat(ids, 9),
            "ds": np.tile(stamps[:9], 2) if overlap else stamps,
            "a": np.arange(18.0),
            "b": np.arange(18.0) ** 2,
        }
    )


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("ids", [["x", "y"], [1, 2]])
@pytest.mark.parametrize("from_file", [True, False])
def test_a_long_table_needs_no_y_where_nothing_is_forecast(
    ids: list, overlap: bool, from_file: bool, tmp_path: Path
) -> None:
    frame = entities(ids, overlap=overlap)
    path = tmp_path / "machines.csv"
    frame.to_csv(path, index=False)
    panel = load(path if from_file else frame, target=())
    assert (panel.ids, panel.columns, panel.lengths.tolist()) == (tuple(map(str, ids)), ("a", "b"), [9, 9])
    assert (panel.layout.form, panel.layout.id_col) == ("long", "unique_id")
    told = [finding.message for finding in panel.findings if finding.what == "layout"]
    assert told == ["Long layout: 2 entities told apart by 'unique_id', one row for each and stamp."]


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("ids", [["x", "y"], [1, 2]])
@pytest.mark.parametrize("asked", [{}, {"target": "a"}, {"target_col": "a"}])
def test_several_ids_without_y_are_not_forecast_as_one_series(ids: list, overlap: bool, asked: dict) -> None:
    frame = entities(ids, overlap=overlap)
    with pytest.raises(InputError, match=r"'unique_id', with 2 different ids.*--id-col unique_id\).*--target-col"):
        load(frame, **asked)
    assert load(frame, id_col="unique_id", target_col="a").series == 2


def test_a_column_of_ids_that_was_given_another_role_or_holds_one_id_is_no_obstacle() -> None:
    frame = entities([1, 2], overlap=False)
    assert load(frame, drop="unique_id").columns == ("a", "b")
    assert load(frame, drop="unique_id", target=()).layout.form == "wide"
    assert load(frame, target=["a", "unique_id"]).target_names == ("a", "unique_id")
    assert load(entities(["x", "y"], overlap=False)[9:]).columns == ("a", "b")


@pytest.mark.parametrize("target", [(), None])
def test_ids_that_number_the_rows_are_left_out(target) -> None:
    frame = entities([1, 2], overlap=False).assign(unique_id=np.arange(18))
    panel = load(frame, target=target)
    assert (panel.layout.form, set(panel.columns)) == ("wide", {"a", "b"})
    assert "row ids" in {finding.what for finding in panel.findings}


def test_a_column_that_a_model_was_trained_on_is_no_id() -> None:
    panel = load(entities([1, 2], overlap=False), target=(), trained=["unique_id", "a", "b"])
    assert (panel.layout.form, set(panel.columns)) == ("wide", {"unique_id", "a", "b"})
