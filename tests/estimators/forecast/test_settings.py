"""Intervals, transforms, seeds, covariates, missing values: what a setting changes, and what it must not."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from samples import HORIZON, forecaster, long, numbers, wide

from rearview import Forecaster
from rearview.core.errors import InputError, SettingsError


def ahead(frame: pd.DataFrame, time: str, **inputs: Any) -> pd.DataFrame:
    """The steps after a frame with known inputs."""
    stamps = pd.date_range(frame[time].max(), periods=HORIZON + 1, freq="h")[1:]
    return pd.DataFrame({time: stamps, **inputs})


class TestIntervals:
    def test_quantiles_are_learned_for_the_levels_asked(self) -> None:
        model = forecaster(intervals="quantile", level=[50, 90], training={"epochs": 6}).fit(wide())
        future = model.predict()
        order = ["load-lo-90", "load-lo-50", "load", "load-hi-50", "load-hi-90"]
        assert (np.diff(future[order].to_numpy(), axis=1) >= 0).all()
        assert model.fitted.task.quantiles == (0.05, 0.25, 0.5, 0.75, 0.95)
        assert model.fitted.residuals is None
        with pytest.raises(SettingsError, match="trained for the levels 50, 90"):
            model.predict(level=[80])

    def test_none(self) -> None:
        model = forecaster("dlinear", intervals="none").fit(wide())
        assert list(model.predict().columns) == ["date", "load", "wind"]
        assert model.fitted.windows["calibration"] == 0
        with pytest.raises(SettingsError, match="without intervals"):
            model.predict(level=[80])

    def test_calibration_windows_neither_trained_nor_stopped(self) -> None:
        fitted = forecaster("dlinear").fit(wide()).fitted
        assert fitted.windows["train"] > 0
        assert fitted.windows["validation"] > 0
        assert fitted.residuals is not None
        assert fitted.residuals.counts.max() == fitted.windows["calibration"]

    def test_without_any_residual_there_is_no_interval(self) -> None:
        frame = wide()
        model = forecaster("dlinear").fit(frame.assign(wind=frame["wind"].where(frame.index < 60)))
        said, _ = model.forecast(model.tail)
        assert any("No value of 'wind' was held out to draw intervals from" in note for note in said.notes)
        assert not any("extremes" in note for note in said.notes)
        assert np.isfinite(said.mean).all()
        for low, high in said.intervals.values():
            assert (high[0, 0] > low[0, 0]).all()
            assert np.isnan([low[0, 1], high[0, 1]]).all()

    def test_few_residuals_are_pooled_and_it_is_said(self) -> None:
        model = forecaster("dlinear", lookback=12).fit(wide(70))
        answer, _ = model.forecast(model.tail)
        assert [note for note in answer.notes if "neighbouring steps" in note and "of 95 % needs 39" in note]
        one = forecaster("dlinear", lookback=12, horizon=3).fit(wide(21))
        answer, _ = one.forecast(one.tail)
        assert any("likely too narrow" in note for note in answer.notes)

    def test_without_rows_to_spare_training_residuals_stand_in_and_it_is_said(self) -> None:
        model = forecaster("dlinear", lookback=12).fit(wide(18))
        assert model.fitted.windows["calibration"] == 0
        assert any("likely too narrow" in note for note in model.fitted.notes)
        assert np.isfinite(numbers(model.predict())).all()

    def test_coverage_on_noise_is_near_the_level(self) -> None:
        rng = np.random.default_rng(3)
        stamps = pd.date_range("2024-01-01", periods=900, freq="h")
        frame = pd.DataFrame({"date": stamps} | {f"n{c}": rng.normal(size=900) for c in range(3)})
        result = forecaster("dlinear").backtest(forecaster().read(frame), 20)
        coverage = result.scores().coverage
        assert coverage[80.0] == pytest.approx(0.8, abs=0.09)
        assert coverage[95.0] == pytest.approx(0.95, abs=0.05)


class TestTransforms:
    def test_log1p_comes_back_in_original_units(self) -> None:
        frame = wide().assign(load=lambda one: np.exp(one["load"] / 10), wind=lambda one: np.exp(one["wind"] / 20))
        future = forecaster("dlinear", transform="log1p", training={"epochs": 20}).fit(frame).predict()
        for name in ("load", "wind"):
            assert future[name].between(frame[name].min() / 5, frame[name].max() * 5).all()
            assert (future[f"{name}-lo-95"] > -1).all()

    def test_log1p_equals_taking_logarithms_by_hand(self) -> None:
        frame = wide()
        inside = forecaster("dlinear", transform="log1p").fit(frame).predict()
        logged = frame.assign(load=np.log1p(frame["load"]), wind=np.log1p(frame["wind"]))
        outside = forecaster("dlinear").fit(logged).predict()
        np.testing.assert_allclose(numbers(inside), np.expm1(numbers(outside)), rtol=1e-5)

    def test_log1p_refuses_what_has_no_logarithm(self) -> None:
        frame = wide()
        frame.loc[77, "wind"] = -1.5
        with pytest.raises(InputError, match=r"above -1.*'wind'.*-1\.5 at 2024-03-04 05:00:00.*transform='none'"):
            forecaster(transform="log1p").fit(frame)

    def test_log1p_where_a_column_begins_late(self) -> None:
        frame = wide()
        frame.loc[:20, "load"] = np.nan
        assert np.isfinite(numbers(forecaster("dlinear", transform="log1p").fit(frame).predict())).all()

    def test_nonnegative_cuts_forecasts_and_bounds(self) -> None:
        frame = wide().assign(load=lambda one: one["load"] - 50)
        plain, cut = (forecaster("dlinear", nonnegative=flag).fit(frame).predict() for flag in (False, True))
        assert (numbers(plain) < 0).any()
        assert np.array_equal(numbers(cut), np.maximum(numbers(plain), 0))


class TestSeeds:
    @pytest.mark.parametrize("model", ["patchtst", "itransformer"])
    def test_two_fits_are_equal_bit_for_bit(self, model: str) -> None:
        futures = [forecaster(model, seed=seed).fit(wide()).predict() for seed in (3, 3, 4)]
        assert futures[0].equals(futures[1])
        assert not np.array_equal(numbers(futures[0]), numbers(futures[2]))

    def test_the_caller_s_random_state_is_left_alone(self) -> None:
        import torch

        torch.manual_seed(1)
        expected = torch.rand(3)
        torch.manual_seed(1)
        forecaster("dlinear").fit(wide()).predict()
        assert torch.equal(torch.rand(3), expected)


class TestCovariates:
    def test_past_inputs_are_used_by_itransformer(self) -> None:
        frame = wide(columns=("load", "wind", "rain"))
        model = forecaster("itransformer", target=["load"]).fit(frame)
        assert list(model.predict(level=[]).columns) == ["date", "load"]
        changed = frame.assign(rain=lambda one: one["rain"] + 20 * (one.index > 150))
        assert not np.array_equal(numbers(model.predict(changed)), numbers(model.predict()))
        with pytest.raises(InputError, match="no column 'rain'"):
            model.predict(frame.drop(columns="rain"))

    def test_past_inputs_are_not_used_by_patchtst_and_it_is_said(self) -> None:
        frame = wide(columns=("load", "wind", "rain"))
        model = forecaster(target="load").fit(frame)
        assert any("wind, rain are not used" in note for note in model.fitted.notes)
        assert np.array_equal(numbers(model.predict(frame.drop(columns="rain"))), numbers(model.predict()))

    @pytest.mark.parametrize("kind", ["pandas", "polars"])
    def test_known_inputs_of_a_wide_frame(self, kind: str) -> None:
        frame = wide()
        model = forecaster("itransformer", target=["load"], known=["wind"]).fit(frame)
        rows = ahead(frame, "date", wind=100.0, other="x")
        given = rows if kind == "pandas" else pl.from_pandas(rows)
        plain = model.predict(future=given)
        other = model.predict(future=rows.assign(wind=140.0))
        assert not np.array_equal(numbers(plain), numbers(other))
        assert list(plain.columns)[:2] == ["date", "load"]
        reordered = rows.iloc[::-1]
        assert np.array_equal(numbers(model.predict(future=reordered)), numbers(plain))

    def test_one_step_of_known_inputs_is_enough_for_a_horizon_of_one(self) -> None:
        frame = wide()
        model = forecaster("itransformer", horizon=1, target=["load"], known=["wind"]).fit(frame)
        assert len(model.predict(future=ahead(frame, "date", wind=100.0).head(1))) == 1

    def test_known_inputs_that_are_not_there_are_refused(self) -> None:
        frame = wide()
        model = forecaster("itransformer", target=["load"], known=["wind"]).fit(frame)
        rows = ahead(frame, "date", wind=100.0)
        with pytest.raises(InputError, match=r"wind are known in the future.*next 5 steps.*--future"):
            model.predict()
        with pytest.raises(InputError, match=r"no row for 2024-03-07 20:00:00; .*from 2024-03-07 16:00:00 to"):
            model.predict(future=rows.head(4))
        with pytest.raises(InputError, match="no column 'wind'"):
            model.predict(future=rows.drop(columns="wind"))
        gap = rows.assign(wind=[1.0, np.nan, 1.0, 1.0, 1.0])
        with pytest.raises(InputError, match=r"known input 'wind' is missing at 2024-03-07 17:00:00"):
            model.predict(future=gap)

    @pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
    def test_stamps_without_known_inputs_are_named_by_the_clock_of_the_data(self, zone: str | None) -> None:
        frame = wide()
        rows = ahead(frame, "date", wind=100.0)
        model = forecaster("itransformer", target=["load"], known=["wind"], timezone="Europe/Berlin")
        if zone is not None:
            frame, rows = (one.assign(date=one["date"].dt.tz_localize(zone)) for one in (frame, rows))
        shown = "" if zone is None else f" {zone}"
        with pytest.raises(
            InputError, match=rf"no row for 2024-03-07 20:00:00{shown}; .*from 2024-03-07 16:00:00{shown} to"
        ):
            model.fit(frame).predict(future=rows.head(4))

    def test_known_inputs_of_a_long_frame(self) -> None:
        frame = long(inputs=("heat",))
        model = forecaster("itransformer", known="heat").fit(frame)
        rows = pd.concat([ahead(frame, "ds", unique_id=name, heat=50.0) for name in ("south", "north")])
        plain = model.predict(future=rows)
        assert plain["unique_id"].unique().tolist() == ["north", "south"]
        hot = rows.assign(heat=np.where(rows["unique_id"] == "south", 90.0, 50.0))
        changed = numbers(model.predict(future=hot)) != numbers(plain)
        assert not changed[:HORIZON].any()
        assert changed[HORIZON:].all(axis=1).any()
        with pytest.raises(InputError, match="no rows for series 'north'"):
            model.predict(future=rows[rows["unique_id"] == "south"].assign(unique_id="south").pipe(_with_third))
        with pytest.raises(InputError, match="no rows for series 'north'"):
            model.predict(future=rows[rows["unique_id"] == "south"])
        back = model.cross_validation(frame, n_windows=1)
        assert len(back) == 2 * HORIZON

    def test_known_inputs_of_series_taken_together(self) -> None:
        frame = long({"north": 160, "south": 160}, inputs=("heat",))
        model = forecaster("itransformer", known="heat", together=True).fit(frame)
        rows = pd.concat([ahead(frame, "ds", unique_id=name, heat=50.0) for name in ("south", "north")])
        assert model.predict(future=rows)["unique_id"].unique().tolist() == ["north", "south"]

    def test_a_model_without_a_place_for_them_refuses(self) -> None:
        with pytest.raises(SettingsError, match=r"patchtst has no place.*\(wind\); use itransformer"):
            forecaster(target=["load"], known=["wind"]).fit(wide())

    def test_a_future_nobody_asked_for_is_refused(self) -> None:
        model = forecaster("dlinear").fit(wide())
        with pytest.raises(SettingsError, match="no column is named as known"):
            model.predict(future=ahead(wide(), "date", wind=1.0))

    def test_large_known_values_keep_their_digits(self) -> None:
        frame = wide().assign(wind=lambda one: 1.7e9 + np.arange(len(one)))
        model = forecaster("itransformer", target=["load"], known=["wind"]).fit(frame)
        steps = 1.7e9 + 160 + np.arange(HORIZON)
        near, far = (model.predict(future=ahead(frame, "date", wind=steps + move)) for move in (0, 20))
        assert not np.array_equal(numbers(near), numbers(far))

    def test_the_calendar_can_be_left_out(self) -> None:
        with_clock, without = (
            forecaster("itransformer", calendar=flag).fit(wide()).fitted.network.shape for flag in (True, False)
        )
        assert with_clock.marks == 4
        assert without.marks == 0


def _with_third(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([frame, frame.assign(unique_id="west")])


@pytest.mark.parametrize("limit", ["10s", 0, -5.0, True, float("nan")])
def test_a_time_limit_that_is_no_number_of_seconds_is_refused(limit: Any) -> None:
    for made in (forecaster("dlinear"), Forecaster(model="ridge", horizon=HORIZON)):
        for begin in (made.fit, made.cross_validation):
            with pytest.raises(SettingsError, match=r"time_limit is .*give the seconds"):
                begin(wide(), time_limit=limit)


def test_an_unknown_model_is_refused_with_the_members_of_a_portfolio_among_those_known() -> None:
    with pytest.raises(
        SettingsError, match=r"no model called 'arima'.*Known: auto, ets, theta, mstl, ridge, .*patchtst"
    ):
        forecaster("arima").fit(wide())


class TestMissingValues:
    def test_gaps_are_masked_and_forecasts_finite(self) -> None:
        frame = wide()
        rng = np.random.default_rng(0)
        frame.loc[rng.random(160) < 0.3, "load"] = np.nan
        model = forecaster().fit(frame.drop(index=range(40, 46)))
        found = {finding.what: finding.count for finding in model.findings}
        assert found["gaps"] == 6
        assert found["missing"] > 20
        assert np.isfinite(numbers(model.predict())).all()

    @pytest.mark.parametrize("rows", [slice(130, 159), slice(100, 130), slice(100, 159)])
    def test_a_stretch_that_was_never_observed_is_no_obstacle(self, rows: slice) -> None:
        frame = wide()
        frame.loc[rows, ["load", "wind"]] = np.nan
        model = forecaster("dlinear").fit(frame)
        assert np.isfinite(numbers(model.predict())).all()

    def test_nothing_to_learn_from_is_refused(self) -> None:
        frame = wide()
        frame.loc[:120, ["load", "wind"]] = np.nan
        with pytest.raises(InputError, match="nothing to learn from"):
            forecaster("dlinear").fit(frame)

    def test_constant_series_stay_constant(self) -> None:
        frame = wide().assign(load=4.25)
        future = forecaster().fit(frame).predict()
        np.testing.assert_allclose(future["load"], 4.25, atol=0.5)


def test_together_makes_channels_of_series() -> None:
    frame = long({"north": 160, "south": 160})
    model = forecaster("itransformer", together=True).fit(frame)
    assert model.fitted.network.shape.channels == 2
    future = model.predict(level=[80])
    assert list(future.columns) == ["unique_id", "ds", "itransformer", "itransformer-lo-80", "itransformer-hi-80"]
    assert future["unique_id"].tolist() == ["north"] * HORIZON + ["south"] * HORIZON
    apart = long({"north": 160, "south": 160})
    apart.loc[apart["unique_id"] == "south", "y"] *= 3
    assert not np.array_equal(numbers(model.predict(apart))[:HORIZON], numbers(future)[:HORIZON])


@pytest.mark.parametrize("loss", ["mse", "mae", "huber", "fredf"])
def test_losses_train(loss: str) -> None:
    model = forecaster("dlinear", loss=loss, training={"epochs": 8}).fit(wide())
    history = model.fitted.history
    assert history is not None
    assert history.epochs[-1].train_loss < history.epochs[0].train_loss


def test_a_loss_takes_settings(tmp_path: Path) -> None:
    share = {"name": "fredf", "time_share": 0.1}
    plain, shared = (forecaster("dlinear", loss=loss).fit(wide()) for loss in ("fredf", share))
    assert not np.array_equal(numbers(plain.predict(level=[])), numbers(shared.predict(level=[])))
    assert shared.spec.loss == forecaster(loss={"loss": "fredf", "time_share": 0.1}).spec.loss == share
    assert forecaster(loss={"name": "fredf", "time_share": 0.5}).spec.loss == "fredf"
    shared.save(tmp_path / "model")
    loaded = Forecaster.load(tmp_path / "model")
    assert loaded.spec.loss == share
    assert loaded.fitted.task.settings.time_share == 0.1
    with pytest.raises(SettingsError, match=r"fredf has no setting 'share'\. Did you mean 'time_share'"):
        forecaster(loss={"name": "fredf", "share": 0.1})


def test_several_id_columns_are_joined() -> None:
    frame = long().assign(shop=lambda one: one["unique_id"], product=7).drop(columns="unique_id")
    model = forecaster("dlinear", id_col=["shop", "product"], time_col="ds", target_col="y").fit(frame)
    future = model.predict(level=[])
    assert list(future.columns) == ["shop/product", "ds", "dlinear"]
    assert future["shop/product"].unique().tolist() == ["north/7", "south/7"]


def test_the_plan_says_why() -> None:
    model = forecaster(None, lookback=None, settings={}).fit(wide())
    assert model.fitted.name == "patchtst"
    for choices in model.fitted.plan.sections().values():
        assert all(choice.reason for choice in choices.values())


def test_a_naive_model_repeats_the_season_it_was_reported() -> None:
    frame = wide(columns=("load",))
    model = forecaster("seasonal_naive", lookback=None, season=30).fit(frame)
    assert model.fitted.lookback >= 30
    np.testing.assert_allclose(model.predict()["load"], frame["load"].to_numpy()[-30 : -30 + HORIZON], rtol=1e-6)


@pytest.mark.parametrize(("model", "tokens"), [("patchtst", None), ("itransformer", 6)])
def test_explain(model: str, tokens: int | None) -> None:
    fitted = forecaster(model).fit(wide())
    maps = fitted.explain()
    assert list(maps) == ["layer 1"]
    weights = maps["layer 1"]
    patches = fitted.fitted.network.patches.tokens if tokens is None else tokens
    assert weights.shape == (1, 2 if tokens is None else 1, 2, patches, patches)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
    assert np.array_equal(fitted.explain(wide())["layer 1"], weights)


def test_explain_refuses_what_has_no_attention() -> None:
    with pytest.raises(SettingsError, match="dlinear has no attention"):
        forecaster("dlinear").fit(wide()).explain()


def test_a_run_that_was_cut_off_is_taken_up_again(tmp_path: Any) -> None:
    class Stop:
        def begin(self, epochs: int, windows: int, done: int) -> None: ...
        def step(self, epoch: int, done: int, loss: Any) -> None: ...
        def end(self) -> None: ...
        def epoch(self, epoch: Any) -> None:
            raise RuntimeError("the power went")

    asked = {"training": {"epochs": 3}}
    whole = forecaster(**asked).fit(wide()).predict()
    path = tmp_path / "run.safetensors"
    with pytest.raises(RuntimeError, match="power"):
        forecaster(**asked, progress=Stop()).fit(wide(), checkpoint=path)
    assert path.exists()
    assert forecaster(**asked).fit(wide(), checkpoint=path, resume=True).predict().equals(whole)


def test_the_look_back_may_be_longer_than_most_series() -> None:
    frame = long({"north": 160, "a": 12, "b": 8})
    model = forecaster("dlinear", lookback=60).fit(frame)
    found = {finding.what: finding.count for finding in model.findings if finding.kind != "inferred"}
    assert found == {"short_series": 2, "untrained_series": 2}
    assert np.isfinite(numbers(model.predict())).all()
    with pytest.raises(InputError, match=r"lookback 160 \+ horizon 5 need 165 rows.*'north' has 160"):
        forecaster("dlinear", lookback=160).fit(frame)
