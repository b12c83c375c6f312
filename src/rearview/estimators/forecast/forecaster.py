"""The forecaster: from a frame or file to forecasts with intervals, in original units and with real time stamps.

forecaster = Forecaster(model="patchtst", horizon=96)
forecaster.fit(frame)
future = forecaster.predict(level=[80, 95])
backtest = forecaster.cross_validation(frame, n_windows=5)
forecaster.save("model/")
"""

from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rearview import train
from rearview.core.errors import SettingsError
from rearview.data.io.files import present
from rearview.data.panel import Finding, Panel
from rearview.data.panel_checks import forecastable
from rearview.data.panel_reader import load as read
from rearview.data.windows import ends
from rearview.estimators.forecast import backtest as backtesting
from rearview.estimators.forecast import frames, storage
from rearview.estimators.forecast.as_of import AsOf
from rearview.estimators.forecast.attention_maps import Maps, chosen, look
from rearview.estimators.forecast.backtest import Backtest, Known, readable
from rearview.estimators.forecast.engine import Fitted, device_named, fit
from rearview.estimators.forecast.known_inputs import known_ahead
from rearview.estimators.forecast.new_rows import anchored, answerable, options, read_on_step, tell, timed
from rearview.estimators.forecast.prediction import Answer, answer, variables
from rearview.estimators.forecast.spec import Request, check_level
from rearview.estimators.parameters import Parameters, kept
from rearview.tasks.losses import Spec as LossSpec

READING = ("id_col", "time_col", "target_col", "target", "known", "drop", "together", "freq", "sentinels", "fill")


class Forecaster(Parameters):
    """Forecasts with intervals from one trained network."""

    @kept
    def __init__(
        self,
        model: str | None = None,
        attention: str | Mapping[str, Any] | None = None,
        *,
        horizon: int,
        lookback: int | None = None,
        season: int | None = None,
        loss: LossSpec = "mse",
        intervals: Literal["conformal", "quantile", "none"] = "conformal",
        level: Sequence[float] = (80, 95),
        transform: Literal["none", "log1p"] = "none",
        nonnegative: bool = False,
        calendar: bool = True,
        settings: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
        seed: int = 0,
        device: str = "auto",
        alias: str | None = None,
        progress: train.Progress | bool | None = None,
        **reading: Any,
    ) -> None:
        """What to forecast and how; everything left open is chosen from the data, with a reason (`plan`).

        Args:
            model: a network's name (`rearview.models.names()`); None chooses.
            attention: a mechanism's name, or a mapping with `name` and its settings; None: the network's own.
            horizon: steps to forecast.
            lookback: steps the network sees.
            season: steps of a season, for naive forecasts and scaled errors.
            loss: what a point forecast minimises: "mse", "mae", "huber" or "fredf", or a mapping with `name` and its
                settings, such as {"name": "fredf", "time_share": 0.3} (`rearview.tasks.losses`).
            intervals: "conformal" (held-out residuals), "quantile" (learned, for the given levels) or "none".
            level: levels of the intervals in percent.
            transform: "log1p" trains on the logarithm of 1 + y.
            nonnegative: forecasts and bounds below 0 become 0.
            calendar: calendar features, for networks that have a place for them.
            settings: settings of the network, such as {"width": 128}.
            training: settings of the training loop, such as {"epochs": 50} (`rearview.train.Settings`).
            seed: fixes every random draw; two runs of one seed on a CPU are equal bit for bit.
            device: "auto", "cpu" or "cuda".
            alias: the column name of the forecasts; default: the network's name.
            progress: who is told how training goes; True: a line on the terminal; default: nobody.
            **reading: how frames are read: id_col, time_col, target_col, target, known, drop, together, freq,
                sentinels, fill (see `rearview.data.load`).
        """
        self.request = Request(
            horizon=horizon,
            lookback=lookback,
            model=model,
            attention=attention,
            season=season,
            loss=loss,
            intervals=intervals,
            level=_levels(level),
            transform=transform,
            nonnegative=nonnegative,
            calendar=calendar,
            settings=dict(settings or {}),
            training=dict(training or {}),
            seed=seed,
            device=device,
        )
        device_named(device)
        train.follower(progress)
        self.reading = options("Forecaster", reading, READING)
        self.alias = alias
        self.progress = progress
        self._fitted: Fitted | None = None
        self._tail: Panel | None = None
        self._whole_ids = False

    def fit(self, frame: Any, *, checkpoint: Path | str | None = None, resume: bool = False) -> "Forecaster":
        """Train on a frame or file; with `checkpoint` a run that was cut off is taken up again by `resume=True`.

        Series of a long frame, and columns of a wide one, without any value are left out: they have no forecast, and a
        warning (through logging) names them. So it does series that are too short to be trained on.
        """
        panel = self.read_to_fit(frame)
        tell(frame, panel.findings)
        path = None if checkpoint is None else Path(checkpoint)
        fitted = fit(panel, self.request, checkpoint=path, resume=resume, progress=self.progress)
        tell(frame, fitted.findings)
        self.adopt(fitted, panel)
        self._whole_ids = frames.has_whole_ids(frame, panel.layout)
        return self

    def adopt(self, fitted: Fitted, panel: Panel) -> None:
        """Take over a network that was fitted elsewhere, to forecast what follows the rows of `panel`."""
        self._fitted = fitted
        self._tail = readable(panel, fitted).tail(fitted.lookback)

    def predict(self, frame: Any = None, *, future: Any = None, level: Sequence[float] | None = None) -> Any:
        """Forecasts after the last row of each series, of the training data or of new rows, without training.

        `future` holds the known inputs for the steps to forecast. The frame comes back in the kind and layout of the
        data: long as `unique_id, ds, model, model-lo-95 ...`, wide as `time, column, column-lo-95 ...`. A series or
        column without any value has missing forecasts, and a warning (through logging) names it.
        """
        panel = self.tail if frame is None else self.read_new(frame)
        said, stamps = self.forecast(panel, future=future, level=level)
        if frame is not None:
            tell(frame, (*panel.findings, *said.findings))
        layout, names = panel.layout, variables(panel)
        if layout.form == "wide":
            return frames.native(frames.wide_columns(layout, names, stamps[:1], said.mean, said.intervals), layout)
        whole_ids = self._whole_ids if frame is None else frames.has_whole_ids(frame, layout)
        flat = frames.long_columns(layout, names, *flattened(stamps, said, panel), self.name, whole_ids=whole_ids)
        return frames.native(flat, layout)

    def forecast(
        self, panel: Panel, *, future: Any = None, level: Sequence[float] | None = None
    ) -> tuple[Answer, NDArray[np.generic]]:
        """Forecasts after the last row of each series of a panel, as arrays, and their stamps [series, step]."""
        fitted = self.fitted
        stamps = stamps_ahead(panel, self.request.horizon)
        known = known_ahead(panel, stamps, future, self.reading)
        return answer(fitted, panel, ends(panel), self._asked(level), known), stamps

    def cross_validation(
        self,
        frame: Any,
        n_windows: int = 5,
        step_size: int | None = None,
        *,
        refit: bool = False,
        level: Sequence[float] | None = None,
    ) -> Any:
        """Forecasts from past cutoffs beside what happened, each made with rows up to the cutoff only.

        Trains afresh on rows up to the first cutoff (`refit=True`: at every cutoff), whatever `fit` saw before. Series
        and columns without any value are left out, as by `fit`.
        """
        panel = self.read_to_fit(frame)
        tell(frame, panel.findings)
        known_at = None if isinstance(frame, Panel) else AsOf.of(frame, panel, self.reading)
        result = self.backtest(panel, n_windows, step_size, refit=refit, level=level, known_at=known_at)
        tell(frame, result.fitted.findings)
        whole_ids = frames.has_whole_ids(frame, panel.layout)
        columns = backtest_columns(result, panel, self.alias or result.fitted.name, whole_ids=whole_ids)
        return frames.native(columns, panel.layout)

    def backtest(
        self,
        panel: Panel,
        n_windows: int = 5,
        step_size: int | None = None,
        *,
        refit: bool = False,
        level: Sequence[float] | None = None,
        known_at: Known | None = None,
        checkpoint: Path | None = None,
        resume: bool = False,
    ) -> Backtest:
        """The same on a panel, as arrays with scores.

        `known_at(date)` gives the panel as it was known at a date (`AsOf`); without it the panel is cut off there.
        """

        def train_at(before: Panel, window: int) -> Fitted:
            path = None if checkpoint is None else checkpoint.with_name(f"{checkpoint.stem}-{window}.safetensors")
            return fit(before, self.request, checkpoint=path, resume=resume, progress=self.progress)

        return backtesting.backtest(
            panel,
            train_at,
            self.request.horizon,
            n_windows=n_windows,
            step_size=step_size,
            refit=refit,
            levels=self._asked(level),
            lookback=self.request.lookback,
            known_at=known_at,
        )

    def explain(self, frame: Any = None, *, future: Any = None, series: Sequence[str] | None = None) -> Maps:
        """The attention weights of every layer for the last window of each series, as arrays ready to plot.

        A dict: "layer 1" and on (of an encoder and its decoder: "encoder 1", "decoder 1") hold [series, group, head,
        query, key], or a mapping of parts that add up; its `labels` say by layer what the axes stand for, by column
        names and time stamps. `series` asks for some series alone.
        """
        panel = chosen(self.tail if frame is None else self.read_new(frame), series)
        known = known_ahead(panel, stamps_ahead(panel, self.request.horizon), future, self.reading)
        return look(self.fitted, panel, known)

    def save(self, folder: Path | str) -> None:
        """Write the fitted forecaster to a folder: settings as JSON, numbers as safetensors."""
        reading = {**self.reading, "alias": self.alias, "whole_ids": self._whole_ids}
        storage.save(Path(folder), self.fitted, self.tail, reading)

    @classmethod
    def load(cls, folder: Path | str, *, device: str | None = None) -> "Forecaster":
        """The forecaster that `save` wrote; a changed or newer one is refused."""
        fitted, tail, reading = storage.load(Path(folder), device)
        whole_ids = reading.pop("whole_ids")
        forecaster = cls(**fitted.request.to_dict(), **reading)
        forecaster._fitted, forecaster._tail, forecaster._whole_ids = fitted, tail, whole_ids
        return forecaster

    def read(self, frame: Any, **changed: Any) -> Panel:
        """The panel of a frame or file, read as this forecaster was told to, but for what is `changed`."""
        if isinstance(frame, Panel):
            return frame
        return read(frame, **{**self.reading, **changed})

    def read_to_fit(self, frame: Any) -> Panel:
        """The same without series and columns that have no value; those asked for by name are refused then."""
        return forecastable(self.read(frame), named=bool(self.reading.keys() & {"target", "target_col"}))

    def read_new(self, frame: Any) -> Panel:
        """The panel of new rows as the fitted network reads it; another step or a missing column is refused.

        So are rows without any value to forecast from; a finding names the series or columns that have none. Columns
        that were dropped in training need not be there.
        """
        panel = timed(read_on_step(frame, self._read_trained, self.fitted.step), self.tail.layout)
        return answerable(readable(anchored(panel, self.tail), self.fitted))

    def _read_trained(self, frame: Any, **changed: Any) -> Panel:
        """As `read`, with the columns of training as numbers, without those of the columns to drop that are there."""
        dropped = self.reading.get("drop")
        if dropped is not None and not isinstance(frame, Panel):
            changed["drop"] = present(frame, dropped)
        return self.read(frame, trained=self.fitted.columns, **changed)

    @property
    def name(self) -> str:
        """The column name of the forecasts."""
        return self.alias or self.fitted.name

    @property
    def fitted(self) -> Fitted:
        """The trained network and how it was made."""
        if self._fitted is None:
            raise SettingsError("This forecaster has not been fitted; call fit(frame) or load(folder) first.")
        return self._fitted

    @property
    def tail(self) -> Panel:
        """The last rows of the training data, from which `predict()` goes on."""
        if self._tail is None:
            raise SettingsError("This forecaster has not been fitted; call fit(frame) or load(folder) first.")
        return self._tail

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was inferred, repaired and warned of, in reading and in training."""
        return (*self.tail.findings, *self.fitted.findings)

    def _asked(self, level: Sequence[float] | None) -> tuple[float, ...]:
        if self.request.intervals == "none":
            return () if level is None else _levels(level)
        return self.request.level if level is None else _levels(level)


def backtest_columns(
    result: Backtest, panel: Panel, model: str, *, always_long: bool = False, whole_ids: bool = False
) -> dict[str, Any]:
    """A backtest as columns, in the layout of the data or always long."""
    layout = panel.layout
    if layout.form == "wide" and not always_long:
        return frames.wide_columns(
            layout, result.names, result.stamps, result.mean, result.intervals, y=result.y, cutoffs=result.cutoffs
        )
    windows, count = len(result.cutoffs), len(result.names)
    there = ~np.isnan(result.mean).all(axis=-1).ravel()

    def rows(cells: NDArray[np.float64]) -> NDArray[np.float64]:
        return cells.reshape(windows * count, -1)[there]

    return frames.long_columns(
        layout,
        tuple(name for name, kept in zip(result.names * windows, there, strict=True) if kept),
        np.repeat(result.stamps, count, axis=0)[there],
        rows(result.mean),
        {level: (rows(low), rows(high)) for level, (low, high) in result.intervals.items()},
        model,
        y=rows(result.y),
        cutoffs=np.repeat(result.cutoffs, count)[there],
        whole_ids=whole_ids,
    )


def flattened(
    stamps: NDArray[np.generic], said: Answer, panel: Panel
) -> tuple[NDArray[np.generic], NDArray[np.float64], dict[float, tuple[NDArray[np.float64], NDArray[np.float64]]]]:
    """Stamps, means and bounds [variable, step] of an answer [series, target, step]."""
    steps = stamps.shape[1]
    return (
        np.repeat(stamps, panel.targets, axis=0),
        said.mean.reshape(-1, steps),
        {level: (low.reshape(-1, steps), high.reshape(-1, steps)) for level, (low, high) in said.intervals.items()},
    )


def stamps_ahead(panel: Panel, horizon: int) -> NDArray[np.generic]:
    """[series, step]: the stamps that follow the last row of each series."""
    return panel.ahead(panel.offsets[1:] - 1, horizon)


def _levels(level: Any) -> tuple[float, ...]:
    given = (level,) if isinstance(level, Real | str) else tuple(level)
    for one in given:
        check_level(one)
    return tuple(sorted({float(one) for one in given}))
