"""Text becomes inputs: known categories as columns of 0 and 1, what stays the same as a description of a series."""

import numpy as np
import pandas as pd
import pytest

from rearview.core.errors import InputError
from rearview.data.panel import Panel
from rearview.data.panel_reader import load


def stores(rows: int = 12) -> pd.DataFrame:
    days = pd.date_range("2024-01-01", periods=rows)
    kinds = ("mall", "street", "mall")
    parts = [
        pd.DataFrame(
            {
                "unique_id": f"s{n}",
                "ds": days,
                "y": np.arange(rows) + 10.0 * n,
                "promo": ["none", "flyer", "tv", "none"] * (rows // 4),
                "temperature": np.arange(rows) * 0.5,
                "kind": kinds[n],
                "size": [100, 200, 150][n],
                "address": f"{n} High Street",
            }
        )
        for n in range(3)
    ]
    return pd.concat(parts, ignore_index=True)


def said(panel: Panel) -> str:
    return " ".join(finding.message for finding in panel.findings)


def test_known_text_becomes_columns_of_0_and_1() -> None:
    panel = load(stores(), known="promo")
    assert panel.known_names == ("promo=flyer", "promo=tv")
    assert panel.original(slice(0, 4), 0)[:, -2:].tolist() == [[0, 0], [1, 0], [0, 1], [0, 0]]
    assert panel.layout.levels[0] == ("promo", ("", "flyer", "tv"))
    assert "Column 'promo' has the categories 'flyer' and 'tv', each an input of 0 and 1" in said(panel)


def test_without_empty_cells_the_most_frequent_text_is_compared_with() -> None:
    frame = pd.DataFrame({"date": pd.date_range("2024-01-01", periods=6), "y": np.arange(6.0), "open": list("yynyyn")})
    panel = load(frame, known="open")
    assert (panel.target_names, panel.known_names) == (("y",), ("open=n",))
    assert "'y' is what they are compared with" in said(panel)
    again = load(frame[:2], known="open", freq="D", levels=panel.layout.levels)
    assert again.known_names == ("open=n",)
    assert again.original(slice(0, 2), 0)[:, -1].tolist() == [0, 0]


def test_a_category_that_training_did_not_have_is_refused_with_its_place() -> None:
    frame = stores()
    levels = load(frame, known="promo").layout.levels
    frame.loc[3, "promo"] = "flier"
    with pytest.raises(InputError, match=r"row 3, column 'promo': 'flier' did not occur .* Did you mean 'flyer'\?"):
        load(frame, known="promo", levels=levels)


def test_too_many_categories_are_refused() -> None:
    rows = 60
    frame = pd.DataFrame(
        {"date": pd.date_range("2024-01-01", periods=rows), "y": 1.0, "note": [f"n{n}" for n in range(rows)]}
    )
    with pytest.raises(InputError, match="has 60 different texts, too many for categories"):
        load(frame, known="note")


def test_what_never_changes_within_a_series_describes_it() -> None:
    panel = load(stores(), known="promo")
    assert panel.layout.static == ("kind", "size")
    assert panel.input_names == ("temperature",)
    assert panel.statics is not None
    assert panel.statics.names == ("kind=street", "size")
    assert panel.statics.values.tolist() == [[0, 100], [1, 200], [0, 150]]
    assert "Columns 'kind' and 'size' describe the series: one value in each." in said(panel)
    # A text of its own for every series tells no kinds apart, and is left out as other text is.
    assert "Column 'address' has text, not numbers, and was left out." in said(panel)
    assert panel.only(["s1"]).statics.values.tolist() == [[1, 200]]


def test_named_columns_must_not_change_within_a_series() -> None:
    assert load(stores(), static="size", drop=["promo", "kind"]).layout.static == ("size",)
    with pytest.raises(InputError, match=r"column 'temperature', which static .* changes within series 's0'"):
        load(stores(), static="temperature")
    with pytest.raises(InputError, match="no series of a long table to describe"):
        load(stores(), static="kind", together=True)


def test_columns_of_a_trained_model_stay_inputs() -> None:
    panel = load(stores(), drop=["promo", "kind", "address"], trained=("y", "temperature", "size"))
    assert panel.input_names == ("temperature", "size")
    assert panel.statics is None
