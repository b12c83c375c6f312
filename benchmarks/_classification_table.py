"""Classification rows as a table beside TOA's table 8: accuracies by set and mechanism, ranks, a test against softmax.

Ranks and the signed-rank test need the same sets for every mechanism, so they are taken over the sets that all
mechanisms have. The test is Wilcoxon's, two-sided.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rearview.bench.analysis.significance import ranks, signed_rank
from rearview.bench.papers import published
from rearview.bench.rows.row import ClassificationRow
from rearview.core.grouping import group_by

SOFTMAX = "softmax"


@dataclass(frozen=True, slots=True)
class Cell:
    """One mechanism on one set under one protocol."""

    dataset: str
    mechanism: str
    accuracy: float
    """Mean over seeds."""
    std: float
    """Over seeds; 0 for one."""
    seeds: int
    published: float | None
    """TOA's, the mean of three seeds selected on the test set; None where it has none."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One mechanism over all sets that every mechanism has."""

    mechanism: str
    sets: int
    accuracy: float
    rank: float
    """Mean rank, 1 the best; equals share."""
    wins: int
    losses: int
    """Sets on which it is above and below softmax."""
    p_value: float
    """Of the signed-rank test against softmax; 1 for softmax itself."""
    published_rank: float | None
    """The same of the published accuracies of the same sets."""


def label(row: ClassificationRow) -> str:
    """A mechanism as the table calls it: softmax, toa_relu, toa_relu_no_sor."""
    settings = json.loads(row.attention_settings)
    if row.attention != "toa":
        return row.attention
    return f"toa_{settings['kind']}{'' if settings['sor'] else '_no_sor'}"


def cells(rows: Iterable[ClassificationRow], protocol: str) -> list[Cell]:
    """A cell for each set and mechanism, in the order in which they first appear; a run made again counts once, and one
    that failed not at all."""
    usable = [row for row in rows if row.protocol == protocol and row.accuracy is not None]
    theirs = _published()
    table = []
    for place, runs in group_by(usable, lambda row: (row.dataset, label(row))).items():
        values = list({row.seed: row.accuracy for row in runs}.values())
        table.append(Cell(*place, float(np.mean(values)), float(np.std(values)), len(values), theirs.get(place)))
    return table


def standings(table: Sequence[Cell]) -> list[Standing]:
    """The mechanisms by mean rank, over the sets that all of them have."""
    names = list(dict.fromkeys(cell.mechanism for cell in table))
    by_place = {(cell.dataset, cell.mechanism): cell for cell in table}
    sets = [d for d in dict.fromkeys(cell.dataset for cell in table) if all((d, n) in by_place for n in names)]
    if not sets or SOFTMAX not in names:
        return []
    # Means of the same numbers in another order differ in the last digit; that is no difference.
    ours = np.array([[by_place[d, n].accuracy for n in names] for d in sets]).round(12)
    ranked = ranks(ours, lower_is_better=False).mean(axis=0)
    theirs = _published_ranks(by_place, sets, names)
    base = ours[:, names.index(SOFTMAX)]
    rows = [
        Standing(
            mechanism=name,
            sets=len(sets),
            accuracy=float(ours[:, column].mean()),
            rank=float(ranked[column]),
            wins=int((ours[:, column] > base).sum()),
            losses=int((ours[:, column] < base).sum()),
            p_value=signed_rank(ours[:, column], base),
            published_rank=theirs.get(name),
        )
        for column, name in enumerate(names)
    ]
    return sorted(rows, key=lambda one: one.rank)


def lines(rows: Sequence[ClassificationRow], protocol: str) -> list[str]:
    """The table as text: ours, published in brackets; then ranks and the test."""
    found = cells(rows, protocol)
    names = list(dict.fromkeys(cell.mechanism for cell in found))
    by_place = {(cell.dataset, cell.mechanism): cell for cell in found}
    width = max([len(name) for name in names] + [16])
    head = ["dataset".ljust(26), *(name.rjust(width) for name in names)]
    body = [
        [dataset.ljust(26), *(_shown(by_place.get((dataset, name))).rjust(width) for name in names)]
        for dataset in dict.fromkeys(cell.dataset for cell in found)
    ]
    text = [
        f"{protocol}: accuracy, mean over seeds (in brackets: TOA, table 8)",
        *("  ".join(r) for r in [head, *body]),
    ]
    for one in standings(found):
        theirs = "" if one.published_rank is None else f", published {one.published_rank:.2f}"
        text.append(
            f"{one.mechanism}: mean rank {one.rank:.2f}{theirs} over {one.sets} sets, accuracy {one.accuracy:.4f}, "
            f"{one.wins} above and {one.losses} below softmax, p = {one.p_value:.3f}"
        )
    return text


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    return f"{cell.accuracy:.4f}" + ("" if cell.published is None else f" ({cell.published:.4f})")


def _published() -> dict[tuple[str, str], float]:
    names = {"hyperglu_dplr": "hyperglu"}
    return {
        (number.dataset, names.get(number.variant, number.variant)): number.value
        for number in published.select("toa", "T8")
        if number.metric == "accuracy" and number.value is not None
    }


def _published_ranks(by_place: dict[tuple[str, str], Cell], sets: list[str], names: list[str]) -> dict[str, float]:
    """Mean ranks of the published accuracies, among the mechanisms that TOA prints."""
    printed = [n for n in names if all(by_place[d, n].published is not None for d in sets)]
    if len(printed) < 2:
        return {}
    values = np.array([[by_place[d, n].published for n in printed] for d in sets], dtype=np.float64)
    return dict(zip(printed, ranks(values, lower_is_better=False).mean(axis=0).tolist(), strict=True))
