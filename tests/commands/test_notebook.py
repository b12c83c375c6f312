"""Estimators in a notebook: their figures, their pages, how they are displayed."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "estimators/detect"))
sys.path.insert(0, str(Path(__file__).parents[1] / "estimators/classify"))

import sensors
from samples import long, wide
from small_sets import SETTINGS, TRAINING, waves

import rearview as rv
from rearview.core.errors import InputError, SettingsError

ODD = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def linear() -> rv.Forecaster:
    return rv.Forecaster(horizon=6, model="dlinear", lookback=24, training={"epochs": 1}, device="cpu").fit(wide())


@pytest.fixture(scope="module")
def portfolio() -> rv.Forecaster:
    return rv.Forecaster(horizon=6, model="theta", device="cpu").fit(wide().iloc[:, :2])


@pytest.fixture(scope="module")
def detector() -> rv.Detector:
    return sensors.detector("dlinear", mode="forecast", label_col="label").fit(sensors.ordinary())


@pytest.fixture(scope="module")
def classifier() -> rv.Classifier:
    X, y = waves()
    return rv.Classifier("patchtst", settings=SETTINGS, training=TRAINING, device="cpu").fit(X, y)


def lines(figure) -> dict[str, list]:
    """The traces of a figure by name."""
    found: dict[str, list] = {}
    for trace in figure.data:
        found.setdefault(trace.name, []).append(trace)
    return found


def test_a_forecast_is_drawn_as_it_is_predicted(linear):
    columns = wide().columns[1:]
    drawn = lines(linear.plot(level=[80]))
    assert len(drawn["history"]) == len(columns)
    future = linear.predict(level=[80])
    for trace, name in zip(drawn["dlinear"], columns, strict=True):
        np.testing.assert_allclose(trace.y, future[name], rtol=1e-6)
        assert list(pd.to_datetime(trace.x)) == list(future["date"])
    low, high = drawn["80 %"][:2]
    np.testing.assert_allclose(low.y, future[f"{columns[0]}-lo-80"], rtol=1e-6)
    np.testing.assert_allclose(high.y, future[f"{columns[0]}-hi-80"], rtol=1e-6)
    assert drawn["history"][0].y[-1] == pytest.approx(wide()[columns[0]].iloc[-1], rel=1e-6)


def test_series_and_history_are_chosen(linear):
    last = wide().columns[-1]
    drawn = lines(linear.plot(series=last, history=10))
    (history,) = drawn["history"]
    np.testing.assert_allclose(history.y, wide()[last].iloc[-10:], rtol=1e-6)
    with pytest.raises(InputError, match=f"no series 'nowhere' to draw.*'{last}'"):
        linear.plot(series="nowhere")
    with pytest.raises(SettingsError, match="has not been fitted"):
        rv.Forecaster(horizon=3).plot()


def test_of_many_series_some_are_drawn_and_it_is_said():
    frame = pd.concat([long().assign(unique_id=lambda f, n=n: f["unique_id"].astype(str) + str(n)) for n in range(4)])
    many = rv.Forecaster(horizon=3, model="seasonal_naive", device="cpu").fit(frame[["unique_id", "ds", "y"]])
    figure = many.plot()
    assert len(lines(figure)["history"]) == 6
    assert "choose others with series=" in figure.layout.title.text


def test_the_page_of_a_network_has_its_backtest_beside_baselines(linear, tmp_path):
    path = linear.report(tmp_path / "deep" / "page.html", n_windows=2)
    text = path.read_text(encoding="utf-8")
    assert "over 2 backtest windows of 6 steps" in text
    assert "seasonal_naive" in text
    assert "Make it again" in text
    assert re.search(r"rv\.Forecaster\(.*model=&#x27;dlinear&#x27;.*\)\.fit\(frame\)\.report\(", text)
    bare = linear.report(tmp_path / "bare.html", n_windows=0).read_text(encoding="utf-8")
    assert "There was no backtest, as asked" in bare


def test_the_page_of_a_portfolio_has_the_backtest_of_its_fit(portfolio, tmp_path):
    text = portfolio.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert portfolio.portfolio is not None
    windows = len(portfolio.portfolio.backtest.cutoffs)
    assert f"over {windows} backtest window" in text
    portfolio.save(tmp_path / "model")
    loaded = rv.Forecaster.load(tmp_path / "model")
    assert len(lines(loaded.plot())["history"][0].y) > 0
    again = loaded.report(tmp_path / "loaded.html").read_text(encoding="utf-8")
    assert "The backtest of a portfolio is not saved with it" in again
    assert "rv.Forecaster.load(" in again


def test_new_rows_are_drawn_and_reported_without_training(linear, tmp_path):
    new = wide().iloc[:-8]
    trace = lines(linear.plot(new, series=wide().columns[1]))["dlinear"][0]
    np.testing.assert_allclose(trace.y, linear.predict(new)[wide().columns[1]], rtol=1e-6)
    assert "There was no backtest" in linear.report(tmp_path / "new.html", new).read_text(encoding="utf-8")


def test_known_inputs_go_into_figure_and_page(tmp_path):
    stamps = pd.date_range("2024-01-01", periods=126, freq="D")
    promo = (np.arange(126) % 9 == 0).astype(float)
    frame = pd.DataFrame({"date": stamps, "sales": 50 + 20 * promo + np.arange(126) % 7, "promo": promo})
    future = frame[120:][["date", "promo"]]
    fitted = rv.Forecaster(horizon=6, model="ridge", target="sales", known=["promo"], device="cpu").fit(frame[:120])
    with pytest.raises(InputError):
        fitted.plot()
    trace = lines(fitted.plot(future=future))["ridge"][0]
    np.testing.assert_allclose(trace.y, fitted.predict(future=future)["sales"], rtol=1e-6)
    text = fitted.report(tmp_path / "page.html", future=future).read_text(encoding="utf-8")
    assert "Effect of promo" in text


def test_alarms_are_drawn_over_channels_and_score(detector):
    flags, segments = detector.predict(sensors.broken())
    figure = detector.plot()
    drawn = lines(figure)
    np.testing.assert_allclose(drawn["score"][0].y, flags["score"], rtol=1e-6)
    assert set(drawn["threshold"][0].y) == {flags["threshold"].iloc[0]}
    assert len(drawn["alarm"][0].x) == len(segments) > 0
    marked = 2
    assert len(figure.layout.shapes) == len(segments) + marked
    assert {"load", "heat", "noise"} <= set(drawn)
    assert set(lines(detector.plot(sensors.broken(), channels="heat"))) == {"heat", "score", "threshold", "alarm"}
    with pytest.raises(InputError, match=r"no channel 'hear' to draw. Did you mean 'heat'"):
        detector.plot(sensors.broken(), channels=["hear"])


def test_the_page_of_a_detection_is_that_of_the_command(detector, tmp_path):
    text = detector.report(tmp_path / "page.html", sensors.broken()).read_text(encoding="utf-8")
    assert "Against the labels" in text
    assert "2 of 2 marked anomalies are found" in text
    assert ".report(" in text
    with pytest.raises(SettingsError, match="give both"):
        detector.plot(labels="label")
    detector.save(tmp_path / "model")
    with pytest.raises(SettingsError, match="has judged no rows yet"):
        rv.Detector.load(tmp_path / "model").plot()


def test_classes_and_confused_cases_are_drawn(classifier):
    X, y = waves(45, seed=7)
    wrong = y.copy()
    wrong[:3] = ["quick", "flat", "slow"]  # of slow, quick and flat waves: three that can't be classified correctly
    figure = classifier.plot(X, wrong)
    counts = np.asarray(figure.data[0].customdata)
    np.testing.assert_array_equal(counts, classifier.confusion(X, wrong).counts)
    assert f"{100 * np.trace(counts) / 45:.1f} % of 45 cases classified correctly" in figure.layout.title.text
    cases = classifier.plot(X, wrong, kind="cases")
    titles = [note.text for note in cases.layout.annotations]
    assert len(titles) >= 3
    assert any(re.fullmatch(r"case 1: quick taken for slow \(\d+ %\)", title) for title in titles)
    with pytest.raises(SettingsError, match="it is one of confusion, cases"):
        classifier.plot(X, y, kind="case")
    with pytest.raises(SettingsError, match="give X and y"):
        classifier.plot()


def test_a_portfolio_tells_its_training_cases_by_fits_that_did_not_see_them():
    X, y = waves(18, channels=1, steps=24)
    fitted = rv.Classifier(seed=1, device="cpu").fit(X, y)
    board = fitted.leaderboard()
    counts = np.asarray(fitted.plot().data[0].customdata)
    assert counts.sum() == 18
    assert np.trace(counts) / 18 == pytest.approx(board["accuracy"][-1])


def test_the_page_of_a_classification_draws_what_was_confused(classifier, tmp_path):
    X, y = waves(45, seed=7)
    y[:3] = ["quick", "flat", "slow"]
    text = classifier.report(tmp_path / "page.html", X, y).read_text(encoding="utf-8")
    assert "of 45 test cases correctly" in text
    assert '<section id="confused" aria-labelledby="confused-title">' in text
    classifier.save(tmp_path / "model")
    loaded = rv.Classifier.load(tmp_path / "model")
    again = loaded.report(tmp_path / "loaded.html", X, y).read_text(encoding="utf-8")
    assert "of 45 cases correctly" in again
    assert "rv.Classifier.load(" in again
    with pytest.raises(SettingsError, match="give X and y"):
        loaded.plot()


def test_names_in_figures_are_text():
    frame = wide().iloc[:, :2].rename(columns={wide().columns[1]: ODD})
    figure = rv.Forecaster(horizon=3, model="seasonal_naive", device="cpu").fit(frame).plot()
    assert ODD not in figure.to_json().replace("\\u003c", "<").replace("\\u003e", ">")


def test_estimators_are_displayed(linear, portfolio, detector, classifier):
    told = linear._repr_html_()
    assert "fitted" in told
    assert "6 steps" in told
    assert "&#x27;epochs&#x27;: 1" in told
    assert "theta" in portfolio._repr_html_()
    assert "Leaderboard" in portfolio._repr_html_()
    assert "threshold" in detector._repr_html_()
    assert "flat, quick, slow" in classifier._repr_html_()
    assert "not fitted" in rv.Detector()._repr_html_()
    assert ODD not in rv.Forecaster(horizon=3, target=ODD)._repr_html_()


def test_results_are_displayed(detector, classifier):
    frame = sensors.broken()
    prediction = detector.predict(frame)
    assert f"{len(prediction.segments)} segment" in prediction._repr_html_()
    assert "auc_pr" in detector.evaluate(frame)._repr_html_()
    X, y = waves(12, seed=3)
    assert ">slow</th>" in classifier.confusion(X, y)._repr_html_()
    odd = classifier.confusion(X, np.where(y == "slow", ODD, y))
    assert ODD not in odd._repr_html_()


def test_nothing_of_a_picture_is_imported_before_one_is_asked_for():
    program = (
        "import sys, rearview as rv; rv.Forecaster(horizon=3)._repr_html_(); "
        "print(*(name for name in sys.modules if name.startswith(('plotly', 'rearview.report', 'rearview.commands'))))"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout.split()
    assert loaded == []
