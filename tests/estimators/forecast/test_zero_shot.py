"""Forecasts without training: equivariance, order, masks, short series, tuning, saving, what is refused."""

import re
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from samples import long, numbers, wide

import rearview as rv
from rearview.core.errors import InputError, SettingsError
from rearview.data.panel_checks import TooShort
from rearview.data.windows import Source
from rearview.estimators.auto import fit as portfolio
from rearview.estimators.auto.ensemble import Ensemble
from rearview.estimators.base import Session
from rearview.estimators.forecast import zero_shot
from rearview.estimators.forecast.zero_shot import ZeroShot
from rearview.models.patch_hosts.glance import Network
from rearview.pretrained import training, weights
from rearview.tasks.plan import Choice

pytestmark = pytest.mark.usefixtures("glance_weights")
HORIZON = 5


def glance(**options: object) -> rv.Forecaster:
    return rv.Forecaster(model="glance", horizon=HORIZON, device="cpu", **options)


def series(values: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({"date": pd.date_range("2024-01-01", periods=len(values), freq="D"), "y": values})


def walk(rows: int = 60, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=rows).cumsum()


def test_the_frame_of_a_forecast_is_that_of_every_forecaster() -> None:
    made = rv.forecast(wide(), HORIZON, device="cpu")
    assert list(made) == ["date"] + [
        f"{name}{end}" for name in ("load", "wind") for end in ("", "-lo-80", "-hi-80", "-lo-95", "-hi-95")
    ]
    assert len(made) == HORIZON
    assert np.isfinite(numbers(made)).all()
    per_series = rv.forecast(long(), HORIZON, level=[50], device="cpu")
    assert list(per_series) == ["unique_id", "ds", "glance", "glance-lo-50", "glance-hi-50"]
    assert len(per_series) == 2 * HORIZON


@pytest.mark.parametrize(("factor", "shift"), [(1e6, 1e12), (1e-3, 0.0), (-1.0, 0.0), (1e9, 0.0), (7.0, -1e5)])
def test_scale_and_shift_of_the_data_are_those_of_the_forecast(factor: float, shift: float) -> None:
    values = walk()
    plain, moved = (numbers(glance().fit(series(one)).predict(level=[])) for one in (values, factor * values + shift))
    if factor > 0:  # a mirrored series is another series to a network; its forecast is only asked to be finite
        np.testing.assert_allclose((moved - shift) / factor, plain, atol=1e-4 * np.abs(values).max(), rtol=1e-4)
    assert np.isfinite(moved).all()


def test_intervals_are_ordered_and_hold_the_median() -> None:
    made = glance().fit(series(walk())).predict(level=[10, 50, 80, 95, 99.5])
    bounds = [f"y-lo-{level}" for level in ("99.5", 95, 80, 50, 10)] + ["y"]
    bounds += [f"y-hi-{level}" for level in (10, 50, 80, 95, "99.5")]
    assert (np.diff(made[bounds].to_numpy(), axis=1) >= 0).all()


@pytest.mark.parametrize("rows", [3, 8, 9, 31, 33, 200])
def test_series_of_any_length_are_forecast(rows: int) -> None:
    assert np.isfinite(numbers(glance().fit(series(walk(rows))).predict())).all()


def test_a_horizon_beyond_one_pass_is_rolled_out() -> None:
    made = rv.Forecaster(model="glance", horizon=120, device="cpu").fit(series(walk(90))).predict()
    assert len(made) == 120
    assert np.isfinite(numbers(made)).all()


def test_other_series_of_a_frame_change_nothing() -> None:
    lengths = {"a": 20, "b": 120, "c": 9, "d": 33}
    frame = long(lengths)
    together = glance(intervals="quantile").fit(frame).predict()
    for name in lengths:
        alone = glance(intervals="quantile").fit(frame[frame["unique_id"] == name]).predict()
        mine = numbers(together[together["unique_id"] == name].drop(columns="unique_id"))
        np.testing.assert_allclose(mine, numbers(alone.drop(columns="unique_id")), rtol=1e-5, atol=1e-5)


def test_missing_values_are_masked_not_filled() -> None:
    frame = series(walk(40))
    frame.loc[10:14, "y"] = np.nan
    fitted = glance(intervals="quantile").fit(frame)
    panel = fitted.tail
    assert panel.observed is not None
    cases = list(fitted.fitted._cases(panel, zero_shot.Windows(panel.offsets[1:], np.array([0]))))
    _, observed = zero_shot._stack(panel, cases)
    assert np.flatnonzero(~observed[0, 0]).tolist() == [10, 11, 12, 13, 14]
    filled = frame.ffill()
    assert not np.allclose(numbers(fitted.predict()), numbers(glance(intervals="quantile").fit(filled).predict()))


def test_a_value_out_of_all_proportion_is_read_as_missing_with_a_note() -> None:
    values = walk(90)
    spoilt, missing = values.copy(), values.copy()
    spoilt[40], missing[40] = 1e9, np.nan
    fitted, wanted = (glance(intervals="quantile").fit(series(one)) for one in (spoilt, missing))
    # Both are stored around another mean.
    np.testing.assert_allclose(numbers(fitted.predict()), numbers(wanted.predict()), rtol=1e-5, atol=1e-5)
    forecasts, _ = fitted.forecast(fitted.read(series(spoilt)))
    assert "1 value of the past is not read" in " ".join(forecasts.notes)


@pytest.mark.parametrize(
    ("places", "size"),
    [
        ([89], 1e9),  # may be the first of many
        ([88], 1e9),
        (range(70, 90), 1e9),  # a new level
        (range(0, 90, 30), 1e9),  # comes again and again
        ([40], 20.0),  # what the network knows from its training
    ],
)
def test_values_that_may_mean_something_are_read(places: list[int], size: float) -> None:
    past = np.sin(np.arange(90.0))
    past[list(places)] = size
    observed = np.ones((1, 1, 90), dtype=bool)
    assert zero_shot.hide_far_values(past[None, None], observed) == 0
    assert observed.all()


def test_constant_series_and_counts() -> None:
    flat = numbers(glance().fit(series(np.full(40, 7e11))).predict())
    assert (flat == 7e11).all()
    assert (numbers(glance().fit(series(np.zeros(40))).predict()) == 0).all()
    counts = np.random.default_rng(0).poisson(0.4, 80).astype(float)
    made = glance(nonnegative=True).fit(series(counts)).predict()
    assert (numbers(made) >= 0).all()


@pytest.fixture
def mixing_weights(glance_weights: Path) -> None:
    """The same weights in a network whose channels are read together, its gates open."""
    attention = {"name": "mica", "gate": "added", "exclude_self": True}
    card = replace(weights.read_card(), attention=attention)
    alone = weights.load(weights.read_card())
    torch.manual_seed(3)
    network = Network(alone.shape, alone.settings, attention)
    training.adopt_weights(network, alone.state_dict())
    with torch.no_grad():
        for layer in network.stack.layers:
            layer.gate.weight.normal_()
    weights.write(glance_weights, network.state_dict(), card)


def test_bounds_do_not_pass_a_limit_that_the_series_rests_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zero_shot, "measure_stretch", lambda backtest, levels: dict.fromkeys(levels, 3.0))
    counts = np.random.default_rng(1).poisson(0.7, 60).astype(float)
    made = glance().fit(series(counts + 4)).predict(level=[80, 99.5])
    assert made["y-lo-99.5"].min() == 4.0
    free = glance().fit(series(counts + 0.01 * walk())).predict(level=[80, 99.5])
    assert free["y-lo-99.5"].min() < -0.1
    below = glance().fit(series(100 - counts)).predict(level=[80, 99.5])
    assert below["y-hi-99.5"].max() == 100.0


@pytest.mark.usefixtures("mixing_weights")
def test_columns_are_read_together_where_the_attention_mixes_them(tmp_path: Path) -> None:
    frame = wide()
    other = frame.assign(wind=frame["wind"].to_numpy()[::-1].copy())
    fitted = glance(intervals="quantile").fit(frame)
    one, two = fitted.predict()["load"], glance(intervals="quantile").fit(other).predict()["load"]
    assert not np.allclose(one, two)
    maps = fitted.explain()
    assert {name: part.shape[:3] for name, part in maps["layer 1"].items()} == {"local": (1, 2, 2), "cross": (1, 2, 2)}
    fitted.save(tmp_path / "model")
    pd.testing.assert_frame_equal(rv.Forecaster.load(tmp_path / "model").predict(), fitted.predict())
    tuned = glance(training={"epochs": 1}).fit(frame, tune=True, time_limit=20)
    assert np.isfinite(numbers(tuned.predict())).all()


@pytest.mark.usefixtures("mixing_weights")
def test_one_column_and_wide_tables_with_an_attention_that_mixes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zero_shot, "MOST_COLUMNS", 3)
    columns = pd.DataFrame({f"c{n}": walk(40, n) for n in range(7)}, index=pd.date_range("2024-01-01", periods=40))
    frame = columns.rename_axis("date").reset_index()
    made = glance(intervals="quantile").fit(frame).predict(level=[])
    assert np.isfinite(numbers(made)).all()
    # Groups of 3, 2 and 2: the last two columns are forecast as by themselves.
    pair = glance(intervals="quantile").fit(frame[["date", "c5", "c6"]]).predict(level=[])
    np.testing.assert_allclose(numbers(made[["date", "c5", "c6"]]), numbers(pair), rtol=1e-4, atol=1e-4)


def test_a_long_past_is_cut_with_a_note() -> None:
    values = walk(300)
    fitted = glance(intervals="quantile").fit(series(values))
    newest = glance(intervals="quantile").fit(series(values[-128:]))
    np.testing.assert_allclose(numbers(fitted.predict()), numbers(newest.predict()), rtol=1e-6)
    panel = fitted.read(series(values))
    forecasts, _ = fitted.forecast(panel)
    assert "newest 128 rows" in forecasts.notes[0]


def test_saved_forecasters_forecast_the_same_without_the_package_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = glance().fit(wide())
    fitted.save(tmp_path / "model")
    monkeypatch.setattr(weights, "FOLDER", tmp_path / "nowhere")
    loaded = rv.Forecaster.load(tmp_path / "model")
    assert isinstance(loaded.fitted, ZeroShot)
    pd.testing.assert_frame_equal(loaded.predict(), fitted.predict())
    assert [*loaded.explain()] == ["layer 1", "layer 2"]


def test_forecasts_need_no_internet(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection was asked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert len(rv.forecast(wide(), HORIZON, device="cpu")) == HORIZON


def test_attention_maps_are_named_by_columns_and_stamps() -> None:
    maps = glance().fit(wide(60)).explain()
    assert maps["layer 1"].shape[:3] == (1, 2, 2)
    assert maps.labels["layer 1"].groups == ("load", "wind")
    np.testing.assert_allclose(maps["layer 2"].sum(-1), 1, rtol=1e-5)


def test_intervals_are_stretched_by_backtest_windows_where_there_are_rows() -> None:
    assert glance().fit(series(walk(60))).fitted.stretch
    assert not glance(intervals="quantile").fit(series(walk(60))).fitted.stretch
    short = glance().fit(series(walk(12))).fitted
    assert not short.stretch
    assert "Too short for a backtest" in short.notes[-1]
    assert list(glance(intervals="none").fit(series(walk(60))).predict()) == ["date", "y"]


def test_tuning_trains_further_and_keeps_what_is_better() -> None:
    steps = np.arange(90)
    frame = series(np.where(steps % 2, 10.0, -10.0) + 0.01 * steps)
    start, tuned = glance().fit(frame), glance(training={"epochs": 8}).fit(frame, tune=True, time_limit=60)
    assert tuned.fitted.name == "glance_tuned"
    assert re.search(r"loss fell by \d", " ".join(tuned.fitted.notes))
    truth = np.where(np.arange(90, 95) % 2, 10.0, -10.0)
    errors = [np.abs(one.predict(level=[])["y"] - truth).mean() for one in (start, tuned)]
    assert errors[1] < errors[0]


def test_tuning_that_does_not_help_leaves_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zero_shot.Pretrained, "tuned", lambda self, session: self.start())
    fitted = glance().fit(series(walk(60)), tune=True).fitted
    assert fitted.name == "glance"
    assert any("did not lower" in note for note in fitted.notes)


def test_tuning_that_helps_before_the_last_rows_alone_leaves_the_weights_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tuned = zero_shot.Pretrained.tuned
    monkeypatch.setattr(
        zero_shot.Pretrained,
        "tuned",
        lambda self, session: self.start() if self.panel.lengths.max() == 90 else tuned(self, session),
    )
    steps = np.arange(90)
    frame = series(np.where(steps % 2, 10.0, -10.0) + 0.01 * steps)
    fitted = glance(training={"epochs": 8}).fit(frame, tune=True, time_limit=60).fitted
    assert fitted.name == "glance"
    assert any("gave nothing better" in note for note in fitted.notes)
    assert fitted.stretch == glance().fit(frame).fitted.stretch


def test_counters_are_not_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    learned = []
    tune = zero_shot.base.train_network

    def train(learner, task, source, *arguments):
        learned.append(source)
        return tune(learner, task, source, *arguments)

    monkeypatch.setattr(zero_shot.base, "train_network", train)
    meter = series(9000 + np.abs(walk(160)).cumsum())
    fitted = glance(training={"epochs": 1}).fit(meter, tune=True, time_limit=20).fitted
    assert (fitted.name, learned) == ("glance", [])
    assert zero_shot.COUNTERS_ALONE in fitted.notes
    glance(training={"epochs": 1}).fit(meter.assign(load=walk(160)), tune=True, time_limit=20)
    assert learned
    for source in learned:
        batch = source.batch(torch.arange(len(source)))
        assert not batch.observed[:, 0].any()
        assert batch.observed[:, 1].all()
        assert not batch.past[:, 0].any()


def test_training_that_does_not_help_on_rows_held_out_leaves_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zero_shot.train, "evaluate", lambda *arguments: 1.0)
    forecaster = glance(training={"epochs": 1})
    pretrained = zero_shot.Pretrained.of(forecaster.read_to_fit(series(walk(60))), forecaster.spec)
    start, tuned = pretrained.start(), pretrained.tuned(Session())
    assert tuned.name == "glance"
    for name, weight in start.network.state_dict().items():
        assert torch.equal(weight, tuned.network.state_dict()[name]), name


def test_weights_go_as_far_as_rows_held_out_like_best(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for losses in ([1.0, 0.5, 0.7], [1.0, 0.5, 0.4]):
        left = iter(losses)
        monkeypatch.setattr(zero_shot.train, "evaluate", lambda *arguments, left=left: next(left))
        forecaster = glance(training={"epochs": 1})
        pretrained = zero_shot.Pretrained.of(forecaster.read_to_fit(series(walk(60))), forecaster.spec)
        found.append(pretrained.tuned(Session()).network.state_dict())
    for name, weight in pretrained.start().network.state_dict().items():
        torch.testing.assert_close(found[0][name], (weight + found[1][name]) / 2)


@pytest.mark.parametrize("rows", [24, 60, 90, 400])
def test_windows_to_train_on_are_read_at_the_grain_of_forecasts(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lookbacks: list[int] = []

    def note_lookback(*given: Any, **options: Any) -> Source:
        lookbacks.append(given[3])
        return Source(*given, **options)

    monkeypatch.setattr(zero_shot, "Source", note_lookback)
    losses = iter([1.0, 0.9, 0.8])
    monkeypatch.setattr(zero_shot.train, "evaluate", lambda *arguments: next(losses))
    forecaster = glance(training={"epochs": 1})
    pretrained = zero_shot.Pretrained.of(forecaster.read_to_fit(series(walk(rows))), forecaster.spec)
    fitted = pretrained.tuned(Session())
    assert fitted.windows["validation"] > 0
    network = fitted.network
    assert isinstance(network, Network)
    grains = [network.choose_grain(length, HORIZON) for length in (lookbacks[0], fitted.lookback)]
    assert grains[0] is grains[1]


def test_glance_with_settings_of_its_own_is_trained_from_nothing() -> None:
    small = {"width": 8, "heads": 2, "depth": 1, "feed_forward": 8, "context": (8,), "ahead": (4,), "patches": (4,)}
    made = glance(settings=small, training={"epochs": 1}, lookback=16).fit(wide(100))
    assert not isinstance(made.fitted, ZeroShot)
    assert made.fitted.history is not None


def test_a_network_that_training_did_not_change_is_no_second_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zero_shot.train, "evaluate", lambda *arguments: 1.0)
    monkeypatch.setitem(zero_shot.TUNING, "epochs", Choice(1, ""))
    listed = portfolio.list_candidates
    wanted = ("seasonal_naive", "glance", "glance_tuned")
    monkeypatch.setattr(
        portfolio, "list_candidates", lambda *a, **k: [one for one in listed(*a, **k) if one.name in wanted]
    )
    board = rv.Forecaster(horizon=HORIZON, device="cpu").fit(series(walk(80)), time_limit=60).leaderboard()
    tuned = board.set_index("model").loc["glance_tuned"]
    assert tuned["weight"] == 0
    assert "nothing better" in tuned["note"]


def test_a_portfolio_counts_the_network_among_its_candidates() -> None:
    quick = rv.Forecaster(horizon=HORIZON, device="cpu").fit(series(walk(80)), quick=True)
    assert isinstance(quick.fitted, Ensemble)
    names = [one.name for one in quick.fitted.leaderboard]
    assert "glance" in names
    assert "glance_tuned" not in names
    standing = next(one for one in quick.fitted.leaderboard if one.name == "glance")
    assert standing.mase is not None


def test_long_series_are_also_read_from_their_newest_rows() -> None:
    rows = zero_shot.count_near_rows(HORIZON)
    assert rows is not None
    quick = rv.Forecaster(horizon=HORIZON, device="cpu").fit(series(walk(rows + 40)), quick=True)
    assert isinstance(quick.fitted, Ensemble)
    assert "glance_near" in [one.name for one in quick.fitted.leaderboard]
    near = [one for one in quick.fitted.members if one.name == "glance_near"]
    assert [one.lookback for one in near if isinstance(one, ZeroShot)] == [rows] * len(near)
    short = rv.Forecaster(horizon=HORIZON, device="cpu").fit(series(walk(rows)), quick=True)
    assert isinstance(short.fitted, Ensemble)
    assert "glance_near" not in [one.name for one in short.fitted.leaderboard]


def test_what_makes_no_sense_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TooShort, match="needs 3 rows"):
        glance(freq="D").fit(series(walk(2)))
    with pytest.raises(SettingsError, match="goes with model='glance'"):
        rv.Forecaster(model="patchtst", horizon=3).fit(series(walk(60)), tune=True)
    with pytest.raises(SettingsError, match="no place for columns known in the future"):
        glance(known="wind").fit(wide(60))
    with pytest.raises(InputError):
        rv.forecast(series(np.full(20, np.nan)), HORIZON)
    monkeypatch.setattr(weights, "FOLDER", tmp_path)
    with pytest.raises(SettingsError, match="has no weights of glance"):
        rv.forecast(series(walk()), HORIZON)
    quick = rv.Forecaster(horizon=HORIZON).fit(series(walk(30)), quick=True)
    assert "glance" not in [one.name for one in quick.fitted.leaderboard]
