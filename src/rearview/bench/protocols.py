"""Protocols: how a benchmark number is made, declared as data in protocols.yaml.

`clean` is ours. `published:<paper>` repeats a paper's own habits, so that a difference can be told apart from a habit;
every row made so carries the name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from rearview.bench.rows.row import Facts
from rearview.core.errors import unknown
from rearview.core.files import freeze, read_yaml

Scale = Literal["standardised", "original"]
FORECASTING, CLASSIFICATION, DETECTION = "forecasting", "classification", "detection"


@dataclass(frozen=True, slots=True)
class Protocol:
    """One way of making a benchmark number."""

    name: str
    summary: str
    habits: Mapping[str, tuple[str, ...]]
    """By task: what a reader of the number must know, a sentence each."""
    drop_last_test: bool | tuple[str, ...] = False
    """Test windows after the last full batch of the training size go unscored; or the networks for which they do."""
    drop_last_validation: bool = False
    """The same for validation windows."""
    scale: Scale = "standardised"
    """The scale of the headline errors."""
    training: Facts = field(default_factory=dict)
    """Training settings that go on top of those published for network and data set."""
    attention: Mapping[str, Facts] = field(default_factory=dict)
    """By mechanism: settings that go on top of its defaults."""
    settings: Mapping[str, Facts] = field(default_factory=dict)
    """By network: settings that go on top of the published ones."""
    test_chooses: Mapping[str, str] = field(default_factory=dict)
    """By task: what is chosen on the test part, in words; no task, no such choice."""
    presets: str = "official"
    """Whose published settings it uses where a run names none."""
    loss: str = "mse"
    """The loss that training minimises where an experiment says nothing else."""

    def windows(self, count: int, batch: int, part: Literal["validation", "test"], model: str) -> int:
        """The number of `count` windows of a part that are looked at, a network training in batches of `batch`."""
        drops = self.drop_last_validation
        if part == "test":
            drops = self.drop_last_test if isinstance(self.drop_last_test, bool) else model in self.drop_last_test
        return count - count % batch if drops and count >= batch else count

    def lines(self) -> list[str]:
        """The protocol for a person."""
        lines = [f"{self.name}: {self.summary}"]
        for task, habits in self.habits.items():
            lines += ["", f"{task}:", *(f"- {habit}" for habit in habits)]
            if task == FORECASTING:
                lines += self._fields(f"{self.presets} presets unless a table or --presets has others")
        return lines

    def describe_habits(self, task: str, presets: str | None = None) -> str:
        """Its habits in a task, sentence by sentence, as a row states them; `presets` if others than its own."""
        fields = self._fields(f"{presets or self.presets} presets") if task == FORECASTING else []
        return " ".join([*self.habits[task], *(f"{fact[0].upper()}{fact[1:]}." for fact in fields)])

    def _fields(self, source: str) -> list[str]:
        """The fields that the runner of forecasts reads; `source`: whose settings, in words."""
        parts = {"test": self.drop_last_test, "validation": self.drop_last_validation}
        dropped = " and ".join(f"the last partial batch of {part} windows" for part, drops in parts.items() if drops)
        some = "" if isinstance(self.drop_last_test, bool) else f" (test: {', '.join(self.drop_last_test)} only)"
        settings = {f"{name} runs with ": own for name, own in (*self.attention.items(), *self.settings.items())}
        if self.training:
            settings = {"training on top of the published settings: ": self.training, **settings}
        return [
            f"scale of the errors: {self.scale}; loss: {self.loss}; settings: {source}",
            f"dropped: {dropped or 'no window'}{some}",
            *(what + ", ".join(f"{key}={value}" for key, value in own.items()) for what, own in settings.items()),
        ]


def names() -> list[str]:
    """Every protocol."""
    return list(_protocols())


def get(name: str) -> Protocol:
    """The protocol of that name."""
    if name not in _protocols():
        raise unknown("protocol", name, names())
    return _protocols()[name]


@cache
def _protocols() -> dict[str, Protocol]:
    declared: dict[str, dict[str, Any]] = read_yaml("rearview.bench", "protocols")
    protocols = {}
    for name, fields in declared.items():
        if not name.startswith("_"):
            parts = {part: freeze(fields.get(part, {})) for part in ("habits", "training")}
            protocols[name] = Protocol(name=name, **{**freeze(fields), **parts})
    return protocols
