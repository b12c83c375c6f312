"""Windows and scalers of benchmark sets are those of the field's own code, counted on the real files."""

from pathlib import Path

import numpy as np
import pytest
import torch

from rearview.bench.runs.forecasting import split
from rearview.data.datasets import catalogue
from rearview.data.windows import Source

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "protocol.npz", allow_pickle=False)
BORDERS = {"ETTh1": "ETTh1", "ETTm1": "ETTm1", "Weather": "custom52696"}
SCALERS = {"ETTh1": "ETTh1", "ETTm1": "ETTm1", "Weather": "weather"}
"""By data set: its name among the golden values."""


@pytest.mark.parametrize("name", BORDERS)
def test_windows_are_those_of_the_time_series_library(name, real_data):
    dataset = catalogue.get(name)
    panel = catalogue.load(dataset, real_data)
    cases = GOLDEN[f"output_borders/tslib/{BORDERS[name]}"].tolist()
    assert len(cases) == 12
    for lookback, horizon, place, rows, first, last, count, first_target, last_target in cases:
        parts = split(panel, dataset, lookback, horizon)
        found = (parts.train, parts.validation, parts.test)[place]
        border = (parts.borders.train, parts.borders.validation, parts.borders.test)[place]
        assert (len(panel.values), border) == (rows, (first, last))
        assert len(found) == count
        assert found.starts[0] == first_target
        assert found.starts[-1] + horizon == last_target


@pytest.mark.parametrize("name", SCALERS)
def test_scalers_are_those_of_the_time_series_library(name, real_data):
    dataset = catalogue.get(name)
    panel = catalogue.load(dataset, real_data)
    scaler = split(panel, dataset, 96, 96).scaler
    golden = f"output_scaler/{SCALERS[name]}"
    np.testing.assert_allclose(scaler.mean[0] + panel.centre[0], GOLDEN[f"{golden}/mean"], rtol=1e-6)
    np.testing.assert_allclose(scaler.std[0], GOLDEN[f"{golden}/scale"], rtol=1e-6)


@pytest.mark.parametrize("name", ["ETTh1", "ETTm1"])
def test_scaled_rows_are_those_of_the_time_series_library(name, real_data):
    dataset = catalogue.get(name)
    panel = catalogue.load(dataset, real_data)
    parts = split(panel, dataset, 96, 96)
    source = Source(panel, parts.scaler, parts.train + parts.test, 96, 96)
    ends = source.batch(torch.tensor([0, len(parts.train) - 1, len(source) - 1]))
    found = {
        "first_row_scaled": ends.past[0, :, 0],
        "last_train_row_scaled": ends.future[1, :, -1],
        "test_last_row_scaled": ends.future[2, :, -1],
    }
    for key, values in found.items():
        np.testing.assert_allclose(values, GOLDEN[f"output_scaler/{name}/{key}"], rtol=1e-5, atol=1e-6)
