"""The budgets of runs, and where they differ: epochs and how long they are, patience, settings tried, seeds.

A candidate that trains for longer, tries more settings or averages over more seeds has an advantage that is not its
own; a comparison of unequal budgets must say so, and so must a comparison with a paper's number.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rearview.bench.rows.identity import Search, parse_column, training_of
from rearview.bench.rows.row import Facts, RunRow

TRAINING = ("epochs", "batch", "updates_per_epoch", "windows_per_epoch", "patience")
"""The settings of a training that its budget is made of."""
ANNEALING = ("onecycle", "cosine")
"""Schedules whose rate falls until the last epoch."""
CUT = "schedule cut by patience"


@dataclass(frozen=True, slots=True)
class Budget:
    """The budget of one candidate's runs on one block."""

    seeds: int
    tried: int
    """Settings tried in each run; 0: none."""
    epochs: int | None
    """None: nothing was trained."""
    epoch_windows: int | None
    """Windows that an epoch visits; None: all of them."""
    patience: int | None
    """Epochs without improvement before training stops; None: it never does."""
    cut: int = 0
    """Runs that patience ended before the rate of their schedule had fallen."""


def budget_of(rows: Sequence[RunRow]) -> Budget:
    """The budget of rows that differ in their seed alone."""
    configuration = rows[0].configuration
    # What was searched for is no part of `training_of`; the best of it is what a row has.
    training = {**training_of(configuration), **parse_column(configuration, "training")}
    epochs = _whole(training, "epochs")
    anneals = epochs is not None and training.get("schedule") in ANNEALING
    return Budget(
        seeds=len(rows),
        tried=Search.of(configuration).count,
        epochs=epochs,
        epoch_windows=_epoch_windows(training),
        patience=_whole(training, "patience"),
        cut=sum(row.epochs < (epochs or 0) for row in rows) if anneals else 0,
    )


def describe_differences(blocks: Iterable[Sequence[Budget]]) -> tuple[str, ...]:
    """In what the budgets of some block differ, in words ("epochs 10 to 100"); empty where they are equal.

    A candidate with nothing to train needs no epochs, settings or seeds, and makes no comparison unequal. Runs whose
    schedule was cut are as unequal as their last epochs: each was judged at another rate.
    """
    trained = [[budget for budget in block if budget.epochs is not None] for block in blocks]
    differences = []
    for name, words in _WORDS.items():
        columns = [{getattr(budget, name) for budget in block} for block in trained]
        differing = {value for column in columns if len(column) > 1 for value in column}
        if differing:
            low, *_, high = sorted(differing, key=lambda value: math.inf if value is None else value)
            differences.append(f"{words} {_spell(low)} to {_spell(high)}")
    if cut := sum(budget.cut for block in trained for budget in block):
        every = sum(budget.seeds for block in trained for budget in block)
        differences.append(f"{CUT} in {cut} of {every} runs")
    return tuple(differences)


def is_unfair(differences: Iterable[str]) -> bool:
    """Whether some runs were trained for longer than others; more seeds or settings tried make numbers surer alone."""
    return any(not one.startswith((_WORDS["tried"], _WORDS["seeds"])) for one in differences)


def shortfall(rows: Sequence[RunRow], published: Facts, windows: int) -> str:
    """The shortfall of rows, alike but for their seeds, against a paper's published training.

    In words ("30 of 100 epochs"); empty where it does not. `windows` are those of a whole epoch. A smaller patience
    counts where it ended a run.
    """
    ours = budget_of(rows)
    if ours.epochs is None or not published:
        return ""
    short = []
    epochs, patience = _whole(published, "epochs") or 0, _whole(published, "patience")
    own, other = ours.epoch_windows or windows, _epoch_windows(published) or windows
    if own == other and ours.epochs < epochs:
        short.append(f"{ours.epochs:,} of {epochs:,} epochs")
    elif ours.epochs * own < epochs * other:
        short.append(f"{ours.epochs * own:,} of {epochs * other:,} windows")
    impatient = ours.patience is not None and (patience is None or ours.patience < patience)
    if impatient and any(row.epochs < ours.epochs for row in rows):
        short.append(f"patience {ours.patience} instead of {_spell(patience)}")
    return ", ".join(short)


_WORDS = {
    "epochs": "epochs",
    "epoch_windows": "windows in an epoch",
    "patience": "patience",
    "tried": "settings tried",
    "seeds": "seeds",
}


def _epoch_windows(training: Facts) -> int | None:
    updates = _whole(training, "updates_per_epoch")
    if updates is None:
        return _whole(training, "windows_per_epoch")
    return updates * math.prod(_whole(training, name) or 1 for name in ("batch", "accumulate", "processes"))


def _whole(training: Facts, name: str) -> int | None:
    """A number of a row's training; what is no number, as in a row that was written by hand, says nothing."""
    value = training.get(name)
    return value if isinstance(value, int) else None


def _spell(value: int | None) -> str:
    return "any" if value is None else f"{value:,}"
