"""What a detector gives back: scores, flags and segments in every kind of frame, for one series and for many."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sensors import LOOKBACK, SHIFT, SPIKE, broken, detector, fleet, ordinary

from rearview import Detector
from rearview.core.errors import InputError, SettingsError
from rearview.data.panel_reader import load
from rearview.estimators.detect.scoring import score


@pytest.fixture(scope="module")
def fitted() -> Detector:
    return detector(label_col="label").fit(ordinary())


def test_both_anomalies_are_found_with_the_channels_that_carry_them(fitted: Detector) -> None:
    frame = broken()
    flags, segments = fitted.predict(frame)
    assert list(flags.columns) == ["date", "score", "threshold", "anomaly"]
    assert len(flags) == len(frame)
    worst = segments.sort_values("score").iloc[-2:]
    assert set(worst["channels"].str.split("; ").str[0]) == {"heat", "load"}
    for (first, end), channel in ((SPIKE, "heat"), (SHIFT, "load")):
        part = worst[worst["channels"].str.startswith(channel)].iloc[0]
        assert frame["date"][first] <= part["peak"] <= frame["date"][end - 1]
        assert part["start"] <= part["peak"] <= part["end"]
    assert (flags["anomaly"] == (flags["score"] > flags["threshold"])).all()


def test_labels_judge_and_are_never_looked_at(fitted: Detector) -> None:
    frame = broken()
    found = fitted.evaluate(frame)
    assert found.anomalous == frame["label"].sum()
    assert found.events == 2
    assert found.event_recall == 1
    assert found.auc_pr > 0.8
    assert fitted.evaluate(frame, frame["label"].to_numpy()) == found
    assert fitted.evaluate(frame.rename(columns={"label": "truth"}), "truth") == found
    assert "label" not in fitted.fitted.columns


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_the_kind_of_frame_comes_back(fitted: Detector, kind: str) -> None:
    frame = broken().drop(columns="label")
    given = {"pandas": lambda x: x, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}[kind](frame)
    scores = fitted.score(given)
    kinds = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}
    assert isinstance(scores, kinds[kind])
    flags, segments = fitted.predict(given)
    assert isinstance(flags, kinds[kind])
    assert isinstance(segments, kinds[kind])
    plain = scores if kind == "pandas" else scores.to_pandas()
    assert list(plain.columns) == ["date", "score", "score-load", "score-heat", "score-noise"]
    np.testing.assert_allclose(plain["score"], plain.iloc[:, 2:].mean(axis=1), rtol=1e-5)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_segments_have_the_same_kinds_of_columns_where_there_are_none(kind: str) -> None:
    frames = {
        "pandas": lambda one: one,
        "polars": pl.from_pandas,
        "pyarrow": lambda one: pl.from_pandas(one).to_arrow(),
    }
    frame = frames[kind](fleet())
    some, none = (
        detector(id_col="machine", threshold=limit, training={"epochs": 1}).fit(frame).predict(frame).segments
        for limit in (0.0, 1e9)
    )
    assert (len(some) > 0, len(none)) == (True, 0)
    kinds = [dict(one.dtypes) if kind == "pandas" else one.schema for one in (some, none)]
    assert kinds[0] == kinds[1]


def test_a_pandas_index_of_stamps_is_kept(fitted: Detector) -> None:
    frame = broken().drop(columns="label").set_index("date")
    flags, segments = fitted.predict(frame)
    assert flags.index.name == frame.index.name
    assert flags.index.astype(frame.index.dtype).equals(frame.index)
    assert "start" in segments


def test_overlapping_windows_are_averaged(fitted: Detector) -> None:
    """Every cell's error is the mean over the windows that hold it, whatever the portions are."""
    import torch

    from rearview.data.scale import Scaler

    panel, _ = fitted.read_new(broken(70))
    network = fitted.fitted.network
    scaler = Scaler.known(panel, fitted.fitted.ids, fitted.fitted.mean, fitted.fitted.std)
    stride = 7
    found = score(network, panel, scaler, LOOKBACK, "reconstruct", stride)
    scaled = torch.from_numpy((panel.values - scaler.mean[0].astype(np.float32)) / scaler.std[0].astype(np.float32))
    total, count = torch.zeros(70, 3), torch.zeros(70, 1)
    for end in sorted({*range(LOOKBACK, 70, stride), 70}):
        window = scaled[end - LOOKBACK : end].T[None]
        with torch.no_grad():
            total[end - LOOKBACK : end] += (network(window) - window)[0].T.square()
        count[end - LOOKBACK : end] += 1
    assert count.min() == 1
    np.testing.assert_allclose(found, (total / count).numpy(), rtol=1e-4, atol=1e-6)


def test_a_forecasting_detector_scores_each_row_from_those_before_it() -> None:
    fitted = detector(mode="forecast", label_col="label").fit(ordinary())
    frame = broken()
    scores = fitted.score(frame)
    assert scores["score"].isna().sum() == LOOKBACK // 4
    cut = fitted.score(frame.iloc[:150])
    np.testing.assert_allclose(cut["score"], scores["score"].iloc[:150], rtol=1e-4)  # the future moves nothing
    assert fitted.evaluate(frame).auc_pr > 0.5


@pytest.mark.parametrize("model", ["seasonal_naive", "dlinear", "patchtst"])
def test_other_networks_forecast_too(model: str) -> None:
    fitted = detector(model, mode="forecast", label_col="label").fit(ordinary())
    assert fitted.evaluate(broken()).auc_roc > 0.7


def test_each_entity_is_scaled_and_scored_apart() -> None:
    frame = fleet()
    fitted = detector(id_col="machine").fit(frame)
    scores = fitted.score(frame)
    assert list(scores.columns)[:3] == ["machine", "date", "score"]
    alone = fitted.score(frame[frame["machine"] == "large"])
    both = scores[scores["machine"] == "large"]
    np.testing.assert_allclose(alone["score"], both["score"], rtol=1e-4)
    medians = scores.groupby("machine")["score"].median()
    assert 0.2 < medians["small"] / medians["large"] < 5  # although one is a thousand times larger
    spoilt = frame.copy()
    rows = spoilt.index[spoilt["machine"] == "small"][100:110]
    spoilt.loc[rows, "load"] += 60  # nothing beside the large machine's values
    _, segments = fitted.predict(spoilt)
    worst = segments.sort_values("score").iloc[-1]
    assert (worst["machine"], worst["channels"].split("; ")[0]) == ("small", "load")


def test_a_series_that_training_did_not_see_is_reported(fitted: Detector) -> None:
    frame = fleet()
    trained = detector(id_col="machine").fit(frame)
    new = frame[frame["machine"] == "small"].assign(machine="third")
    found = trained.detect(new)
    assert "third" in found.notes[0]
    assert found.thresholds.tolist() == [trained.fitted.calibration.threshold_elsewhere]


def test_missing_cells_have_no_score_and_move_nothing_else(fitted: Detector) -> None:
    frame = broken()
    frame.loc[30, ["load", "heat", "noise"]] = np.nan
    frame.loc[40:45, "heat"] = np.nan
    scores = fitted.score(frame)
    assert np.isnan(scores.loc[30, "score"])
    assert scores.loc[40:45, "score-heat"].isna().all()
    assert scores.loc[40:45, "score"].notna().all()
    assert scores["score"].isna().sum() == 1
    training = ordinary()
    training.loc[100:120, "load"] = np.nan
    again = detector(label_col="label").fit(training)
    assert again.evaluate(broken()).auc_pr > 0.8


def test_rows_shorter_than_a_window_are_padded_and_reported(fitted: Detector) -> None:
    found = fitted.detect(broken(10))
    assert np.isfinite(found.scores.rows).all()
    assert any("shorter than a window" in note for note in found.notes)


def test_a_saved_detector_says_the_same(fitted: Detector, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    assert sorted(path.suffix for path in (tmp_path / "model").iterdir()) == [".json", ".safetensors"]
    loaded = Detector.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.score(broken()), fitted.score(broken()))
    pd.testing.assert_frame_equal(loaded.predict(broken()).segments, fitted.predict(broken()).segments)
    assert loaded.spec == fitted.spec
    assert loaded.fitted.plan == fitted.fitted.plan
    assert loaded.reading == fitted.reading
    with pytest.raises(InputError, match="holds no saved detector"):
        Detector.load(tmp_path)


def test_two_fits_of_one_seed_are_equal_bit_for_bit() -> None:
    first, second = (detector().fit(ordinary()).score(ordinary(60, 3)) for _ in range(2))
    pd.testing.assert_frame_equal(first, second, check_exact=True)


def test_the_threshold_rests_on_rows_held_out_from_training() -> None:
    frame = ordinary()
    fitted = detector(quantile=0.9).fit(frame)
    held = frame.iloc[400:]
    share = (fitted.score(held)["score"] > fitted.fitted.calibration.threshold_elsewhere).mean()
    assert share == pytest.approx(0.1, abs=0.011)
    given = detector(threshold=3.5).fit(frame)
    assert given.fitted.calibration.thresholds.tolist() == [3.5]
    tail = detector(threshold="pot").fit(frame)
    assert "too few" in tail.fitted.calibration.drawn


def test_a_channel_is_measured_by_what_is_usual_for_it_on_held_out_rows() -> None:
    frame = ordinary()
    balanced, plain = (detector(balance=balance).fit(frame) for balance in (True, False))
    held = plain.score(frame.iloc[400:]).filter(like="score-").mean().to_numpy()
    usual = balanced.fitted.calibration.usual.known
    np.testing.assert_allclose(usual, held[None], rtol=1e-5)
    found = balanced.score(broken()).filter(like="score-").to_numpy()
    np.testing.assert_allclose(found * usual, plain.score(broken()).filter(like="score-").to_numpy(), rtol=1e-4)


@pytest.mark.parametrize("mode", ["reconstruct", "forecast"])
@pytest.mark.parametrize("model", ["patchtst", "itransformer", "dlinear"])
def test_the_most_extreme_cell_is_flagged_and_scored_highest(model: str, mode: str) -> None:
    """Squared, it is beyond float32, and layers that see it overflow: neither may pass for a missing cell."""
    fitted = detector(model, mode=mode, label_col="label").fit(ordinary())
    for extreme in (1e20, -1e20, 1e30):
        frame = ordinary(200, 1, "2024-06-01").assign(label=0)
        frame.loc[90, ["heat", "label"]] = extreme, 1
        found = fitted.detect(frame)
        assert np.isnan(found.scores.rows).sum() == (LOOKBACK // 4 if mode == "forecast" else 0)
        assert not np.isinf(found.scores.channels).any()
        assert np.nanargmax(found.scores.rows) == 90
        assert (found.scores.rows == found.scores.rows[90]).sum() == 1
        assert found.flags[90]
        (segment,) = [one for one in found.segments if one.first <= 90 <= one.last]
        assert (segment.peak, segment.channels) == (90, ((1, 1.0),))
        assert fitted.evaluate(frame).auc_pr == 1
        assert any("no score" in note for note in found.notes) == (mode == "forecast")


@pytest.mark.parametrize("at", [100, 450])
def test_an_extreme_cell_among_the_rows_to_learn_from_is_found_too(at: int) -> None:
    """Row 450 is held out: there the cell must neither end the training nor be what is usual."""
    frame = ordinary()
    frame.loc[at, "heat"] = 1e20
    fitted = detector(threshold="robust").fit(frame)
    found = fitted.detect(frame)
    assert found.flags[at]
    assert np.argmax(found.scores.rows) == at
    told = [finding for finding in fitted.findings if finding.what == "beyond_measure"]
    if at == 450:
        assert (told[0].count, "'heat' at 2024-03-19T18" in told[0].message) == (1, True)
        plain = detector(threshold="robust").fit(ordinary())
        np.testing.assert_allclose(
            fitted.fitted.calibration.usual.known, plain.fitted.calibration.usual.known, rtol=0.1
        )
        np.testing.assert_allclose(fitted.fitted.calibration.thresholds, plain.fitted.calibration.thresholds, rtol=0.1)
    else:
        assert not told


def test_a_network_without_an_answer_is_as_far_off_as_can_be(fitted: Detector, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    frame = broken()
    frame.loc[30, ["load", "heat", "noise"]] = np.nan
    monkeypatch.setattr(fitted.fitted.network, "forward", lambda past, *_, **__: torch.full_like(past, torch.nan))
    found = fitted.detect(frame)
    assert np.flatnonzero(np.isnan(found.scores.rows)).tolist() == [30]
    assert found.flags.sum() == len(frame) - 1
    assert np.isfinite(found.scores.channels[found.flags]).all()


def test_new_rows_need_not_have_the_columns_that_are_left_out() -> None:
    fitted = detector(drop="noise").fit(ordinary())
    with_it, without = broken().drop(columns="label"), broken().drop(columns=["label", "noise"])
    pd.testing.assert_frame_equal(fitted.score(with_it), fitted.score(without))
    with pytest.raises(InputError, match="has no column 'nosie'"):
        detector(drop="nosie").fit(ordinary())


def test_only_the_channels_asked_for_are_looked_at() -> None:
    fitted = detector(channels=["heat", "load"]).fit(ordinary())
    assert fitted.fitted.columns == ("heat", "load")
    assert "score-noise" not in fitted.score(broken())


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"mode": "both"}, "mode is 'both'"),
        ({"threshold": "quantil"}, "Did you mean 'quantile'"),
        ({"threshold": -1.0}, "or a number from 0 up"),
        ({"quantile": 1.5}, "share of ordinary rows"),
        ({"stride": 25}, "rows between windows would have no score"),
        ({"lookback": 1}, "at least 2 rows"),
        ({"colour": 3}, "Detector has no setting 'colour'"),
        ({"balance": 2}, "balance is 2"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(changed: dict, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        detector(**changed)


def test_networks_that_can_not_give_a_window_back_say_so() -> None:
    with pytest.raises(SettingsError, match="seasonal_naive forecasts and can't give a window back"):
        detector("seasonal_naive").fit(ordinary())
    with pytest.raises(SettingsError, match=r"caps_net .*with mode='forecast' \(--mode forecast\), or use one of"):
        detector("caps_net").fit(ordinary())


def test_a_network_that_only_forecasts_scores_by_its_forecasts() -> None:
    fitted = detector("caps_net", mode="forecast", training={"epochs": 1}, label_col="label").fit(ordinary(300))
    assert fitted.evaluate(broken()).auc_roc > 0.5


@pytest.mark.parametrize(("rows", "words"), [([5], "1 of 200 rows has"), ([5, 9], "2 of 200 rows have")])
def test_rows_without_a_score_are_reported_in_their_number(fitted: Detector, rows: list[int], words: str) -> None:
    frame = broken().drop(columns="label")
    frame.loc[rows, ["load", "heat", "noise"]] = np.nan
    assert f"{words} no score: nothing was observed there." in fitted.detect(frame).notes


def test_labels_without_an_anomaly_leave_measures_that_do_not_exist_empty(fitted: Detector) -> None:
    found = fitted.evaluate(ordinary(100, 9), np.zeros(100))
    assert found.anomalous == 0
    assert np.isnan([found.recall, found.f1, found.auc_pr, found.vus_pr]).all()


def test_a_panel_is_taken_as_it_is(fitted: Detector) -> None:
    frame = broken().drop(columns="label")
    pd.testing.assert_series_equal(
        pd.Series(fitted.detect(load(frame)).scores.rows), pd.Series(fitted.detect(frame).scores.rows)
    )


def able() -> list[str]:
    from rearview import models

    return [name for name in models.names() if models.claims(name).reconstructs]


@pytest.mark.slow
@pytest.mark.parametrize("model", able())
def test_every_network_that_can_give_a_window_back_finds_the_anomalies(model: str) -> None:
    fitted = detector(model, lookback=32, settings={}, training={"epochs": 2}, label_col="label").fit(ordinary())
    found = fitted.evaluate(broken())
    assert found.auc_roc > 0.7


def test_there_are_networks_to_choose_from() -> None:
    assert {"itransformer", "patchtst", "transformer", "dlinear"} <= set(able())
