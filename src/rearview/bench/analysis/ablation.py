"""Does attention earn its place: mechanisms held against controls blind to what tokens hold, seed by seed.

For a network on a data set the yardstick is the control with the least loss on validation, so that test rows choose
nothing. Every other arm is compared with it: the difference of the measure that decides on the test part, of errors in
percent and of scores (accuracy, AUC-PR) in points of a hundred, once for each seed that both have, its mean, and a
Student interval of that mean. Bonferroni's correction holds over all comparisons of one call: where all differences are
normal, the intervals are right together with the chance that is asked for. Accuracies are whole numbers of test cases,
and the variance of rounding to one is added. Horizons are no replication: where all arms have the same ones, a seed's
differences are averaged over them first.

An interval speaks of other seeds of the same network, settings and split. It says nothing of other data sets.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rearview.attention import Spec
from rearview.bench.analysis import budget
from rearview.bench.analysis.candidates import spell_mechanism
from rearview.bench.analysis.comparable import group_by_footing
from rearview.bench.analysis.leaderboard import Board, read_measure
from rearview.bench.analysis.significance import Interval, student_interval
from rearview.bench.rows.row import ClassificationRow, Row, RunRow
from rearview.bench.tasks import FORECASTING, Task, task_of
from rearview.core.grouping import group_by
from rearview.core.wording import align, quantity

CONTROLS = ("zero", "identity", "uniform", "fixed", "positional")
"""The mechanisms that compare no contents of tokens."""
CONTROL_ARMS: tuple[Spec, ...] = ("zero", "identity", "uniform", {"name": "fixed", "kind": "plain"}, "positional")
"""Those that a network is held against. The fixed matrix has weights of either sign: behind a softmax it hardly leaves
the mean in a short training, and `positional` stands for positive weights."""
LEVEL = 0.95
BETTER, WORSE, UNTOLD = "better", "worse", "not told apart"


@dataclass(frozen=True, slots=True)
class Place:
    """A network on a data set, at one look-back and the horizons that all arms have."""

    dataset: str
    model: str
    lookback: int | None
    """None where cases are read whole."""
    horizons: tuple[int, ...]
    """None of them where nothing is forecast."""

    def __str__(self) -> str:
        where = f"{self.model} on {self.dataset}"
        if self.lookback is None:
            return where
        if not self.horizons:
            return f"{where}, windows of {self.lookback}"
        *others, last = map(str, self.horizons)
        horizons = f"{', '.join(others)} and {last}" if others else last
        return f"{where}, {self.lookback} steps to {horizons}"


@dataclass(frozen=True, slots=True)
class Arm:
    """One mechanism in a place, over its seeds."""

    name: str
    attention: str
    """The name of the mechanism alone."""
    score: float
    """Mean of the measure that decides on the test part, over horizons and then seeds."""
    validation: float
    seeds: int
    parameters: int
    """On average over horizons, as are the seconds of training."""
    seconds: float
    against: Interval | None
    """None for the yardstick itself, and where fewer than two seeds are shared with it."""
    call: str
    """The verdict of the interval against the yardstick; empty where there is none."""


@dataclass(frozen=True, slots=True)
class Ablation:
    """All arms in one place, in the order of their runs."""

    task: Task
    place: Place
    metric: str
    yardstick: Arm
    arms: tuple[Arm, ...]
    comparisons: int
    """Over how many comparisons the intervals are corrected."""
    uneven: tuple[str, ...]
    """In what the budgets differ; empty: they are equal."""
    unfinished: int = 0
    """Runs whose last epoch was the best on validation, so that longer training might change their order."""

    footing: str = ""
    """The settings that set these runs apart from others in the same place."""

    @property
    def mechanisms(self) -> tuple[Arm, ...]:
        """The arms that are no controls, softmax first where it is one of them."""
        own = [arm for arm in self.arms if arm.attention not in CONTROLS]
        return tuple(sorted(own, key=lambda arm: (arm.name != "softmax", arm.attention != "softmax")))

    @property
    def verdict(self) -> str:
        """Sentences on softmax, or the first mechanism of the place, and on the others."""
        first, *rest = self.mechanisms
        yard = f"{self.yardstick.name}, the best control on validation"
        if first.against is None:
            return f"{self.place}: {first.name} has fewer than two seeds in common with {yard}, which tells nothing."
        mean, unit = first.against.mean, first.against.unit
        seeds = f"{min(first.seeds, self.yardstick.seeds)} seeds"
        where = f"interval {first.against} over {seeds}, corrected for {quantity(self.comparisons, 'comparison')}"
        sentence = {
            BETTER: f"{first.name} is {abs(mean):.2f} {unit} better than {yard} ({where}): attention earns its place "
            "here.",
            WORSE: f"{first.name} is {abs(mean):.2f} {unit} worse than {yard} ({where}): attention does harm here.",
            UNTOLD: f"{first.name} can't be told from {yard} ({mean:+.2f} {unit}, {where}): nothing shows that "
            "attention earns its place here.",
        }[first.call]
        others = "; ".join(
            f"{call}: {', '.join(names)}"
            for call in (BETTER, WORSE, UNTOLD)
            if (names := [arm.name for arm in rest if arm.call == call])
        )
        return f"{self.place}: {sentence}" + (f" Of the others, {others}." if others else "")


def compare_arms(rows: Sequence[RunRow]) -> list[Ablation]:
    """An ablation of every place among the rows of finished runs of one task that has a control and another arm."""
    return _compare([("", rows)])


def find_ablations(boards: Sequence[Board]) -> list[Ablation]:
    """The ablations of forecasts on leaderboards: runs of a network in a place that differ in their attention alone."""
    groups: list[tuple[str, list[RunRow]]] = []
    forecasts = (entry for board in boards if board.task is FORECASTING for entry in board.entries)
    for entries in group_by(forecasts, lambda entry: (entry.protocol, entry.model)).values():
        if any(entry.attention in CONTROLS for entry in entries):
            for group in group_by_footing(entries):
                groups.append((group.footing, [row for entry in group.entries for row in entry.rows]))
    return _compare(groups)


def _compare(groups: Sequence[tuple[str, Sequence[RunRow]]]) -> list[Ablation]:
    """The ablations of rows on several footings, with intervals that hold together."""
    places: list[tuple[str, Place, dict[str, list[RunRow]]]] = []
    for footing, rows in groups:
        networks = group_by(filter(has_score, rows), lambda row: (row.dataset, row.model, _lookback(row)))
        for place, own in networks.items():
            places += [
                (footing, Place(*place, tuple(one for one in same if one is not None)), arms)
                for same, arms in _pool_horizons(own)
            ]
    count = sum(len(arms) - 1 for _, _, arms in places)
    return [replace(_ablate(place, arms, count), footing=footing) for footing, place, arms in places]


def _lookback(row: RunRow) -> int | None:
    """The steps that a network sees by choice; None where they are those of the longest case."""
    return None if isinstance(row, ClassificationRow) else row.lookback


def _horizon(row: RunRow) -> int | None:
    return row.horizon if isinstance(row, Row) else None


def _pool_horizons(rows: Sequence[RunRow]) -> list[tuple[list[int | None], dict[str, list[RunRow]]]]:
    """(horizons, the rows of each arm there) of a network on a data set: all horizons together where every arm has
    the same ones, else each by itself; those without a control, or anything else, are left out."""
    horizons = sorted({_horizon(row) for row in rows}, key=lambda horizon: horizon or 0)
    arms = group_by(rows, spell_mechanism)
    pools = [(horizons, arms)]
    if any({_horizon(row) for row in own} != set(horizons) for own in arms.values()):
        by_arm = {name: group_by(own, _horizon) for name, own in arms.items()}
        pools = [([one], {name: own[one] for name, own in by_arm.items() if one in own}) for one in horizons]
    return [pool for pool in pools if len({rows[0].attention in CONTROLS for rows in pool[1].values()}) == 2]


def has_score(row: RunRow) -> bool:
    """Whether a run ended with numbers by which an arm is chosen on validation and judged on the test part."""
    return row.status == "done" and math.isfinite(_score(row)) and math.isfinite(_validation(row))


def table(ablation: Ablation) -> list[str]:
    """A line of headings and a line for each arm."""
    cells = [["attention", ablation.metric, "validation", "against it", "interval", "seeds", "parameters", "seconds"]]
    for arm in ablation.arms:
        yard = arm is ablation.yardstick
        mean = "yardstick" if yard else "-" if arm.against is None else f"{arm.against.mean:+.2f} {arm.against.unit}"
        interval = "-" if arm.against is None else str(arm.against)
        costs = [str(arm.seeds), f"{arm.parameters:,}", f"{arm.seconds:,.1f}"]
        cells.append([arm.name, f"{arm.score:.4f}", f"{arm.validation:.4f}", mean, interval, *costs])
    return align(cells, right=range(1, len(cells[0])))


def _ablate(place: Place, arms: dict[str, list[RunRow]], comparisons: int) -> Ablation:
    first = next(iter(arms.values()))[0]
    task, horizons = task_of(first), place.horizons or (None,)
    validation = {name: float(np.mean([_validation(row) for row in rows])) for name, rows in arms.items()}
    yard = min((name for name in arms if arms[name][0].attention in CONTROLS), key=validation.__getitem__)
    scores = {name: _scores_by_seed(rows, horizons) for name, rows in arms.items()}
    compared = {}
    for name, rows in arms.items():
        shared = sorted(scores[name].keys() & scores[yard].keys())
        differences = [_difference(task, scores[name][seed], scores[yard][seed]) for seed in shared]
        interval = None
        if name != yard and len(shared) > 1:
            interval = student_interval(differences, comparisons, LEVEL, step=_step(first), unit=_unit(task))
        compared[name] = Arm(
            name=name,
            attention=rows[0].attention,
            score=float(np.mean([_score(row) for row in rows])),
            validation=validation[name],
            seeds=len(scores[name]),
            parameters=round(np.mean([row.parameters for row in rows])),
            seconds=float(np.mean([row.train_seconds for row in rows])),
            against=interval,
            call=_judge(task, interval),
        )
    budgets = [
        [budget.budget_of([row for row in rows if _horizon(row) == horizon]) for rows in arms.values()]
        for horizon in horizons
    ]
    return Ablation(
        task=task,
        place=place,
        metric=task.deciding_measure(first.protocol),
        yardstick=compared[yard],
        arms=tuple(compared.values()),
        comparisons=comparisons,
        uneven=budget.describe_differences(budgets),
        unfinished=sum(0 < row.epochs == row.best_epoch for rows in arms.values() for row in rows),
    )


def _unit(task: Task) -> str:
    return "%" if task.lower_is_better else "points"


def _difference(task: Task, own: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """By how much scores exceed those of the yardstick: errors in percent of its own, others in points of a hundred,
    as a small score would make any share of it large."""
    return float(np.mean(100 * (own / other - 1) if task.lower_is_better else 100 * (own - other)))


def _step(row: RunRow) -> float:
    """The points that one test case is worth; 0 where a score is no count of cases."""
    return 100 / row.test_cases if isinstance(row, ClassificationRow) else 0.0


def _judge(task: Task, interval: Interval | None) -> str:
    if interval is None:
        return ""
    below, above = (BETTER, WORSE) if task.lower_is_better else (WORSE, BETTER)
    return below if interval.high < 0 else above if interval.low > 0 else UNTOLD


def _scores_by_seed(rows: Sequence[RunRow], horizons: Sequence[int | None]) -> dict[int, NDArray[np.float64]]:
    """By seed: the scores at all horizons, of seeds that were run at every one."""
    runs = group_by(rows, lambda row: row.seed)
    scores = {seed: {_horizon(row): _score(row) for row in own} for seed, own in runs.items()}
    return {seed: np.array([own[one] for one in horizons]) for seed, own in scores.items() if {*own} == {*horizons}}


def _score(row: RunRow) -> float:
    task = task_of(row)
    value = read_measure(task, row, task.deciding_measure(row.protocol))
    return math.nan if value is None else value


def _validation(row: RunRow) -> float:
    value: float | None = getattr(row, task_of(row).validation)
    return math.nan if value is None else value
