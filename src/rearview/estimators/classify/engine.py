"""Fit one network to cases: hold out, scale, pad, train; and answer about others."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rearview import models, train
from rearview.attention import Spec
from rearview.core.errors import InputError
from rearview.core.settings import settings_from
from rearview.data.cases.case_set import LEAST, Cases, Labels, Series, hold_out
from rearview.data.cases.padding import FURTHEST, ChannelScaler, Source, source
from rearview.data.panel import Finding
from rearview.estimators.classify.plan import Plan, plan
from rearview.estimators.classify.spec import Request
from rearview.estimators.forecast.engine import Trained, device_named
from rearview.models.contract import Model
from rearview.tasks.classify import Classify

FEW_HELD = 10
"""Held-out cases below which the epoch they pick is a matter of luck, which a sentence says."""
ANSWER_BATCH = 256
PREPARING_CASES = 256


@dataclass(frozen=True, slots=True)
class Fitted(Trained):
    """A trained network and everything needed to use it on other cases."""

    request: Request
    plan: Plan
    network: Model
    classes: Labels
    """Sorted; a network's output is in this order."""
    scaler: ChannelScaler
    history: train.History
    findings: tuple[Finding, ...]
    cases: dict[str, int]
    """Cases that trained and that picked the epoch."""
    columns: tuple[str, ...] = ()
    """What the channels are called, where the cases came from a frame."""

    @property
    def channels(self) -> int:
        return self.network.shape.channels


@dataclass(frozen=True, slots=True)
class Answer:
    """What a network says about some cases."""

    probabilities: NDArray[np.float64]
    """[case, class]; rows sum to 1."""
    notes: tuple[str, ...]
    """What a reader must know to read them right."""


@dataclass(frozen=True, slots=True, eq=False)
class _Made:
    """A network before it is trained, and the cases to train it on."""

    plan: Plan
    network: Model
    data: Source
    classes: Labels
    codes: NDArray[np.int64]
    """[case]: the place of its class."""
    scaler: ChannelScaler
    training: train.Settings
    learned: NDArray[np.int64]
    """Cases that train."""
    held: NDArray[np.int64]
    """Cases that pick the epoch."""


def check(cases: Cases, request: Request) -> None:
    """Refuse at once what `fit` would refuse: a network, settings, a pair that does not fit, cases of one class."""
    _made(cases, request)


def fit(
    cases: Cases,
    request: Request,
    *,
    checkpoint: Path | None = None,
    resume: bool = False,
    progress: train.Progress | bool | None = None,
) -> Fitted:
    """Train a network to tell the classes of the cases apart; with a checkpoint the run can be resumed."""
    made = _made(cases, request)
    order = torch.from_numpy(made.learned)
    prepare(made.network, made.data, order)
    history = train.fit(
        made.network,
        Classify(),
        made.data,
        order,
        torch.from_numpy(made.held) if len(made.held) else None,
        made.training,
        checkpoint=checkpoint,
        resume=resume,
        progress=train.follower(progress),
    )
    return Fitted(
        request=request,
        plan=made.plan,
        network=made.network.eval(),
        classes=made.classes,
        scaler=made.scaler,
        history=history,
        findings=tuple(_findings(cases, made.codes, made.classes, request, made.held)),
        cases={"train": len(made.learned), "validation": len(made.held)},
        columns=cases.columns,
    )


def _made(cases: Cases, request: Request) -> _Made:
    """Hold out, scale, plan, and make the network."""
    classes, codes = coded(cases)
    learned, held = np.arange(len(cases)), np.arange(0)
    if request.validation:
        learned, held = hold_out(codes, request.validation, request.seed)
    chosen = plan(request, int(cases.lengths.max()), len(learned), len(held))
    # Statistics of the cases that train, not of those that pick the epoch.
    scaler = ChannelScaler.fit(cases.take(learned))
    device = device_named(request.device)
    data = source(cases, scaler, codes, int(chosen.lookback.value), fill=request.fill, device=device)
    training = {name: choice.value for name, choice in chosen.training.items()}
    settings = {name: choice.value for name, choice in chosen.model.items()}
    return _Made(
        plan=chosen,
        network=network_for(data, request.model, request.attention, settings, len(classes), request.seed),
        data=data,
        classes=classes,
        codes=codes,
        scaler=scaler,
        training=settings_from(train.Settings, "Training", {**training, "seed": request.seed}),
        learned=learned,
        held=held,
    )


def coded(cases: Cases) -> tuple[Labels, NDArray[np.int64]]:
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


def network_for(
    data: Source, name: str, attention: Spec, settings: Mapping[str, Any], classes: int, seed: int
) -> Model:
    """A network with its first weights, on the device of the data."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = models.create(
            name,
            channels=data.values.shape[1],
            lookback=data.values.shape[2],
            asks="classes",
            classes=classes,
            attention=attention,
            **settings,
        )
    return network.to(data.values.device)


def prepare(network: Model, data: Source, learned: Tensor) -> None:
    """Let a network draw what it needs of the training cases before it trains on them."""
    network.prepare(data.batch(learned[:: max(1, len(learned) // PREPARING_CASES)]).past)


def logits(network: Model, data: Source) -> Tensor:
    """[case, class], on the CPU."""
    task, parts = Classify(), []
    with torch.inference_mode():
        for index in torch.split(torch.arange(len(data)), ANSWER_BATCH):
            parts.append(task.logits(network, data.batch(index)).cpu())
    return torch.cat(parts)


def answer(fitted: Fitted, cases: Cases) -> Answer:
    """How likely each class is for each case."""
    if cases.channels != fitted.channels:
        raise InputError(
            f"{cases.source} has {cases.channels} channels, but the classifier was trained on {fitted.channels}; "
            "bring the same channels in the same order."
        )
    nothing = np.zeros(len(cases), dtype=np.int64)
    data = source(cases, fitted.scaler, nothing, fitted.lookback, fill=fitted.request.fill, device=fitted.device)
    likely = torch.softmax(logits(fitted.network, data).double(), dim=-1)
    return Answer(likely.numpy(), tuple(_notes(fitted, cases)))


def _notes(fitted: Fitted, cases: Cases) -> list[str]:
    notes, of = [], f"of {len(cases)} cases of {cases.source}"
    longest = int(cases.lengths.max())
    if longest > fitted.lookback:
        count = int((cases.lengths > fitted.lookback).sum())
        steps = "step counts" if fitted.lookback == 1 else f"{fitted.lookback} steps count"
        are, their, them = ("is", "its", "it") if count == 1 else ("are", "their", "them")
        notes.append(
            f"{count} {of} {are} longer (up to {longest} steps) than the {fitted.lookback} the classifier reads: only "
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
    far = sum(_is_far(one, fitted.scaler) for one in cases.series)
    if far:
        notes.append(
            f"{far} {of} {'has' if far == 1 else 'have'} a value more than {FURTHEST:,.0f} standard deviations from "
            f"the mean of training, which is read as just that far: check {'it' if far == 1 else 'them'} before you "
            f"trust {'its' if far == 1 else 'their'} class."
        )
    return notes


def _is_far(one: Series, scaler: ChannelScaler) -> bool:
    return bool((np.abs(one - scaler.mean[:, None]) > FURTHEST * scaler.std[:, None]).any())


def _findings(
    cases: Cases, codes: NDArray[np.int64], classes: Labels, request: Request, held: NDArray[np.int64]
) -> list[Finding]:
    found = []
    lengths = cases.lengths
    if lengths.min() < lengths.max():
        message = (
            f"The cases have {lengths.min()} to {lengths.max()} steps: shorter ones are padded at the front and the "
            "padding is masked."
        )
        found.append(Finding("repaired", "unequal_lengths", int((lengths < lengths.max()).sum()), message))
    if cases.missing:
        values = "1 missing value is" if cases.missing == 1 else f"{cases.missing:,} missing values are"
        message = f"{values} filled (fill={request.fill!r})."
        found.append(Finding("repaired", "missing_values", cases.missing, message))
    empty = sum(int(np.isnan(one).all(axis=1).any()) for one in cases.series)
    if empty:
        which = "1 case has" if empty == 1 else f"{empty} cases have"
        message = f"{which} a channel without any value; the training mean stands there."
        found.append(Finding("warning", "empty_channel", empty, message))
    found += _overshadowed(cases)
    counts = np.bincount(codes)
    tiny = [str(label) for label, count in zip(classes.tolist(), counts, strict=True) if count <= LEAST]
    if tiny and request.validation:
        message = (
            f"Class {', '.join(tiny[:5])} has {LEAST} cases or fewer: all of them train, and none is left to "
            "validate by."
        )
        found.append(Finding("warning", "tiny_classes", len(tiny), message))
    if 0 < len(held) < FEW_HELD:
        few = "1 case is" if len(held) == 1 else f"{len(held)} cases are"
        message = f"Only {few} held out to pick the best epoch by: the pick is uncertain."
        found.append(Finding("warning", "few_validation_cases", len(held), message))
    return found


def _overshadowed(cases: Cases) -> list[Finding]:
    """A word on channels in which a few values are so far off that, scaled by them, all others look alike."""
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
