"""New rows to forecast from, brought in line with those of training: times of day, days of the month, values."""

from dataclasses import replace
from itertools import compress

import numpy as np

from rearview.core.errors import InputError
from rearview.core.wording import listing
from rearview.data.panel import Finding, Layout, Panel
from rearview.estimators.forecast.prediction import variables

_OF_TRAINING = (("warning", "empty"), ("warning", "constant"))
"""Findings that concern targets to train on, by kind and key."""


def keep_time_of_day(panel: Panel, trained: Layout) -> Panel:
    """New rows whose stamps are written with a time of day where their step has one, as it was in training.

    A few rows that all stand at midnight are written as dates, which would make one day of the hours to come.
    """
    shape, kind = panel.layout.time_format or "", panel.layout.time_kind
    if not panel.step.sub_daily or "%H" in shape or "%I" in shape or kind not in ("date", "text"):
        return panel
    whole = replace(panel.layout, time_kind="datetime" if kind == "date" else kind, time_format=trained.time_format)
    return replace(panel, layout=whole)


def anchor_months(panel: Panel, trained: Panel) -> Panel:
    """New rows whose months are counted from the day of the month of training, where they can't tell it themselves.

    28 February may stand for the 28th or a later day. A finding names the series for which the model does not know it.
    """
    anchors = panel.find_anchors().copy()
    unsure = np.flatnonzero(~panel.step.tells_day(anchors)).tolist()
    if not unsure:
        return panel
    learned = trained.find_anchors()
    known = {trained.ids[s]: learned[s] for s in np.flatnonzero(trained.step.tells_day(learned)).tolist()}
    days = {one.item().day for one in known.values()}
    common = next(iter(known.values())) if len(days) == 1 else None
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
    of = f" of series {listing(unknown)}" if panel.layout.named_series else ""
    message = (
        f"The rows{of} stand at ends of months alone, which don't tell the day of the month, and the model does not "
        "know it: the forecast keeps the latest day they stand on. Bring a row of a longer month to tell it."
    )
    return replace(panel, findings=(*panel.findings, Finding("warning", "day_of_month", len(unknown), message)))


def check_values(panel: Panel) -> Panel:
    """Refuse new rows in which no target has a value; add a warning about single targets without values."""
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
