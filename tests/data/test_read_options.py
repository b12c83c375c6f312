"""Reading options: one form for every way of writing them, JSON and back, and one open table for several panels."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rearview.core.errors import SettingsError
from rearview.data import ReadOptions, Step, load
from rearview.data.io import csv, files
from rearview.data.io.files import column_names, open_table
from rearview.data.panel_reader import open_source, read_panel
from rearview.data.read_options import ReadKeywords

LONG = "store,day,sold\n" + "".join(f"{store},2024-01-0{day},{day}\n" for store in ("007", "7") for day in range(1, 6))


def test_options_take_one_form_however_they_are_written() -> None:
    written = ReadOptions.of(id_col="store", target=["a", "b"], freq="15min", sentinels=[-1.0], known=None)
    assert written == ReadOptions(id_col=("store",), target=("a", "b"), freq=Step(15, "min"), sentinels=(-1.0,))
    assert ReadOptions.of(sentinels=None).sentinels == ()
    assert ReadOptions.of(target=()).target == ()
    assert ReadOptions.of(target=None, sentinels="auto") == ReadOptions()


def test_options_go_through_json_and_back() -> None:
    options = ReadOptions.of(id_col=("a", "b"), freq="D", sentinels=None, together=True, target="y")
    stored = options.to_json()
    assert stored == {"id_col": ["a", "b"], "target": ["y"], "together": True, "freq": "D", "sentinels": []}
    assert ReadOptions.of(**stored) == options
    assert ReadOptions().to_json() == {}


def test_every_option_has_a_keyword_and_a_meaning() -> None:
    names = [option.name for option in fields(ReadOptions)]
    assert set(names) == set(ReadKeywords.__annotations__) == set(ReadOptions.meanings())
    assert all(meaning.endswith(".") for meaning in ReadOptions.meanings().values())


def test_unknown_options_and_pairs_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"no option 'frequency'\. Did you mean 'freq'"):
        load(pd.DataFrame(), frequency="D")  # type: ignore[call-arg]
    with pytest.raises(SettingsError, match="choose one of the two"):
        ReadOptions(together=True, row_by_row=True)
    with pytest.raises(SettingsError, match=r"fill has no method 'lats'\. Did you mean 'last'"):
        ReadOptions.of(fill="lats")  # type: ignore[arg-type]


def test_an_open_table_is_parsed_and_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "sales.csv"
    path.write_text(LONG)
    options = ReadOptions.of(id_col="store", target_col="sold")
    expected = read_panel(path, options)
    table = open_source(path, options)

    def refuse(*_: object) -> None:
        raise AssertionError("the file was read again")

    for module, name in ((files, "sniff"), (csv, "_read_with_polars"), (csv, "_read_with_pandas")):
        monkeypatch.setattr(module, name, refuse)
    assert column_names(table) == ("store", "day", "sold")
    for _ in range(2):
        panel = read_panel(table, options)
        assert (panel.ids, panel.layout, panel.findings) == (expected.ids, expected.layout, expected.findings)
        np.testing.assert_array_equal(panel.values, expected.values)


def test_a_table_is_opened_again_where_its_ids_were_read_as_numbers(tmp_path: Path) -> None:
    path = tmp_path / "sales.csv"
    path.write_text(LONG)
    table = open_table(path)
    assert load(table, id_col="store", target_col="sold").ids == ("007", "7")
    frame = pd.read_csv(path, dtype={"store": str}).set_index("store")
    assert load(open_table(frame), id_col="store", target_col="sold").ids == ("007", "7")
