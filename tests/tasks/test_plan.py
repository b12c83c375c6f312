"""Defaults that need no knowledge: each fits the data and says why."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_panels import panel_of

from rearview import models, train
from rearview.data.panel import Panel
from rearview.data.step import Step
from rearview.tasks import plan as planning
from rearview.tasks.plan import Choice

STEPS = ("s", "15min", "h", "D", "B", "W", "MS", "ME", "QS", "YS", "1")


def panel_with(step: str, length: int, inputs: int = 0) -> Panel:
    one = Step.parse(step)
    start = 0 if one.unit == "int" else np.datetime64("2024-01-01", "us")
    return replace(panel_of((length,), targets=1, inputs=inputs), step=one, stamps=one.grid(start, length))


@pytest.mark.parametrize(
    ("step", "length", "horizon", "lookback", "season"),
    [
        ("h", 17_520, 24, 336, 24),  # two weeks
        ("h", 1_000, 24, 48, 24),  # two days, because a year of weeks is not there
        ("D", 730, 14, 28, 7),  # the horizon decides
        ("D", 730, 3, 16, 7),  # the least that is useful
        ("MS", 144, 12, 24, 12),
        ("MS", 240, 6, 24, 12),  # two years
        ("QS", 60, 4, 16, 4),
        ("1", 500, 10, 20, 1),
        ("MS", 20, 3, 8, 1),  # short: eight rows, and a season does not fit twice
    ],
)
def test_choices_for_common_data(step: str, length: int, horizon: int, lookback: int, season: int) -> None:
    panel = panel_with(step, length)
    chosen = planning.choose_lookback(panel, horizon, None, length)
    assert chosen.value == lookback
    assert chosen.reason
    assert planning.choose_season(panel, None, length).value == season


def test_what_was_asked_for_stands() -> None:
    panel = panel_with("h", 500)
    assert planning.choose_lookback(panel, 24, 7, 500) == planning.Choice(7, planning.GIVEN)
    assert planning.choose_season(panel, 5, 500) == planning.Choice(5, planning.GIVEN)
    assert planning.choose_model(panel, "dlinear") == planning.Choice("dlinear", planning.GIVEN)


def test_inputs_decide_the_model() -> None:
    assert planning.choose_model(panel_with("h", 50), None).value == "patchtst"
    assert planning.choose_model(panel_with("h", 50, inputs=1), None).value == "itransformer"


@settings(deadline=None, max_examples=200)
@given(step=st.sampled_from(STEPS), length=st.integers(2, 5000), horizon=st.integers(1, 300))
def test_lookback_and_horizon_always_fit(step: str, length: int, horizon: int) -> None:
    if length <= horizon:
        return
    panel = panel_with(step, length)
    lookback = planning.choose_lookback(panel, horizon, None, length).value
    assert 1 <= lookback <= planning.LONGEST_LOOKBACK
    assert lookback + horizon <= length
    season = planning.choose_season(panel, None, length)
    assert season.value == 1 or 2 * season.value <= length
    naive = planning.naive_lookback(season, planning.Choice(lookback, ""), horizon, length).value
    assert naive + horizon <= length
    assert naive >= season.value or season.value + horizon > length


@settings(deadline=None, max_examples=60)
@given(
    name=st.sampled_from(models.names()),
    lookback=st.integers(1, 200),
    season=st.integers(1, 60),
    samples=st.integers(1, 1_000_000),
)
def test_the_chosen_settings_make_a_network(name: str, lookback: int, season: int, samples: int) -> None:
    chosen = planning.model_settings(name, lookback, season, samples, on_gpu=False)
    assert all(choice.reason for choice in chosen.values())
    values = {key: choice.value for key, choice in chosen.items()}
    network = models.create(name, channels=2, lookback=lookback, steps=3, **values)
    assert network.shape.lookback == lookback


@settings(deadline=None, max_examples=200)
@given(
    windows=st.integers(1, 10_000_000),
    channels=st.integers(1, 2000),
    validation=st.integers(0, 100),
    on_gpu=st.booleans(),
)
def test_the_chosen_training_is_bounded(windows: int, channels: int, validation: int, on_gpu: bool) -> None:
    chosen = planning.training_settings(windows, channels, validation, on_gpu)
    asked = train.Settings(**{key: choice.value for key, choice in chosen.items()})
    assert asked.batch <= 256
    updates = asked.epochs * -(-min(windows, asked.windows_per_epoch or windows) // asked.batch)
    assert updates <= 6000
    assert (asked.patience is None) == (validation == 0)


@pytest.mark.parametrize(
    ("step", "length", "horizon", "value", "reason"),
    [
        ("D", 400, 7, 16, "the shortest that is useful"),
        ("D", 400, 8, 16, "twice the horizon of 8"),
        ("h", 3000, 12, 336, "two seasons of 168 steps"),
        ("min", 100_000, 12, 1024, "the longest that is chosen"),
        ("D", 60, 14, 9, "half of what 60 rows leave beside three horizons of 14"),
        ("D", 30, 7, 8, "the shortest that is chosen"),
        ("D", 12, 7, 5, "what 12 rows leave for it"),
    ],
)
def test_the_reason_of_a_look_back_is_that_of_its_number(
    step: str, length: int, horizon: int, value: int, reason: str
) -> None:
    assert planning.choose_lookback(panel_with(step, length), horizon, None, length) == Choice(value, reason)


@pytest.mark.parametrize(
    ("lookback", "patch", "reason"),
    [
        (336, 16, "the original's"),
        (48, 8, "about a sixth of the look-back of 48"),
        (16, 2, "about a sixth of the look-back of 16"),
        (8, 2, "the least that makes a patch"),
    ],
)
def test_the_reason_of_a_patch_is_that_of_its_number(lookback: int, patch: int, reason: str) -> None:
    chosen = planning.model_settings("patchtst", lookback, 7, 1000, on_gpu=False)
    assert chosen["patch"] == Choice(patch, reason)


def test_sizes_that_go_by_another_follow_the_one_that_is_given() -> None:
    chosen = planning.model_settings("patchtst", 336, 7, 1000, on_gpu=False)
    found = planning.override(chosen, {"patch": 5, "width": 24})
    assert {name: found[name].value for name in ("patch", "stride", "width", "feed_forward")} == {
        "patch": 5, "stride": 2, "width": 24, "feed_forward": 48,
    }  # fmt: skip
    assert found["heads"] == chosen["heads"]
    assert planning.override(chosen, {"patch": np.int64(5)})["stride"] == found["stride"]
    set_apart = planning.override(chosen, {"patch": 5, "stride": 3, "width": 24, "feed_forward": 7})
    assert (set_apart["stride"].value, set_apart["feed_forward"].value) == (3, 7)
    other = {"feed_forward": Choice(128, "enough for cases by the hundred")}
    assert planning.override(other, {"width": 24})["feed_forward"].value == 128


def test_a_season_that_does_not_fit_the_look_back_is_said() -> None:
    chosen = planning.model_settings("seasonal_naive", lookback=16, season=52, samples=100, on_gpu=False)
    assert chosen["period"].value == 1
    assert "52" in chosen["period"].reason
    assert planning.model_settings("seasonal_naive", 52, 52, 100, False)["period"].value == 52


def test_a_plan_comes_back_from_plain_data() -> None:
    choices = [planning.Choice(value, f"because of {value}") for value in (24, 7, 64, "cosine")]
    lookback, season, width, schedule = choices
    plan = planning.Plan(lookback=lookback, season=season, model={"width": width}, training={"schedule": schedule})
    facts = plan.to_dict()
    assert sorted(facts) == ["lookback", "model.width", "season", "training.schedule"]
    assert planning.Plan.from_dict(facts) == plan
    without = planning.Plan(lookback=lookback, season=season, model={}, training={})
    assert planning.Plan.from_dict(without.to_dict()) == without
