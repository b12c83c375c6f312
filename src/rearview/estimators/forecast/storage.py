"""A fitted forecaster on disk, with the last rows it can forecast from."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rearview.core.model_folder import FORECASTER, DamagedModel
from rearview.data.panel import Layout, Panel
from rearview.data.step import Step
from rearview.estimators.forecast.fit import Fitted
from rearview.estimators.forecast.spec import ForecastSpec
from rearview.estimators.storage import Facts, Stored, load_model, save_model
from rearview.tasks.conformal import Residuals
from rearview.tasks.objectives import Forecast

_PLAIN = ("name", "ids", "columns", "targets", "known", "step", "calendar", "notes", "windows")
_ROWS = ("values", "centre", "offsets", "first")


def save(folder: Path, fitted: Fitted, tail: Panel, reading: Facts) -> None:
    """Write a fitted forecaster, its last rows and how its tables are read."""
    facts = {
        **{name: getattr(fitted, name) for name in _PLAIN},
        "quantiles": fitted.task.quantiles,
        "reading": reading,
        "tail": {"ids": tail.ids, "columns": tail.columns, "layout": asdict(tail.layout)},
    }
    residuals = fitted.residuals
    arrays = {
        "mean": fitted.mean,
        "std": fitted.std,
        **{f"tail.{name}": getattr(tail, name) for name in _ROWS},
        "tail.stamps": tail.stamps.astype(np.int64),
        "tail.observed": tail.observed,
        "tail.anchors": None if tail.anchors is None else tail.anchors.astype(np.int64),
        "residuals.sorted": None if residuals is None else residuals.sorted,
        "residuals.counts": None if residuals is None else residuals.counts,
    }
    save_model(FORECASTER, folder, fitted, facts, arrays)


def load(folder: Path, device: str | None = None) -> tuple[Fitted, Panel, Facts]:
    """Load what `save` wrote, on another device if one is named; a missing, damaged or newer model is refused."""
    return load_model(FORECASTER, folder, device, _read)


def _read(stored: Stored) -> tuple[Fitted, Panel, Facts]:
    facts = stored.facts
    spec = ForecastSpec(**facts["request"])
    residuals = None
    if "residuals.sorted" in stored.tensors:
        residuals = Residuals(stored.array("residuals.sorted"), stored.array("residuals.counts"))
    fitted = Fitted(
        spec=spec,
        network=stored.network(facts["name"], spec),
        task=Forecast(spec.horizon, spec.loss, facts["quantiles"]),
        residuals=residuals,
        **stored.fields(_PLAIN, ()),
        **stored.scale(len(facts["ids"]), len(facts["columns"])),
    )
    _check_residuals(fitted)
    if fitted.task.steps != fitted.network.shape.steps:
        raise DamagedModel(f"its horizon is {spec.horizon} and its network gives {fitted.network.shape.steps} numbers")
    reading = facts["reading"]
    return fitted, _read_tail(stored, fitted), {**reading, "whole_ids": bool(reading["whole_ids"])}


def _check_residuals(fitted: Fitted) -> None:
    """Refuse residuals of another horizon, or none where intervals are to be drawn from them."""
    if fitted.residuals is None:
        return
    ordered, counts = fitted.residuals.sorted, fitted.residuals.counts
    pools = fitted.targets if len(fitted.ids) == 1 else 1
    fits = ordered.ndim == 3 and ordered.shape[:2] == counts.shape == (pools, fitted.spec.horizon)
    if not fits or not 0 <= counts.min() <= counts.max() <= ordered.shape[2]:
        raise DamagedModel("its residuals are of another horizon or number of columns")


def _read_tail(stored: Stored, fitted: Fitted) -> Panel:
    step, tail = Step.parse(fitted.step), stored.facts["tail"]

    def stamps(name: str) -> NDArray[np.generic]:
        numbers = stored.array(name)
        return numbers if step.unit == "int" else numbers.astype("datetime64[us]")

    return Panel(
        **stored.arrays(_ROWS, "tail."),
        observed=stored.array("tail.observed") if "tail.observed" in stored.tensors else None,
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
