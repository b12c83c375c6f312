"""A fitted detector on disk."""

from pathlib import Path

from rearview.core.model_folder import DETECTOR
from rearview.estimators.detect.calibration import Calibration
from rearview.estimators.detect.fit import Fitted
from rearview.estimators.detect.spec import DetectSpec
from rearview.estimators.storage import Facts, Stored, load_model, save_model

_PLAIN = ("name", "ids", "columns", "step", "notes", "windows")
_USUAL = ("usual", "usual_elsewhere", "thresholds")


def save(folder: Path, fitted: Fitted, reading: Facts) -> None:
    """Write a fitted detector and how its tables are read."""
    calibration = fitted.calibration
    facts = {
        **{name: getattr(fitted, name) for name in _PLAIN},
        "threshold_elsewhere": calibration.threshold_elsewhere,
        "drawn": calibration.drawn,
        "reading": reading,
    }
    usual = {name: getattr(calibration, name) for name in _USUAL}
    arrays = {"mean": fitted.mean, "std": fitted.std, **usual, "constant": fitted.constant}
    save_model(DETECTOR, folder, fitted, facts, arrays)


def load(folder: Path, device: str | None = None) -> tuple[Fitted, Facts]:
    """Load what `save` wrote, on another device if one is named; a missing, damaged or newer model is refused."""
    return load_model(DETECTOR, folder, device, _read)


def _read(stored: Stored) -> tuple[Fitted, Facts]:
    facts = stored.facts
    spec = DetectSpec(**facts["request"])
    fitted = Fitted(
        spec=spec,
        network=stored.network(facts["name"], spec),
        constant=stored.array("constant") if "constant" in stored.tensors else None,
        calibration=Calibration(
            usual=stored.shaped("usual", len(facts["ids"]), len(facts["columns"])),
            usual_elsewhere=stored.shaped("usual_elsewhere", len(facts["columns"])),
            thresholds=stored.shaped("thresholds", len(facts["ids"])),
            threshold_elsewhere=float(facts["threshold_elsewhere"]),
            drawn=str(facts["drawn"]),
        ),
        **stored.fields(_PLAIN, ()),
        **stored.scale(len(facts["ids"]), len(facts["columns"])),
    )
    return fitted, facts["reading"]
