"""Fit one network to cases: hold out, scale, pad, train; and predict the classes of others."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rearview import train
from rearview.core.errors import InputError
from rearview.core.wording import quantity
from rearview.data.cases.case_set import LEAST, Cases, Labels, hold_out
from rearview.data.cases.padding import FURTHEST, CaseTensors, ChannelScaler, pad_cases
from rearview.data.panel import Finding
from rearview.estimators import base
from rearview.estimators.base import NO_CHECKPOINT, Session
from rearview.estimators.classify.spec import ClassifySpec
from rearview.models.contract import Model
from rearview.tasks import plan as planning
from rearview.tasks.objectives import Classify
from rearview.tasks.plan import GIVEN, Choice, Plan

FEW_HELD = 10
"""Held-out cases below which a finding calls the choice of the epoch uncertain."""
PREDICTED_AT_ONCE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted(base.FittedNetwork):
    """A trained network and everything needed to use it on other cases."""

    spec: ClassifySpec
    classes: Labels
    """Sorted; a network's output is in this order."""
    scaler: ChannelScaler
    history: train.History
    cases: dict[str, int]
    """Cases that trained and that picked the epoch."""
    columns: tuple[str, ...] = ()
    """The names of the channels, where the cases came from a frame."""

    @property
    def channels(self) -> int:
        return self.network.shape.channels


@dataclass(frozen=True, slots=True)
class Likelihoods:
    """How likely each class is for some cases."""

    probabilities: NDArray[np.float64]
    """[case, class]; rows sum to 1."""
    notes: tuple[str, ...]
    """Notes on how to read them."""


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A planned network with its first weights, and the cases to train it on; it is trained once."""

    spec: ClassifySpec
    cases: Cases
    plan: Plan
    network: Model
    data: CaseTensors
    classes: Labels
    codes: NDArray[np.int64]
    """[case]: the place of its class."""
    scaler: ChannelScaler
    training: train.Settings | None
    learned: NDArray[np.int64]
    """Cases that train."""
    held: NDArray[np.int64]
    """Cases that pick the epoch."""

    def train(self, session: Session = NO_CHECKPOINT) -> Fitted:
        """Train the network."""
        learned, held = torch.from_numpy(self.learned), torch.from_numpy(self.held)
        history = base.train_network(self.network, Classify(), self.data, learned, held, self.training, session)
        assert history is not None  # networks that classify are trained
        return Fitted(
            spec=self.spec,
            plan=self.plan,
            network=self.network.eval(),
            classes=self.classes,
            scaler=self.scaler,
            history=history,
            findings=tuple(find_oddities(self.cases, self.codes, self.classes, self.spec, self.held)),
            cases={"train": len(learned), "validation": len(held)},
            columns=self.cases.columns,
        )


def fit(cases: Cases, spec: ClassifySpec, session: Session = NO_CHECKPOINT) -> Fitted:
    """Train a network to classify the cases."""
    return prepare(cases, spec).train(session)


def prepare(cases: Cases, spec: ClassifySpec) -> Prepared:
    """Hold out, scale, plan, and create the network; what can't be trained is refused."""
    classes, codes = code_classes(cases)
    learned, held = np.arange(len(cases)), np.arange(0)
    if spec.validation:
        learned, held = hold_out(codes, spec.validation, spec.seed)
    lookback = choose_lookback(cases, spec)
    plan = Plan(
        lookback=lookback,
        model=planning.override(planning.classifier_settings(spec.model, lookback.value), spec.settings),
        training=planning.override(planning.classifier_training(len(learned), len(held)), spec.training),
    )
    # Statistics of the cases that train, not of those that pick the epoch.
    scaler = ChannelScaler.fit(cases.take(learned))
    data = pad_cases(cases, scaler, codes, lookback.value, fill=spec.fill, device=base.resolve_device(spec.device))
    network, training = base.build_network(
        spec.model, spec, plan, channels=cases.channels, lookback=lookback.value, asks="classes", classes=len(classes)
    )
    return Prepared(spec, cases, plan, network, data, classes, codes, scaler, training, learned, held)


def choose_lookback(cases: Cases, spec: ClassifySpec) -> Choice[int]:
    """The steps of a case that are read."""
    if spec.lookback is not None:
        return Choice(int(spec.lookback), GIVEN)
    return Choice(int(cases.lengths.max()), "the longest case to train on")


def code_classes(cases: Cases) -> tuple[Labels, NDArray[np.int64]]:
    """The classes, sorted, and the code of each case; a set of one class is refused."""
    if cases.labels is None:
        raise InputError(f"The cases of {cases.source} have no class, so there is nothing to learn; give y.")
    classes, codes = np.unique(cases.labels, return_inverse=True)
    if len(classes) < 2:
        raise InputError(
            f"All {len(cases)} cases of {cases.source} are of one class, {classes.tolist()[0]!r}; a classifier needs "
            "cases of at least two classes."
        )
    return classes, codes.astype(np.int64)


def logits(network: Model, data: CaseTensors) -> Tensor:
    """[case, class], on the CPU."""
    task, parts = Classify(), []
    with torch.inference_mode():
        for index in torch.split(torch.arange(len(data)), PREDICTED_AT_ONCE):
            parts.append(task.logits(network, data.batch(index)).cpu())
    return torch.cat(parts)


def predict(fitted: Fitted, cases: Cases) -> Likelihoods:
    """How likely each class is for each case."""
    check_channels(cases, fitted.channels)
    likely = torch.softmax(network_logits(fitted, cases).double(), dim=-1)
    return Likelihoods(likely.numpy(), tuple(note_limits(cases, fitted.scaler, fitted.lookback)))


def check_channels(cases: Cases, channels: int) -> None:
    """Refuse cases of other channels than those of training."""
    if cases.channels != channels:
        turned = all(one.shape[1] == channels for one in cases.series)
        what_else = (
            "channels come before time: np.transpose(X, (0, 2, 1))." if turned else "bring the same in the same order."
        )
        raise InputError(
            f"{cases.source} has {quantity(cases.channels, 'channel')}, but the classifier was trained on {channels}; "
            f"{what_else}"
        )


def network_logits(fitted: Fitted, cases: Cases) -> Tensor:
    """[case, class], on the CPU: the network's output for other cases."""
    nothing = np.zeros(len(cases), dtype=np.int64)
    data = pad_cases(cases, fitted.scaler, nothing, fitted.lookback, fill=fitted.spec.fill, device=fitted.device)
    return logits(fitted.network, data)


def note_limits(cases: Cases, scaler: ChannelScaler, lookback: int) -> list[str]:
    """Sentences about cases that a classifier truncates, fills or clips."""
    notes, of = [finding.message for finding in cases.findings], f"of {len(cases)} cases of {cases.source}"
    longest = int(cases.lengths.max())
    if longest > lookback:
        count = int((cases.lengths > lookback).sum())
        steps = "step counts" if lookback == 1 else f"{lookback} steps count"
        are, their, them = ("is", "its", "it") if count == 1 else ("are", "their", "them")
        notes.append(
            f"{count} {of} {are} longer (up to {longest} steps) than the {lookback} the classifier reads: only "
            f"{their} last {steps}. Train with lookback={longest} (--lookback {longest}) to read {them} whole."
        )
    empty = np.array([np.isnan(one).all(axis=1) for one in cases.series])
    if empty.any():
        listed = ", ".join(str(channel + 1) for channel in np.flatnonzero(empty.any(axis=0))[:5])
        count = int(empty.any(axis=1).sum())
        notes.append(
            f"{count} {of} {'has' if count == 1 else 'have'} a channel without any value (channel {listed}): the "
            "training mean stands there, and the answer rests on the other channels."
        )
    far = sum(bool((np.abs(one - scaler.mean[:, None]) > FURTHEST * scaler.std[:, None]).any()) for one in cases.series)
    if far:
        notes.append(
            f"{far} {of} {'has' if far == 1 else 'have'} a value more than {FURTHEST:,.0f} standard deviations from "
            f"the mean of training, which is read as just that far: check {'it' if far == 1 else 'them'} before you "
            f"trust {'its' if far == 1 else 'their'} class."
        )
    return notes


def find_oddities(
    cases: Cases,
    codes: NDArray[np.int64],
    classes: Labels,
    spec: ClassifySpec,
    held: NDArray[np.int64],
    shorter: str = "padded at the front and the padding is masked",
) -> list[Finding]:
    """Repairs of training cases and warnings about them; `shorter` says how shorter cases are treated."""
    findings = [*cases.findings]
    lengths = cases.lengths
    if lengths.min() < lengths.max():
        message = f"The cases have {lengths.min()} to {lengths.max()} steps: shorter ones are {shorter}."
        findings.append(Finding("repaired", "unequal_lengths", int((lengths < lengths.max()).sum()), message))
    if cases.missing:
        values = "1 missing value is" if cases.missing == 1 else f"{cases.missing:,} missing values are"
        message = f"{values} filled (fill={spec.fill!r})."
        findings.append(Finding("repaired", "missing_values", cases.missing, message))
    empty = sum(int(np.isnan(one).all(axis=1).any()) for one in cases.series)
    if empty:
        which = "1 case has" if empty == 1 else f"{empty} cases have"
        message = f"{which} a channel without any value; the training mean stands there."
        findings.append(Finding("warning", "empty_channel", empty, message))
    findings += _find_overshadowing(cases)
    counts = np.bincount(codes)
    tiny = [str(label) for label, count in zip(classes.tolist(), counts, strict=True) if count <= LEAST]
    if tiny and spec.validation:
        message = (
            f"Class {', '.join(tiny[:5])} has {LEAST} cases or fewer: all of them train, and none is left to "
            "validate by."
        )
        findings.append(Finding("warning", "tiny_classes", len(tiny), message))
    if 0 < len(held) < FEW_HELD:
        few = "1 case is" if len(held) == 1 else f"{len(held)} cases are"
        message = f"Only {few} held out to pick the best epoch by: the pick is uncertain."
        findings.append(Finding("warning", "few_validation_cases", len(held), message))
    return findings


def _find_overshadowing(cases: Cases) -> list[Finding]:
    """Warn of channels in which a few extreme values determine the scale, so that all others look alike."""
    steps = np.concatenate(cases.series, axis=1)
    far = np.abs(steps - np.nanmedian(steps, axis=1, keepdims=True))
    usual = np.nanmedian(far, axis=1)
    channels = np.flatnonzero((usual > 0) & (np.nanmax(far, axis=1) > FURTHEST * usual))
    if not len(channels):
        return []
    listed = ", ".join(str(channel + 1) for channel in channels[:5])
    largest = steps[channels[0], np.nanargmax(far[channels[0]])]
    message = (
        f"Channel {listed} holds values (such as {largest:g}) more than {FURTHEST:,.0f} times as far from its median "
        "as is usual: beside them all others look alike; mend them, or leave these cases out."
    )
    return [Finding("warning", "overshadowed_channel", len(channels), message)]
