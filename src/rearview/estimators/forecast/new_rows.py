"""How estimators read frames: options kept as plain data, new rows read on the steps of training, findings told."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np

from rearview.core.errors import InputError, SettingsError, did_you_mean
from rearview.data.io.table import listing
from rearview.data.panel import Finding, Layout, Panel
from rearview.data.step import Step
from rearview.estimators.forecast.prediction import variables

_LOGGER = logging.getLogger("rearview")
_CALLED_OTHERWISE = {"train": "training", "set": "settings", "input_size": "lookback", "seq_len": "lookback"}
"""Words of the command line and of other libraries."""
_OF_TRAINING = (("warning", "empty"), ("warning", "constant"))
"""Findings that concern targets to train on, by kind and key."""


def options(owner: str, given: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """The reading options that were given, as JSON can hold them; one that does not exist is refused by name."""
    for name in given:
        if name not in known:
            here = _CALLED_OTHERWISE.get(name)
            near = f" It is called {here!r}." if here else did_you_mean(name, list(known))
            raise SettingsError(f"{owner} has no setting {name!r}.{near}")
    return {name: _plain(value) for name, value in given.items() if value is not None}


def tell(frame: Any, findings: tuple[Finding, ...]) -> None:
    """Say what was repaired or looks odd, through logging; whoever hands over a panel has its findings already."""
    if isinstance(frame, Panel):
        return
    for finding in findings:
        if finding.kind != "inferred":
            _LOGGER.warning(finding.message)


def read_on_step(frame: Any, read: Callable[..., Panel], step: str) -> Panel:
    """New rows on the step of training; `read(frame, freq=...)` reads them. Another step is refused."""
    try:
        panel = read(frame)
    except InputError:
        # A few rows don't tell their step, but the model knows it; other faults are met again and named.
        panel = read(frame, freq=step)
    return panel if str(panel.step) == step else _forced(frame, panel, read, step)


def timed(panel: Panel, trained: Layout) -> Panel:
    """New rows whose stamps are written with a time of day where their step has one, as it was in training.

    A few rows that all stand at midnight are written as dates, which would make one day of the hours to come.
    """
    shape, kind = panel.layout.time_format or "", panel.layout.time_kind
    if not panel.step.sub_daily or "%H" in shape or "%I" in shape or kind not in ("date", "text"):
        return panel
    whole = replace(panel.layout, time_kind="datetime" if kind == "date" else kind, time_format=trained.time_format)
    return replace(panel, layout=whole)


def anchored(panel: Panel, trained: Panel) -> Panel:
    """New rows whose months are counted from the day of the month of training, where they can't tell it themselves.

    28 February may stand for the 28th or a later day. What the model does not know of a series either is told.
    """
    anchors = panel.anchored().copy()
    unsure = np.flatnonzero(~panel.step.tells_day(anchors)).tolist()
    if not unsure:
        return panel
    known = _trained_anchors(trained)
    common = next(iter(known.values())) if len({_day(one) for one in known.values()}) == 1 else None
    unknown, bounds = [], panel.bounds()
    for series in unsure:
        anchor = known.get(panel.ids[series], common)
        if anchor is not None and panel.step.on_grid(anchor, panel.stamps[slice(*bounds[series])]).all():
            anchors[series] = anchor
        else:
            unknown.append(panel.ids[series])
    panel = replace(panel, anchors=anchors)
    if not unknown:
        return panel
    of = "" if panel.layout.form == "wide" or panel.layout.together else f" of series {listing(unknown)}"
    message = (
        f"The rows{of} stand at ends of months alone, which don't tell the day of the month, and the model does not "
        "know it: the forecast keeps the latest day they stand on. Bring a row of a longer month to tell it."
    )
    return replace(panel, findings=(*panel.findings, Finding("warning", "day_of_month", len(unknown), message)))


def _trained_anchors(trained: Panel) -> dict[str, np.generic]:
    """The anchors of training that tell the day of the month, by series."""
    anchors = trained.anchored()
    return {trained.ids[s]: anchors[s] for s in np.flatnonzero(trained.step.tells_day(anchors)).tolist()}


def _day(stamp: Any) -> int:
    return int(stamp.item().day)


def answerable(panel: Panel) -> Panel:
    """New rows to forecast from: refused where no target has a value, a word added on those that have none."""
    # Reading warns of targets from which nothing can be learned; nothing is to be learned here.
    findings = [one for one in panel.findings if (one.kind, one.what) not in _OF_TRAINING]
    panel = replace(panel, findings=tuple(findings))
    nothing = (panel.first[:, : panel.targets] >= panel.offsets[1:, None]).ravel()
    if not nothing.any():
        return panel
    names = list(compress(variables(panel), nothing))
    one = len(names) == 1
    kind = "series" if panel.layout.form == "long" else "column" if one else "columns"
    which = f"{kind} {listing(names)} {'has' if one else 'have'} no value in any row"
    if nothing.all():
        raise InputError(
            f"{panel.layout.source}: {which}, so there is nothing to forecast from; bring rows with values."
        )
    message = f"{which[0].upper()}{which[1:]}: {'its forecast is' if one else 'their forecasts are'} left empty."
    return replace(panel, findings=(*panel.findings, Finding("warning", "empty", len(names), message)))


def _forced(frame: Any, panel: Panel, read: Callable[..., Panel], step: str) -> Panel:
    """Few rows can look like another step (a week of business days: days); refused unless the model's fits too."""
    if not isinstance(frame, Panel):
        try:
            again = read(frame, freq=step)
        except InputError:
            pass
        else:
            if len(again.values) <= len(panel.values):
                return again
    found = f"rows in {panel.step.words()}" if panel.step.unit == "int" else f"a row {panel.step.words()}"
    raise InputError(
        f"{panel.layout.source} has {found} ({panel.step}), but the model was trained on "
        f"steps of {step}; bring rows of the same step, or train again."
    )


def _plain(value: Any) -> Any:
    """A reading option as JSON can hold it: a step by its name, a list of columns as a list."""
    if isinstance(value, Step):
        return str(value)
    return value if isinstance(value, str | bool) else list(value)
