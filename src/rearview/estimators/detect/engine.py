"""Fit one network to a panel of ordinary rows: plan, hold out, scale, train, draw the threshold; then use it."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rearview import models, train
from rearview.core.errors import InputError, SettingsError
from rearview.core.settings import settings_from
from rearview.data.io.table import listing
from rearview.data.panel import Finding, Panel
from rearview.data.scale import Scaler
from rearview.data.windows import Source, Windows, windows
from rearview.estimators.detect import constant_channels
from rearview.estimators.detect.calibration import Calibration, calibrate
from rearview.estimators.detect.measurable import measurable
from rearview.estimators.detect.scoring import Scores, score, source_of
from rearview.estimators.detect.segments import Segment, segments
from rearview.estimators.detect.spec import Request
from rearview.estimators.forecast.engine import Trained, device_named, thinned
from rearview.models.contract import Model
from rearview.tasks import plan as planning
from rearview.tasks.detect import Detect
from rearview.tasks.plan import Choice, Plan

HELD_OUT = 0.2
"""The last share of each series that stops the training and draws the threshold."""


@dataclass(frozen=True, slots=True)
class Fitted(Trained):
    """A trained network and everything needed to use it on new rows."""

    request: Request
    plan: Plan
    name: str
    network: Model
    ids: tuple[str, ...]
    columns: tuple[str, ...]
    mean: NDArray[np.float64]
    """[series, column] in original units."""
    std: NDArray[np.float64]
    constant: constant_channels.Channels | None
    """Channels that never vary in training and are held against their constant; None: all are left to the network."""
    calibration: Calibration
    step: str
    history: train.History | None
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]
    windows: dict[str, int]
    """Windows that trained and stopped."""

    def errors(self, panel: Panel) -> NDArray[np.float32]:
        """[row, channel]: squared errors on the scaled axis."""
        scaler = Scaler.known(panel, self.ids, self.mean, self.std)
        return score(
            self.network, panel, scaler, self.lookback, self.request.mode, self.request.step, self._constant(panel)
        )

    def place(self, panel: Panel) -> list[int | None]:
        """[series]: where each series of a panel stands among those of training; None: it was not seen there."""
        if len(self.ids) == 1 and panel.layout.form == "wide":
            return [0]
        known = {name: s for s, name in enumerate(self.ids)}
        return [known.get(name) for name in panel.ids]

    def _constant(self, panel: Panel) -> constant_channels.Channels | None:
        """[series, channel] of a panel; a series that training did not see is judged as it is scaled, by its rows."""
        if self.constant is None:
            return None
        own = constant_channels.find(panel)
        places = enumerate(self.place(panel))
        return np.stack([own[s] if place is None else self.constant[place] for s, place in places])


@dataclass(frozen=True, slots=True, eq=False)
class Detection:
    """What a detector says of the rows of a panel."""

    panel: Panel
    scores: Scores
    thresholds: NDArray[np.float64]
    """[series]."""
    flags: NDArray[np.bool_]
    """[row]: score above the threshold of its series."""
    segments: tuple[Segment, ...]
    notes: tuple[str, ...]

    @property
    def stretches(self) -> NDArray[np.int64]:
        """[segment, 2]: first row and row after the last of each segment."""
        return np.array([(part.first, part.last + 1) for part in self.segments], dtype=np.int64).reshape(-1, 2)


def detect(fitted: Fitted, panel: Panel) -> Detection:
    """Scores, flags and segments of the rows of a panel."""
    place = fitted.place(panel)
    found = fitted.calibration.scores(fitted.errors(panel), panel, place)
    limits = fitted.calibration.limits(place)
    flags = found.rows > np.repeat(limits, panel.lengths)
    stretches = segments(flags, found.rows, found.channels, panel.offsets, fitted.request.join)
    return Detection(panel, found, limits, flags, stretches, _told(fitted, panel, found))


@dataclass(frozen=True, slots=True, eq=False)
class _Made:
    """A network before it is trained, and how."""

    panel: Panel
    plan: Plan
    name: str
    network: Model
    learned: int
    """Windows that train; those of the held-out rows follow."""
    border: NDArray[np.int64]
    """[series]: rows that train."""
    scaler: Scaler
    training: train.Settings | None
    """None where there is nothing to train."""
    findings: tuple[Finding, ...]


def check(panel: Panel, request: Request) -> None:
    """Refuse at once what `fit` would refuse: a network, settings, a pair that does not fit, too few rows."""
    _made(panel, request)


def fit(
    panel: Panel,
    request: Request,
    *,
    checkpoint: Path | None = None,
    resume: bool = False,
    progress: train.Progress | bool | None = None,
    hold_constants: bool = True,
) -> Fitted:
    """Train a network on the rows of a panel and draw its threshold; with a checkpoint the run can be resumed.

    Without `hold_constants` a channel that never varies is scored by the network's error, as all others are.
    """
    made, source = _made(panel, request)
    panel, network, learned = made.panel, made.network, made.learned
    order = torch.arange(len(source))
    stopping, told = thinned(order[learned:], made.plan, learned)
    history = None
    if made.training is not None:
        network.prepare(source.pasts(order[:learned][:: max(1, learned // 256)]).past)
        history = train.fit(
            network,
            Detect(),
            source,
            order[:learned],
            stopping if len(stopping) else None,
            made.training,
            checkpoint=checkpoint,
            resume=resume,
            progress=train.follower(progress),
        )
    del source  # the rows once more on the device, which scoring has its own copy of
    words = f"the last {HELD_OUT:.0%} of the rows, held out from training"
    constant = constant_channels.find(panel, made.border) if hold_constants else None
    calibration = calibrate(network.eval(), panel, made.scaler, made.border, request, words, constant)
    return Fitted(
        request=request,
        plan=made.plan,
        name=made.name,
        network=network,
        ids=panel.ids,
        columns=panel.columns,
        mean=made.scaler.mean + panel.centre,
        std=made.scaler.std,
        constant=constant,
        calibration=calibration,
        step=str(panel.step),
        history=history,
        notes=(*calibration.notes, *told),
        findings=(*made.findings, *constant_channels.told(panel, constant)),
        windows={"train": learned, "validation": len(stopping)},
    )


def _made(panel: Panel, request: Request) -> tuple[_Made, Source]:
    """Hold out, scale, plan, and make the network; and the windows to train it on."""
    name = _model(request)
    panel, silent = _with_values(panel)
    _check_rows(panel, request)
    ahead = 0 if request.mode == "reconstruct" else 1
    border = _borders(panel, request.lookback + ahead)
    scaler = Scaler.fit(panel, border)
    panel, left_out = measurable(panel, scaler)
    learned = _observed(panel, windows(panel, request.lookback, ahead, None, border), request, ahead)
    held = _observed(panel, _after(panel, border, request.lookback, ahead), request, ahead)
    if not len(learned):
        raise InputError(
            f"{panel.layout.source}: no window of the rows to train on holds an observed value; bring more history."
        )
    device = device_named(request.device)
    source = source_of(panel, scaler, learned + held, request.lookback, request.mode, device)
    plan = _plan(panel, request, name, len(learned), len(held), on_gpu=device.startswith("cuda"))
    chosen = {key: choice.value for key, choice in plan.training.items()}
    training = {**chosen, "seed": request.seed} if models.claims(name).trains else None
    made = _Made(
        panel=panel,
        plan=plan,
        name=name,
        network=_network(name, plan, source, request).to(device),
        learned=len(learned),
        border=border,
        scaler=scaler,
        training=None if training is None else settings_from(train.Settings, "Training", training),
        findings=(*silent, *left_out),
    )
    return made, source


def _model(request: Request) -> str:
    name = request.model or "itransformer"
    claims = models.claims(name)
    if request.mode == "reconstruct" and not claims.reconstructs:
        able = ", ".join(other for other in models.names() if models.claims(other).reconstructs)
        raise SettingsError(
            f"{name} forecasts and can't give a window back; score rows by its forecasts with mode='forecast' "
            f"(--mode forecast), or use one of {able}."
        )
    return name


def _with_values(panel: Panel) -> tuple[Panel, tuple[Finding, ...]]:
    """The panel without series that have no value, and a word on them; where none has one, reading refuses."""
    dead = _silent(panel)
    if not dead:
        return panel, ()
    one = len(dead) == 1
    message = (
        f"Series {listing(dead)} {'has' if one else 'have'} no value in any row: nothing is learned from "
        f"{'it' if one else 'them'}."
    )
    return panel.only(set(panel.ids) - set(dead)), (Finding("warning", "empty", len(dead), message),)


def _silent(panel: Panel) -> list[str]:
    """The series without any value."""
    return [panel.ids[s] for s in np.flatnonzero(_unseen(panel).all(axis=1)).tolist()]


def _unseen(panel: Panel) -> NDArray[np.bool_]:
    """[series, channel]: whether there is no value in any row."""
    return np.asarray(panel.first >= panel.offsets[1:, None])


def _check_rows(panel: Panel, request: Request) -> None:
    needed = request.lookback + (request.mode == "forecast")
    longest = int(panel.lengths.max())
    if longest < needed:
        raise InputError(
            f"{panel.layout.source}: no series is long enough to learn from: a window takes {needed} rows, but the "
            f"longest has {longest}; use a shorter lookback, or bring more rows."
        )
    empty = [(panel.ids[s], panel.columns[c]) for s, c in np.argwhere(_unseen(panel)).tolist()]
    if not empty:
        return
    of_series = f" of series {empty[0][0]!r}" if panel.series > 1 else ""
    more = f" (and {len(empty) - 1} more)" if len(empty) > 1 else ""
    raise InputError(
        f"{panel.layout.source}: channel {empty[0][1]!r}{of_series}{more} has no value in any row, so nothing can "
        "be learned of it; leave it out with drop (--drop), or bring its values."
    )


def _borders(panel: Panel, needed: int) -> NDArray[np.int64]:
    """[series]: rows that train; the rest, where it has room for a window, is held out."""
    lengths = panel.lengths
    held = np.round(HELD_OUT * lengths).astype(np.int64)
    return np.where((held >= needed) & (lengths - held >= needed), lengths - held, lengths)


def _after(panel: Panel, border: NDArray[np.int64], lookback: int, ahead: int) -> Windows:
    """The windows of the held-out rows: whole ones, or those whose next row is held out."""
    first = border + lookback if ahead == 0 else border
    found = windows(panel, lookback, ahead, first)
    return found.take(np.flatnonzero(border[found.series] < panel.lengths[found.series]))


def _observed(panel: Panel, which: Windows, request: Request, ahead: int) -> Windows:
    """The windows that hold at least one observed cell of what is asked for."""
    if panel.observed is None:
        return which
    some = np.concatenate([[0], np.cumsum(panel.observed.any(axis=1))])
    if ahead:
        return which.take(np.flatnonzero(some[which.starts + 1] > some[which.starts]))
    begin = np.maximum(which.starts - request.lookback, panel.offsets[which.series])
    return which.take(np.flatnonzero(some[which.starts] > some[begin]))


def _plan(panel: Panel, request: Request, name: str, learned: int, held: int, *, on_gpu: bool) -> Plan:
    season = planning.choose_season(panel, None, int(panel.lengths.max()))
    claims = models.claims(name)
    samples = learned * (1 if claims.mixes_channels else len(panel.columns))
    chosen = planning.model_settings(name, request.lookback, season.value, samples, on_gpu)
    known = {field.name for field in fields(models.settings_of(name))}
    if "normalise" in known - set(request.settings):
        chosen["normalise"] = Choice("none", "a window's level and spread are evidence, not to be divided out")
        if "affine" in known:
            chosen["affine"] = Choice(False, "belongs to the normalisation that is off")
    chosen = planning.with_given(chosen, request.settings)
    training: dict[str, Choice] = {}
    if claims.trains:
        training = planning.training_settings(learned, len(panel.columns), held, on_gpu)
        training = planning.with_given(training, request.training)
        if not held and "patience" not in request.training:
            training["patience"] = Choice(None, "no rows are held out for early stopping")
    lookback = Choice(request.lookback, "rows of a window")
    return Plan(lookback=lookback, season=season, model=chosen, training=training)


def _network(name: str, plan: Plan, source: Source, request: Request) -> Model:
    arguments: dict[str, Any] = {key: choice.value for key, choice in plan.model.items()}
    asked: dict[str, Any] = {"asks": "window"} if request.mode == "reconstruct" else {"steps": 1}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(request.seed)
        return models.create(
            name, channels=source.channels, lookback=request.lookback, attention=request.attention, **asked, **arguments
        )


def _told(fitted: Fitted, panel: Panel, found: Scores) -> tuple[str, ...]:
    notes = []
    silent = _silent(panel)
    places = zip(panel.ids, fitted.place(panel), strict=True)
    unknown = [name for name, place in places if place is None and name not in silent]
    if unknown:
        one = len(unknown) == 1
        notes.append(
            f"{len(unknown)} of {panel.series} series {'was' if one else 'were'} not seen in training "
            f"({', '.join(unknown[:5])}{' ...' if len(unknown) > 5 else ''}): "
            f"{'it is scaled by its' if one else 'they are scaled by their'} own rows and "
            f"{'shares' if one else 'share'} the pooled threshold."
        )
    without = int(np.isnan(found.rows).sum())
    if without:
        has, them = ("has", "it") if without == 1 else ("have", "them")
        few = f", or too few rows stand before {them} to forecast from" if fitted.request.mode == "forecast" else ""
        notes.append(f"{without:,} of {len(found.rows):,} rows {has} no score: nothing was observed there{few}.")
    if silent:
        has = "has" if len(silent) == 1 else "have"
        notes.append(f"Series {listing(silent)} {has} no value in any row, so no score.")
    short = int((panel.lengths < fitted.lookback).sum())
    if short:
        notes.append(
            f"{short} of {panel.series} series {'is' if short == 1 else 'are'} shorter than a window of "
            f"{fitted.lookback} rows: the rest of {'its' if short == 1 else 'their'} window is padded and masked."
        )
    return tuple(notes)
