"""Does attention earn its place: mechanisms held against controls blind to what tokens hold, seed by seed.

For a network on a data set the yardstick is the control with the least loss on validation, so that test rows choose
nothing. Every other arm is compared with it: the difference of the test errors in percent, once for each seed that both
have, its mean, and a Student interval of that mean. Bonferroni's correction holds over all comparisons of one call:
where all differences are normal, the intervals are right together with the chance that is asked for. Horizons are no
replication: where all arms have the same ones, a seed's differences are averaged over them first.

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
from rearview.bench.rows.row import Row
from rearview.bench.tasks import FORECASTING
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
    lookback: int
    horizons: tuple[int, ...]

    def __str__(self) -> str:
        *others, last = map(str, self.horizons)
        horizons = f"{', '.join(others)} and {last}" if others else last
        return f"{self.model} on {self.dataset}, {self.lookback} steps to {horizons}"


@dataclass(frozen=True, slots=True)
class Arm:
    """One mechanism in a place, over its seeds."""

    name: str
    attention: str
    """The name of the mechanism alone."""
    error: float
    """Mean test error, over horizons and then seeds."""
    validation: float
    seeds: int
    parameters: int
    """On average over horizons, as are the seconds of training."""
    seconds: float
    against: Interval | None
    """None for the yardstick itself, and where fewer than two seeds are shared with it."""

    @property
    def call(self) -> str:
        """The verdict of the interval against the yardstick; empty where there is none."""
        if self.against is None:
            return ""
        return BETTER if self.against.high < 0 else WORSE if self.against.low > 0 else UNTOLD


@dataclass(frozen=True, slots=True)
class Ablation:
    """All arms in one place, in the order of their runs."""

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
        mean = first.against.mean
        seeds = f"{min(first.seeds, self.yardstick.seeds)} seeds"
        where = f"interval {first.against} over {seeds}, corrected for {quantity(self.comparisons, 'comparison')}"
        sentence = {
            BETTER: f"{first.name} is {-mean:.2f} % better than {yard} ({where}): attention earns its place here.",
            WORSE: f"{first.name} is {mean:.2f} % worse than {yard} ({where}): attention does harm here.",
            UNTOLD: f"{first.name} can't be told from {yard} ({mean:+.2f} %, {where}): nothing shows that attention "
            "earns its place here.",
        }[first.call]
        others = "; ".join(
            f"{call}: {', '.join(names)}"
            for call in (BETTER, WORSE, UNTOLD)
            if (names := [arm.name for arm in rest if arm.call == call])
        )
        return f"{self.place}: {sentence}" + (f" Of the others, {others}." if others else "")


def compare_arms(rows: Sequence[Row]) -> list[Ablation]:
    """An ablation of every place among the rows of finished runs that has a control and another arm."""
    return _compare([("", rows)])


def find_ablations(boards: Sequence[Board]) -> list[Ablation]:
    """The ablations that leaderboards hold: runs of a network in a place that differ in their attention alone."""
    groups: list[tuple[str, list[Row]]] = []
    forecasts = (entry for board in boards if board.task is FORECASTING for entry in board.entries)
    for entries in group_by(forecasts, lambda entry: (entry.protocol, entry.model)).values():
        if any(entry.attention in CONTROLS for entry in entries):
            for group in group_by_footing(entries):
                rows = [row for entry in group.entries for row in entry.rows if isinstance(row, Row)]
                groups.append((group.footing, rows))
    return _compare(groups)


def _compare(groups: Sequence[tuple[str, Sequence[Row]]]) -> list[Ablation]:
    """The ablations of rows on several footings, with intervals that hold together."""
    places: list[tuple[str, Place, dict[str, list[Row]]]] = []
    for footing, rows in groups:
        networks = group_by(filter(has_error, rows), lambda row: (row.dataset, row.model, row.lookback))
        for place, own in networks.items():
            places += [(footing, Place(*place, tuple(same)), arms) for same, arms in _pool_horizons(own)]
    count = sum(len(arms) - 1 for _, _, arms in places)
    return [replace(_ablate(place, arms, count), footing=footing) for footing, place, arms in places]


def _pool_horizons(rows: Sequence[Row]) -> list[tuple[list[int], dict[str, list[Row]]]]:
    """(horizons, the rows of each arm there) of a network on a data set: all horizons together where every arm has
    the same ones, else each by itself; those without a control, or anything else, are left out."""
    horizons = sorted({row.horizon for row in rows})
    arms = group_by(rows, spell_mechanism)
    pools = [(horizons, arms)]
    if any({row.horizon for row in own} != set(horizons) for own in arms.values()):
        by_arm = {name: group_by(own, lambda row: row.horizon) for name, own in arms.items()}
        pools = [([one], {name: own[one] for name, own in by_arm.items() if one in own}) for one in horizons]
    return [pool for pool in pools if len({rows[0].attention in CONTROLS for rows in pool[1].values()}) == 2]


def has_error(row: Row) -> bool:
    """Whether a run ended with a test error that is a number."""
    return row.status == "done" and math.isfinite(_error(row))


def table(ablation: Ablation) -> list[str]:
    """A line of headings and a line for each arm."""
    cells = [["attention", ablation.metric, "validation", "against it", "interval", "seeds", "parameters", "seconds"]]
    for arm in ablation.arms:
        yard = arm is ablation.yardstick
        mean = "yardstick" if yard else "-" if arm.against is None else f"{arm.against.mean:+.2f} %"
        interval = "-" if arm.against is None else str(arm.against)
        costs = [str(arm.seeds), f"{arm.parameters:,}", f"{arm.seconds:,.1f}"]
        cells.append([arm.name, f"{arm.error:.4f}", f"{arm.validation:.4f}", mean, interval, *costs])
    return align(cells, right=range(1, len(cells[0])))


def _ablate(place: Place, arms: dict[str, list[Row]], comparisons: int) -> Ablation:
    validation = {name: float(np.mean([row.validation_loss for row in rows])) for name, rows in arms.items()}
    yard = min((name for name in arms if arms[name][0].attention in CONTROLS), key=validation.__getitem__)
    errors = {name: _errors_by_seed(rows, place.horizons) for name, rows in arms.items()}
    compared = {}
    for name, rows in arms.items():
        shared = sorted(errors[name].keys() & errors[yard].keys())
        differences = [float(np.mean(100 * (errors[name][seed] / errors[yard][seed] - 1))) for seed in shared]
        has_interval = name != yard and len(shared) > 1
        compared[name] = Arm(
            name=name,
            attention=rows[0].attention,
            error=float(np.mean([_error(row) for row in rows])),
            validation=validation[name],
            seeds=len(errors[name]),
            parameters=round(np.mean([row.parameters for row in rows])),
            seconds=float(np.mean([row.train_seconds for row in rows])),
            against=student_interval(differences, comparisons, LEVEL) if has_interval else None,
        )
    budgets = [
        [budget.budget_of([row for row in rows if row.horizon == horizon]) for rows in arms.values()]
        for horizon in place.horizons
    ]
    return Ablation(
        place=place,
        metric=FORECASTING.deciding_measure(next(iter(arms.values()))[0].protocol),
        yardstick=compared[yard],
        arms=tuple(compared.values()),
        comparisons=comparisons,
        uneven=budget.describe_differences(budgets),
        unfinished=sum(0 < row.epochs == row.best_epoch for rows in arms.values() for row in rows),
    )


def _errors_by_seed(rows: Sequence[Row], horizons: Sequence[int]) -> dict[int, NDArray[np.float64]]:
    """By seed: the errors at all horizons, of seeds that were run at every one."""
    runs = group_by(rows, lambda row: row.seed)
    errors = {seed: {row.horizon: _error(row) for row in own} for seed, own in runs.items()}
    return {seed: np.array([own[one] for one in horizons]) for seed, own in errors.items() if {*own} == {*horizons}}


def _error(row: Row) -> float:
    value = read_measure(FORECASTING, row, FORECASTING.deciding_measure(row.protocol))
    return math.nan if value is None else value
