"""The default detector fitted to a few hundred rows: ordinary rows are no alarms, and anomalies still are."""

import numpy as np
import pandas as pd
import pytest

from rearview import Detector


def waves(rows: int, seed: int) -> pd.DataFrame:
    noise = np.random.default_rng(seed).normal(0, 0.1, rows)
    stamps = pd.date_range("2024-01-01", periods=rows, freq="h")
    return pd.DataFrame({"level": np.sin(np.arange(rows) / 4) + noise}, index=stamps)


@pytest.mark.parametrize("rows", [150, 200, 400, 499])
def test_rows_are_held_out_of_short_files_so_that_ordinary_rows_are_no_alarms(rows: int) -> None:
    frame = waves(rows + 200, rows)
    detector = Detector().fit(frame[:rows])
    assert not any("Too short to hold rows out" in note for note in detector.fitted.notes)
    new = frame[rows:].copy()
    assert detector.predict(new).flags["anomaly"].mean() < 0.05
    new.iloc[100:110] += 5
    flags = detector.predict(new).flags["anomaly"]
    assert flags[100:110].all()
    assert not flags[:30].any()  # windows of 50 rows, averaged over 30, reach from there to the first of them


def test_fewer_rows_than_can_be_held_out_are_told() -> None:
    assert any("so that ordinary rows may be alarms" in note for note in Detector().fit(waves(149, 0)).fitted.notes)


def test_series_of_several_lengths_hold_out_what_each_can_spare() -> None:
    frame = pd.concat(waves(rows, rows).assign(unit=str(rows)) for rows in (120, 160, 300, 600))
    long = frame.rename_axis("ds").reset_index().rename(columns={"unit": "unique_id"})
    detector = Detector().fit(long)
    assert detector.predict(long).flags["anomaly"].mean() < 0.05
