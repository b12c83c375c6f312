"""The forecaster: from a frame or file to forecasts with intervals, in original units and with real time stamps.

forecaster = Forecaster(model="patchtst", horizon=96)
forecaster.fit(frame)
future = forecaster.predict(level=[80, 95])
backtest = forecaster.cross_validation(frame, n_windows=5)
forecaster.save("model/")
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rearview import train
from rearview.core.errors import SettingsError
from rearview.core.wording import quantity
from rearview.data.infer.timestamps import show
from rearview.data.infer.wall_time import to_wall_time
from rearview.data.io.files import select_present
from rearview.data.io.table import Table
from rearview.data.panel import Finding, Panel
from rearview.data.panel_checks import check_years, drop_empty_targets, note_ends
from rearview.data.panel_reader import open_source, read_panel, settle
from rearview.data.read_options import ReadOptions
from rearview.data.step import Step
from rearview.data.wall_clock import follow_clock, spare_rows
from rearview.data.windows import final_windows
from rearview.estimators import base
from rearview.estimators.auto import fit as portfolio
from rearview.estimators.auto import schedule
from rearview.estimators.auto.ensemble import Ensemble, find_attention
from rearview.estimators.auto.fit import AutoFit
from rearview.estimators.base import Estimator, Session, load_views
from rearview.estimators.clock_view import ClockView, predict_on_clock
from rearview.estimators.forecast import backtest as backtesting
from rearview.estimators.forecast import storage
from rearview.estimators.forecast.as_of import AsOf
from rearview.estimators.forecast.attention_maps import AttentionMaps, explain_windows, select_series
from rearview.estimators.forecast.backtest import Backtest, PanelHistory, select_columns
from rearview.estimators.forecast.fit import fit
from rearview.estimators.forecast.frames import WhatIf, backtest_frame, forecast_frame, what_if_frame
from rearview.estimators.forecast.known_inputs import change_known, read_known
from rearview.estimators.forecast.new_rows import anchor_months, check_values, keep_time_of_day
from rearview.estimators.forecast.prediction import Fitted, check_finite, variables
from rearview.estimators.forecast.predictor import Array, Forecasts, Predictor
from rearview.estimators.forecast.spec import ForecasterOptions, ForecastSpec, check_limit, read_levels
from rearview.estimators.frames import Columns, Frame, has_whole_ids, read_on_step, to_native
from rearview.pretrained import weights

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


class Forecaster(Estimator[Predictor]):
    """Forecasts with intervals from a weighted portfolio or from one trained network."""

    @base.takes(ForecasterOptions)
    def __init__(self, options: ForecasterOptions) -> None:
        """What to forecast and how; anything you omit is chosen from the data, with a reason (`fitted.plan`)."""
        self.spec = ForecastSpec.pick(options)
        base.resolve_device(self.spec.device)
        train.follower(options.progress)
        self.reading = options.read_options()
        self.alias = options.alias
        self.progress = options.progress
        self._rows: Panel | None = None
        self._tail: Panel | None = None
        self._portfolio: AutoFit | None = None
        self._trained: ReadOptions | None = None
        self._whole_ids = False

    def fit(
        self,
        frame: Frame,
        *,
        time_limit: float | None = None,
        quick: bool = False,
        tune: bool = False,
        checkpoint: Path | str | None = None,
        resume: bool = False,
    ) -> "Forecaster":
        """Fit to a frame or file; with `checkpoint` a run that was cut off is taken up again by `resume=True`.

        `time_limit` is in seconds, about; `quick` leaves networks that train out of a portfolio. `glance` is forecast
        with as it came; `tune` trains it further on the frame, and keeps that where a backtest is the better for it.

        Series of a long frame, and columns of a wide one, without any value are left out: they have no forecast, and a
        warning (through logging) names them. So it does series that are too short to be trained on.
        """
        started = time.perf_counter()
        check_limit(time_limit)
        panel = self.read_to_fit(frame)
        self._warn(frame, panel.findings)
        path = None if checkpoint is None else Path(checkpoint)
        fitted: Predictor
        if tune and self.spec.model not in (weights.NAME, *weights.names()):
            raise SettingsError("tune trains weights further that came with the package; it goes with model='glance'.")
        if self.spec.is_portfolio:
            rounded = isinstance(frame, Panel) or portfolio.is_sampled(panel)
            known_at = None if rounded else AsOf.of(frame, panel, self.reading)
            limit = schedule.DEFAULT_LIMIT if time_limit is None else time_limit
            options = schedule.Options(
                time_limit=limit, quick=quick, checkpoints=path, resume=resume, progress=self.progress
            )
            if self.progress is True:
                with train.JobLine(limit) as line:
                    options = replace(options, progress=line, stage=line.stage)
                    auto_fit = portfolio.fit(panel, self.spec, options, known_at)
            else:
                auto_fit = portfolio.fit(panel, self.spec, options, known_at)
            self._portfolio, fitted = auto_fit, auto_fit.ensemble
        else:
            fitted = fit(panel, self.spec, Session(path, resume, self.progress, time_limit), tune=tune)
        self._warn(frame, fitted.findings)
        self.adopt(fitted, panel)
        self._whole_ids = has_whole_ids(frame, panel.layout)
        self.remember_fit(started, frame, time_limit=time_limit, quick=quick, tune=tune)
        return self

    def adopt(self, fitted: Predictor, panel: Panel) -> None:
        """Use a model that was fitted elsewhere, to forecast what follows the rows of `panel`."""
        self._fitted, self._trained = fitted, settle(self.reading, panel.layout)
        self._rows = select_columns(panel, fitted)
        before = isinstance(fitted, Fitted) and fitted.adds_up  # one row more tells what was added at the first
        self._tail = self._rows.tail(fitted.lookback + before + spare_rows(panel))

    def predict(
        self,
        frame: Frame = None,
        *,
        future: Frame = None,
        level: Sequence[float] | None = None,
        members: bool = False,
    ) -> Frame:
        """Forecasts after the last row of each series, of the training data or of new rows, without training.

        `future` holds the known inputs for the steps to forecast. The frame comes back in the kind and layout of the
        data: long as `unique_id, ds, model, model-lo-95 ...`, wide as `time, column, column-lo-95 ...`. A series or
        column without any value has missing forecasts, and a warning (through logging) names it. With `members` the
        forecasts of a portfolio's members stand beside its own: `member`, of a wide frame `column-member`.
        """
        panel = self.tail if frame is None else self.read_new(frame)
        forecasts, stamps = self.forecast(panel, future=future, level=level)
        if frame is not None:
            self._warn(frame, (*panel.findings, *forecasts.findings))
        whole_ids = self._whole_ids if frame is None else has_whole_ids(frame, panel.layout)
        columns = forecast_frame(panel, forecasts, stamps, self.name, whole_ids=whole_ids, members=members)
        return to_native(columns, panel.layout)

    def forecast(
        self, panel: Panel, *, future: Frame = None, level: Sequence[float] | None = None
    ) -> tuple[Forecasts, NDArray[np.generic]]:
        """Forecasts after the last row of each series of a panel, as arrays, and their stamps [series, step]."""
        stamps = stamps_ahead(panel, self.spec.horizon)
        known = read_known(panel, stamps, future, self.reading_of_new)
        return self._forecast_ahead(panel, self._levels(level), known), stamps

    def _forecast_ahead(self, panel: Panel, levels: tuple[float, ...], known: Array | None) -> Forecasts:
        """Forecasts that are all finite, but for series without observed values."""
        which = final_windows(panel)
        return check_finite(predict_on_clock(self.fitted, panel, which, levels, known), panel, which)

    def what_if(self, changed: Frame, frame: Frame = None, *, future: Frame = None) -> Frame:
        """What a change of known inputs makes of the forecast: as planned, as changed, and the difference.

        `changed` is like `future`, which holds the plan; or it names inputs with the value that each has at all steps
        instead, as in {"promo": 0}. Long frames come back as `unique_id, ds, planned, changed, difference`, wide ones
        as `time, column, column-changed, column-difference`.
        """
        panel = self.tail if frame is None else self.read_new(frame)
        whole_ids = self._whole_ids if frame is None else has_whole_ids(frame, panel.layout)
        effect = self.compare(panel, changed, future=future)
        return to_native(what_if_frame(panel, effect, whole_ids=whole_ids), panel.layout)

    def compare(self, panel: Panel, changed: Frame, *, future: Frame = None) -> WhatIf:
        """The same on a panel, as arrays with intervals."""
        stamps, reading, levels = stamps_ahead(panel, self.spec.horizon), self.reading_of_new, self._levels(None)
        inputs = read_known(panel, stamps, future, reading)
        if inputs is None:
            raise SettingsError("No input is known in the future, so none can be changed; name some with known=[...].")
        by_name = isinstance(changed, Mapping) and all(isinstance(name, str) for name in changed)
        by_name = by_name and all(isinstance(value, str) or np.ndim(value) == 0 for value in changed.values())
        others = change_known(panel, inputs, changed) if by_name else read_known(panel, stamps, changed, reading)
        assert others is not None
        planned, other = (self._forecast_ahead(panel, levels, one) for one in (inputs, others))
        return WhatIf(planned, other, stamps, inputs, others)

    def cross_validation(
        self,
        frame: Frame,
        n_windows: int = 5,
        step_size: int | None = None,
        *,
        refit: bool = False,
        level: Sequence[float] | None = None,
        time_limit: float | None = None,
        quick: bool = False,
    ) -> Frame:
        """Forecasts from past cutoffs beside what happened, each made with rows up to the cutoff only.

        Trains afresh on rows up to the first cutoff (`refit=True`: at every cutoff), whatever `fit` saw before;
        `time_limit` and `quick` are those of `fit`, for each training. Series and columns without any value are left
        out, as by `fit`.
        """
        check_limit(time_limit)
        panel = self.read_to_fit(frame)
        self._warn(frame, panel.findings)
        known_at = None if isinstance(frame, Panel) else AsOf.of(frame, panel, self.reading)
        result = self.backtest(
            panel,
            n_windows,
            step_size,
            refit=refit,
            level=level,
            time_limit=time_limit,
            quick=quick,
            known_at=known_at,
        )
        self._warn(frame, result.fitted.findings)
        name, whole_ids = self.alias or result.fitted.name, has_whole_ids(frame, panel.layout)
        return to_native(backtest_frame(result, panel.layout, name, whole_ids=whole_ids), panel.layout)

    def backtest(
        self,
        panel: Panel,
        n_windows: int = 5,
        step_size: int | None = None,
        *,
        refit: bool = False,
        level: Sequence[float] | None = None,
        time_limit: float | None = None,
        quick: bool = False,
        known_at: PanelHistory | None = None,
        checkpoint: Path | None = None,
        resume: bool = False,
    ) -> Backtest:
        """The same on a panel, as arrays with scores.

        `known_at(date)` gives the panel as it was known at a date (`AsOf`); without it the panel is cut off there.
        """

        def fit_at(before: Panel, window: int) -> Predictor:
            if self.spec.is_portfolio:
                options = schedule.Options(
                    time_limit=schedule.DEFAULT_LIMIT if time_limit is None else time_limit,
                    quick=quick,
                    progress=self.progress,
                )
                return portfolio.fit(before, self.spec, options).ensemble
            path = None if checkpoint is None else checkpoint.with_name(f"{checkpoint.stem}-{window}.safetensors")
            return fit(before, self.spec, Session(path, resume, self.progress, time_limit))

        return backtesting.backtest(
            panel,
            fit_at,
            self.spec.horizon,
            n_windows=n_windows,
            step_size=step_size,
            refit=refit,
            levels=self._levels(level),
            lookback=self.spec.lookback,
            known_at=known_at,
        )

    def explain(
        self, frame: Frame = None, *, future: Frame = None, series: Sequence[str] | None = None
    ) -> AttentionMaps:
        """The attention weights of every layer for the last window of each series, as arrays ready to plot.

        A dict: "layer 1" and on (of an encoder and its decoder: "encoder 1", "decoder 1") hold [series, group, head,
        query, key], or a mapping of parts that add up; its `labels` say by layer what the axes stand for, by column
        names and time stamps. `series` asks for some series alone.
        """
        panel = self.tail if frame is None else self.read_new(frame)
        panel = panel if series is None else select_series(panel, series)
        known = read_known(panel, stamps_ahead(panel, self.spec.horizon), future, self.reading_of_new)
        view = ClockView.of(panel, self.spec.horizon)
        known = None if known is None else view.inputs(known, np.arange(panel.series))[..., : self.spec.horizon]
        network, rows = find_attention(self.fitted, view.panel)
        return explain_windows(network, rows, known if network.known else None)

    def leaderboard(self) -> Frame:
        """Every candidate of a portfolio: backtest error, weight in the ensemble, seconds; the heaviest first."""
        if not isinstance(self.fitted, Ensemble):
            raise SettingsError(f"{self.name} is one model; model='auto' fits a portfolio, which has a leaderboard.")
        rows = self.fitted.leaderboard
        columns: Columns = {
            "model": [one.name for one in rows],
            "weight": np.array([one.weight for one in rows]),
            "mase": np.array([math.nan if one.mase is None else one.mase for one in rows]),
            "loss": np.array([math.nan if one.loss is None else one.loss for one in rows]),
            "seconds": np.array([one.seconds for one in rows]),
            "inputs": [", ".join(one.uses) for one in rows],
            "note": [one.note for one in rows],
        }
        return to_native(columns, self.tail.layout)

    def plot(
        self,
        frame: Frame = None,
        *,
        series: str | Sequence[str] | None = None,
        level: Sequence[float] | None = None,
        future: Frame = None,
        history: int | None = None,
    ) -> "Figure":
        """A plotly figure of what `predict` forecasts: history, forecast and intervals.

        `series` names the series or columns to draw; without it the first six are. `history` is the number of rows
        before the forecast; by default three times the horizon, and at least 60.
        """
        return load_views("forecast").plot(self, frame, future, level, series, history)

    def report(
        self, path: Path | str, frame: Frame = None, *, future: Frame = None, n_windows: int | None = None
    ) -> Path:
        """Write the page of `rearview forecast` to a file and return its path.

        It shows the forecast after the rows of training, or after new rows. The backtest of a portfolio is that of its
        fit. Any other model is backtested here, as `cross_validation` does it, beside naive baselines: `n_windows`
        says from how many cutoffs, 0 skips that; by default as many as fit, five at most, and none for new rows.
        """
        return load_views("forecast").report(self, path, frame, future, n_windows)

    def save(self, folder: Path | str) -> None:
        """Write the fitted forecaster to a folder: settings as JSON, numbers as safetensors."""
        reading = {**self.reading_of_new.to_json(), "alias": self.alias, "whole_ids": self._whole_ids}
        storage.save(Path(folder), self.fitted, self.tail, reading)

    @classmethod
    def load(cls, folder: Path | str, *, device: str | None = None) -> "Forecaster":
        """The forecaster that `save` wrote; a damaged or newer one is refused."""
        fitted, tail, reading = storage.load(Path(folder), device)
        whole_ids = reading.pop("whole_ids")
        forecaster = cls(**fitted.spec.to_dict(), **reading)
        forecaster._fitted, forecaster._tail, forecaster._whole_ids = fitted, tail, whole_ids
        forecaster._origin = f"rv.Forecaster.load({str(folder)!r})"
        return forecaster

    @property
    def reading_of_new(self) -> ReadOptions:
        """How new rows are read: as those of training, with what was inferred of them."""
        return self._trained or self.reading

    def read(self, frame: Frame) -> Panel:
        """The panel of a frame or file, read with the options of this forecaster."""
        return frame if isinstance(frame, Panel) else read_panel(frame, self.reading)

    def read_to_fit(self, frame: Frame) -> Panel:
        """The same without series and columns that have no value; one that was named as a target is refused."""
        named = self.reading.target is not None or self.reading.target_col is not None
        panel = note_ends(drop_empty_targets(self.read(frame), named=named))
        return follow_clock(panel, self.spec.horizon)

    def read_new(self, frame: Frame) -> Panel:
        """The panel of new rows as the fitted network reads it; another step or a missing column is refused.

        So are rows without any value to forecast from; a finding names the series or columns that have none. Columns
        that were dropped in training need not be there.
        """
        panel = keep_time_of_day(read_on_step(frame, self._read_trained, self.fitted.step), self.tail.layout)
        panel = replace(panel, clock=self.tail.clock if panel.layout.stored == "utc" else None)
        return check_values(select_columns(anchor_months(panel, self.tail), self.fitted))

    def _read_trained(self, frame: Frame, *, freq: str | None = None) -> Panel:
        """As `read`, with the columns of training as numbers, without those of the columns to drop that are there."""
        if isinstance(frame, Panel):
            return frame
        reading = self.reading_of_new
        frame = frame if isinstance(frame, Table) else open_source(frame, reading)
        dropped = select_present(frame, reading.drop)
        step = reading.freq if freq is None else Step.parse(freq)
        layout = self.tail.layout
        trained = replace(reading, trained=self.fitted.columns, static=layout.static, levels=layout.levels)
        return read_panel(frame, replace(trained, drop=dropped, freq=step))

    def _warn(self, frame: Frame, findings: tuple[Finding, ...]) -> None:
        if not isinstance(frame, Panel):  # callers that pass a panel have its findings already
            base.warn_of_findings(findings)

    @property
    def name(self) -> str:
        """The column name of the forecasts."""
        return self.alias or self.fitted.name

    @property
    def tail(self) -> Panel:
        """The last rows of the training data, from which `predict()` goes on."""
        _ = self.fitted
        assert self._tail is not None
        return self._tail

    @property
    def rows(self) -> Panel:
        """The rows of training; of a forecaster that was loaded, the last of them."""
        return self.tail if self._rows is None else self._rows

    @property
    def portfolio(self) -> AutoFit | None:
        """The portfolio with its backtests, where one was fitted here; they are not saved."""
        return self._portfolio

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was inferred, repaired and warned of, in reading and in training."""
        return (*self.tail.findings, *self.fitted.findings)

    def _describe(self) -> list[tuple[str, object]]:
        fitted, names = self.fitted, variables(self.tail)
        ends = to_wall_time(self.tail.stamps[self.tail.offsets[1:] - 1], self.tail.layout)
        return [
            ("model", self.name),
            ("forecasts", f"{quantity(self.spec.horizon, 'step')} ({self.tail.step.words()}) after {show(ends.max())}"),
            ("series", f"{len(names):,}: {', '.join(names[:5])}{' ...' if len(names) > 5 else ''}"),
            ("look-back", quantity(fitted.lookback, "row")),
            *([("known inputs", ", ".join(self.tail.known_names))] if self.tail.known else []),
        ]

    def _list_members(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        if not isinstance(self.fitted, Ensemble):
            return (), ()
        return ("model", "weight", "MASE", "seconds", "what it is"), [
            (
                one.name,
                f"{100 * one.weight:.0f} %" if one.weight else "–",
                "–" if one.mase is None else f"{one.mase:.3g}",
                f"{one.seconds:.1f}",
                f"{one.meaning}; left out: {one.note}" if one.note else one.meaning,
            )
            for one in self.fitted.leaderboard
        ]

    def _levels(self, level: Sequence[float] | None) -> tuple[float, ...]:
        if level is not None:
            return read_levels(level)
        return () if self.spec.intervals == "none" else self.spec.levels


def forecast(frame: Frame, horizon: int, *, level: Sequence[float] = (80, 95), **options: Any) -> Frame:
    """Forecasts after the last row of each series, without training, by the weights that come with the package.

    `options` are those of `Forecaster`, such as target, id_col or nonnegative.
    """
    return Forecaster(model=weights.NAME, horizon=horizon, level=level, **options).fit(frame).predict()


def stamps_ahead(panel: Panel, horizon: int) -> NDArray[np.generic]:
    """[series, step]: the stamps that follow the last row of each series."""
    stamps = panel.ahead(panel.offsets[1:] - 1, horizon)
    check_years(stamps, panel.layout.source)
    return stamps
