"""Short files, whose rows are held out in turns: each is judged by a fit that did not see it."""

import numpy as np
import pandas as pd
import pytest
from sensors import fleet, ordinary

from rearview import Detector
from rearview.estimators.detect.portfolio.portfolio import Portfolio, _deal


def test_short_files_raise_hardly_an_alarm_over_ordinary_rows() -> None:
    flags = []
    for seed in range(5):
        detector = Detector(device="cpu").fit(ordinary(150, seed))
        flags.append(detector.detect(ordinary(150, seed)).flags.mean())
        flags.append(detector.detect(ordinary(150, seed + 50)).flags.mean())
    assert np.mean(flags) < 0.02


def test_a_file_of_few_rows_is_held_out_in_turns() -> None:
    fitted = Detector(device="cpu").fit(ordinary(150)).fitted
    assert isinstance(fitted, Portfolio)
    assert (fitted.window, fitted.averaged) == (15, 3)
    assert "held out in 5 turns" in fitted.calibration.drawn
    assert not fitted.notes
    assert fitted.ranks is not None
    assert Detector(device="cpu").fit(ordinary(500)).fitted.window == 50


def test_every_row_is_held_out_once_with_its_neighbours() -> None:
    panel, _ = Detector(device="cpu", id_col="machine", time_col="date").read(fleet(103))
    turns = _deal(panel, 5)
    assert len(turns) == 206
    for a, b in panel.bounds():
        counts = np.bincount(turns[a:b])
        assert len(counts) == 5
        assert counts.min() >= 20
        assert (np.diff(turns[a:b]) >= 0).all()


def test_short_series_of_many_lengths_are_fitted_together() -> None:
    parts = [fleet(rows).query("machine == 'small'").assign(machine=f"m{rows}") for rows in (3, 29, 101, 149)]
    rows = pd.concat(parts, ignore_index=True)
    found = Detector(device="cpu", id_col="machine", time_col="date").fit(rows).detect(rows)
    assert np.isfinite(found.scores.rows).all()
    assert found.flags.mean() < 0.1


@pytest.mark.parametrize(("rows", "lookback"), [(5, 4), (25, 24), (61, 48)])
def test_a_file_of_hardly_any_rows_has_a_score_for_each(rows: int, lookback: int) -> None:
    frame = ordinary(rows)
    frame.loc[2:3, "heat"] = np.nan
    found = Detector(device="cpu", lookback=lookback).fit(frame).detect(frame)
    assert np.isfinite(found.scores.rows).all()
