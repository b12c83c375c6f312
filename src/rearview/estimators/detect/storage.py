"""A fitted detector on disk: settings, plan, columns and step as facts, weights and statistics as tensors."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rearview import models
from rearview.core.model_folder import Kind, refuse_unreadable, strip_prefix
from rearview.data.panel import Finding
from rearview.estimators.detect.calibration import Calibration
from rearview.estimators.detect.engine import Fitted
from rearview.estimators.detect.spec import Request
from rearview.estimators.forecast.engine import device_named
from rearview.tasks.plan import Plan
from rearview.train import History

KIND = Kind("detector", "detector.json", format=2)


def save(folder: Path, fitted: Fitted, reading: dict[str, Any]) -> None:
    """Write a fitted detector and how its frames are read."""
    facts = {
        "request": fitted.request.to_dict(),
        "plan": fitted.plan.to_dict(),
        "name": fitted.name,
        "shape": asdict(fitted.network.shape),
        "ids": list(fitted.ids),
        "columns": list(fitted.columns),
        "threshold_elsewhere": fitted.calibration.threshold_elsewhere,
        "drawn": fitted.calibration.drawn,
        "step": fitted.step,
        "history": None if fitted.history is None else fitted.history.to_dict(),
        "notes": list(fitted.notes),
        "findings": [asdict(finding) for finding in fitted.findings],
        "windows": fitted.windows,
        "reading": reading,
    }
    calibration = fitted.calibration
    arrays: dict[str, NDArray[Any]] = {
        "mean": fitted.mean,
        "std": fitted.std,
        "usual": calibration.usual,
        "usual_elsewhere": calibration.usual_elsewhere,
        "thresholds": calibration.thresholds,
    }
    if fitted.constant is not None:
        arrays["constant"] = fitted.constant
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
    KIND.save(folder, facts, tensors | {f"network.{k}": tensor for k, tensor in fitted.network.state_dict().items()})


def load(folder: Path, device: str | None = None) -> tuple[Fitted, dict[str, Any]]:
    """What `save` wrote, on another device if one is named; a missing, changed or newer model is refused."""
    facts, tensors = KIND.load(folder)
    with refuse_unreadable(folder, facts):
        if device is not None:
            facts["request"]["device"] = device
        return _fitted(facts, tensors), dict(facts["reading"])


def _fitted(facts: dict[str, Any], tensors: dict[str, Tensor]) -> Fitted:
    request, plan = Request(**facts["request"]), Plan.from_dict(facts["plan"])
    settings = {key: choice.value for key, choice in plan.model.items()}
    network = models.create(facts["name"], attention=request.attention, **facts["shape"], **settings)
    network.load_state_dict(strip_prefix("network.", tensors))
    return Fitted(
        request=request,
        plan=plan,
        name=facts["name"],
        network=network.to(device_named(request.device)).eval(),
        ids=tuple(facts["ids"]),
        columns=tuple(facts["columns"]),
        mean=tensors["mean"].numpy(),
        std=tensors["std"].numpy(),
        constant=tensors["constant"].numpy() if "constant" in tensors else None,
        calibration=Calibration(
            usual=tensors["usual"].numpy(),
            usual_elsewhere=tensors["usual_elsewhere"].numpy(),
            thresholds=tensors["thresholds"].numpy(),
            threshold_elsewhere=float(facts["threshold_elsewhere"]),
            drawn=str(facts["drawn"]),
        ),
        step=facts["step"],
        history=None if facts["history"] is None else History.from_dict(facts["history"]),
        notes=tuple(facts["notes"]),
        findings=tuple(Finding(**finding) for finding in facts["findings"]),
        windows=facts["windows"],
    )
