"""Forecasts of a fitted network after some windows of a panel, in original units."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rearview.core.errors import InputError, SettingsError
from rearview.core.wording import listing, quantity
from rearview.data.calendar import features
from rearview.data.launch import find_begins
from rearview.data.panel import Finding, Panel
from rearview.data.scale import Scaler
from rearview.data.statics import StaticScale
from rearview.data.windows import Batch, Source, Windows
from rearview.estimators import base
from rearview.estimators.forecast.predictor import Array, Forecasts
from rearview.estimators.forecast.spec import ForecastSpec
from rearview.estimators.forecast.transform import read_newest, take_additions, transform_panel, undo_transform
from rearview.tasks.conformal import Residuals, residuals_needed
from rearview.tasks.objectives import Forecast

MOST_CELLS = 1 << 22  # cells of past that go through the network at once
SOFTENING = 0.01  # added to a window's variance on the scaled axis, so that flat windows keep a finite interval
FAR = 1_000
"""Standard deviations from the training rows beyond which a value is probably in other units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted(base.FittedPanel):
    """A trained network and everything needed to use it on new rows."""

    spec: ForecastSpec
    task: Forecast
    targets: int
    """Of the columns: targets, past inputs, known inputs."""
    known: int
    calendar: str | None
    residuals: Residuals | None
    statics: StaticScale | None = None
    """What describes the series, where the network has a place for it."""
    adds_up: bool = False
    """Whether the network forecasts what is added to counters at each step."""

    def move(self, panel: Panel) -> Panel:
        """The panel with its targets as the network reads them."""
        panel = transform_panel(panel, self.spec)
        return take_additions(panel) if self.adds_up else panel

    def source(self, panel: Panel, which: Windows) -> Source:
        """The windows of a panel as this network reads them."""
        return Source(
            panel,
            self.scaler(panel),
            which,
            self.lookback,
            self.spec.horizon,
            device=self.device,
            inputs=len(self.columns) > self.targets,
            calendar=self.calendar,
            statics=self.describe(panel),
            begins=find_begins(panel, which, self.targets),
        )

    def describe(self, panel: Panel) -> Array | None:
        """[series, feature]: what describes the series of a panel, scaled as in training."""
        return None if self.statics is None else self.statics.read(panel.statics, panel.series)

    @property
    def period(self) -> int:
        """Steps of a season, by which errors are scaled."""
        return 1 if self.plan.season is None else self.plan.season.value

    def predict(self, panel: Panel, which: Windows, levels: tuple[float, ...], known: Array | None = None) -> Forecasts:
        """Forecast from the rows before each window's start (see `Predictor`).

        `known` [window, column, step], in original units, holds the future of known inputs.
        """
        unobserved = panel.first[which.series, : self.targets] >= which.starts[:, None]
        newest = read_newest(transform_panel(panel, self.spec), which, self.targets)
        panel = self.move(panel)
        source = self.source(panel, which)
        portion = max(1, MOST_CELLS // (source.channels * self.lookback))
        batches = [
            with_future(self, panel, which, index, source.pasts(index), known)
            for index in torch.split(torch.arange(len(which)), portion)
        ]
        yhat, scale = outputs(self, batches)
        yhat = np.sort(yhat, axis=-1)  # quantiles learned apart may cross; sorting never makes them worse
        scaler = self.scaler(panel)
        level_of = (scaler.mean + panel.centre)[which.series, : self.targets, None]
        spread = scaler.std[which.series, : self.targets, None]
        if self.adds_up:
            yhat = yhat.cumsum(axis=2)
            level_of = newest + level_of * np.arange(1, self.spec.horizon + 1)

        def original(scaled: NDArray[np.float32]) -> Array:
            cells = scaled.astype(np.float64) * spread + level_of
            if self.adds_up:
                cells = np.maximum.accumulate(np.maximum(cells, newest), axis=2)
            cells = undo_transform(cells, self.spec)
            cells[unobserved] = np.nan
            return cells

        intervals, notes = _intervals(self, yhat, scale, levels)
        findings = tuple(_warn_of_past(self, panel, which, source.begin.cpu().numpy(), unobserved))
        quantiles = self.task.quantiles
        mean = original(yhat[..., quantiles.index(0.5) if quantiles else 0])
        bounds = {level: (original(low), original(high)) for level, (low, high) in intervals.items()}
        forecasts = Forecasts(
            series=which.series,
            mean=mean,
            intervals=bounds,
            notes=(*notes, *(finding.message for finding in findings)),
            findings=findings,
        )
        return check_finite(forecasts, panel, which)


def check_finite(forecasts: Forecasts, panel: Panel, which: Windows) -> Forecasts:
    """Return the forecasts; refuse one that is not finite although its series has observed values."""
    unobserved = panel.first[which.series, : forecasts.mean.shape[1]] >= which.starts[:, None]
    broken = ~np.isfinite(forecasts.mean).all(axis=2)
    for low, high in forecasts.intervals.values():
        # Without residuals there is no bound on either side.
        broken |= (np.isinf(low) | np.isinf(high) | (np.isnan(low) != np.isnan(high))).any(axis=2)
    if (broken & ~unobserved).any():
        names = listing(_list_names(panel, which, broken & ~unobserved))
        raise InputError(
            f"The forecast of {names} is not a finite number: its values are too large to compute with, or some are "
            "not real; look at the largest ones, and name those that stand for missing with sentinels (--sentinels)."
        )
    return forecasts


def outputs(fitted: Fitted, batches: list[Batch]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Scaled forecasts [window, target, step, quantile] and each window's own scale [window, target]."""
    forecasts, scales = [], []
    with torch.inference_mode():
        for batch in batches:
            forecasts.append(fitted.task.forecasts(fitted.network, batch).float().cpu().numpy())
            scales.append(window_scale(batch.past[:, : fitted.targets], batch.mask).float().cpu().numpy())
    return np.concatenate(forecasts), np.concatenate(scales)


def window_scale(past: Tensor, mask: Tensor | None) -> Tensor:
    """[batch, target]: how much each window varies, softened so that a flat one keeps a scale.

    Steps that are padding count with the variance of the training rows, which is 1: a few rows vary little, whatever
    their series does.
    """
    if mask is None:
        return (past.var(-1, correction=0) + SOFTENING).sqrt()
    real = mask[:, None].to(past.dtype)
    count = real.sum(-1)
    mean = (past * real).sum(-1) / count.clamp(min=1)
    seen = ((past - mean[..., None]).square() * real).sum(-1)
    return ((seen + past.shape[-1] - count) / past.shape[-1] + SOFTENING).sqrt()


def variables(panel: Panel) -> tuple[str, ...]:
    """The names of what is forecast: the target columns of a wide panel, the series of a long one."""
    if panel.series == 1 and not panel.layout.named_series:
        return panel.target_names
    return panel.ids


def _warn_of_past(
    fitted: Fitted,
    panel: Panel,
    which: Windows,
    first: NDArray[np.int64],
    unobserved: NDArray[np.bool_],
) -> list[Finding]:
    """Findings on windows that begin at a launch, are short, hold nothing observed, or lie far from training's rows.

    `first` [window] holds the first rows that may be read.
    """
    begins = np.maximum(which.starts - fitted.lookback, first)
    findings = list(note_launches(panel, which, fitted.targets))
    short = int((which.starts - begins < fitted.lookback).sum())
    if short:
        message = (
            f"{short} of {len(which)} forecasts start from fewer rows than the look-back of {fitted.lookback}: "
            "the rest of their past is padded and masked, and intervals allow for the spread that training had."
        )
        findings.append(Finding("warning", "short_past", short, message))
    stale = np.zeros_like(unobserved)
    if panel.observed is not None:
        for w, (a, b) in enumerate(zip(begins.tolist(), which.starts.tolist(), strict=True)):
            stale[w] = ~panel.observed[a:b, : fitted.targets].any(axis=0)
    if (stale & ~unobserved).any():
        names = _list_names(panel, which, stale & ~unobserved)
        message = (
            f"No value of {listing(names)} was observed within the look-back of {fitted.lookback}: the forecast rests "
            "on the last one before, and intervals around it are likely too narrow."
        )
        findings.append(Finding("warning", "stale_past", len(names), message))
    return findings + warn_of_far_values(fitted, panel, which, fitted.scaler(panel))


def note_launches(panel: Panel, which: Windows, targets: int) -> Iterator[Finding]:
    """A finding on pasts that are read since a launch alone."""
    late = int((find_begins(panel, which, targets) > panel.first[which.series, :targets]).sum())
    if late:
        message = f"{quantity(late, 'forecast')} read the rows since a launch alone: before, one value stood for long."
        yield Finding("inferred", "launch", late, message)


def warn_of_far_values(fitted: Fitted, panel: Panel, which: Windows, scaler: Scaler) -> list[Finding]:
    """A warning of windows whose values lie far from the rows of training."""
    begins = np.maximum(which.starts - fitted.lookback, panel.offsets[which.series])
    launches = find_begins(panel, which, fitted.targets)
    far = np.zeros((len(which), fitted.targets), dtype=np.bool_)
    for w, (a, b, s) in enumerate(zip(begins.tolist(), which.starts.tolist(), which.series.tolist(), strict=True)):
        distance = np.abs(panel.values[a:b, : fitted.targets] - scaler.mean[s, : fitted.targets])
        read = np.arange(a, b)[:, None] >= launches[w]
        far[w] = distance.max(axis=0, where=read, initial=0) > FAR * scaler.std[s, : fitted.targets]
    far &= panel.first[which.series, : fitted.targets] < which.starts[:, None]
    if not far.any():
        return []
    names = _list_names(panel, which, far)
    message = (
        f"Values of {listing(names)} lie more than {FAR:,} standard deviations from those of training: check "
        "their units before you trust the forecast."
    )
    return [Finding("warning", "far_past", len(names), message)]


def _list_names(panel: Panel, which: Windows, chosen: NDArray[np.bool_]) -> list[str]:
    """The names of some variables, chosen by window and target."""
    names = variables(panel)
    return [names[int(which.series[w]) * panel.targets + target] for w, target in np.argwhere(chosen).tolist()]


def _intervals(
    fitted: Fitted, yhat: NDArray[np.float32], scale: NDArray[np.float32], levels: tuple[float, ...]
) -> tuple[dict[float, tuple[NDArray[np.float32], NDArray[np.float32]]], tuple[str, ...]]:
    if not levels:
        return {}, ()
    if fitted.task.quantiles:
        return {level: _quantile_bounds(fitted, yhat, level) for level in levels}, ()
    if fitted.residuals is None:
        raise SettingsError(
            f"{fitted.name} was fitted without intervals; fit with intervals='conformal' to ask for levels."
        )
    bounds: dict[float, tuple[NDArray[np.float32], NDArray[np.float32]]] = {}
    notes = _without_residuals(fitted, fitted.residuals)
    for level in levels:
        low, high, reach = fitted.residuals.bounds(level)
        # Where all residuals of a biased network have one sign, the interval reaches back to the forecast itself: it
        # only grows, so it covers no less.
        low, high = np.minimum(low, 0), np.maximum(high, 0)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused by its name
            bounds[level] = (yhat[..., 0] + low * scale[..., None], yhat[..., 0] + high * scale[..., None])
        if reach:
            notes.append(_pooling_note(fitted.residuals, level, reach))
    return bounds, tuple(notes)


def _without_residuals(fitted: Fitted, residuals: Residuals) -> list[str]:
    """A note on columns (or on all, where series share residuals) without residuals, and so without intervals."""
    if not residuals.empty.any():
        return []
    names = [fitted.columns[target] for target in np.flatnonzero(residuals.empty)]
    return [f"No value of {listing(names)} was held out to draw intervals from: they are left empty."]


def _pooling_note(residuals: Residuals, level: float, reach: int) -> str:
    counts = residuals.counts[~residuals.empty]
    count, steps = int(counts.min()), counts.shape[1]
    start = f"An interval of {level:g} % needs {residuals_needed(level)} residuals a step and there are {count}"
    if reach < steps:
        steps_were = "step on each side was" if reach == 1 else "steps on each side were"
        return f"{start}: up to {reach} neighbouring {steps_were} pooled."
    total = int(counts.sum(-1).min())
    return f"{start}, {total} over all steps: it rests on the extremes and is likely too narrow."


def _quantile_bounds(
    fitted: Fitted, yhat: NDArray[np.float32], level: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    tail = round((1 - level / 100) / 2, 9)
    try:
        low, high = fitted.task.quantiles.index(tail), fitted.task.quantiles.index(round(1 - tail, 9))
    except ValueError:
        trained = ", ".join(f"{known:g}" for known in fitted.spec.levels)
        raise SettingsError(
            f"This quantile model was trained for the levels {trained}; ask for one of them, or fit for {level:g} too."
        ) from None
    return yhat[..., low], yhat[..., high]


def with_future(
    fitted: Fitted,
    panel: Panel,
    which: Windows,
    index: torch.Tensor,
    batch: Batch,
    known: Array | None,
) -> Batch:
    """The batch with the marks of its future, whose rows the panel need not have."""
    horizon = fitted.spec.horizon
    parts = []
    windows = index.numpy()
    if fitted.calendar is not None:
        flat = features(panel.ahead(which.starts[windows] - 1, horizon).ravel(), fitted.calendar)
        parts.append(flat.reshape(len(flat), len(windows), horizon).transpose(1, 0, 2))
    if fitted.known:
        if known is None:
            raise SettingsError("The future of the known inputs is missing.")
        series = which.series[windows]
        scaler = fitted.scaler(panel)
        level = (scaler.mean + panel.centre)[series, -fitted.known :, None]
        parts.append(((known[windows] - level) / scaler.std[series, -fitted.known :, None]).astype(np.float32))
    if (statics := fitted.describe(panel)) is not None:
        parts.append(np.repeat(statics[which.series[windows], :, None], horizon, axis=2).astype(np.float32))
    empty = torch.zeros(len(windows), fitted.targets, horizon, device=batch.past.device)
    marks = torch.from_numpy(np.concatenate(parts, axis=1)).to(batch.past.device) if parts else None
    return Batch(batch.past, empty, batch.mask, None, batch.past_marks, marks, batch.series)
