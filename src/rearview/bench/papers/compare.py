"""Ours beside the printed numbers: mean, spread, difference, verdict, and the rule behind the verdict.

Two numbers agree when they differ by no more than the larger of 2 % of the printed one and two standard errors of our
mean over seeds, and then the verdict is "reproduced"; else "better" or "worse" (ours against theirs). "not comparable"
where the printed cell is doubtful. A verdict on runs that were trained for less than the paper's own, or chosen from
fewer settings, carries that with it: such a run can't refute a number.

A run stands beside a number where data set, look-back, horizon, network, mechanism, loss and adapters are the number's.
Its other settings may be any; those that are not the published ones which the number rests on are named with it.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from rearview.bench import protocols
from rearview.bench.analysis import budget
from rearview.bench.analysis.candidates import shortly, unlike, usual
from rearview.bench.analysis.leaderboard import Score, failed, once
from rearview.bench.papers.catalogue import Cell, Experiment, LabelledCell
from rearview.bench.papers.published import Number
from rearview.bench.rows.identity import identity, loss_of, searched, with_defaults
from rearview.bench.rows.row import AnyLine, Row, as_json
from rearview.core.errors import SettingsError
from rearview.tasks import losses

SHARE = 0.02
RULE = (
    "reproduced: the difference is at most 2 % of the printed number or two standard errors of our mean, whichever is "
    "larger; better and worse are ours against theirs; not comparable: the printed cell is doubtful; smaller budget: "
    "ours was trained for less than the paper's own settings allow, or chosen from fewer of them (narrower search), so "
    "being worse refutes nothing"
)
OTHERWISE = (
    "a run stands beside a number by data set, look-back, horizon, network, mechanism, loss and adapters; those of its "
    "other settings that are not as the table's presets have them follow its name"
)

_TOLD_BESIDE = ("loss", *(f"training {key}" for key in budget.TRAINING))
"""What a comparison has words for elsewhere: a cell's own loss, and what bears on the budget."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One printed number and the rows of ours that stand beside it."""

    cell: Cell | LabelledCell
    number: Number | None
    """None for a run that no paper printed a number of."""
    metric: str
    """Our column, or a forecasting error under the paper's name for it."""
    rows: tuple[Any, ...]
    mean: float | None
    std: float | None
    """Over seeds; None with fewer than two."""
    broken: bool = False
    """Whether runs were made for it, none of which came to an end with a number."""
    shortfall: str = ""
    """By how much ours was trained for less than the paper's own settings allow, or chosen from fewer; empty where it
    was not."""
    lower_is_better: bool = True
    chance: float | None = None
    """What guessing gets by the same measure, where that is more than nothing: mean over seeds."""
    apart: tuple[str, ...] = ()
    """Settings that are not the published ones which a forecasting error rests on, budgets aside; in classification and
    detection what sets these runs of a cell apart from others of it."""

    @property
    def count(self) -> int:
        """Seeds behind the mean."""
        return len({row.seed for row in self.rows})

    @property
    def difference(self) -> float | None:
        """Ours against theirs, in percent."""
        if self.mean is None or self.number is None or not self.number.value:
            return None
        return 100 * (self.mean / self.number.value - 1)

    @property
    def verdict(self) -> str:
        """As `judged` says; failed or not run without a number of ours, empty without one of theirs."""
        if self.mean is None:
            return "failed" if self.broken else "not run"
        if self.number is None:
            return ""
        return judged(Score(self.mean, self.std, self.count), self.number, lower_is_better=self.lower_is_better)


def judged(ours: Score, number: Number, *, lower_is_better: bool) -> str:
    """reproduced, better, worse or not comparable, by the rule above."""
    if number.doubtful or not number.value:
        return "not comparable"
    error = 0.0 if ours.std is None else 2 * ours.std / math.sqrt(ours.count)
    if abs(ours.mean - number.value) <= max(SHARE * number.value, error):
        return "reproduced"
    return "better" if (ours.mean < number.value) == lower_is_better else "worse"


def compare(experiment: Experiment, rows: Sequence[Row], protocol: str | None = None) -> list[Comparison]:
    """Every printed number of an experiment beside our rows of the protocol (the experiment's own unless given)."""
    wanted = protocol or experiment.protocol
    ended = [row for row in once(rows) if row.protocol == wanted]
    usable = [row for row in ended if _has_numbers(row)]
    lost = [row for row in failed(rows) if row.protocol == wanted] + [row for row in ended if not _has_numbers(row)]
    told_with_another = {id(other) for cell in experiment.cells for other in cell.among}
    found = []
    for cell in experiment.cells:
        if id(cell) in told_with_another:
            continue
        numbers: Iterable[Number | None] = cell.numbers or (None,)
        broken = bool(every_own(cell, lost))
        made = every_own(cell, usable)
        for ours in _chosen(made) if cell.candidates else alike(made):
            for number in numbers:
                metrics = ("mse", "mae") if number is None else (number.metric,)
                found += [_comparison(cell, number, metric, ours, made, experiment, broken) for metric in metrics]
    return found


def every_own(cell: Cell, rows: Sequence[Row]) -> list[Row]:
    """The rows made for a cell, at whichever of its look-backs."""
    return [row for each in (cell, *cell.among) for row in own(each, rows)]


def _chosen(rows: Sequence[Row]) -> list[tuple[Row, ...]]:
    """Of the rows of a cell's searches, that with the lowest validation loss for each seed.

    Rows trained in other ways, and seeds that were chosen from other settings, stand apart.
    """
    made: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        made.setdefault((*_beside_the_search(row), row.seed), []).append(row)
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for (*beside, _), searches in made.items():
        space = frozenset((row.lookback, as_json(searched(row.configuration))) for row in searches)
        groups.setdefault((*beside, space), []).append(min(searches, key=_ranked))
    return [tuple(group) for group in groups.values()] or [()]


def _ranked(row: Row) -> float:
    """What a search chooses by; a loss that is no number comes last."""
    return row.validation_loss if math.isfinite(row.validation_loss) else math.inf


def _beside_the_search(row: Row) -> tuple[Any, ...]:
    """All that a row was asked for but its seed and what a search is about."""
    aside = ("seed", "lookback", "attention_settings", "budget")
    return tuple(value for name, value in identity(row.configuration).items() if name not in aside)


def _has_numbers(row: Row) -> bool:
    return math.isfinite(row.mse + row.mae)


def alike(rows: Sequence[AnyLine]) -> list[tuple[AnyLine, ...]]:
    """Rows that differ in their seed alone, group by group; one empty group where there is none."""
    groups: dict[tuple[Any, ...], list[AnyLine]] = {}
    for row in rows:
        key = tuple(value for name, value in identity(row.configuration).items() if name != "seed")
        groups.setdefault(key, []).append(row)
    return [tuple(group) for group in groups.values()] or [()]


def own(cell: Cell, rows: Sequence[Row]) -> list[Row]:
    """The rows made for a cell: what it leaves open must be left open by them too, or chosen among its candidates."""
    made = [row for row in rows if is_of(row, cell)]
    if cell.candidates:
        return made
    return [row for row in made if as_asked(row, cell.attention)]


def as_asked(row: Any, attention: Mapping[str, Any] | None) -> bool:
    """Whether a row has the mechanism asked for (None: the network's own), with the protocol's settings or defaults."""
    wanted = _wanted(row.model, attention)
    if row.attention != wanted.get("name", ""):
        return False
    if not wanted:
        return True
    declared = protocols.get(row.protocol).attention if row.protocol in protocols.names() else {}
    asked = {key: value for key, value in {**declared.get(row.attention, {}), **wanted}.items() if key != "name"}
    return with_defaults(row.attention, asked) == with_defaults(row.attention, json.loads(row.attention_settings))


def _wanted(model: str, attention: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """A mechanism as it was asked for, the network's own where none was; empty for a network without attention."""
    return _own_attention(model) if attention is None else attention


@cache
def _own_attention(model: str) -> Mapping[str, Any]:
    # A network says what its own is, which needs torch.
    from rearview import attention, models

    spec = models.attention_of(model, models.settings_of(model)())
    if spec is None:
        return {}
    name, settings = attention.split(spec)
    return {"name": name, **settings}


def is_of(row: Row, cell: Cell) -> bool:
    """Whether a row has what a cell asks for; what the cell leaves open may be anything."""
    plain = (row.dataset, row.lookback, row.horizon, row.model, json.loads(row.adapters))
    if plain != (cell.dataset, cell.lookback, cell.horizon, cell.model, list(cell.adapters)):
        return False
    declared = protocols.get(row.protocol).loss if row.protocol in protocols.names() else "mse"
    if not _of_loss(row, cell.loss or declared):
        return False
    budget = json.loads(row.budget)
    if bool(cell.candidates) != ("candidates" in budget) or "tuner" in budget:
        return False
    asked = json.loads(as_json({"name": "", **_wanted(cell.model, cell.attention)}))
    if any(key in candidate for candidate in searched(row.configuration) for key in asked):
        return False
    made = {**json.loads(row.attention_settings), "name": row.attention}
    return all(made.get(key) == value for key, value in asked.items())


def _of_loss(row: Row, wanted: losses.Spec) -> bool:
    """Whether a row was trained on a loss; one that is named without settings may have any."""
    made = loss_of(row.configuration)
    if isinstance(wanted, str):
        return bool(made["loss"] == wanted)
    return made == loss_of({"loss": as_json(wanted)})


def value(row: Row, metric: str, original: bool) -> float:
    """A row's error under the paper's name for it, on the paper's scale."""
    if metric == "rmse":
        return math.sqrt(row.original_mse if original else row.mse)
    return float(getattr(row, f"original_{metric}" if original else metric))


def _comparison(
    cell: Cell,
    number: Number | None,
    metric: str,
    rows: tuple[Row, ...],
    made: Sequence[Row],
    experiment: Experiment,
    broken: bool,
) -> Comparison:
    """`rows` stand beside the number, of those that were `made` for the cell."""
    # MICA judges in original units; every other paper on the standardised scale.
    values = [value(row, metric, experiment.paper == "mica") for row in rows]
    mean = float(np.mean(values)) if values else None
    std = float(np.std(values, ddof=1)) if len(values) > 1 else None
    short = [] if number is None or not rows else [_shortfall(cell, experiment, rows), _narrower(cell, rows, made)]
    apart = _otherwise(rows[0], cell.presets) if rows else ()
    return Comparison(cell, number, metric, rows, mean, std, broken, ", ".join(filter(None, short)), apart=apart)


def _shortfall(cell: Cell, experiment: Experiment, rows: Sequence[Row]) -> str:
    """How much less our rows were trained than the paper trains; empty where its training is not known any more."""
    row, protocol, presets = rows[0], experiment.protocol, cell.presets
    try:
        found = usual(row.dataset, row.model, row.lookback, row.horizon, row.attention, protocol, presets)
    except SettingsError:
        return ""
    return budget.shortfall(rows, json.loads(found["training"]), row.train_windows)


def _otherwise(row: Row, presets: str | None) -> tuple[str, ...]:
    """The settings of a row that are not those of the presets, in words, but for what is told beside."""
    return shortly({key: value for key, value in unlike(row, presets).items() if key not in _TOLD_BESIDE})


def _narrower(cell: Cell, rows: Sequence[Row], made: Sequence[Row]) -> str:
    """How many of the settings that a paper chose from ours were chosen from, where those are fewer."""
    places = (cell, *cell.among)
    wanted = sum(len(place.candidates) for place in places)
    alike = [one for one in made if _beside_the_search(one) == _beside_the_search(rows[0])] if wanted else []
    tried = [
        sum(_tried(place, [row for row in own(place, alike) if row.seed == seed]) for place in places)
        for seed in {row.seed for row in rows}
    ]
    return f"narrower search: {min(tried)} of {wanted} settings" if wanted and min(tried) < wanted else ""


def _tried(cell: Cell, rows: Sequence[Row]) -> int:
    """How many of a cell's candidates some of the rows were chosen from."""
    tried = [
        {**json.loads(row.attention_settings), **candidate} for row in rows for candidate in searched(row.configuration)
    ]
    return sum(any(wanted.items() <= one.items() for one in tried) for wanted in cell.candidates)
