"""What runs were granted, and who had less than whom: epochs and how long they are, patience, settings tried, seeds.

Whoever may train for longer, try more settings or average over more seeds has an advantage that is not its own; a
comparison of unlike budgets must say so, and so must a number that stands beside one of a paper.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rearview.bench.rows.identity import budget_of, parse_column, training_of, tried_candidates
from rearview.bench.rows.row import Facts, RunRow

TRAINING = ("epochs", "batch", "updates_per_epoch", "windows_per_epoch", "patience")
"""The settings of a training that its budget is made of."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What the runs of one candidate on one block were granted."""

    seeds: int
    tried: int
    """Settings tried in each run; 0: none."""
    epochs: int | None
    """None: nothing was trained."""
    epoch_windows: int | None
    """Windows that an epoch visits; None: all of them."""
    patience: int | None
    """Epochs without improvement before training stops; None: it never does."""


def budget_of_rows(rows: Sequence[RunRow]) -> Budget:
    """What rows that differ in their seed alone were granted."""
    configuration = rows[0].configuration
    # What was searched for is no part of `training_of`; the best of it is what a row has.
    training = {**training_of(configuration), **parse_column(configuration, "training")}
    return Budget(
        seeds=len(rows),
        tried=_tried(configuration),
        epochs=_whole(training, "epochs"),
        epoch_windows=_epoch_windows(training),
        patience=_whole(training, "patience"),
    )


def uneven(blocks: Iterable[Sequence[Budget]]) -> tuple[str, ...]:
    """In what the candidates of some block differ, in words ("epochs 10 to 100"); empty where budgets are equal.

    What has nothing to train has no use for epochs, settings or seeds, and is no reason to call a comparison unequal.
    """
    trained = [[budget for budget in block if budget.epochs is not None] for block in blocks]
    found = []
    for name, words in _WORDS.items():
        columns = [{getattr(budget, name) for budget in block} for block in trained]
        differing = {value for column in columns if len(column) > 1 for value in column}
        if differing:
            low, *_, high = sorted(differing, key=lambda value: math.inf if value is None else value)
            found.append(f"{words} {_said(low)} to {_said(high)}")
    return tuple(found)


def shortfall(rows: Sequence[RunRow], published: Facts, windows: int) -> str:
    """By how much the training of rows, alike but for their seeds, falls short of the one that a paper published.

    In words ("30 of 100 epochs"); empty where it does not. `windows` are those of a whole epoch. A smaller patience
    counts where it ended a run.
    """
    ours = budget_of_rows(rows)
    if ours.epochs is None or not published:
        return ""
    found = []
    epochs, patience = _whole(published, "epochs") or 0, _whole(published, "patience")
    own, other = ours.epoch_windows or windows, _epoch_windows(published) or windows
    if own == other and ours.epochs < epochs:
        found.append(f"{ours.epochs:,} of {epochs:,} epochs")
    elif ours.epochs * own < epochs * other:
        found.append(f"{ours.epochs * own:,} of {epochs * other:,} windows")
    if any(row.epochs < ours.epochs for row in rows) and _less(ours.patience, patience):
        found.append(f"patience {ours.patience} instead of {_said(patience)}")
    return ", ".join(found)


_WORDS = {
    "epochs": "epochs",
    "epoch_windows": "windows in an epoch",
    "patience": "patience",
    "tried": "settings tried",
    "seeds": "seeds",
}


def _tried(configuration: Facts) -> int:
    """How many settings a search may try: as many as are listed, or as many draws as it has."""
    tuner, _, trials = str(budget_of(configuration).get("tuner", "")).partition(":")
    return int(trials) if tuner else len(tried_candidates(configuration))


def _epoch_windows(training: Facts) -> int | None:
    updates = _whole(training, "updates_per_epoch")
    if updates is None:
        return _whole(training, "windows_per_epoch")
    return updates * math.prod(_whole(training, name) or 1 for name in ("batch", "accumulate", "processes"))


def _whole(training: Facts, name: str) -> int | None:
    """A number of a row's training; what is no number, as in a row that was written by hand, says nothing."""
    value = training.get(name)
    return value if isinstance(value, int) else None


def _less(ours: int | None, theirs: int | None) -> bool:
    return ours is not None and (theirs is None or ours < theirs)


def _said(value: int | None) -> str:
    return "any" if value is None else f"{value:,}"
