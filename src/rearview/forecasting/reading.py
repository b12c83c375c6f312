"""How estimators read frames: options kept as plain data, new rows read on the steps of training, findings told."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rearview.data.panel import Finding, Panel
from rearview.data.step import Step
from rearview.errors import InputError, SettingsError, did_you_mean

_LOGGER = logging.getLogger("rearview")
_CALLED_OTHERWISE = {"train": "training", "set": "settings", "input_size": "lookback", "seq_len": "lookback"}
"""Words of the command line and of other libraries."""


def options(owner: str, given: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """The reading options that were given, as JSON can hold them; one that does not exist is refused by name."""
    for name in given:
        if name not in known:
            here = _CALLED_OTHERWISE.get(name)
            near = f" It is called {here!r}." if here else did_you_mean(name, list(known))
            raise SettingsError(f"{owner} has no setting {name!r}.{near}")
    return {name: _plain(value) for name, value in given.items() if value is not None}


def tell(frame: Any, findings: tuple[Finding, ...]) -> None:
    """Say what was repaired or looks odd, through logging; whoever hands over a panel has its findings already."""
    if isinstance(frame, Panel):
        return
    for finding in findings:
        if finding.kind != "inferred":
            _LOGGER.warning(finding.message)


def read_on_step(frame: Any, read: Callable[..., Panel], step: str) -> Panel:
    """New rows on the step of training; `read(frame, freq=...)` reads them. Another step is refused."""
    try:
        panel = read(frame)
    except InputError:
        # A few rows don't tell their step, but the model knows it; other faults are met again and named.
        panel = read(frame, freq=step)
    return panel if str(panel.step) == step else _forced(frame, panel, read, step)


def _forced(frame: Any, panel: Panel, read: Callable[..., Panel], step: str) -> Panel:
    """Few rows can look like another step (a week of business days: days); refused unless the model's fits too."""
    if not isinstance(frame, Panel):
        try:
            again = read(frame, freq=step)
        except InputError:
            pass
        else:
            if len(again.values) <= len(panel.values):
                return again
    raise InputError(
        f"{panel.layout.source} has a row {panel.step.words()} ({panel.step}), but the model was trained on "
        f"steps of {step}; bring rows of the same step, or train again."
    )


def _plain(value: Any) -> Any:
    """A reading option as JSON can hold it: a step by its name, a list of columns as a list."""
    if isinstance(value, Step):
        return str(value)
    return value if isinstance(value, str | bool) else list(value)
