"""A fitted classifier on disk."""

from pathlib import Path

import numpy as np

from rearview.core.errors import InputError
from rearview.core.model_folder import CLASSIFIER
from rearview.data.cases.padding import ChannelScaler
from rearview.estimators.classify.fit import Fitted
from rearview.estimators.classify.spec import ClassifySpec
from rearview.estimators.storage import Facts, Stored, load_model, save_model

_SIMPLE = "biufU"
"""Kinds of numpy arrays that JSON holds without loss: truth values, numbers, text."""


def save(folder: Path, fitted: Fitted, reading: Facts) -> None:
    """Write a fitted classifier and how its tables are read."""
    classes, kind = fitted.classes.tolist(), fitted.classes.dtype
    if kind.kind not in _SIMPLE and not all(isinstance(value, str) for value in classes):
        raise InputError(
            f"The classes are of the kind {kind}, which can't be saved; train with text or numbers as classes."
        )
    stored = {"dtype": kind.str, "values": classes}
    facts = {"classes": stored, "cases": fitted.cases, "columns": fitted.columns, "reading": reading}
    save_model(CLASSIFIER, folder, fitted, facts, {"mean": fitted.scaler.mean, "std": fitted.scaler.std})


def load(folder: Path, device: str | None = None) -> tuple[Fitted, Facts]:
    """Load what `save` wrote, on another device if one is named; a missing, damaged or newer model is refused."""
    return load_model(CLASSIFIER, folder, device, _read)


def _read(stored: Stored) -> tuple[Fitted, Facts]:
    facts = stored.facts
    spec = ClassifySpec(**facts["request"])
    fitted = Fitted(
        spec=spec,
        network=stored.network(spec.model, spec),
        classes=np.array(facts["classes"]["values"], dtype=facts["classes"]["dtype"]),
        scaler=ChannelScaler(stored.array("mean"), stored.array("std")),
        columns=tuple(facts.get("columns", ())),  # classifiers saved earlier had none
        **stored.fields(("cases",), ()),
    )
    return fitted, facts["reading"]
