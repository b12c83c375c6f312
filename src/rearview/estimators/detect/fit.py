"""Fit one network to a panel of ordinary rows: plan, hold out, scale, train, draw the threshold."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from rearview import models, train
from rearview.core.errors import InputError, SettingsError
from rearview.core.wording import listing
from rearview.data.panel import Finding, Panel
from rearview.data.scale import Scaler
from rearview.data.windows import Windows, list_windows
from rearview.estimators import base
from rearview.estimators.base import NO_CHECKPOINT, Session
from rearview.estimators.detect import constant_channels
from rearview.estimators.detect.calibration import Calibration, HeldOut, calibrate
from rearview.estimators.detect.scoring import LARGEST, Scores, score, source_of
from rearview.estimators.detect.spec import NETWORK, DetectSpec
from rearview.models.contract import Model
from rearview.tasks import plan as planning
from rearview.tasks.objectives import Detect
from rearview.tasks.plan import Choice, Plan

HELD_OUT = 0.2
"""The last share of each series that stops the training and draws the threshold."""
REACH = LARGEST**0.5
"""Standard deviations from the mean of the training rows beyond which a cell is treated as missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted(base.FittedPanel):
    """A trained network and everything needed to use it on new rows."""

    spec: DetectSpec
    constant: constant_channels.Channels | None
    """Channels that never vary in training and are compared with their constant; None: the network scores all."""
    calibration: Calibration

    def errors(self, panel: Panel) -> NDArray[np.float32]:
        """[row, channel]: squared errors on the scaled axis."""
        spec, constant = self.spec, self.constant_in(panel)
        return score(self.network, panel, self.scaler(panel), self.lookback, spec.mode, spec.step, constant)

    def scores(self, panel: Panel) -> Scores:
        """How unusual the rows of a panel are."""
        return self.calibration.usual.weigh(self.errors(panel), panel, self.place(panel))

    def place(self, panel: Panel) -> list[int | None]:
        """[series]: where each series of a panel stands among those of training; None: it was not seen there."""
        if len(self.ids) == 1 and panel.layout.form == "wide":
            return [0]
        known = {name: s for s, name in enumerate(self.ids)}
        return [known.get(name) for name in panel.ids]

    def constant_in(self, panel: Panel) -> constant_channels.Channels | None:
        """[series, channel] of a panel; a series that training did not see is judged as it is scaled, by its rows."""
        if self.constant is None:
            return None
        own = constant_channels.find(panel)
        places = enumerate(self.place(panel))
        return np.stack([own[s] if place is None else self.constant[place] for s, place in places])


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A planned network with its first weights, and the rows to train it on; it is trained once."""

    spec: DetectSpec
    panel: Panel
    plan: Plan
    name: str
    network: Model
    learned: Windows
    held: Windows
    border: NDArray[np.int64]
    """[series]: rows that train."""
    scaler: Scaler
    training: train.Settings | None
    """None where there is nothing to train."""
    findings: tuple[Finding, ...]

    def train(self, session: Session = NO_CHECKPOINT, *, hold_constants: bool = True) -> Fitted:
        """Train the network and draw its threshold (see `fit`)."""
        spec, panel, learned = self.spec, self.panel, len(self.learned)
        device = base.resolve_device(spec.device)
        source = source_of(panel, self.scaler, self.learned + self.held, spec.lookback, spec.mode, device)
        order = torch.arange(len(source))
        stopping, notes = base.thin_validation(order[learned:], self.plan, learned)
        history = base.train_network(self.network, Detect(), source, order[:learned], stopping, self.training, session)
        del source  # the rows once more on the device, which scoring has its own copy of
        words = f"the last {HELD_OUT:.0%} of the rows, held out from training"
        constant = constant_channels.find(panel, self.border) if hold_constants else None
        # A forecast looks back on rows before the held-out ones; a window to reconstruct lies among them.
        held = HeldOut.of(panel, self.scaler, self.border, constant, spec.lookback if spec.mode == "forecast" else 0)
        calibration = calibrate(self.network.eval(), held, spec, words)
        return Fitted(
            spec=spec,
            plan=self.plan,
            name=self.name,
            network=self.network,
            ids=panel.ids,
            columns=panel.columns,
            mean=self.scaler.mean + panel.centre,
            std=self.scaler.std,
            constant=constant,
            calibration=calibration,
            step=str(panel.step),
            history=history,
            notes=(*calibration.notes, *notes),
            findings=(*self.findings, *constant_channels.findings(panel, constant)),
            windows={"train": learned, "validation": len(stopping)},
        )


def fit(panel: Panel, spec: DetectSpec, session: Session = NO_CHECKPOINT, *, hold_constants: bool = True) -> Fitted:
    """Train a network on the rows of a panel and draw its threshold.

    Without `hold_constants` a channel that never varies is scored by the network's error, as all others are.
    """
    return prepare(panel, spec).train(session, hold_constants=hold_constants)


def prepare(panel: Panel, spec: DetectSpec) -> Prepared:
    """Hold out, scale, plan, and create the network; what can't be trained is refused."""
    name = spec.model or NETWORK
    claims = models.claims(name)
    if spec.mode == "reconstruct" and not claims.reconstructs:
        able = ", ".join(other for other in models.names() if models.claims(other).reconstructs)
        raise SettingsError(
            f"{name} forecasts and can't give a window back; score rows by its forecasts with mode='forecast' "
            f"(--mode forecast), or use one of {able}."
        )
    panel, empty = _drop_empty_series(panel)
    _check_rows(panel, spec)
    ahead = 0 if spec.mode == "reconstruct" else 1
    border = _borders(panel, spec.lookback + ahead)
    scaler = Scaler.fit(panel, border)
    panel, left_out = _drop_extremes(panel, scaler)
    learned = _keep_observed(panel, list_windows(panel, spec.lookback, ahead, None, border), spec, ahead)
    held = _keep_observed(panel, _after(panel, border, spec.lookback, ahead), spec, ahead)
    if not len(learned):
        raise InputError(
            f"{panel.layout.source}: no window of the rows to train on holds an observed value; bring more history."
        )
    on_gpu, channels = base.resolve_device(spec.device).startswith("cuda"), len(panel.columns)
    season = planning.choose_season(panel, None, int(panel.lengths.max()))
    samples = len(learned) * (1 if claims.mixes_channels else channels)
    settings = planning.model_settings(name, spec.lookback, season.value, samples, on_gpu)
    if "normalise" not in spec.settings:
        why = "a window's level and spread are evidence, not to be divided out"
        settings |= planning.without_normalising(planning.settings_names(name), why)
    loop = planning.training_settings(len(learned), channels, len(held), on_gpu)
    plan = Plan(
        lookback=Choice(spec.lookback, "rows of a window"),
        season=season,
        model=planning.override(settings, spec.settings),
        training=planning.override(loop, spec.training) if claims.trains else {},
    )
    output = {"asks": "window"} if spec.mode == "reconstruct" else {"steps": 1}
    network, training = base.build_network(name, spec, plan, channels=channels, lookback=spec.lookback, **output)
    return Prepared(spec, panel, plan, name, network, learned, held, border, scaler, training, (*empty, *left_out))


def _drop_empty_series(panel: Panel) -> tuple[Panel, tuple[Finding, ...]]:
    """The panel without series that have no value, and a warning of them; where none has one, reading refuses."""
    empty = empty_series(panel)
    if not empty:
        return panel, ()
    one = len(empty) == 1
    message = (
        f"Series {listing(empty)} {'has' if one else 'have'} no value in any row: nothing is learned from "
        f"{'it' if one else 'them'}."
    )
    return panel.only(set(panel.ids) - set(empty)), (Finding("warning", "empty", len(empty), message),)


def empty_series(panel: Panel) -> list[str]:
    """The series without any value."""
    return [panel.ids[s] for s in np.flatnonzero(_without_values(panel).all(axis=1)).tolist()]


def _without_values(panel: Panel) -> NDArray[np.bool_]:
    """[series, channel]: whether there is no value in any row."""
    return np.asarray(panel.first >= panel.offsets[1:, None])


def _drop_extremes(panel: Panel, scaler: Scaler) -> tuple[Panel, tuple[Finding, ...]]:
    """The panel with extreme cells treated as missing, and a warning about them.

    The error of such a cell is the largest possible. Among the held-out rows it would end the training and be the
    usual error of its channel, so that it would hide itself and every other anomaly.
    """
    mean = scaler.mean.astype(np.float32)
    reach = np.minimum(REACH * scaler.std, np.finfo(np.float32).max).astype(np.float32)
    far = np.concatenate([np.abs(panel.values[a:b] - mean[s]) > reach[s] for s, (a, b) in enumerate(panel.bounds())])
    if panel.observed is not None:
        far &= panel.observed
    if not far.any():
        return panel, ()
    row, column = np.argwhere(far)[0].tolist()
    count = int(far.sum())
    rest = f", and {count - 1} more" if count > 1 else ""
    message = (
        f"Channel {panel.columns[column]!r} at {panel.stamps[row]}{rest}: more than {REACH:g} standard deviations from "
        "the mean; left out of training and of the threshold, and scored as the worst there is."
    )
    values = np.where(far, np.repeat(mean, panel.lengths, axis=0), panel.values)
    observed = ~far if panel.observed is None else panel.observed & ~far
    return replace(panel, values=values, observed=observed), (Finding("warning", "beyond_measure", count, message),)


def _check_rows(panel: Panel, spec: DetectSpec) -> None:
    needed = spec.lookback + (spec.mode == "forecast")
    longest = int(panel.lengths.max())
    if longest < needed:
        raise InputError(
            f"{panel.layout.source}: no series is long enough to learn from: a window takes {needed} rows, but the "
            f"longest has {longest}; use a shorter lookback, or bring more rows."
        )
    empty = [(panel.ids[s], panel.columns[c]) for s, c in np.argwhere(_without_values(panel)).tolist()]
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
    after = list_windows(panel, lookback, ahead, first)
    return after.take(np.flatnonzero(border[after.series] < panel.lengths[after.series]))


def _keep_observed(panel: Panel, which: Windows, spec: DetectSpec, ahead: int) -> Windows:
    """The windows that hold at least one observed cell to reconstruct or forecast."""
    if panel.observed is None:
        return which
    some = np.concatenate([[0], np.cumsum(panel.observed.any(axis=1))])
    if ahead:
        return which.take(np.flatnonzero(some[which.starts + 1] > some[which.starts]))
    begin = np.maximum(which.starts - spec.lookback, panel.offsets[which.series])
    return which.take(np.flatnonzero(some[which.starts] > some[begin]))
