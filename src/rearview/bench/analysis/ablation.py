"""Does attention earn its place: mechanisms held against controls that compare no tokens, seed by seed.

For a network on a data set the yardstick is the control with the least loss on validation, so that test rows choose
nothing. Every other arm is compared with it: the difference of the test errors in percent, once for each seed that both
have, its mean, and a Student interval of that mean. Bonferroni's correction holds over all comparisons of one call:
where all differences are normal, the intervals are right together with the chance that is asked for.

An interval speaks of other seeds of the same network, settings and split. It says nothing of other data sets.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rearview.bench.analysis import budget
from rearview.bench.analysis.candidates import spell_mechanism
from rearview.bench.analysis.leaderboard import read_measure
from rearview.bench.analysis.statistics import Interval, student_interval
from rearview.bench.rows.row import Row
from rearview.bench.tasks import FORECASTING

CONTROLS = ("zero", "identity", "uniform", "fixed")
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Place:
    """A network on a data set, at one look-back and horizon."""

    dataset: str
    model: str
    lookback: int
    horizon: int

    def __str__(self) -> str:
        return f"{self.model} on {self.dataset}, {self.lookback} steps to {self.horizon}"


@dataclass(frozen=True, slots=True)
class Arm:
    """One mechanism in a place, over its seeds."""

    name: str
    attention: str
    """The name of the mechanism alone."""
    error: float
    """Mean test error."""
    validation: float
    seeds: int
    parameters: int
    seconds: float
    """Of training, on average."""
    against: Interval | None
    """None for the yardstick itself, and where fewer than two seeds are shared with it."""


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

    @property
    def verdict(self) -> str:
        """Sentences on softmax, or the first mechanism of the place, and on the others."""
        mechanisms = [arm for arm in self.arms if arm.attention not in CONTROLS]
        first = next((arm for arm in mechanisms if arm.attention == "softmax"), mechanisms[0])
        yard = f"{self.yardstick.name}, the best control on validation"
        if first.against is None:
            return f"{self.place}: {first.name} has fewer than two seeds in common with {yard}, which tells nothing."
        mean, where = (
            first.against.mean,
            f"interval {first.against} over {min(first.seeds, self.yardstick.seeds)} seeds",
        )
        if first.against.high < 0:
            sentence = f"{first.name} is {-mean:.2f} % better than {yard} ({where}): attention earns its place here."
        elif first.against.low > 0:
            sentence = f"{first.name} is {mean:.2f} % worse than {yard} ({where}): attention does harm here."
        else:
            sentence = (
                f"{first.name} can't be told from {yard} ({mean:+.2f} %, {where}): nothing shows that attention earns "
                "its place here."
            )
        others: dict[str, list[str]] = {"better": [], "worse": [], "not told apart": []}
        for arm in mechanisms:
            if arm is not first and arm.against is not None:
                kind = "better" if arm.against.high < 0 else "worse" if arm.against.low > 0 else "not told apart"
                others[kind].append(arm.name)
        rest = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in others.items() if names)
        return f"{self.place}: {sentence}" + (f" Of the others, {rest}." if rest else "")


def compare_arms(rows: Sequence[Row], level: float = LEVEL) -> list[Ablation]:
    """An ablation of every place among the rows of finished runs that has a control and another arm."""
    places: dict[Place, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if has_error(row):
            place = Place(row.dataset, row.model, row.lookback, row.horizon)
            places[place][spell_mechanism(row)].append(row)
    kept = {place: arms for place, arms in places.items() if _yardstick(arms) and len(arms) > 1}
    count = sum(len(arms) - 1 for arms in kept.values())
    return [_ablate(place, arms, count, level) for place, arms in kept.items()]


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
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [[line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])] for line in cells]
    return ["  ".join(line).rstrip() for line in lines]


def _yardstick(arms: dict[str, list[Row]]) -> str:
    """The control with the least mean validation loss; empty where there is none."""
    controls = {name: _mean_validation(rows) for name, rows in arms.items() if rows[0].attention in CONTROLS}
    return min(controls, key=controls.__getitem__, default="")


def _ablate(place: Place, arms: dict[str, list[Row]], comparisons: int, level: float) -> Ablation:
    yard = _yardstick(arms)
    errors = {name: {row.seed: _error(row) for row in rows} for name, rows in arms.items()}
    made = {}
    for name, rows in arms.items():
        shared = sorted(errors[name].keys() & errors[yard].keys())
        differences = [100 * (errors[name][seed] / errors[yard][seed] - 1) for seed in shared]
        told = name != yard and len(shared) > 1
        made[name] = Arm(
            name=name,
            attention=rows[0].attention,
            error=float(np.mean(list(errors[name].values()))),
            validation=_mean_validation(rows),
            seeds=len(errors[name]),
            parameters=rows[0].parameters,
            seconds=float(np.mean([row.train_seconds for row in rows])),
            against=student_interval(differences, comparisons, level) if told else None,
        )
    return Ablation(
        place=place,
        metric=FORECASTING.deciding_measure(next(iter(arms.values()))[0].protocol),
        yardstick=made[yard],
        arms=tuple(made.values()),
        comparisons=comparisons,
        uneven=budget.describe_differences([[budget.budget_of(rows) for rows in arms.values()]]),
        unfinished=sum(0 < row.epochs == row.best_epoch for rows in arms.values() for row in rows),
    )


def _error(row: Row) -> float:
    value = read_measure(FORECASTING, row, FORECASTING.deciding_measure(row.protocol))
    return math.nan if value is None else value


def _mean_validation(rows: Sequence[Row]) -> float:
    return float(np.mean([row.validation_loss for row in rows]))
