"""The scaler against numpy, on training rows only."""

import numpy as np
import pytest
from random_panels import panel_of

from rearview.data.scale import BLOCK, Scaler


def test_the_scaler_sees_the_training_rows_alone() -> None:
    panel = panel_of((31, 17), targets=1, inputs=1)
    scaler = Scaler.fit(panel, np.array([20, 11]))
    for s, rows in enumerate((20, 11)):
        cells = panel.values[panel.offsets[s] : panel.offsets[s] + rows].astype(np.float64)
        np.testing.assert_allclose(scaler.mean[s], cells.mean(0), rtol=1e-12)
        np.testing.assert_allclose(scaler.std[s], cells.std(0), rtol=1e-9)
    panel.values[20:31] = 1e9
    panel.values[31 + 11 :] = -1e9
    again = Scaler.fit(panel, np.array([20, 11]))
    assert np.array_equal(again.mean, scaler.mean)
    assert np.array_equal(again.std, scaler.std)


def test_the_scaler_leaves_out_missing_cells() -> None:
    panel = panel_of((40,), targets=2, missing=0.4)
    assert panel.observed is not None
    panel.values[~panel.observed] = 1e20
    scaler = Scaler.fit(panel)
    cells = np.where(panel.observed, panel.values.astype(np.float64), np.nan)
    np.testing.assert_allclose(scaler.mean[0], np.nanmean(cells, 0), rtol=1e-9)
    np.testing.assert_allclose(scaler.std[0], np.nanstd(cells, 0), rtol=1e-6)


def test_the_scaler_sums_more_rows_than_a_block() -> None:
    panel = panel_of((BLOCK + 1234,), targets=1)
    cells = panel.values.astype(np.float64)
    scaler = Scaler.fit(panel)
    assert scaler.mean[0, 0] == pytest.approx(cells.mean(), rel=1e-9, abs=1e-12)
    assert scaler.std[0, 0] == pytest.approx(cells.std(), rel=1e-9)


def test_a_constant_column_is_scaled_by_one() -> None:
    panel = panel_of((31,), targets=2)
    panel.values[:, 0] = 3.0
    panel.values[:, 1] = 0.0
    scaler = Scaler.fit(panel)
    assert scaler.std.tolist() == [[1.0, 1.0]]
    assert scaler.mean.tolist() == [[3.0, 0.0]]
    nothing = Scaler.fit(panel, np.array([0]))
    assert nothing.mean.tolist() == [[0.0, 0.0]]
    assert nothing.std.tolist() == [[1.0, 1.0]]


def test_scaled_values_go_back_to_original_units() -> None:
    panel = panel_of((31, 17), targets=2)
    scaler = Scaler.fit(panel)
    scaled = (panel.values[31:] - scaler.mean[1]) / scaler.std[1]
    np.testing.assert_allclose(
        scaler.original(scaled.T, panel, 1, slice(0, 2)).T, panel.original(slice(31, 48), 1), rtol=1e-7
    )
