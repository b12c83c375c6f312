"""Channels that never vary in training: no error while they are what they were, found when they move."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sensors import LOOKBACK, broken, detector, fleet, ordinary

from rearview import Detector
from rearview.data import load
from rearview.estimators.detect import constant_channels
from rearview.estimators.detect.fit import fit
from rearview.estimators.detect.spec import DetectSpec

VALVE = "score-valve"


@pytest.fixture(scope="module")
def fitted() -> Detector:
    return detector(label_col="label").fit(ordinary().assign(valve=1.0))


@pytest.mark.parametrize("mode", ["reconstruct", "forecast"])
def test_an_unchanged_constant_has_no_error_and_carries_nothing(mode: str) -> None:
    fitted = detector(mode=mode, label_col="label").fit(ordinary().assign(valve=0.1))
    frame = broken().assign(valve=0.1)
    scores = fitted.score(frame)
    known = scores["score"].notna()
    assert known.sum() >= len(frame) - LOOKBACK
    assert (scores.loc[known, VALVE] == 0).all()
    assert scores.loc[~known, VALVE].isna().all()
    segments = fitted.predict(frame).segments
    assert len(segments)
    assert not segments["channels"].str.contains("valve").any()


def test_a_constant_beside_the_others_changes_no_flag() -> None:
    """A score is a mean over channels: one that is always 0 scales scores and threshold alike."""
    fitted = detector("dlinear", label_col="label").fit(ordinary().assign(valve=1.0))
    without = detector("dlinear", label_col="label").fit(ordinary())
    flags = [each.predict(frame).flags for each, frame in ((fitted, broken().assign(valve=1.0)), (without, broken()))]
    np.testing.assert_array_equal(flags[0]["anomaly"], flags[1]["anomaly"])
    assert flags[0]["anomaly"].any()


def test_a_moved_constant_counts_in_its_own_units(fitted: Detector) -> None:
    frame = broken().assign(valve=1.0)
    frame.loc[20:25, "valve"] = 3.0
    found = fitted.score(frame)[VALVE].to_numpy()
    usual = fitted.fitted.calibration.usual.known[0, -1]
    np.testing.assert_allclose(found[20:26] * usual, 4, rtol=1e-4)
    assert not np.delete(found, slice(20, 26)).any()


def test_rounding_around_a_far_cell_is_no_move(fitted: Detector) -> None:
    frame = broken().assign(valve=1.0)
    frame.loc[50, "valve"] = 1e9
    found = fitted.score(frame)[VALVE].to_numpy()
    assert not np.delete(found, 50).any()
    assert found[50] > 1e15


def test_each_series_has_its_own_constants() -> None:
    frame = fleet().assign(valve=1.0)
    moving = frame["machine"] == "large"
    frame.loc[moving, "valve"] = frame.loc[moving, "load"]
    fitted = detector(id_col="machine").fit(frame)
    assert dict(zip(fitted.fitted.ids, fitted.fitted.constant[:, -1], strict=True)) == {"small": True, "large": False}
    means = fitted.score(frame).groupby("machine")[VALVE].mean()
    assert means["small"] == 0
    assert means["large"] > 0
    # What one machine never moves does not make a hair trigger of it for machines that training did not see.
    calibration = fitted.fitted.calibration
    large = fitted.fitted.ids.index("large")
    np.testing.assert_allclose(calibration.usual.elsewhere[-1], calibration.usual.known[large, -1])


def test_a_series_that_training_did_not_see_is_held_to_its_own_constants() -> None:
    trained = detector(id_col="machine").fit(fleet())
    new = fleet()[lambda frame: frame["machine"] == "small"].assign(machine="third", heat=4.0)
    assert (trained.score(new)["score-heat"] == 0).all()


def test_constants_survive_being_saved(fitted: Detector, tmp_path: Path) -> None:
    frame = broken().assign(valve=1.0)
    fitted.save(tmp_path)
    pd.testing.assert_frame_equal(Detector.load(tmp_path).score(frame), fitted.score(frame))


def test_a_run_that_compares_networks_leaves_constants_to_them() -> None:
    panel, _ = detector().read(ordinary().assign(valve=1.0))
    spec = DetectSpec(lookback=LOOKBACK, model="dlinear", training={"epochs": 1}, device="cpu")
    held, left = (fit(panel, spec, hold_constants=hold) for hold in (True, False))
    assert held.errors(panel)[:, -1].max() == 0
    assert left.errors(panel)[:, -1].max() > 0
    assert not left.findings


def test_a_constant_is_reported_once_and_repaired_nowhere(fitted: Detector) -> None:
    (told,) = [finding for finding in fitted.findings if "valve" in finding.message]
    assert (told.kind, told.what) == ("warning", "flat_channels")
    panel, _ = fitted.read_new(broken().assign(valve=1.0))
    assert not [finding for finding in panel.findings if "valve" in finding.message]


def test_a_constant_channel_is_reported_and_a_change_of_it_found() -> None:
    still = ordinary().assign(valve=1.0)
    fitted = detector(label_col="label").fit(still)
    assert any(finding.what == "flat_channels" for finding in fitted.findings)
    frame = broken().assign(valve=1.0)
    frame.loc[20:25, "valve"] = 2.0
    segments = fitted.predict(frame).segments
    there = segments[(segments["start"] <= frame["date"][25]) & (segments["end"] >= frame["date"][20])]
    assert there["channels"].str.contains("valve").any()


def test_a_channel_of_two_values_is_not_called_constant() -> None:
    """Plus and minus one have a standard deviation of 1, which also stands for a channel that never varies."""
    switched = ordinary().assign(switch=np.tile([1.0, -1.0], 250))
    fitted = detector().fit(switched)
    assert fitted.fitted.std[0].tolist()[-1] == 1
    assert not fitted.fitted.findings


def test_what_counts_as_constant_are_the_observed_cells_of_the_training_rows() -> None:
    late = ordinary().assign(valve=np.where(np.arange(500) < 450, 7.0, 8.0), gauge=0.0)
    late.loc[::3, "gauge"] = np.nan
    (found,) = detector().fit(late).fitted.findings
    assert (found.what, found.count) == ("flat_channels", 2)
    assert "'valve' and 1 more never vary" in found.message


def test_a_channel_without_a_value_in_training_is_not_taken_for_a_constant() -> None:
    panel = load(
        pd.DataFrame({"ds": pd.date_range("2024", periods=6, freq="h"), "a": [1.0] * 6, "b": [np.nan] * 4 + [5, 5]})
    )
    assert constant_channels.find(panel, np.array([4])).tolist() == [[True, False]]
    assert constant_channels.find(panel).tolist() == [[True, True]]
