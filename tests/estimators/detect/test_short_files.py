"""The default detector fitted to a few hundred rows: ordinary rows are no alarms, and anomalies still are."""

import numpy as np
import pandas as pd
import pytest

from rearview import Detector


def waves(rows: int, seed: int) -> pd.DataFrame:
    noise = np.random.default_rng(seed).normal(0, 0.1, rows)
    stamps = pd.date_range("2024-01-01", periods=rows, freq="h")
    return pd.DataFrame({"level": np.sin(np.arange(rows) / 4) + noise}, index=stamps)


@pytest.mark.parametrize("rows", [120, 200, 400, 499])
def test_new_ordinary_rows_after_a_short_file_are_no_alarms_and_anomalies_are(rows: int) -> None:
    frame = waves(rows + 200, rows)
    detector = Detector().fit(frame[:rows])
    new = frame[rows:].copy()
    assert detector.predict(new).flags["anomaly"].mean() < 0.05
    new.iloc[100:110] += 5
    flags = detector.predict(new).flags["anomaly"]
    assert flags[100:110].all()
    assert not flags[:30].any()  # windows of 50 rows, averaged over 30, reach from there to the first of them


def test_series_of_several_lengths_are_judged_by_their_own_rows() -> None:
    frame = pd.concat(waves(rows, rows).assign(unit=str(rows)) for rows in (120, 160, 300, 600))
    long = frame.rename_axis("ds").reset_index().rename(columns={"unit": "unique_id"})
    detector = Detector().fit(long)
    assert detector.predict(long).flags["anomaly"].mean() < 0.05
