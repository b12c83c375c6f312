"""Choosing settings on validation, with a budget that every candidate shares and every row states.

Settings are tried one after the other as listed (a grid), or drawn by optuna (`bench.runs.tuning`). A setting goes
by its name where it is the mechanism's, as `network.dropout` where it is the network's, and as `training.learning_rate`
where it is the training's.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, TypeVar

from rearview import attention as mechanisms
from rearview import models
from rearview.bench.runs import tuning as drawing
from rearview.bench.runs.run_spec import Asked
from rearview.bench.runs.tuning import Range, Tuning, Values
from rearview.core.errors import SettingsError
from rearview.core.settings import settings_from, settings_table
from rearview.train import Settings
from rearview.train.contract import Diverged, TrainingError

Tried = TypeVar("Tried")

NETWORK, TRAINING = "network.", "training."


@dataclass(frozen=True, slots=True)
class Found(Generic[Tried]):
    """The best of a search, and what the row says of the search."""

    outcome: Tried
    budget: Mapping[str, Any]


def budget(candidates: Sequence[Mapping[str, Any]], tuning: Tuning | None = None) -> dict[str, Any]:
    """What a row says of the settings tried, as far as that is known before they are."""
    if candidates and tuning is not None:
        raise SettingsError("Settings are listed or drawn: give candidates or tuning, not both.")
    if tuning is not None:
        return tuning.budget()
    if not candidates:
        return {}
    return {"candidates": [dict(candidate) for candidate in candidates], "chosen_by": "validation loss"}


def best(
    asked: Asked,
    candidates: Sequence[Mapping[str, Any]],
    tuning: Tuning | None,
    tried: Callable[[Asked], Tried],
    loss: Callable[[Tried], float],
) -> Found[Tried]:
    """What was asked for, or of its candidates the one with the lowest validation loss; all are trained alike.

    A candidate whose training diverges is worse than any other, and so are settings drawn that don't go together; only
    where all of them do, nothing can be chosen.
    """
    stated = budget(candidates, tuning)
    if not stated:
        return Found(tried(asked), stated)
    contest = _Contest(asked, tried, loss, (Diverged,) if tuning is None else (Diverged, SettingsError))
    if tuning is not None:
        drawing.search(tuning, asked.seed, contest.judge)
        stated |= {"candidates": contest.candidates, "losses": contest.losses}
    for candidate in candidates:
        contest.judge(candidate)
    if contest.best is None:
        count, problem = len(contest.candidates), contest.problem
        raise TrainingError(f"None of the {count} candidates could be trained; the last: {problem}")
    return Found(contest.best, stated)


class _Contest(Generic[Tried]):
    """Candidates judged one by one; the best so far is kept, the others are let go."""

    def __init__(
        self,
        asked: Asked,
        tried: Callable[[Asked], Tried],
        loss: Callable[[Tried], float],
        forgiven: tuple[type[Exception], ...],
    ) -> None:
        self.asked, self.tried, self.loss, self.forgiven = asked, tried, loss, forgiven
        self.best: Tried | None = None
        self.lowest = math.inf
        self.problem: Exception | None = None
        self.candidates: list[Mapping[str, Any]] = []
        self.losses: list[float | None] = []

    def judge(self, candidate: Mapping[str, Any]) -> float | None:
        """The validation loss of a candidate; None where it could not be trained."""
        self.candidates.append(dict(candidate))
        try:
            outcome = self.tried(with_candidate(self.asked, candidate))
        except self.forgiven as problem:
            self.problem = problem
            self.losses.append(None)
            return None
        loss = self.loss(outcome)
        self.losses.append(loss)
        if self.best is None or loss < self.lowest:
            self.best, self.lowest = outcome, loss
        return loss


def routed(model: str, attention: Mapping[str, Any] | None, tried: Mapping[str, Values]) -> dict[str, Values]:
    """The settings tried that a network, its mechanism (None: its own) or the training has, under their full names.

    A name that two of them have is the mechanism's first, then the network's.
    """
    homes = _homes(model, attention)
    found = {}
    for name, values in tried.items():
        home = next((prefix for prefix, kinds in homes.items() if name in kinds), None)
        if home is not None:
            found[home + name] = _fit(name, homes[home][name], values)
    return found


def known(model: str, attention: Mapping[str, Any] | None) -> list[str]:
    """Every setting that can be tried for a network and its mechanism (None: its own)."""
    return list(dict.fromkeys(name for kinds in _homes(model, attention).values() for name in kinds))


def _homes(model: str, attention: Mapping[str, Any] | None) -> dict[str, dict[str, str]]:
    """By prefix: the settings there are, each with its type in words."""
    network = models.settings_of(model)
    spec = models.attention_of(model, network(), attention)
    own = () if spec is None else mechanisms.describe(mechanisms.split(spec)[0]).settings
    training = settings_table(Settings) if models.claims(model).trains else ()
    parts: dict[str, Iterable[Any]] = {"": own, NETWORK: settings_table(network), TRAINING: training}
    return {
        prefix: {setting.name: setting.kind for setting in settings if prefix + setting.name != f"{TRAINING}seed"}
        for prefix, settings in parts.items()
    }


def _fit(name: str, kind: str, values: Values) -> Values:
    """Values as a setting of that type takes them; a range of what has no order is refused."""
    if not isinstance(values, Range):
        return values
    if re.search(r"\bfloat\b", kind):
        return values
    if not re.search(r"\bint\b", kind):
        raise SettingsError(f"{name} takes no numbers, so {values} is no range for it; list values, separated by |.")
    return replace(values, whole=True)


def with_candidate(asked: Asked, candidate: Mapping[str, Any]) -> Asked:
    """A run with the settings of a candidate."""
    network, training, own = (_part(candidate, prefix) for prefix in (NETWORK, TRAINING, ""))
    if own:
        name, given = mechanisms.split(asked.attention)
        asked = replace(asked, attention={"name": name, **given, **own})
    if network:
        built = settings_from(models.settings_of(asked.model), asked.model, {**asked.settings, **network})
        asked = replace(asked, settings=asdict(built))
    if training:
        if asked.training is None:
            raise SettingsError(f"{asked.model} has nothing to train; leave out {', '.join(training)}.")
        given = {**asdict(asked.training), **training}
        asked = replace(asked, training=settings_from(Settings, "training", given))
    return asked


def _part(candidate: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    if prefix:
        return {name.removeprefix(prefix): value for name, value in candidate.items() if name.startswith(prefix)}
    return {name: value for name, value in candidate.items() if not name.startswith((NETWORK, TRAINING))}
