"""The row of a run of classification or detection that broke off: what was asked for, and why there is no number."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from rearview.bench.rows import tasks
from rearview.bench.rows.failed_row import broken_off, parts
from rearview.bench.rows.tasks import Task
from rearview.bench.runs import classification, detection

_NOTHING: Mapping[Any, Any] = {str: "", int: 0, float: 0.0}
"""By type of a column: what it has where nothing came out; one that may be empty is."""


def failed_row(task: Task, run: Mapping[str, Any], problem: Exception) -> Any:
    """A row without measures; `run`: what `bench.classify` or `bench.detect` was given."""
    nothing = {field.name: _NOTHING.get(field.type) for field in fields(task.kind) if field.name != "schema"}
    return task.kind(**{**nothing, **_configuration(task, run), **broken_off(run, problem)})


def _configuration(task: Task, run: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return settled(task, run)
    except Exception:
        # Whatever kept the run from being settled is the problem that the row tells already.
        told = {**run, **parts(run)}
        if "balance" in told:
            told["balance"] = int(told["balance"])
        return {name: told[name] for name in task.kind.CONFIGURATION if told.get(name) is not None}


def settled(task: Task, run: Mapping[str, Any]) -> dict[str, Any]:
    """What a run asks for, its data unread."""
    classifies = task is tasks.CLASSIFICATION
    make: Callable[..., Any] = classification.classify if classifies else detection.detect
    settle: Callable[..., dict[str, Any]] = classification.settled if classifies else detection.settled
    given = inspect.signature(make).bind(**run)
    given.apply_defaults()
    return settle(**{name: given.arguments[name] for name in inspect.signature(settle).parameters})
