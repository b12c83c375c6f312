"""Which windows early stopping looks at: all, until there are more than an epoch trains on."""

from pathlib import Path

import pytest
from samples import forecaster, wide

from rearview.estimators import base
from rearview.estimators.forecast import fit
from rearview.estimators.forecast.prediction import Fitted


def note(fitted: Fitted) -> list[str]:
    return [words for words in fitted.notes if words.startswith("Early stopping looks at")]


def test_all_of_a_few_windows() -> None:
    fitted = forecaster("dlinear").fit(wide(400)).fitted
    assert fitted.windows["validation"] > 20
    assert note(fitted) == []


def test_evenly_spaced_ones_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = forecaster("dlinear").fit(wide(400)).fitted.windows["validation"]
    monkeypatch.setattr(base, "LEAST_STOPPING", 8)
    fitted = forecaster("dlinear", training={"epochs": 1, "windows_per_epoch": 12}).fit(wide(400)).fitted
    some = fitted.windows["validation"]
    assert 6 <= some <= 12 < everything
    assert note(fitted) == [f"Early stopping looks at {some} of {everything} windows, evenly spaced."]
    assert fitted.history is not None
    assert fitted.history.epochs[0].validation_loss is not None


def test_the_least_number_holds_for_short_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "LEAST_STOPPING", 16)
    fitted = forecaster("dlinear", training={"epochs": 1, "windows_per_epoch": 2}).fit(wide(400)).fitted
    assert 9 <= fitted.windows["validation"] <= 16


def test_a_training_cut_short_looks_at_no_more_windows_than_it_learns_from() -> None:
    fitted = forecaster("dlinear", training={"batch": 4}).fit(wide(400), time_limit=1e-9).fitted
    assert fitted.windows["validation"] <= 4


def test_a_training_cut_short_is_taken_up_again_however_much_time_there_is_then(tmp_path: Path) -> None:
    kept = tmp_path / "checkpoint.safetensors"
    first = forecaster("dlinear").fit(wide(400), time_limit=1e-9, checkpoint=kept).fitted
    again = forecaster("dlinear").fit(wide(400), time_limit=1000, checkpoint=kept, resume=True).fitted
    assert first.history is not None
    assert again.history is not None
    assert again.history.epochs[: len(first.history.epochs)] == first.history.epochs
    assert again.history.ended == "epochs"
    assert again.windows == first.windows


def test_intervals_of_a_training_without_time_rest_on_fewer_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "TRAINING_RESIDUALS", 10)
    free = forecaster("dlinear").fit(wide(400)).fitted
    short = forecaster("dlinear").fit(wide(400), time_limit=1e-9).fitted
    assert free.residuals is not None
    assert short.residuals is not None
    assert 5 <= short.residuals.sorted.shape[-1] <= 10 < free.residuals.sorted.shape[-1]
