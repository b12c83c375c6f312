"""A fitted forecaster on disk: settings, plan, columns and step as facts, weights and statistics as tensors."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rearview import models
from rearview.core.model_folder import Kind, refuse_unreadable, strip_prefix
from rearview.data.panel import Finding, Layout, Panel
from rearview.data.step import Step
from rearview.estimators.forecast.engine import Fitted, device_named
from rearview.estimators.forecast.spec import Request
from rearview.tasks.conformal import Residuals
from rearview.tasks.forecast import Forecast
from rearview.tasks.plan import Plan
from rearview.train import History

KIND = Kind("forecaster", "forecaster.json", format=1)


def save(folder: Path, fitted: Fitted, tail: Panel, reading: dict[str, Any]) -> None:
    """Write a fitted forecaster, the last rows it can forecast from, and how its frames are read."""
    facts = {
        "request": fitted.request.to_dict(),
        "plan": fitted.plan.to_dict(),
        "name": fitted.name,
        "shape": asdict(fitted.network.shape),
        "quantiles": list(fitted.task.quantiles),
        "ids": list(fitted.ids),
        "columns": list(fitted.columns),
        "targets": fitted.targets,
        "known": fitted.known,
        "step": fitted.step,
        "calendar": fitted.calendar,
        "history": None if fitted.history is None else fitted.history.to_dict(),
        "notes": list(fitted.notes),
        "findings": [asdict(finding) for finding in fitted.findings],
        "windows": fitted.windows,
        "reading": reading,
        "tail": {"ids": list(tail.ids), "columns": list(tail.columns), "layout": asdict(tail.layout)},
    }
    KIND.save(folder, facts, _tensors(fitted, tail))


def load(folder: Path, device: str | None = None) -> tuple[Fitted, Panel, dict[str, Any]]:
    """What `save` wrote, on another device if one is named; a missing, changed or newer model is refused."""
    facts, tensors = KIND.load(folder)
    with refuse_unreadable(folder, facts):
        if device is not None:
            facts["request"]["device"] = device
        fitted = _fitted(facts, tensors)
        reading = facts["reading"]
        return fitted, _tail(facts, tensors, fitted), {**reading, "whole_ids": bool(reading["whole_ids"])}


def _fitted(facts: dict[str, Any], tensors: dict[str, Tensor]) -> Fitted:
    request = Request.from_dict(facts["request"])
    plan = Plan.from_dict(facts["plan"])
    network = models.create(
        facts["name"],
        attention=request.attention,
        **facts["shape"],
        **{key: choice.value for key, choice in plan.model.items()},
    )
    network.load_state_dict(strip_prefix("network.", tensors))
    residuals = None
    if "residuals.sorted" in tensors:
        residuals = Residuals(tensors["residuals.sorted"].numpy(), tensors["residuals.counts"].numpy())
    return Fitted(
        request=request,
        plan=plan,
        name=facts["name"],
        network=network.to(device_named(request.device)).eval(),
        task=Forecast(request.horizon, request.loss, facts["quantiles"]),
        ids=tuple(facts["ids"]),
        columns=tuple(facts["columns"]),
        targets=facts["targets"],
        known=facts["known"],
        mean=tensors["mean"].numpy(),
        std=tensors["std"].numpy(),
        step=facts["step"],
        calendar=facts["calendar"],
        residuals=residuals,
        history=None if facts["history"] is None else History.from_dict(facts["history"]),
        notes=tuple(facts["notes"]),
        findings=tuple(Finding(**finding) for finding in facts["findings"]),
        windows=facts["windows"],
    )


def _tensors(fitted: Fitted, tail: Panel) -> dict[str, Tensor]:
    tensors = {f"network.{name}": tensor for name, tensor in fitted.network.state_dict().items()}
    arrays: dict[str, Any] = {
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
    return tensors | {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


def _tail(facts: dict[str, Any], tensors: dict[str, Tensor], fitted: Fitted) -> Panel:
    step = Step.parse(facts["step"])

    def stamps(name: str) -> NDArray[np.generic]:
        numbers = tensors[name].numpy()
        return numbers if step.unit == "int" else numbers.astype("datetime64[us]")

    return Panel(
        values=tensors["tail.values"].numpy(),
        centre=tensors["tail.centre"].numpy(),
        observed=tensors["tail.observed"].numpy() if "tail.observed" in tensors else None,
        offsets=tensors["tail.offsets"].numpy(),
        first=tensors["tail.first"].numpy(),
        stamps=stamps("tail.stamps"),
        ids=tuple(facts["tail"]["ids"]),
        columns=tuple(facts["tail"]["columns"]),
        targets=fitted.targets,
        known=fitted.known,
        step=step,
        layout=Layout(**facts["tail"]["layout"]),
        # Models saved before anchors were kept have none: their rows tell the day of the month, as far as they do.
        anchors=stamps("tail.anchors") if "tail.anchors" in tensors else None,
    )
