"""What a change of known inputs makes of a forecast: a table, a sentence, and a page that draws the difference."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from rearview.commands.forecast.outlook import Steps, round_to
from rearview.commands.forecast.page import series_view
from rearview.commands.page_data import data_facts, describe_device
from rearview.data.panel import Panel
from rearview.estimators.forecast.frames import WhatIf
from rearview.estimators.forecast.prediction import variables
from rearview.report.common.page import write as write_page
from rearview.report.forecast.page import ForecastSummary
from rearview.report.forecast.views import Component, KnownInput, SeriesView

PLANNED, CHANGED = "planned", "changed"
MOST_HISTORY = 400
MOST_INPUTS = 3
THE_CHANGE = "The change"
HONEST = (
    "The difference shows the effect that the inputs had in the past, as the model estimates it. It leaves out "
    "anything else that would change with them, and effects of values that were never seen."
)


def describe_change(panel: Panel, effect: WhatIf) -> str:
    """The difference in a sentence: over all steps, together where units agree."""
    planned, changed = (np.nansum(one.mean, axis=2) for one in (effect.planned, effect.changed))
    steps = Steps.of(panel.step, effect.planned.mean.shape[2]).several
    if panel.targets > 1:
        moved = int((np.abs(changed - planned) > 1e-9 * np.abs(planned)).sum())
        return f"{_name_change(panel, effect)} moves {moved} of {planned.size} columns over the next {steps}."
    before, after = float(planned.sum()), float(changed.sum())
    share = f" ({100 * (after / before - 1):+.1f} %)".replace("-", "−") if before > 0 else ""
    width = max(abs(after - before), 1e-9 * abs(before), 1e-12)
    changed_to = _name_change(panel, effect)
    if after == before:
        return f"{changed_to} makes no difference over the next {steps}: {round_to(after, abs(after))} either way."
    gain = f"{round_to(abs(after - before), width)} {'more' if after > before else 'less'}"
    what = variables(panel)[0] if planned.size == 1 else f"all {planned.size:,} series together"
    with_it = "With the change" if changed_to == THE_CHANGE else f"With {changed_to},"
    return f"{with_it} {what} will be {round_to(after, width)} over the next {steps} instead of " + (
        f"{round_to(before, width)}: {gain}{share}."
    )


def _name_change(panel: Panel, effect: WhatIf) -> str:
    """The inputs that are changed, and what to where all steps have one value: 'Promo at 0'."""
    differ = np.flatnonzero((effect.inputs != effect.changed_inputs).any(axis=(0, 2))).tolist()
    if not 1 <= len(differ) <= MOST_INPUTS:
        return THE_CHANGE
    words = []
    for place in differ:
        values = np.unique(effect.changed_inputs[:, place])
        at = f"at {values[0]:g}" if len(values) == 1 else "changed"
        words.append(f"{panel.known_names[place]} {at}")
    return " and ".join(words) if len(words) < 3 else f"{words[0]}, {words[1]} and {words[2]}"


def write_what_if_page(path: Path, panel: Panel, effect: WhatIf, command: str, began: float) -> None:
    """Draw both forecasts, their difference and the inputs that were changed."""
    summary = ForecastSummary(
        title="What if",
        outlook=describe_change(panel, effect),
        verdict=HONEST,
        command=command,
        device=describe_device(None),
        seconds=time.perf_counter() - began,
        compares=True,
        data=data_facts(panel),
        series=tuple(_view(panel, effect, number) for number in range(len(variables(panel)))),
        findings=panel.findings,
        notes=effect.planned.notes,
    )
    write_page(path, summary)


def _view(panel: Panel, effect: WhatIf, number: int) -> SeriesView:
    place = series, _ = divmod(number, panel.targets)
    forecasts = {PLANNED: effect.planned, CHANGED: effect.changed}
    view = series_view(panel, place, MOST_HISTORY, forecasts, effect.stamps[series])
    difference = effect.changed.mean[place] - effect.planned.mean[place]
    width = float(np.nanmax(np.abs(difference), initial=0.0))
    mean = round_to(float(np.nanmean(difference)), width).replace("-", "−") if width else ""
    per = Steps.of(panel.step, 1).per or " a step"
    sentence = f"{mean}{per} on average." if width else "None."
    return replace(
        view,
        inputs=tuple(_inputs(panel, effect, series, len(view.values))),
        components=(Component(view.id, sentence, view.forecast.stamps, (), difference),),
    )


def _inputs(panel: Panel, effect: WhatIf, series: int, rows: int) -> Sequence[KnownInput]:
    """The inputs that differ, as planned and as changed, with the last rows of their past."""
    first, end = len(panel.columns) - panel.known, int(panel.offsets[series + 1])
    differ = np.flatnonzero((effect.inputs[series] != effect.changed_inputs[series]).any(axis=1)).tolist()
    strips = []
    for place in differ[:MOST_INPUTS]:
        past = panel.original_column(slice(end - rows, end), series, first + place)
        for label, cells in ((PLANNED, effect.inputs), (CHANGED, effect.changed_inputs)):
            strips.append(KnownInput(f"{panel.known_names[place]}, {label}", past, cells[series, place]))
    return strips
