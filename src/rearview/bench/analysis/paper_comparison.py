"""Compare our rows with the printed numbers: mean, spread, difference, verdict, and the rule behind the verdict.

Two numbers agree when they differ by no more than the larger of 2 % of the printed one and two standard errors of our
mean over seeds, and then the verdict is "reproduced"; else "better" or "worse" (ours against theirs). "not comparable"
where the printed cell is doubtful. A verdict on runs that were trained for less than the paper's own, or chosen from
fewer settings, says so: such a run can't refute a number.

A forecasting run is compared with a number of the same data set, look-back, horizon, network, mechanism, loss and
adapters; a run of another task with one of the same data set, network and mechanism. Other settings may be any; those
that are not the published ones which the number rests on are named with it.
"""

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from rearview.bench import protocols, tasks
from rearview.bench.analysis import budget
from rearview.bench.analysis.candidates import name_candidates, protocol_defaults, spell_deviations
from rearview.bench.analysis.leaderboard import Score, failed_runs, latest_runs
from rearview.bench.papers.catalogue import Cell, Experiment
from rearview.bench.papers.published import Number
from rearview.bench.rows.identity import Search, key_without, loss_of, with_defaults
from rearview.bench.rows.row import ClassificationRow, DetectionRow, Facts, Row, RunRow, as_json
from rearview.bench.runs.request import Part
from rearview.bench.tasks import Task
from rearview.core.errors import SettingsError
from rearview.core.grouping import group_by

SHARE = 0.02
RULE = (
    "reproduced: the difference is at most 2 % of the printed number or two standard errors of our mean, whichever is "
    "larger; better and worse are ours against theirs; not comparable: the printed cell is doubtful; smaller budget: "
    "ours was trained for less than the paper's own settings allow, or chosen from fewer of them (narrower search), so "
    "being worse refutes nothing"
)
OTHER_SETTINGS = (
    "a run is compared by data set, look-back, horizon, network, mechanism, loss and adapters; those of its other "
    "settings that are not as the table's presets have them follow its name"
)

_SHOWN_ELSEWHERE = ("loss", *(f"training {key}" for key in budget.TRAINING))
"""Settings that a comparison has words for elsewhere: a cell's own loss, and what bears on the budget."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One printed number and our rows that compare with it."""

    cell: Cell
    number: Number | None
    """None for a run that no paper printed a number of."""
    metric: str
    """Our column, or a forecasting error under the paper's name for it."""
    rows: tuple[RunRow, ...]
    mean: float | None
    std: float | None
    """Over seeds; None with fewer than two."""
    broken: bool = False
    """Whether runs were made for it, none of which ended with a number."""
    shortfall: str = ""
    """By how much ours was trained for less than the paper's own settings allow, or chosen from fewer; empty:
    no less."""
    lower_is_better: bool = True
    chance: float | None = None
    """The score of guessing by the same measure, where that is more than nothing: mean over seeds."""
    apart: tuple[str, ...] = ()
    """Settings that are not the published ones which a forecasting error rests on, budgets aside; in classification and
    detection what sets these runs of a cell apart from others of it."""
    label: str = ""
    """The candidate that the rows are runs of, where several are compared with one number."""

    @property
    def table(self) -> str:
        return "" if self.number is None else f"{self.number.paper}:{self.number.table}"

    @property
    def block(self) -> str:
        """Data set and, of a forecast, horizon."""
        return self.cell.dataset if self.cell.horizon is None else f"{self.cell.dataset} {self.cell.horizon}"

    @property
    def printed(self) -> float | None:
        """The printed number; None where there is none, or it can't be read."""
        return None if self.number is None else self.number.value

    @property
    def protocol(self) -> str:
        """Ours; the habits of the table's paper are `published:<paper>`."""
        return self.rows[0].protocol if self.rows else ""

    @property
    def count(self) -> int:
        """Seeds behind the mean."""
        return len({row.seed for row in self.rows})

    @property
    def difference(self) -> float | None:
        """Ours against theirs, in percent."""
        return 100 * (self.mean / self.printed - 1) if self.mean is not None and self.printed else None

    @property
    def verdict(self) -> str:
        """As `judge` says; failed or not run without a number of ours, empty without one of theirs."""
        if self.mean is None:
            return "failed" if self.broken else "not run"
        if self.number is None:
            return ""
        return judge(Score(self.mean, self.std, self.count), self.number, lower_is_better=self.lower_is_better)


def judge(ours: Score, number: Number, *, lower_is_better: bool) -> str:
    """reproduced, better, worse or not comparable, by the rule above."""
    if number.doubtful or not number.value:
        return "not comparable"
    error = 0.0 if ours.std is None else 2 * ours.std / math.sqrt(ours.count)
    if abs(ours.mean - number.value) <= max(SHARE * number.value, error):
        return "reproduced"
    return "better" if (ours.mean < number.value) == lower_is_better else "worse"


def compare(experiment: Experiment, rows: Sequence[RunRow], protocol: str | None = None) -> list[Comparison]:
    """Every printed number of an experiment with our rows under the protocol (the experiment's own unless given)."""
    task = tasks.get(experiment.task)
    wanted = protocol or experiment.protocol
    ended = [row for row in latest_runs(rows) if row.protocol == wanted]
    usable = [row for row in ended if has_numbers(row)]
    lost = [row for row in failed_runs(rows) if row.protocol == wanted]
    lost += [row for row in ended if not has_numbers(row)]
    in_another = {id(other) for cell in experiment.cells for other in cell.among}
    lookbacks = _choose_lookbacks(experiment.cells, usable)
    comparisons = []
    for cell in (cell for cell in experiment.cells if id(cell) not in in_another):
        made, broken = find_all_rows(cell, usable), bool(find_all_rows(cell, lost))
        compared = [number for number in cell.numbers if not task.printed or number.metric in task.printed]
        numbers: Sequence[Number | None] = compared or (None,)
        differences = _differences(task, cell, made)
        chosen = lookbacks.get(_family(cell))
        searched = cell.candidates or cell.tuning
        for ours in _choose_by_search(made, chosen) if searched else group_by_seed(made):
            apart = differences[id(ours[0])] if ours else ()
            for number in numbers:
                short = "" if number is None or not ours else _shortfall(task, experiment, cell, ours, made)
                for metric in _metrics(task, number, wanted):
                    # MICA judges in original units; every other paper on the standardised scale.
                    values = _values(ours, metric, original=experiment.paper == "mica")
                    guessed = _values(ours, task.chance[metric]) if metric in task.chance else []
                    comparisons.append(
                        Comparison(
                            cell=cell,
                            number=number,
                            metric=metric,
                            rows=ours,
                            mean=float(np.mean(values)) if values else None,
                            std=float(np.std(values, ddof=1)) if len(values) > 1 else None,
                            broken=broken,
                            shortfall=short,
                            lower_is_better=task.lower_is_better,
                            chance=float(np.mean(guessed)) if guessed else None,
                            apart=apart,
                        )
                    )
    return comparisons


def _metrics(task: Task, number: Number | None, protocol: str) -> Sequence[str]:
    if number is not None:
        return (task.column(number.metric),)
    if not task.printed:
        return task.metrics
    return tuple(dict.fromkeys((task.deciding_measure(protocol), *task.printed.values())))


def _differences(task: Task, cell: Cell, rows: Sequence[RunRow]) -> dict[int, tuple[str, ...]]:
    """By row: the settings that set it apart."""
    if task is not tasks.FORECASTING:
        return {id(row): named.differences for row, named in zip(rows, name_candidates(rows), strict=True)}
    forecasts = [row for row in rows if isinstance(row, Row)]
    differences = {}
    for row in forecasts:
        apart = spell_deviations(row, cell.presets, _SHOWN_ELSEWHERE)
        usual = cell.loss is not None or _has_loss(row, _declared_losses(row.protocol)[0])
        differences[id(row)] = apart if usual else (f"loss={row.loss}", *apart)
    return differences


def _values(rows: Sequence[RunRow], metric: str, original: bool = False) -> list[float]:
    """The measured values, under the paper's name for them and on the paper's scale."""
    column = f"{'original_' if original else ''}{'mse' if metric == 'rmse' else metric}"
    values = [float(value) for row in rows if (value := getattr(row, column, None)) is not None]
    return [math.sqrt(value) for value in values] if metric == "rmse" else values


def find_all_rows(cell: Cell, rows: Sequence[RunRow]) -> list[RunRow]:
    """The rows made for a cell, at whichever of its look-backs."""
    return [row for each in (cell, *cell.among) for row in find_rows(each, rows)]


def find_rows(cell: Cell, rows: Sequence[RunRow]) -> list[RunRow]:
    """The rows made for a cell: what it leaves open, the settings of a forecasting mechanism aside, may be anything."""
    made = [row for row in rows if matches(row, cell)]
    return made if cell.candidates or cell.tuning else [row for row in made if has_mechanism(row, cell.attention)]


def _family(cell: Cell) -> tuple[str, str, str]:
    """The key of cells that share one look-back over all horizons."""
    return cell.dataset, cell.model, cell.mechanism


def _choose_lookbacks(cells: Sequence[Cell], rows: Sequence[RunRow]) -> dict[tuple[str, str, str], int]:
    """One look-back for each data set and arm that was searched at several, as RBCA has it (S5.2).

    It is that of the least mean validation loss over the horizons with runs at every look-back; there is none where no
    horizon has them.
    """
    chosen = {}
    for family, same in group_by((cell for cell in cells if cell.among), _family).items():
        losses: dict[int, list[float]] = defaultdict(list)
        for cell in same:
            places = (cell, *cell.among)
            found = {one.lookback: [row for row in find_rows(one, rows) if isinstance(row, Row)] for one in places}
            if all(found.values()):
                for lookback, made in found.items():
                    assert lookback is not None
                    losses[lookback].append(float(np.mean([row.validation_loss for row in made])))
        if losses:
            chosen[family] = min(losses, key=lambda lookback: float(np.mean(losses[lookback])))
    return chosen


def _choose_by_search(rows: Sequence[RunRow], lookback: int | None = None) -> list[tuple[RunRow, ...]]:
    """Of the rows of a cell's searches, that with the lowest validation loss for each seed, at one look-back if given.

    Rows trained in other ways, and seeds that were chosen from other settings, stand apart.
    """
    forecasts = [row for row in rows if isinstance(row, Row)]
    groups: dict[tuple[object, ...], list[Row]] = {}
    for (*beside, _), searches in group_by(forecasts, lambda row: (*_beside_the_search(row), row.seed)).items():
        space = frozenset((row.lookback, as_json(Search.of(row.configuration).tried)) for row in searches)
        # A loss that is no number comes last.
        at_one = [row for row in searches if row.lookback == lookback] or searches
        best = min(at_one, key=lambda row: row.validation_loss if math.isfinite(row.validation_loss) else math.inf)
        groups.setdefault((*beside, space), []).append(best)
    return [tuple(group) for group in groups.values()] or [()]


def _beside_the_search(row: RunRow) -> tuple[object, ...]:
    """The identity of a row without its seed and what a search is about."""
    return key_without(row.configuration, ("seed", "lookback", "attention_settings", "budget"))


def has_numbers(row: RunRow) -> bool:
    """Whether a finished run came to finite numbers."""
    return not isinstance(row, Row) or math.isfinite(row.mse + row.mae)


def group_by_seed(rows: Sequence[RunRow]) -> list[tuple[RunRow, ...]]:
    """Rows that differ in their seed alone, group by group; one empty group where there is none."""
    groups = group_by(rows, lambda row: key_without(row.configuration, ("seed",)))
    return [tuple(group) for group in groups.values()] or [()]


def has_mechanism(row: RunRow, attention: Part | None) -> bool:
    """Whether a row has a mechanism (None: the network's own), its other settings the protocol's or the defaults."""
    wanted = _wanted_mechanism(row.model, attention)
    if row.attention != wanted.get("name", ""):
        return False
    if not wanted:
        return True
    declared = protocols.get(row.protocol).attention if row.protocol in protocols.names() else {}
    given = {key: value for key, value in {**declared.get(row.attention, {}), **wanted}.items() if key != "name"}
    return with_defaults(row.attention, given) == with_defaults(row.attention, json.loads(row.attention_settings))


def _wanted_mechanism(model: str, attention: Part | None) -> Facts:
    """A mechanism as requested, the network's own where none was; empty for a network without attention."""
    if attention is None:
        return _own_mechanism(model)
    return {"name": attention} if isinstance(attention, str) else attention


@cache
def _own_mechanism(model: str) -> Facts:
    # A network says what its own is, which needs torch.
    from rearview import attention, models

    spec = models.attention_of(model, models.settings_of(model)())
    if spec is None:
        return {}
    name, settings = attention.split(spec)
    return {"name": name, **settings}


def matches(row: RunRow, cell: Cell) -> bool:
    """Whether a row has what a cell requests; what the cell leaves open may be anything."""
    if (row.dataset, row.model) != (cell.dataset, cell.model) or cell.only_under not in ("", row.protocol):
        return False
    if isinstance(row, Row):
        return _matches_forecast(row, cell)
    if any(getattr(row, name) != value for name, value in cell.detection.items()):
        return False
    wanted = json.loads(as_json(cell.settings))
    return bool(wanted.items() <= json.loads(row.settings).items())


def _matches_forecast(row: Row, cell: Cell) -> bool:
    if (row.lookback, row.horizon, json.loads(row.adapters)) != (cell.lookback, cell.horizon, list(cell.adapters)):
        return False
    if not any(_has_loss(row, loss) for loss in ([cell.loss] if cell.loss else _declared_losses(row.protocol))):
        return False
    # A smaller budget is told beside a run, which counts all the same.
    training = {name: value for name, value in cell.training.items() if name not in budget.TRAINING}
    for wanted, column in ((cell.settings, row.settings), (training, row.training)):
        if not json.loads(as_json(wanted)).items() <= json.loads(column).items():
            return False
    searched = json.loads(row.budget)
    if bool(cell.candidates) != ("candidates" in searched) or bool(cell.tuning) != ("tuner" in searched):
        return False
    wanted = json.loads(as_json({"name": "", **_wanted_mechanism(cell.model, cell.attention)}))
    if any(key in candidate for candidate in Search.of(row.configuration).tried for key in wanted):
        return False
    made = {**json.loads(row.attention_settings), "name": row.attention}
    return all(made.get(key) == value for key, value in wanted.items())


def _declared_losses(protocol: str) -> tuple[Part, ...]:
    """The losses of a protocol's runs: its own, and that of earlier ones, made before it had MICA's by window."""
    declared = protocols.get(protocol).loss if protocol in protocols.names() else "mse"
    return (declared, "mae") if declared == "window_mae" else (declared,)


def _has_loss(row: Row, wanted: Part) -> bool:
    """Whether a row was trained on a loss; one that is named without settings may have any."""
    made = loss_of(row.configuration)
    if isinstance(wanted, str):
        return bool(made["loss"] == wanted)
    return made == loss_of({"loss": as_json(wanted)})


def _shortfall(task: Task, experiment: Experiment, cell: Cell, rows: Sequence[RunRow], made: Sequence[RunRow]) -> str:
    """The shortfall of our `rows`, of those `made` for a cell, against the paper's training and search."""
    if task is not tasks.FORECASTING:
        return _labelled_shortfall(rows)
    row, short = rows[0], []
    assert isinstance(row, Row)
    try:
        usual = protocol_defaults(
            row.dataset, row.model, row.lookback, row.horizon, row.attention, experiment.protocol, cell.presets
        )
        short.append(budget.shortfall(rows, json.loads(usual["training"]), row.train_windows))
    except SettingsError:
        pass  # of a training that is not known any more
    places = (cell, *cell.among)
    wanted = sum(len(place.candidates) for place in places)
    if wanted:
        alike = [one for one in made if _beside_the_search(one) == _beside_the_search(row)]
        seeds = {one.seed for one in rows}
        tried = min(
            sum(_count_tried(place, [one for one in find_rows(place, alike) if one.seed == seed]) for place in places)
            for seed in seeds
        )
        short += [f"narrower search: {tried} of {wanted} settings"] if tried < wanted else []
    return ", ".join(filter(None, short))


def _labelled_shortfall(rows: Sequence[RunRow]) -> str:
    """The shortfall of runs of classification or detection against those of the paper that prints numbers."""
    from rearview.bench.runs import classification, detection
    from rearview.data.datasets import detection_sets

    row = rows[0]
    if isinstance(row, ClassificationRow):
        return budget.shortfall(rows, classification.TRAINING, row.train_cases)
    assert isinstance(row, DetectionRow)
    dataset = detection_sets.get(row.dataset)
    windows = (row.train_rows - row.lookback) // dataset.step + 1
    return budget.shortfall(rows, {**detection.TRAINING, "epochs": dataset.epochs}, windows)


def _count_tried(cell: Cell, rows: Sequence[RunRow]) -> int:
    """The number of a cell's candidates that some of the rows were chosen from."""
    tried = [
        {**json.loads(row.attention_settings), **candidate}
        for row in rows
        for candidate in Search.of(row.configuration).tried
    ]
    return sum(any(wanted.items() <= one.items() for one in tried) for wanted in cell.candidates)


def average_sets(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """For a table of means: every arm's mean over the sets that all arms with rows have, with the printed mean.

    The printed one is over the same sets too, so that it compares with ours before every set of the paper was run.
    """
    arms: dict[str, dict[str, Comparison]] = defaultdict(dict)
    for one in sorted(comparisons, key=lambda one: one.count):
        arms[one.cell.label][one.cell.dataset] = one  # of several budgets, the one with the most seeds
    sets = list(dict.fromkeys(one.cell.dataset for one in comparisons))
    begun = [arm for arm in arms.values() if any(one.rows for one in arm.values())]
    shared = [name for name in sets if begun and all(name in arm and arm[name].rows for arm in begun)]
    order = dict.fromkeys(one.cell.label for one in comparisons)
    return [_average(arms[label], shared, len(sets)) for label in order]


def _average(arm: Mapping[str, Comparison], shared: Sequence[str], every: int) -> Comparison:
    """One arm over the shared sets; over all of them, with nothing of ours, where it was not run."""
    first = next(iter(arm.values()))
    ours = [arm[name] for name in shared if arm[name].rows]
    over = ours or list(arm.values())
    rows = tuple(row for one in ours for row in one.rows)
    seeds = set.intersection(*({row.seed for row in one.rows} for one in ours)) if ours else set()
    by_seed = [np.mean([getattr(row, first.metric) for row in rows if row.seed == seed]) for seed in sorted(seeds)]
    values = [one.number.value for one in over if one.number is not None and one.number.value is not None]
    doubtful = next((one.number.note for one in over if one.number is not None and one.number.doubtful), "")
    means = [one.mean for one in ours if one.mean is not None]
    return replace(
        first,
        cell=replace(first.cell, dataset=f"mean of {len(over)} of {every} sets"),
        number=None if first.number is None else replace(first.number, value=float(np.mean(values)), note=doubtful),
        rows=rows,
        broken=any(one.broken for one in arm.values()),
        mean=float(np.mean(means)) if means else None,
        std=float(np.std(by_seed, ddof=1)) if len(by_seed) > 1 else None,
        shortfall=next((one.shortfall for one in ours if one.shortfall), ""),
    )
