"""A fitted forecaster on disk, with the last rows it can forecast from."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rearview.core.model_folder import FORECASTER
from rearview.data.panel import Layout, Panel
from rearview.data.read_options import ReadOptions
from rearview.data.step import Step
from rearview.estimators.forecast.fit import Fitted
from rearview.estimators.forecast.spec import ForecastSpec
from rearview.estimators.storage import Array, Stored, load_model, save_model
from rearview.tasks.conformal import Residuals
from rearview.tasks.forecast import Forecast

Loaded = tuple[Fitted, Panel, dict[str, Any], bool]
"""A fitted network, its last rows, how tables are read (and the alias), and whether series are named by integers."""


def save(folder: Path, fitted: Fitted, tail: Panel, reading: ReadOptions, alias: str | None, whole_ids: bool) -> None:
    """Write a fitted forecaster."""
    facts = {
        "name": fitted.name,
        "quantiles": list(fitted.task.quantiles),
        "ids": list(fitted.ids),
        "columns": list(fitted.columns),
        "targets": fitted.targets,
        "known": fitted.known,
        "step": fitted.step,
        "calendar": fitted.calendar,
        "notes": list(fitted.notes),
        "windows": fitted.windows,
        "reading": {**reading.to_json(), "alias": alias, "whole_ids": whole_ids},
        "tail": {"ids": list(tail.ids), "columns": list(tail.columns), "layout": asdict(tail.layout)},
    }
    arrays: dict[str, Array] = {
        "mean": fitted.mean,
        "std": fitted.std,
        "tail.values": tail.values,
        "tail.centre": tail.centre,
        "tail.offsets": tail.offsets,
        "tail.first": tail.first,
        "tail.stamps": tail.stamps.astype(np.int64),
    }
    if tail.observed is not None:
        arrays["tail.observed"] = tail.observed
    if tail.anchors is not None:
        arrays["tail.anchors"] = tail.anchors.astype(np.int64)
    if fitted.residuals is not None:
        arrays |= {"residuals.sorted": fitted.residuals.sorted, "residuals.counts": fitted.residuals.counts}
    save_model(FORECASTER, folder, fitted, facts, arrays)


def load(folder: Path, device: str | None = None) -> Loaded:
    """What `save` wrote, on another device if one is named; a missing, changed or newer model is refused."""
    return load_model(FORECASTER, folder, device, _read)


def _read(stored: Stored) -> Loaded:
    facts = stored.facts
    spec = ForecastSpec(**facts["request"])
    residuals = None
    if "residuals.sorted" in stored.tensors:
        residuals = Residuals(stored.array("residuals.sorted"), stored.array("residuals.counts"))
    fitted = Fitted(
        spec=spec,
        plan=stored.plan,
        name=facts["name"],
        network=stored.network(facts["name"], spec),
        task=Forecast(spec.horizon, spec.loss, facts["quantiles"]),
        ids=tuple(facts["ids"]),
        columns=tuple(facts["columns"]),
        targets=facts["targets"],
        known=facts["known"],
        mean=stored.array("mean"),
        std=stored.array("std"),
        step=facts["step"],
        calendar=facts["calendar"],
        residuals=residuals,
        history=stored.history,
        notes=tuple(facts["notes"]),
        findings=stored.findings,
        windows=facts["windows"],
    )
    keywords = dict(facts["reading"])
    whole_ids = bool(keywords.pop("whole_ids"))
    return fitted, _tail(stored, fitted), keywords, whole_ids


def _tail(stored: Stored, fitted: Fitted) -> Panel:
    step, tail = Step.parse(fitted.step), stored.facts["tail"]

    def stamps(name: str) -> NDArray[np.generic]:
        numbers = stored.array(name)
        return numbers if step.unit == "int" else numbers.astype("datetime64[us]")

    return Panel(
        values=stored.array("tail.values"),
        centre=stored.array("tail.centre"),
        observed=stored.array("tail.observed") if "tail.observed" in stored.tensors else None,
        offsets=stored.array("tail.offsets"),
        first=stored.array("tail.first"),
        stamps=stamps("tail.stamps"),
        ids=tuple(tail["ids"]),
        columns=tuple(tail["columns"]),
        targets=fitted.targets,
        known=fitted.known,
        step=step,
        layout=Layout(**tail["layout"]),
        # Models saved before anchors were kept have none: their rows tell the day of the month, as far as they do.
        anchors=stamps("tail.anchors") if "tail.anchors" in stored.tensors else None,
    )
