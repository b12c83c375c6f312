"""The forecaster: from a frame or file to forecasts with intervals, in original units and with real time stamps.

forecaster = Forecaster(model="patchtst", horizon=96)
forecaster.fit(frame)
future = forecaster.predict(level=[80, 95])
backtest = forecaster.cross_validation(frame, n_windows=5)
forecaster.save("model/")
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rearview import train
from rearview.data.load import load as read
from rearview.data.panel import Finding, Panel
from rearview.data.window import ends
from rearview.errors import InputError, SettingsError, did_you_mean
from rearview.forecasting import backtest as backtesting
from rearview.forecasting import frames, store
from rearview.forecasting.answer import Answer, answer
from rearview.forecasting.backtest import Backtest, readable, variables
from rearview.forecasting.engine import Fitted, fit
from rearview.forecasting.request import Request, check_level

READING = ("id_col", "time_col", "target_col", "target", "known", "drop", "together", "freq", "sentinels", "fill")


class Forecaster:
    """Forecasts with intervals from one trained network."""

    def __init__(
        self,
        model: str | None = None,
        attention: str | Mapping[str, Any] | None = None,
        *,
        horizon: int,
        lookback: int | None = None,
        season: int | None = None,
        loss: Literal["mse", "mae", "huber"] = "mse",
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
        progress: train.Progress | None = None,
        **reading: Any,
    ) -> None:
        """What to forecast and how; everything left open is chosen from the data, with a reason (`plan`).

        Args:
            model: a network's name (`rearview.models.names()`); None chooses.
            attention: a mechanism's name, or a mapping with `name` and its settings; None: the network's own.
            horizon: steps to forecast.
            lookback: steps the network sees.
            season: steps of a season, for naive forecasts and scaled errors.
            loss: what a point forecast minimises.
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
            progress: who is told how training goes; default: nobody.
            **reading: how frames are read: id_col, time_col, target_col, target, known, drop, together, freq,
                sentinels, fill (see `rearview.data.load`).
        """
        for name in reading:
            if name not in READING:
                raise SettingsError(f"Forecaster has no setting {name!r}.{did_you_mean(name, list(READING))}")
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
        self.reading = {name: value for name, value in reading.items() if value is not None}
        self.alias = alias
        self.progress = progress
        self._fitted: Fitted | None = None
        self._tail: Panel | None = None

    def fit(self, frame: Any, *, checkpoint: Path | str | None = None, resume: bool = False) -> "Forecaster":
        """Train on a frame or file; with `checkpoint` a run that was cut off is taken up again by `resume=True`."""
        panel = self.read(frame)
        path = None if checkpoint is None else Path(checkpoint)
        fitted = fit(panel, self.request, checkpoint=path, resume=resume, progress=self.progress)
        self.adopt(fitted, panel)
        return self

    def adopt(self, fitted: Fitted, panel: Panel) -> None:
        """Take over a network that was fitted elsewhere, to forecast what follows the rows of `panel`."""
        self._fitted = fitted
        self._tail = readable(panel, fitted).tail(fitted.lookback)

    def predict(self, frame: Any = None, *, future: Any = None, level: Sequence[float] | None = None) -> Any:
        """Forecasts after the last row of each series, of the training data or of new rows, without training.

        `future` holds the known inputs for the steps to forecast. The frame comes back in the kind and layout of the
        data: long as `unique_id, ds, model, model-lo-95 ...`, wide as `time, column, column-lo-95 ...`.
        """
        panel = self.tail if frame is None else readable(self.read(frame), self.fitted)
        said, stamps = self.forecast(panel, future=future, level=level)
        layout, names = panel.layout, variables(panel)
        if layout.form == "wide":
            return frames.native(frames.wide_columns(layout, names, stamps[:1], said.mean, said.intervals), layout)
        flat = frames.long_columns(layout, names, *flattened(stamps, said, panel), self.name)
        return frames.native(flat, layout)

    def forecast(
        self, panel: Panel, *, future: Any = None, level: Sequence[float] | None = None
    ) -> tuple[Answer, NDArray[np.generic]]:
        """Forecasts after the last row of each series of a panel, as arrays, and their stamps [series, step]."""
        fitted = self.fitted
        if str(panel.step) != fitted.step:
            raise InputError(
                f"{panel.layout.source} has a row {panel.step.words()} ({panel.step}), but the model was trained on "
                f"steps of {fitted.step}; bring rows of the same step, or train again."
            )
        last = panel.stamps[panel.offsets[1:] - 1]
        stamps = np.stack([panel.step.after(stamp, self.request.horizon) for stamp in last])
        known = self._known(panel, stamps, future)
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

        Trains afresh on rows up to the first cutoff (`refit=True`: at every cutoff), whatever `fit` saw before.
        """
        panel = self.read(frame)
        result = self.backtest(panel, n_windows, step_size, refit=refit, level=level)
        return frames.native(backtest_columns(result, panel, self.alias or result.fitted.name), panel.layout)

    def backtest(
        self,
        panel: Panel,
        n_windows: int = 5,
        step_size: int | None = None,
        *,
        refit: bool = False,
        level: Sequence[float] | None = None,
        checkpoint: Path | None = None,
        resume: bool = False,
    ) -> Backtest:
        """The same on a panel, as arrays with scores."""

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
        )

    def explain(self, frame: Any = None) -> dict[str, Any]:
        """The attention weights of every layer for the last window of each series, as arrays ready to plot.

        "layer 1" and on: [series, group, head, query, key], or a mapping of parts that add up.
        """
        import torch

        panel = self.tail if frame is None else readable(self.read(frame), self.fitted)
        which = ends(panel)
        source = self.fitted.source(panel, which)
        batch = source.pasts(torch.arange(len(which)))
        with torch.inference_mode():
            layers = self.fitted.network.weights(batch.past, batch.past_marks, None, mask=batch.mask)
        if not layers:
            raise SettingsError(f"{self.fitted.name} has no attention to look at.")
        return {f"layer {number}": _arrays(weights) for number, weights in enumerate(layers, start=1)}

    def save(self, folder: Path | str) -> None:
        """Write the fitted forecaster to a folder: settings as JSON, numbers as safetensors."""
        reading = {**self.reading, "alias": self.alias}
        store.save(Path(folder), self.fitted, self.tail, reading)

    @classmethod
    def load(cls, folder: Path | str, *, device: str | None = None) -> "Forecaster":
        """The forecaster that `save` wrote; a changed or newer one is refused."""
        fitted, tail, reading = store.load(Path(folder))
        if device is not None:
            fitted = replace(fitted, request=replace(fitted.request, device=device))
            fitted.network.to(fitted.device)
        forecaster = cls(**fitted.request.to_dict(), **reading)
        forecaster._fitted, forecaster._tail = fitted, tail
        return forecaster

    def read(self, frame: Any) -> Panel:
        """The panel of a frame or file, read as this forecaster was told to."""
        if isinstance(frame, Panel):
            return frame
        return read(frame, **self.reading)

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

    def _known(self, panel: Panel, stamps: NDArray[np.generic], future: Any) -> NDArray[np.float32] | None:
        """[series, column, step]: the future of known inputs, found by series and stamp in the caller's frame."""
        names = panel.known_names
        if not names:
            if future is not None:
                raise SettingsError(
                    "A future was given, but no column is named as known; name them with known=[...] when fitting."
                )
            return None
        if future is None:
            raise InputError(
                f"The model was trained with {', '.join(names)} known in the future; give their next "
                f"{self.request.horizon} steps as future=... (command line: --future FILE)."
            )
        given = read(future, **{**self.reading, "target": (), "known": names})
        return _matched(given, panel, stamps, names)


def backtest_columns(result: Backtest, panel: Panel, model: str, *, always_long: bool = False) -> dict[str, Any]:
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


def _levels(level: Sequence[float] | float) -> tuple[float, ...]:
    given = (level,) if isinstance(level, int | float) else tuple(level)
    for one in given:
        check_level(one)
    return tuple(sorted({float(one) for one in given}))


def _matched(given: Panel, panel: Panel, stamps: NDArray[np.generic], names: tuple[str, ...]) -> NDArray[np.float32]:
    columns = [given.columns.index(name) for name in names]
    out = np.empty((panel.series, len(names), stamps.shape[1]), dtype=np.float64)
    place = {name: s for s, name in enumerate(given.ids)}
    for s, name in enumerate(panel.ids):
        g = 0 if given.layout.form == "wide" else place.get(name)
        if g is None:
            raise InputError(f"{given.layout.source} has no rows for series {name!r}; give its known inputs too.")
        a, b = given.bounds()[g]
        rows = np.searchsorted(given.stamps[a:b], stamps[s])
        found = rows < b - a
        found[found] = given.stamps[a:b][rows[found]] == stamps[s][found]
        if not found.all():
            missing = stamps[s][~found][0]
            raise InputError(
                f"{given.layout.source} has no row for {missing} of series {name!r}; the known inputs are needed "
                f"from {stamps[s][0]} to {stamps[s][-1]}."
            )
        cells = given.original(slice(a, b), g)[rows][:, columns]
        if np.isnan(cells).any():
            bad = int(np.argwhere(np.isnan(cells))[0][0])
            raise InputError(f"{given.layout.source}: a known input is missing at {stamps[s][bad]} of series {name!r}.")
        out[s] = cells.T
    return out.astype(np.float32)


def _arrays(weights: Any) -> Any:
    if isinstance(weights, dict):
        return {part: _arrays(tensor) for part, tensor in weights.items()}
    return weights.float().cpu().numpy()
