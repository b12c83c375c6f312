"""A fitted forecaster on disk: one JSON file and one safetensors file, read without running any code.

The JSON holds settings, plan, columns, step, library version and the checksum of the tensors' file, and a checksum of
itself, so that a changed or half-copied model is refused. The tensors' file is named by its content and written first:
a save that is cut off leaves the model that was there before.
"""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import rearview
from rearview import models
from rearview.data.panel import Finding, Layout, Panel
from rearview.data.step import Step
from rearview.errors import InputError, RearviewError
from rearview.files import write_atomically
from rearview.forecasting.engine import Fitted, device_named
from rearview.forecasting.request import Request
from rearview.tasks.conformal import Residuals
from rearview.tasks.forecast import Forecast
from rearview.tasks.plan import Choice, Plan
from rearview.train import History

FORMAT = 1
MANIFEST = "forecaster.json"


def save(folder: Path, fitted: Fitted, tail: Panel, reading: dict[str, Any]) -> None:
    """Write a fitted forecaster, the last rows it can forecast from, and how its frames are read."""
    from safetensors.torch import save as packed

    tensors = packed(_tensors(fitted, tail))
    weights = f"weights-{hashlib.sha256(tensors).hexdigest()[:16]}.safetensors"
    facts = {
        "format": FORMAT,
        "version": rearview.__version__,
        "weights": weights,
        "sha256": hashlib.sha256(tensors).hexdigest(),
        "request": fitted.request.to_dict(),
        "plan": {name: asdict(choice) for name, choice in _flat(fitted.plan).items()},
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
    text = json.dumps({**facts, "checksum": _checksum(facts)}, indent=1)
    write_atomically(folder / weights, tensors)
    write_atomically(folder / MANIFEST, text)
    for old in folder.glob("weights-*.safetensors"):
        if old.name != weights:
            old.unlink()


def discard(folder: Path) -> None:
    """Remove a saved forecaster and nothing else; the folder goes too when it is empty then."""
    for path in (folder / MANIFEST, *folder.glob("weights-*.safetensors")):
        path.unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def load(folder: Path, device: str | None = None) -> tuple[Fitted, Panel, dict[str, Any]]:
    """What `save` wrote, on another device if one is named; a missing, changed or newer model is refused."""
    facts = _manifest(folder)
    tensors = _read_tensors(folder, facts)
    try:
        if device is not None:
            facts["request"]["device"] = device
        fitted = _fitted(facts, tensors)
        reading = facts["reading"]
        return fitted, _tail(facts, tensors, fitted), {**reading, "whole_ids": bool(reading["whole_ids"])}
    except RearviewError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as problem:
        raise InputError(
            f"{folder} does not fit this version of rearview ({rearview.__version__}): it was written by "
            f"{facts.get('version', 'an unknown one')} and something in it is missing or of another kind "
            f"({type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else 'no details'}); "
            "save the model again."
        ) from problem


def _fitted(facts: dict[str, Any], tensors: dict[str, Tensor]) -> Fitted:
    request = Request.from_dict(facts["request"])
    plan = _plan(facts["plan"])
    network = models.create(
        facts["name"],
        attention=request.attention,
        **facts["shape"],
        **{key: choice.value for key, choice in plan.model.items()},
    )
    network.load_state_dict(_inside("network.", tensors))
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
    tensors = {f"network.{name}": tensor.contiguous() for name, tensor in fitted.network.state_dict().items()}
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
    if fitted.residuals is not None:
        arrays |= {"residuals.sorted": fitted.residuals.sorted, "residuals.counts": fitted.residuals.counts}
    return tensors | {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


def _tail(facts: dict[str, Any], tensors: dict[str, Tensor], fitted: Fitted) -> Panel:
    step = Step.parse(facts["step"])
    stamps = tensors["tail.stamps"].numpy()
    return Panel(
        values=tensors["tail.values"].numpy(),
        centre=tensors["tail.centre"].numpy(),
        observed=tensors["tail.observed"].numpy() if "tail.observed" in tensors else None,
        offsets=tensors["tail.offsets"].numpy(),
        first=tensors["tail.first"].numpy(),
        stamps=stamps if step.unit == "int" else stamps.astype("datetime64[us]"),
        ids=tuple(facts["tail"]["ids"]),
        columns=tuple(facts["tail"]["columns"]),
        targets=fitted.targets,
        known=fitted.known,
        step=step,
        layout=Layout(**facts["tail"]["layout"]),
    )


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
        inside = [
            str(found.parent) for found in sorted((*folder.glob(f"*/{MANIFEST}"), *folder.glob(f"*/*/{MANIFEST}")))
        ]
        found = f"There is one in {' and in '.join(inside)}." if inside else "Give the folder that `save` wrote."
        raise InputError(f"{folder} holds no saved forecaster: {MANIFEST} is missing. {found}")
    try:
        facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version, written = int(facts["format"]), facts.get("version", "unknown")
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise InputError(f"{path} is damaged ({problem}); save the model again.") from problem
    if version > FORMAT:
        raise InputError(
            f"{path} was written by rearview {written} in format {version}, but this version reads up to {FORMAT}; "
            "update rearview."
        )
    claimed = facts.pop("checksum", None)
    if claimed != _checksum(facts):
        raise InputError(f"{path} was changed after it was saved (its checksum differs); save the model again.")
    return facts


def _read_tensors(folder: Path, facts: dict[str, Any]) -> dict[str, Tensor]:
    from safetensors.torch import load as unpacked

    path = folder / Path(str(facts.get("weights"))).name
    if not path.is_file():
        raise InputError(f"{path} is missing; copy the whole folder, or save the model again.")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != facts.get("sha256"):
        raise InputError(f"{path} was changed after it was saved (its checksum differs); save the model again.")
    return unpacked(content)


def _checksum(facts: dict[str, Any]) -> str:
    plain = json.loads(json.dumps(facts))
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _flat(plan: Plan) -> dict[str, Choice]:
    parts = {"model": plan.model, "training": plan.training}
    flat = {f"{part}.{name}": choice for part, choices in parts.items() for name, choice in choices.items()}
    return flat | {"lookback": plan.lookback, "season": plan.season}


def _plan(facts: dict[str, Any]) -> Plan:
    choices = {name: Choice(**fact) for name, fact in facts.items()}
    return Plan(choices["lookback"], choices["season"], _inside("model.", choices), _inside("training.", choices))


def _inside(prefix: str, items: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): item for name, item in items.items() if name.startswith(prefix)}
