"""Series that have moved for good: their rows are judged beside where they are now."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rearview import Detector
from rearview.commands.detect.job import _count_anomalies
from rearview.estimators.detect import storage
from rearview.estimators.detect.portfolio.drift import USUAL, Drift, divide
from rearview.estimators.detect.portfolio.portfolio import Portfolio
from rearview.estimators.detect.scoring import Scores

ROWS = 1_500


def machine(rows: int, seed: int, shift: float = 0.0) -> pd.DataFrame:
    """Three channels with a daily season, all of them moved by `shift`."""
    random = np.random.default_rng(seed)
    day = np.sin(np.arange(rows) * 2 * np.pi / 48)
    columns = {
        name: day * size + shift + random.normal(0, 0.2, rows) for name, size in zip("abc", (1, 2, 3), strict=True)
    }
    return pd.DataFrame({"ds": pd.date_range("2024-01-01", periods=rows, freq="h"), **columns})


@pytest.fixture(scope="module")
def fitted() -> Detector:
    return Detector(lookback=48, device="cpu").fit(machine(2_000, 0))


@pytest.fixture
def moved() -> pd.DataFrame:
    """A machine at another level, with an anomaly of 20 rows."""
    frame = machine(ROWS, 1, shift=1.5)
    frame.loc[1_000:1_019, "b"] += 6
    return frame


def test_levels_by_hand() -> None:
    drift = Drift.learn([np.arange(5.0), np.full(3, np.nan)], np.array([0, 2]), 3)
    assert drift.ceilings.tolist() == [3.0, 3.0, 3.0]  # a series without scores has that of all
    assert drift.ceiling_elsewhere == 3.0
    rows = np.full(4 * USUAL, 6.0)
    assert drift.divisor(rows, 0) == drift.divisor(rows, None) == 2.0
    assert drift.divisor(np.append(rows, np.nan), 1) == 2.0
    assert drift.divisor(rows / 4, 0) == 1.0  # within what held-out rows reach
    assert Drift.none(3).divisor(rows, 0) == 1.0


def test_a_few_hundred_rows_are_an_anomaly_and_no_drift() -> None:
    drift = Drift(np.array([1.0]), 1.0)
    assert drift.divisor(np.full(USUAL // 2, 100.0), 0) == 1.0
    assert drift.divisor(np.append(np.full(ROWS, 0.5), np.full(ROWS // 2, 100.0)), 0) == 1.0


def test_what_is_divided_still_adds_up(fitted: Detector, moved: pd.DataFrame) -> None:
    portfolio = fitted.fitted
    assert isinstance(portfolio, Portfolio)
    panel, _ = fitted.read_new(moved)
    raw, scores = portfolio.raw_scores(panel), portfolio.scores(panel)
    (divisor,) = scores.divisors
    assert divisor > 1.5
    np.testing.assert_allclose(scores.rows, raw.rows / divisor)
    np.testing.assert_allclose(scores.rows, np.sum(list(scores.members.values()), axis=0))
    np.testing.assert_allclose(scores.channels, raw.channels / divisor, rtol=1e-5)
    same = divide(Scores(raw.rows, raw.channels), panel, [1.0])
    np.testing.assert_array_equal(same.rows, raw.rows)


def test_a_machine_that_has_moved_is_not_one_long_alarm(fitted: Detector, moved: pd.DataFrame) -> None:
    portfolio = fitted.fitted
    assert isinstance(portfolio, Portfolio)
    detection = fitted.detect(moved)
    panel, _ = fitted.read_new(moved)
    before = portfolio.raw_scores(panel).rows > detection.thresholds[0]
    usual = np.r_[0:950, 1_070:ROWS]
    assert before[usual].mean() > 0.5
    assert detection.flags[usual].mean() < 0.5 * before[usual].mean()
    assert detection.scores.rows[1_000:1_020].mean() > np.quantile(detection.scores.rows[usual], 0.99)
    (note,) = (note for note in detection.notes if "moved for good" in note)
    assert note.startswith("The series has moved for good")
    assert f"({detection.scores.divisors[0]:.2g})" in note
    assert _count_anomalies(detection).endswith("The series has moved for good: see the notes.")
    assert not any("moved for good" in note for note in fitted.detect(machine(ROWS, 2)).notes)


def test_updates_find_a_series_that_moves_as_predict_does(fitted: Detector, moved: pd.DataFrame) -> None:
    detector = Detector(lookback=48, device="cpu")
    detector.adopt(fitted.fitted, fitted.read(machine(2_000, 0))[0])
    done = 0
    for size in (700, 1, 399, 150, 250):
        flags, _ = detector.update(moved[done : done + size])
        done += size
        whole, _ = fitted.predict(moved[:done])
        np.testing.assert_allclose(flags["score"], whole["score"][-size:], rtol=1e-4)


def test_a_stream_goes_on_after_it_was_saved(fitted: Detector, moved: pd.DataFrame, tmp_path: Path) -> None:
    detector = Detector(lookback=48, device="cpu")
    detector.adopt(fitted.fitted, fitted.read(machine(2_000, 0))[0])
    detector.update(moved[:1_200])
    detector.save(tmp_path)
    loaded = Detector.load(tmp_path)
    np.testing.assert_array_equal(loaded.detect(moved).scores.rows, fitted.detect(moved).scores.rows)
    np.testing.assert_allclose(
        loaded.update(moved[1_200:])[0]["score"], detector.update(moved[1_200:])[0]["score"], rtol=1e-6
    )


def test_a_detector_saved_before_drift_was_known_scores_as_it_did(
    fitted: Detector, moved: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe = storage._describe_portfolio

    def describe_earlier(portfolio: Portfolio) -> tuple[dict, dict]:
        facts, tensors = describe(portfolio)
        del facts["ceiling_elsewhere"], tensors["portfolio.ceilings"]
        return facts, tensors

    monkeypatch.setattr(storage, "_describe_portfolio", describe_earlier)
    fitted.save(tmp_path)
    portfolio = fitted.fitted
    assert isinstance(portfolio, Portfolio)
    raw = portfolio.raw_scores(fitted.read_new(moved)[0]).rows
    np.testing.assert_array_equal(Detector.load(tmp_path).detect(moved).scores.rows, raw)
