"""The verdict says whether the model is worth it, names a simpler one that does better, owns up to its intervals."""

import math

from rearview.commands.forecast.verdict import ScoredModel, verdict
from rearview.core.wording import quantity
from rearview.estimators.forecast.backtest import Scores


def scored(name: str, mase: float, *, baseline: bool = False, coverage: float = 0.95, mae: float = 1.0) -> ScoredModel:
    scores = Scores(mse=1.0, mae=mae, mase=mase, smape=1.0, rmsse=1.0, pinball=1.0, coverage={95.0: coverage})
    return ScoredModel(name, baseline, scores)


NAIVE = scored("seasonal_naive", 1.0, baseline=True)


def test_a_model_that_is_worth_it() -> None:
    said = verdict((scored("patchtst", 0.5), NAIVE, scored("dlinear", 0.7, baseline=True)), 5, 24)
    assert said == (
        "patchtst beats the seasonal naive forecast: MASE 0.5 against 1, 50 % lower, "
        "over 5 backtest windows of 24 steps."
    )


def test_a_simpler_model_that_does_better_is_named() -> None:
    said = verdict((scored("patchtst", 0.8), NAIVE, scored("dlinear", 0.7, baseline=True)), 1, 1)
    assert "beats the seasonal naive" in said
    assert said.endswith("dlinear does better (MASE 0.7): use it with --model dlinear.")
    said = verdict((scored("itransformer", 0.8), NAIVE, scored("dlinear", 0.7, baseline=True)), 1, 1, known=True)
    assert said.endswith("use it with --model dlinear, without --known and --future.")
    said = verdict((scored("patchtst", 1.2), NAIVE), 1, 1)
    assert "does not beat" in said
    assert "20 % higher, over 1 backtest window of 1 step." in said
    assert said.endswith("seasonal_naive does better (MASE 1): use it with --model seasonal_naive.")


def test_a_portfolio_is_never_told_to_run_again_with_one_of_its_members() -> None:
    said = verdict((scored("auto", 1.2), NAIVE), 5, 24)
    assert said == (
        "auto does not beat the seasonal naive forecast: MASE 1.2 against 1, 20 % higher, "
        "over 5 backtest windows of 24 steps."
    )


def test_intervals_that_did_not_hold_are_called_out() -> None:
    said = verdict((scored("patchtst", 0.5, coverage=0.54), NAIVE), 5, 24)
    assert said.endswith("The 95 % intervals of patchtst held only 54 % of the time: do not rely on them.")
    assert "rely" not in verdict((scored("patchtst", 0.5, coverage=0.86), NAIVE), 5, 24)


def test_intervals_are_distinguished_from_those_of_the_simpler_model() -> None:
    said = verdict((scored("patchtst", 1.2, coverage=0.83), NAIVE), 5, 24)
    assert "--model seasonal_naive. The 95 % intervals of patchtst held only 83 % of the time" in said


def test_without_a_scaled_error_the_mean_absolute_one_decides() -> None:
    flat = scored("seasonal_naive", math.nan, baseline=True, mae=2.0)
    assert "MAE 1 against 2, 50 % lower" in verdict((scored("patchtst", math.nan), flat), 5, 24)


def test_errors_that_print_alike_are_level() -> None:
    said = verdict((scored("patchtst", 0.9999), NAIVE), 5, 24)
    assert said.startswith("patchtst is level with the seasonal naive forecast: MASE 1 against 1, over 5 backtest")


def test_windows_without_a_value_have_no_verdict() -> None:
    nothing = (scored("patchtst", math.nan, mae=math.nan), scored("seasonal_naive", math.nan, mae=math.nan))
    said = verdict(nothing, 1, 24)
    assert said == (
        "No value was observed in 1 backtest window of 24 steps, so nothing is known about how good this forecast is."
    )


def test_no_backtest_no_verdict() -> None:
    assert verdict((), 0, 24, skipped=True).startswith("There was no backtest, as asked")
    assert verdict((), 0, 24).startswith("The data is too short for a backtest")
    assert verdict((scored("patchtst", 0.5),), 2, 3).startswith("Without a naive baseline there is no verdict")


def test_counts_are_read_at_a_glance() -> None:
    assert [quantity(number, "row") for number in (0, 1, 2, 3498)] == ["0 rows", "1 row", "2 rows", "3,498 rows"]


def test_a_run_stopped_before_its_backtest_is_not_called_too_short() -> None:
    said = verdict((), 5, 24)
    assert said == "The run was stopped before a backtest, so nothing is known about how good this forecast is."
