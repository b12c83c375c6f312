"""A fitted detector on disk."""

from pathlib import Path
from typing import Any

from rearview.core.model_folder import DETECTOR
from rearview.estimators.detect.calibration import Calibration
from rearview.estimators.detect.fit import Fitted
from rearview.estimators.detect.spec import DetectSpec
from rearview.estimators.storage import Array, Stored, load_model, save_model


def save(folder: Path, fitted: Fitted, reading: dict[str, Any]) -> None:
    """Write a fitted detector and how its tables are read."""
    calibration = fitted.calibration
    facts = {
        "name": fitted.name,
        "ids": list(fitted.ids),
        "columns": list(fitted.columns),
        "threshold_elsewhere": calibration.threshold_elsewhere,
        "drawn": calibration.drawn,
        "step": fitted.step,
        "notes": list(fitted.notes),
        "windows": fitted.windows,
        "reading": reading,
    }
    arrays: dict[str, Array] = {
        "mean": fitted.mean,
        "std": fitted.std,
        "usual": calibration.usual,
        "usual_elsewhere": calibration.usual_elsewhere,
        "thresholds": calibration.thresholds,
    }
    if fitted.constant is not None:
        arrays["constant"] = fitted.constant
    save_model(DETECTOR, folder, fitted, facts, arrays)


def load(folder: Path, device: str | None = None) -> tuple[Fitted, dict[str, Any]]:
    """What `save` wrote, on another device if one is named; a missing, changed or newer model is refused."""
    return load_model(DETECTOR, folder, device, _read)


def _read(stored: Stored) -> tuple[Fitted, dict[str, Any]]:
    facts = stored.facts
    spec = DetectSpec(**facts["request"])
    fitted = Fitted(
        spec=spec,
        plan=stored.plan,
        name=facts["name"],
        network=stored.network(facts["name"], spec),
        ids=tuple(facts["ids"]),
        columns=tuple(facts["columns"]),
        mean=stored.array("mean"),
        std=stored.array("std"),
        constant=stored.array("constant") if "constant" in stored.tensors else None,
        calibration=Calibration(
            usual=stored.array("usual"),
            usual_elsewhere=stored.array("usual_elsewhere"),
            thresholds=stored.array("thresholds"),
            threshold_elsewhere=float(facts["threshold_elsewhere"]),
            drawn=str(facts["drawn"]),
        ),
        step=facts["step"],
        history=stored.history,
        notes=tuple(facts["notes"]),
        findings=stored.findings,
        windows=facts["windows"],
    )
    return fitted, facts["reading"]
