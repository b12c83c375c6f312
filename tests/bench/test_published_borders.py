"""Windows and scaler of ETTh1 are those of the field's own code, counted on the real file."""

from pathlib import Path

import numpy as np

from rearview.bench.parts import cut
from rearview.data import catalogue

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "protocol.npz", allow_pickle=False)


def test_windows_of_etth1_are_those_of_the_time_series_library(real_data):
    dataset = catalogue.get("ETTh1")
    panel = catalogue.load(dataset, real_data)
    cases = GOLDEN["output_borders/tslib/ETTh1"].tolist()
    assert len(cases) == 12
    for lookback, horizon, split, rows, first, last, count, first_target, last_target in cases:
        parts = cut(panel, dataset, lookback, horizon)
        found = (parts.train, parts.validation, parts.test)[split]
        border = (parts.borders.train, parts.borders.validation, parts.borders.test)[split]
        assert (len(panel.values), border) == (rows, (first, last))
        assert len(found) == count
        assert found.starts[0] == first_target
        assert found.starts[-1] + horizon == last_target


def test_the_scaler_of_etth1_is_that_of_the_time_series_library(real_data):
    dataset = catalogue.get("ETTh1")
    panel = catalogue.load(dataset, real_data)
    scaler = cut(panel, dataset, 96, 96).scaler
    np.testing.assert_allclose(scaler.mean[0] + panel.centre[0], GOLDEN["output_scaler/ETTh1/mean"], rtol=1e-6)
    np.testing.assert_allclose(scaler.std[0], GOLDEN["output_scaler/ETTh1/scale"], rtol=1e-6)
