"""Forecasts of many series within a time: members that are too slow have no share in the series that are left."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from rearview import Forecaster
from rearview.data.panel import Finding, Panel
from rearview.data.windows import Windows, final_windows
from rearview.estimators.auto import deadline
from rearview.estimators.auto.deadline import forecast_in_time
from rearview.estimators.auto.ensemble import Ensemble, Standing
from rearview.estimators.auto.statistical import Statistical
from rearview.estimators.forecast.predictor import Array, Forecasts, Predictor

COUNT, ROWS, HORIZON, LEVELS = 23, 30, 3, (80.0,)
END = 20.0
"""Seconds that are kept for what follows the forecast."""


class Slow(SimpleNamespace):
    """A forecaster that says its level, and moves a clock on by some seconds for each series."""

    known = 0
    growth = 1.0

    def predict(self, panel: Panel, which: Windows, levels: tuple[float, ...], known: Array | None = None) -> Forecasts:
        self.clock[0] += self.seconds * len(which)
        self.seconds *= self.growth
        mean = np.full((len(which), 1, HORIZON), float(self.level))
        finding = Finding("warning", "short_past", len(which), f"{len(which):,} forecasts start from few rows.")
        bounds = dict.fromkeys(levels, (mean - 1, mean + 1))
        return Forecasts(which.series, mean, bounds, (finding.message,), (finding,))


@pytest.fixture
def stamps() -> pd.DatetimeIndex:
    return pd.date_range("2024-01-01", periods=ROWS)


@pytest.fixture
def panel(stamps: pd.DatetimeIndex, monkeypatch: pytest.MonkeyPatch) -> Panel:
    monkeypatch.setattr(deadline, "MANY", 10)
    monkeypatch.setattr(deadline, "PARTS", 5)
    frames = [
        pd.DataFrame({"unique_id": f"s{n:02d}", "ds": stamps, "y": n + 0.5 + np.arange(ROWS)}) for n in range(COUNT)
    ]
    return Forecaster(horizon=HORIZON).read_to_fit(pd.concat(frames))


@pytest.fixture
def run(panel: Panel, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Ensemble, Forecasts]]:
    """Forecast with members of (name, level, seconds a series, weight) in some seconds."""
    clock = [0.0]
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def forecast(*members: tuple[str, float, float, float], seconds: float) -> tuple[Ensemble, Forecasts]:
        made = [
            Slow(name=name, level=level, seconds=each, clock=clock, columns=panel.columns, lookback=9)
            for name, level, each, _ in members
        ]
        common = np.array([weight for *_, weight in members])
        whole = Ensemble(
            spec=Forecaster(horizon=HORIZON).spec, members=tuple(made), weights=np.tile(common, (COUNT, 1)),
            common=common, ids=panel.ids, columns=panel.columns, targets=1, known=0, step="D", period=1, stretch={},
            leaderboard=tuple(Standing(name, "", 1.0, 1.0, weight, 0.0) for name, *_, weight in members),
        )  # fmt: skip
        spare: Predictor = Statistical.of("seasonal_naive", panel, whole.spec, ())
        return forecast_in_time(whole, spare, panel, LEVELS, None, lambda slower: seconds - slower * END - clock[0])

    return forecast


def test_in_time_the_forecast_is_that_of_the_whole_ensemble(run: Callable[..., tuple[Ensemble, Forecasts]]) -> None:
    ensemble, made = run(("fast", 0.0, 1.0, 0.5), ("slow", 4.0, 10.0, 0.5), seconds=1e4)
    np.testing.assert_allclose(made.mean, 2.0)
    np.testing.assert_allclose(ensemble.weights, 0.5)
    assert [one.name for one in ensemble.members] == ["fast", "slow"]
    assert not ensemble.notes
    assert made.notes == (f"{COUNT} forecasts start from few rows.",)


def test_the_slow_member_has_no_share_in_the_series_that_are_left(
    run: Callable[..., tuple[Ensemble, Forecasts]],
) -> None:
    # Parts of five series: 5 s and 50 s each, and 23 s for all by the fast member leave the slow one two parts.
    ensemble, made = run(("slow", 4.0, 10.0, 0.75), ("fast", 0.0, 1.0, 0.25), seconds=145.0)
    np.testing.assert_allclose(made.mean[:10], 3.0)
    np.testing.assert_allclose(made.mean[10:], 0.0)
    np.testing.assert_allclose(made.intervals[80.0][0][10:], -1.0)
    assert np.isnan(made.members["slow"][10:]).all()
    np.testing.assert_allclose(ensemble.weights, [[0.75, 0.25]] * 10 + [[0.0, 1.0]] * 13)
    np.testing.assert_allclose(ensemble.common, [0.75, 0.25])
    board = {one.name: one for one in ensemble.leaderboard}
    assert board["slow"].weight == pytest.approx(0.75 * 10 / COUNT)
    assert board["slow"].note == f"no time left for 13 of {COUNT} series"
    assert ensemble.notes == (f"slow: no time left for 13 of {COUNT} series, where the others weigh more.",)


def test_series_of_a_single_slow_member_have_the_spare_forecast(
    run: Callable[..., tuple[Ensemble, Forecasts]], panel: Panel
) -> None:
    ensemble, made = run(("slow", 4.0, 10.0, 1.0), seconds=80.0)
    assert [one.name for one in ensemble.members] == ["slow", "seasonal_naive"]
    np.testing.assert_allclose(made.mean[:5], 4.0)
    last = panel.values[panel.offsets[1:] - 1, 0] + panel.centre[:, 0]
    np.testing.assert_allclose(made.mean[5:, 0, 0], last[5:])
    again = replace(ensemble, members=ensemble.members[1:], weights=ensemble.weights[:, 1:], common=np.ones(1))
    np.testing.assert_allclose(again.predict(panel, final_windows(panel), LEVELS).mean[5:], made.mean[5:])


def test_what_slows_down_leaves_more_time_for_the_end(
    run: Callable[..., tuple[Ensemble, Forecasts]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Parts of five series take 10 s, 20 s and 40 s; then the end would take four times its 20 s, and no part fits.
    monkeypatch.setattr(Slow, "growth", 2.0)
    ensemble, _ = run(("slow", 4.0, 2.0, 1.0), seconds=180.0)
    assert ensemble.leaderboard[0].note == f"no time left for 8 of {COUNT} series"


@pytest.mark.parametrize(
    "stamps", [pd.date_range(end=pd.Timestamp("2024-03-31 00:00", tz="Europe/Berlin"), periods=ROWS, freq="h")]
)
def test_an_hour_that_clocks_skip_takes_no_share_from_what_was_forecast_in_time(
    run: Callable[..., tuple[Ensemble, Forecasts]],
) -> None:
    # All 253 s of the three steps are there; for the fourth step of the clock the slow one has time for a part alone.
    ensemble, made = run(("slow", 4.0, 10.0, 0.5), ("fast", 0.0, 1.0, 0.5), seconds=350.0)
    np.testing.assert_allclose(made.mean[:, 0, :2], 2.0)
    np.testing.assert_allclose(made.mean[:, 0, 2], [2.0] * 5 + [0.0] * 18)
    np.testing.assert_allclose(ensemble.weights, 0.5)
    assert [one.weight for one in ensemble.leaderboard] == [0.5, 0.5]
    assert not ensemble.notes
