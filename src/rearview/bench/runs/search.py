"""Choose settings on validation, with a budget that all candidates share and every row states.

Settings are tried one after the other as listed (a grid), or drawn by optuna (`bench.runs.tuning`). A setting goes
by its name where it is the mechanism's, as `network.dropout` where it is the network's, and as `training.learning_rate`
where it is the training's.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import TypeVar

from rearview import attention as mechanisms
from rearview import models
from rearview.attention import Spec
from rearview.bench.rows.row import Facts
from rearview.bench.runs import tuning as drawing
from rearview.bench.runs.run_spec import ForecastingSpec
from rearview.bench.runs.tuning import Range, Values
from rearview.core.errors import SettingsError
from rearview.core.settings import Setting, settings_from, settings_table
from rearview.train import Settings
from rearview.train.contract import Diverged, TrainingError

Outcome = TypeVar("Outcome")

NETWORK, TRAINING = "network.", "training."


def find_best(
    spec: ForecastingSpec, attempt: Callable[[ForecastingSpec], Outcome], loss: Callable[[Outcome], float]
) -> tuple[Outcome, Facts]:
    """Make a run, or of its candidates that with the lowest validation loss; all are trained alike.

    Returns the outcome and the budget that the row states. A candidate whose training diverges is worse than any other,
    and so are drawn settings that don't go together; only where all of them do, nothing can be chosen.
    """
    if not spec.budget:
        return attempt(spec), spec.budget
    forgiven = (Diverged,) if spec.tuning is None else (Diverged, SettingsError)
    best: Outcome | None = None
    lowest = math.inf
    problem: Exception | None = None
    candidates: list[Facts] = []
    losses: list[float | None] = []

    def judge(candidate: Facts) -> float | None:
        """The validation loss of a candidate, of which only the best so far is kept; None: it could not be trained."""
        nonlocal best, lowest, problem
        candidates.append(dict(candidate))
        try:
            outcome = attempt(apply_candidate(spec, candidate))
        except forgiven as raised:
            problem = raised
            losses.append(None)
            return None
        current = loss(outcome)
        losses.append(current)
        if best is None or current < lowest:
            best, lowest = outcome, current
        return current

    budget = dict(spec.budget)
    if spec.tuning is not None:
        drawing.search(spec.tuning, spec.seed, judge)
        budget |= {"candidates": candidates, "losses": losses}
    for candidate in spec.candidates:
        judge(candidate)
    if best is None:
        raise TrainingError(f"None of the {len(candidates)} candidates could be trained; the last: {problem}")
    return best, budget


def route(model: str, attention: Spec, tried: Mapping[str, Values]) -> dict[str, Values]:
    """The settings to try that a network, its mechanism (None: its own) or the training has, under their full names.

    A name that two of them have is the mechanism's first, then the network's.
    """
    homes = _homes(model, attention)
    routed = {}
    for name, values in tried.items():
        home = next((prefix for prefix, kinds in homes.items() if name in kinds), None)
        if home is not None:
            routed[home + name] = _fit_values(name, homes[home][name], values)
    return routed


def known_settings(model: str, attention: Spec) -> list[str]:
    """Every setting that can be tried for a network and its mechanism (None: its own)."""
    return list(dict.fromkeys(name for kinds in _homes(model, attention).values() for name in kinds))


def _homes(model: str, attention: Spec) -> dict[str, dict[str, str]]:
    """By prefix: the settings there are, each with its type in words."""
    network = models.settings_of(model)
    spec = models.attention_of(model, network(), attention)
    own = () if spec is None else settings_table(mechanisms.settings_of(mechanisms.split(spec)[0]))
    training = settings_table(Settings) if models.claims(model).trains else ()
    parts: dict[str, Iterable[Setting]] = {"": own, NETWORK: settings_table(network), TRAINING: training}
    return {
        prefix: {setting.name: setting.kind for setting in settings if prefix + setting.name != f"{TRAINING}seed"}
        for prefix, settings in parts.items()
    }


def _fit_values(name: str, kind: str, values: Values) -> Values:
    """Values as a setting of that type takes them; a range for a setting without order is refused."""
    if not isinstance(values, Range) or re.search(r"\bfloat\b", kind):
        return values
    if not re.search(r"\bint\b", kind):
        raise SettingsError(f"{name} takes no numbers, so {values} is no range for it; list values, separated by |.")
    return replace(values, whole=True)


def apply_candidate(spec: ForecastingSpec, candidate: Facts) -> ForecastingSpec:
    """A run with the settings of a candidate."""
    parts: dict[str, dict[str, object]] = {NETWORK: {}, TRAINING: {}, "": {}}
    for name, value in candidate.items():
        prefix = next(prefix for prefix in parts if name.startswith(prefix))
        parts[prefix][name.removeprefix(prefix)] = value
    network, training, own = parts.values()
    if own:
        name, given = mechanisms.split(spec.attention)
        spec = replace(spec, attention={"name": name, **given, **own})
    if network:
        settings = settings_from(models.settings_of(spec.model), spec.model, {**spec.settings, **network})
        spec = replace(spec, settings=asdict(settings))
    if training:
        if spec.training is None:
            raise SettingsError(f"{spec.model} has nothing to train; leave out {', '.join(training)}.")
        spec = replace(spec, training=settings_from(Settings, "training", {**asdict(spec.training), **training}))
    return spec
