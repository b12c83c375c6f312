"""Content that the pages of all tasks share: data, device, training curve, settings with their reasons."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from rearview import models
from rearview.attention import split
from rearview.core.errors import InputError, did_you_mean
from rearview.core.settings import settings_from
from rearview.core.wording import listing, quantity
from rearview.data.infer.timestamps import show_ends
from rearview.data.panel import Panel
from rearview.estimators.options import Attention
from rearview.report.common import text
from rearview.report.common.summary import Curve, DataFacts
from rearview.tasks.plan import GIVEN, Choice, Choices, Plan
from rearview.train import History

Settings = dict[str, dict[str, tuple[object, str]]]
"""Section -> setting -> (value, reason)."""


def describe_device(device: torch.device | None) -> str:
    """The device that a network ran on, in words."""
    if device is not None and device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {quantity(torch.get_num_threads(), 'thread')}"


def training_curve(history: History) -> Curve:
    """How a network was trained."""
    held_out = [epoch.validation_loss for epoch in history.epochs if epoch.validation_loss is not None]
    return Curve(
        train=np.array([epoch.train_loss for epoch in history.epochs]),
        validation=np.array(held_out, dtype=np.float64),
        best_epoch=history.best_epoch,
        ended=history.ended,
    )


def attention_choice(model: str, choices: Choices, requested: Attention) -> dict[str, Choice[object]]:
    """The attention of a network as one of its settings; nothing where it has none."""
    values = {name: choice.value for name, choice in choices.items() if name != "adapters"}
    attention = models.attention_of(model, settings_from(models.settings_of(model), model, values), requested)
    if attention is None and not models.claims(model).attention:
        return {}
    name, settings = split(attention)
    words = f"{name}({', '.join(f'{key}={value}' for key, value in settings.items())})" if settings else name
    return {"attention": Choice(words, GIVEN if requested is not None else "the network's own")}


def page_settings(choices: Choices) -> dict[str, tuple[object, str]]:
    """Choices as a page shows them."""
    return {name: (choice.value, choice.reason) for name, choice in choices.items()}


def network_settings(name: str, attention: Choices, plan: Plan) -> Settings:
    """A network and its training as sections of their own, where something was chosen."""
    parts = {"model": {**attention, **plan.model}, "training": plan.training}
    return {f"{name}: {part}": page_settings(choices) for part, choices in parts.items() if choices}


def data_facts(panel: Panel) -> DataFacts:
    """The data in numbers."""
    first, last = show_ends(panel)
    zone = f" ({panel.layout.timezone})" if panel.layout.timezone else ""
    missing = 0.0 if panel.observed is None else 1 - float(panel.observed.mean())
    facts = {
        "Source": panel.layout.source,
        "Rows": f"{len(panel.values):,}",
        "Series": f"{panel.series:,}",
        "Columns": f"{len(panel.columns):,}",
        "Step": panel.step.words(),
        "First stamp": first,
        "Last stamp": last,
        "Missing cells": text.percent(missing) if missing else "none",
        "In memory": text.memory(panel.values.nbytes),
    }
    value_name = measure_name(panel) or ("value" if panel.layout.form == "long" else "")
    time_name = f"{panel.layout.time_col}{zone}"
    return DataFacts(tuple(facts.items()), panel.series, len(panel.columns), facts["Step"], time_name, value_name)


def measure_name(panel: Panel) -> str:
    """What the series of a long table measure, such as Sales; empty where no column says so."""
    name = panel.layout.target_col or ""
    return "" if name.casefold() in ("y", "value", "values") else name


def space_evenly(count: int, most: int) -> NDArray[np.int64]:
    """At most so many places among `count`, from the first to the last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def check_drawn(name: str, there: Sequence[str], what: str) -> str:
    """The name of a series or channel to draw; one that is not there is refused."""
    if name not in there:
        near = did_you_mean(name, tuple(there))
        raise InputError(f"There is no {what} {name!r} to draw.{near} There is {listing(there)}.")
    return name
