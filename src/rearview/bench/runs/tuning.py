"""Settings drawn one after another by a tree-structured Parzen estimator (optuna's TPE), which learns as it goes.

    Tuning(20, {"training.learning_rate": Range(1e-5, 1e-3, log=True), "network.dropout": Range(0.0, 0.5)})

Settings go by the names that `bench.runs.search` gives them. The sampler is seeded with the run's seed, so one run
draws the same settings every time.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rearview.bench.rows.row import Facts, as_json
from rearview.core.errors import SettingsError
from rearview.core.installation import install_command
from rearview.core.settings import check_least

Judge = Callable[[Facts], float | None]
"""From settings to their validation loss; None: they could not be trained."""


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `low` to `high`, both included."""

    low: float
    high: float
    log: bool = False
    """Draw evenly on the logarithmic scale."""
    whole: bool = False
    """Whole numbers alone."""
    step: float | None = None
    """From one number that can be drawn to the next; None: 1 between whole numbers, else any number can."""

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.log and self.low <= 0):
            raise SettingsError(
                f"{self} is no range to draw from: the first number is the smaller one"
                f"{', and above 0 on the logarithmic scale' if self.log else ''}."
            )
        if self.whole and any(number % 1 for number in (self.low, self.high, self.step or 1)):
            raise SettingsError(
                f"{self} is a range of whole numbers, so it begins and ends with one"
                f"{', and so is its step' if self.step else ''}."
            )
        step = self.step
        if step is None:
            return
        if self.log:
            raise SettingsError(
                f"{self.low:g}..{self.high:g} on the logarithmic scale has no step; leave out {step:g}."
            )
        if not 0 < step <= self.high - self.low:
            raise SettingsError(f"{self} has no step that leads from the first number towards the last.")
        count = (self.high - self.low) / step
        if not math.isclose(count, round(count), rel_tol=1e-9):
            below, above = self.low + math.floor(count) * step, self.low + math.ceil(count) * step
            raise SettingsError(
                f"Steps of {step:.12g} from {self.low:.12g} don't end at {self.high:.12g}; "
                f"end at {below:.12g} or {above:.12g}."
            )

    def list_numbers(self) -> tuple[float, ...] | None:
        """The numbers themselves, where a step or whole numbers part them; None where any number can be drawn."""
        step = self.step or (1.0 if self.whole else None)
        if step is None or self.log:
            return None
        numbers = [self.low + place * step for place in range(round((self.high - self.low) / step) + 1)]
        return tuple(int(number) if self.whole else float(f"{number:.12g}") for number in numbers)

    def __str__(self) -> str:
        manner = ":log" if self.log else "" if self.step is None else f":{self.step:.12g}"
        return f"{self.low:.12g}..{self.high:.12g}{manner}"


Values = Range | tuple[object, ...]
"""The values of a setting to draw from: a range, or values without an order."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """A search of so many trials over a space of settings."""

    trials: int
    space: Mapping[str, Values]

    def __post_init__(self) -> None:
        check_least(self, trials=1)
        if not self.space or not all(self.space.values()):
            raise SettingsError("A search needs settings to draw, each with a range or at least one value.")

    @property
    def name(self) -> str:
        """Who searches, and how often."""
        return f"optuna:{self.trials}"

    def budget(self) -> dict[str, object]:
        """The search as a row states it before it is made."""
        listed = {name: str(values) if isinstance(values, Range) else values for name, values in self.space.items()}
        return {"tuner": self.name, "sampler": "TPE", "space": listed, "chosen_by": "validation loss"}


def require() -> None:
    """Refuse to search where optuna is not installed."""
    from importlib.util import find_spec

    if find_spec("optuna") is None:
        raise SettingsError(
            f"Tuning needs optuna: {install_command('tune')}, or leave out --tune and list values with --try, which "
            "are then tried one after the other."
        )


def search(tuning: Tuning, seed: int, judge: Judge) -> None:
    """Have every trial's settings judged; settings that are drawn again are not judged again, but count as a trial."""
    require()
    import optuna

    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        known: dict[str, float | None] = {}
        for _ in range(tuning.trials):
            trial = study.ask()
            drawn = {name: _draw(trial, name, values) for name, values in tuning.space.items()}
            place = as_json(drawn)
            if place not in known:
                known[place] = judge(drawn)
            loss = known[place]
            study.tell(trial, loss, state=optuna.trial.TrialState.FAIL if loss is None else None)
    finally:
        optuna.logging.set_verbosity(level)


def _draw(trial: Any, name: str, values: Values) -> object:
    if not isinstance(values, Range):
        # By place: a value can be anything that a setting can be, and optuna's choices can't.
        return values[trial.suggest_categorical(name, list(range(len(values))))]
    if values.whole:
        return trial.suggest_int(name, int(values.low), int(values.high), step=int(values.step or 1), log=values.log)
    drawn = trial.suggest_float(name, values.low, values.high, step=values.step, log=values.log)
    return drawn if values.step is None else float(f"{drawn:.12g}")  # 3 steps of 0.1 are 0.3
