"""A file of one's own stands beside the catalogue: called by its path, read as `rearview forecast` reads it."""

import os

import numpy as np
import pytest

from rearview.core.errors import InputError, SettingsError
from rearview.data.datasets import catalogue
from rearview.data.datasets.borders import Borders


def own_file(path, rows=200, level=0):
    hours = np.datetime64("2024-01-01T00") + np.arange(rows)
    path.write_text("date,a,b\n" + "\n".join(f"{hour}:00,{n + level},{n * n}" for n, hour in enumerate(hours)) + "\n")
    return path


def test_a_file_of_ones_own_goes_by_its_path(tmp_path):
    path = own_file(tmp_path / "mine.csv")
    dataset = catalogue.get(str(path))
    assert dataset.name == f"mine.csv@{catalogue.checksum(path)[:8]}"
    assert (dataset.rows, dataset.channels, str(dataset.step), dataset.calendar) == (200, 2, "h", "h")
    assert catalogue.find(str(path), tmp_path / "elsewhere") == path
    assert catalogue.borders(dataset, lookback=10) == Borders((0, 140), (130, 160), (150, 200))
    np.testing.assert_allclose(catalogue.load(str(path)).original(slice(None), 0)[:, 1], np.arange(200.0) ** 2)
    assert str(path) not in catalogue.names()


def test_a_file_that_was_read_goes_by_the_name_of_its_rows(tmp_path):
    path = own_file(tmp_path / "mine.csv", level=7)
    name = f"mine.csv@{catalogue.checksum(path)[:8]}"
    with pytest.raises(SettingsError, match="in the catalogue, and no such file"):
        catalogue.get(name)
    assert catalogue.get(str(path)) is catalogue.get(name)
    assert name not in catalogue.names()


def test_a_file_that_has_changed_is_another_data_set(tmp_path):
    path = own_file(tmp_path / "mine.csv")
    before = catalogue.get(str(path)).name
    os.utime(own_file(path, level=1), ns=(0, 0))
    assert catalogue.get(str(path)).name != before


def test_a_file_of_several_series_is_refused(tmp_path):
    path = tmp_path / "long.csv"
    lines = [f"{name},2024-01-{day:02},{day}" for name in "ab" for day in range(1, 29)]
    path.write_text("unique_id,ds,y\n" + "\n".join(lines) + "\n")
    with pytest.raises(InputError, match=r"long.csv holds 2 series, but a benchmark runs on one.*bring a wide file"):
        catalogue.get(str(path))


def test_a_file_that_is_not_there_is_no_data_set(tmp_path):
    with pytest.raises(SettingsError, match="in the catalogue, and no such file"):
        catalogue.get(str(tmp_path / "mine.csv"))


def test_columns_of_a_file_of_ones_own_without_a_value_are_left_out_and_named(tmp_path):
    path = own_file(tmp_path / "mine.csv")
    header, *lines = path.read_text().splitlines()
    path.write_text("\n".join([f"{header},nothing", *(f"{line}," for line in lines)]) + "\n")
    assert catalogue.get(str(path)).channels == 2
    panel = catalogue.load(str(path))
    assert (panel.columns, panel.targets, panel.values.shape) == (("a", "b"), 2, (200, 2))
    told = [finding.message for finding in panel.findings if finding.kind == "warning"]
    assert told == ["Column 'nothing' has no value in any row: it is left out and has no forecast."]


def test_a_file_of_ones_own_without_any_value_is_refused(tmp_path):
    path = tmp_path / "void.csv"
    path.write_text("date,a,b\n" + "\n".join(f"2024-01-{day:02},," for day in range(1, 29)) + "\n")
    with pytest.raises(InputError, match=r"^void.csv has no value to forecast in any row; bring rows with values\.$"):
        catalogue.get(str(path))
