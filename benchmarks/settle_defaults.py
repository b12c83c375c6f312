"""Defaults of the estimators, settled without a test row: the evidence, and what it says.

    python benchmarks/settle_defaults.py --data-dir DATA --out results

Only training parts of the data are read. Classification: pooling, width and dropout, every combination, by stratified
cross-validation inside the TRAIN files of three sets; each fold holds out cases of its own to pick the epoch.
Detection: whether a window is normalised and whether channels are balanced, by AUC-PR on anomalies of five kinds that
are put into the last quarter of each entity's training rows, while the detector learns from the rows before.

Trials that the CSV files hold already are not made again. The rule was fixed before the first row: of the choices
within one standard error of the best (paired: over folds; over sets and draws), the one with the fewest numbers to
train, and between equals the better one.
"""

import argparse
import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from _rows import append, origin, read, show
from rearview.data.cases.case_set import Cases, Labels
from rearview.data.datasets import archives, detection_sets
from rearview.data.io import ts
from rearview.data.panel import Panel
from rearview.estimators.classify.classifier import Classifier
from rearview.estimators.detect.detector import Detector
from rearview.models.contract import Model
from rearview.tasks.rankings import auc_pr

Choice = dict[str, Any]
Random = np.random.Generator

CASES = ("BasicMotions", "Libras", "RacketSports")
FOLDS = 3
WIDTHS = {64: 128, 128: 256}
"""Width of a token -> width of the feed-forward part."""
NETWORKS: list[Choice] = [
    {"pool": pool, "width": width, "feed_forward": WIDTHS[width], "dropout": dropout}
    for pool, width, dropout in itertools.product(("none", "mean"), WIDTHS, (0.1, 0.3))
]

ROWS = ("ASD", "SMAP", "SMD19")
NORMALISE = ("none", "revin")
LEARNED = 0.75
"""Share of an entity's training rows that the detector is fitted to."""
LEAST_JUDGED = 200
"""Rows to judge below which an entity is left out: its anomalies would stand shoulder to shoulder."""
APART = 150
"""Rows to judge for each anomaly put into them."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("task", nargs="*", help=f"{' or '.join(TASKS)}; default: both")
    parser.add_argument("--data-dir", type=Path, help="the folder of the data; default: REARVIEW_DATA")
    parser.add_argument("--seed", type=int, default=0, help="classification: of folds and first weights")
    parser.add_argument("--draws", type=int, default=3, help="detection: of anomalies and first weights")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="folder of the CSV files that rows are added to")
    options = parser.parse_args()
    unknown = [name for name in options.task if name not in TASKS]
    if unknown:
        parser.error(f"there is no task {unknown[0]!r}; there are {' and '.join(TASKS)}")
    for name in options.task or TASKS:
        out = options.out and options.out / f"defaults_{name}.csv"
        print(name, flush=True)
        print_choice(make_rows(TASKS[name], options, out), TASKS[name])


def make_rows(task: "Task", options: argparse.Namespace, out: Path | None) -> list[dict[str, str]]:
    """The rows of all trials; those that `out` does not hold are made and added."""
    kept = read(out) if out and out.exists() else []
    for trial in task.trials(options):
        if any(all(old[name] == str(value) for name, value in trial.facts.items()) for old in kept):
            continue
        started = time.process_time()
        found = trial.make()
        spent = round(time.process_time() - started, 1)
        rows = [{**trial.facts, **row, "cpu_seconds": spent, **origin()} for row in found]
        print(*trial.facts.values(), rows[0][task.measure], f"{spent} s", flush=True)
        append(out, rows)
        kept += [{name: str(value) for name, value in row.items()} for row in rows]
    return kept


class Trial(NamedTuple):
    """One training: what names its rows, and how they are made."""

    facts: Choice
    make: Callable[[], list[Choice]]


@dataclass(frozen=True)
class Task:
    """How the defaults of one estimator are settled."""

    trials: Callable[[argparse.Namespace], Iterator[Trial]]
    choice: tuple[str, ...]
    """Columns that make up a choice."""
    pairs: tuple[str, ...]
    """Columns that say which trials of two choices are compared with each other."""
    measure: str
    where: Mapping[str, str]
    """What rows must hold to be counted."""


def cross_validation(options: argparse.Namespace) -> Iterator[Trial]:
    """Every network on every fold of every set."""
    for name in CASES:
        cases = ts.read(archives.find(name, options.data_dir).train)
        assert cases.labels is not None
        fold_of = folds(cases.labels, options.seed)
        for chosen, fold in itertools.product(NETWORKS, range(FOLDS)):
            make = partial(_one_fold, cases, fold_of == fold, chosen, options)
            yield Trial({"dataset": name, "fold": fold, "seed": options.seed, **chosen}, make)


def _one_fold(cases: Cases, held: NDArray[np.bool_], chosen: Choice, options: argparse.Namespace) -> list[Choice]:
    classifier = Classifier(settings=chosen, seed=options.seed, device=options.device)
    classifier.fit(cases.take(np.flatnonzero(~held)))
    fitted = classifier.fitted_
    return [
        {
            "parameters": _parameters(fitted.network),
            "trained": int((~held).sum()),
            "held": int(held.sum()),
            "accuracy": round(classifier.score(cases.take(np.flatnonzero(held))), 6),
            "epochs": len(fitted.history.epochs),
        }
    ]


def folds(labels: Labels, seed: int) -> NDArray[np.int64]:
    """[case]: which fold holds it out; the cases of each class are dealt out in turn."""
    random = np.random.default_rng(seed)
    found = np.empty(len(labels), dtype=np.int64)
    dealt = 0
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        found[members] = (np.arange(len(members)) + dealt) % FOLDS
        dealt += len(members)
    return found


def injection(options: argparse.Namespace) -> Iterator[Trial]:
    """Every normalisation on every set and draw."""
    for name, seed, normalise in itertools.product(ROWS, range(options.draws), NORMALISE):
        make = partial(_one_draw, name, seed, normalise, options)
        yield Trial({"dataset": name, "seed": seed, "normalise": normalise}, make)


def _one_draw(name: str, seed: int, normalise: str, options: argparse.Namespace) -> list[Choice]:
    """One network, judged with and without balance, which changes its scores but not its training."""
    learned, judged, kinds = inject(detection_sets.load(detection_sets.get(name), options.data_dir).train, seed)
    detector = Detector(settings={"normalise": normalise}, seed=seed, device=options.device).fit(learned)
    scores = {
        True: detector.detect(judged).scores.rows,
        False: detector.fitted.errors(judged).mean(axis=1, dtype=np.float64),
    }
    # Rows to judge by: all of them, and those of each kind of anomaly with the ordinary ones.
    judged_by = {"all": np.ones(len(kinds), dtype=bool)}
    judged_by |= {kind: (kinds < 0) | (kinds == number) for number, kind in enumerate(KINDS)}
    return [
        {
            "balance": balance,
            "kind": kind,
            "parameters": _parameters(detector.fitted.network),
            "entities": judged.series,
            "rows": int(among.sum()),
            "anomalous": int((kinds[among] >= 0).sum()),
            "auc_pr": round(auc_pr(kinds[among] >= 0, rows[among]), 6),
        }
        for balance, rows in scores.items()
        for kind, among in judged_by.items()
    ]


def _parameters(network: Model) -> int:
    return sum(weight.numel() for weight in network.parameters())


def inject(panel: Panel, seed: int) -> tuple[Panel, Panel, NDArray[np.int64]]:
    """Rows to learn from, rows to judge with anomalies in them, and the kind of each of those; -1: an ordinary row."""
    enough = (1 - LEARNED) * panel.lengths >= LEAST_JUDGED
    whole = panel.between(panel.offsets[:-1], np.where(enough, panel.offsets[1:], panel.offsets[:-1]))
    border = whole.offsets[:-1] + np.round(LEARNED * whole.lengths).astype(np.int64)
    learned, judged = whole.between(whole.offsets[:-1], border), whole.between(border, whole.offsets[1:])
    values, kinds = judged.values.copy(), np.full(len(judged.values), -1, dtype=np.int64)
    random = np.random.default_rng(seed)
    for (a, b), (c, d) in zip(judged.bounds(), learned.bounds(), strict=True):
        spread = learned.values[c:d].std(axis=0)
        put_in(values[a:b], kinds[a:b], spread, random)
    return learned, replace(judged, values=values), kinds


def put_in(values: NDArray[np.float32], kinds: NDArray[np.int64], spread: NDArray[np.float32], random: Random) -> None:
    """Put anomalies of all kinds in turn into rows [row, channel], each into one to three channels that vary."""
    varying = np.flatnonzero(spread > 0)
    count = max(len(KINDS), len(values) // APART)
    room = len(values) // count
    for number in range(count):
        kind = number % len(KINDS)
        rows = int(random.integers(1, 4) if KINDS[kind] == "spike" else random.integers(10, room // 2))
        first = number * room + int(random.integers(0, room - rows))
        span = slice(first, first + rows)
        channels = random.choice(varying, min(len(varying), int(random.integers(1, 4))), replace=False)
        for channel in channels.tolist():
            values[span, channel] = _MAKERS[KINDS[kind]](values[:, channel], span, float(spread[channel]), random)
        kinds[span] = kind


def _signed(random: Random, low: float, high: float) -> float:
    return float(random.uniform(low, high) * random.choice((-1, 1)))


def _copy_stretch(column: NDArray[np.float32], span: slice, spread: float, random: Random) -> NDArray[np.float32]:
    """The right values at the wrong time: a stretch of the same channel from other rows."""
    rows = span.stop - span.start
    first = int(random.integers(0, len(column) - rows))
    return column[first : first + rows].copy()


_MAKERS: dict[str, Callable[[NDArray[np.float32], slice, float, Random], Any]] = {
    "spike": lambda column, span, spread, random: column[span] + _signed(random, 3, 6) * spread,
    "shift": lambda column, span, spread, random: column[span] + _signed(random, 1.5, 3) * spread,
    "frozen": lambda column, span, spread, random: column[span.start],
    "noise": lambda column, span, spread, random: column[span] + spread * random.normal(size=span.stop - span.start),
    "elsewhere": _copy_stretch,
}
KINDS = tuple(_MAKERS)

TASKS = {
    "classification": Task(
        cross_validation, ("pool", "width", "dropout"), ("dataset", "fold", "seed"), "accuracy", where={}
    ),
    "detection": Task(injection, ("normalise", "balance"), ("dataset", "seed"), "auc_pr", where={"kind": "all"}),
}


def print_choice(rows: Sequence[Mapping[str, str]], task: Task) -> None:
    """The choices, the best first, what each lacks to the best, and the one that the rule picks."""
    counted = [row for row in rows if all(row[name] == value for name, value in task.where.items())]
    places = sorted({tuple(row[name] for name in task.pairs) for row in counted})
    found: dict[tuple[str, ...], dict[tuple[str, ...], float]] = defaultdict(dict)
    size: dict[tuple[str, ...], float] = {}
    for row in counted:
        choice = tuple(row[name] for name in task.choice)
        found[choice][tuple(row[name] for name in task.pairs)] = float(row[task.measure])
        size[choice] = max(size.get(choice, 0), float(row["parameters"]))
    table = {choice: np.array([by_place[p] for p in places]) for choice, by_place in found.items()}
    sets = sorted({place[0] for place in places})
    of_set = {name: [number for number, place in enumerate(places) if place[0] == name] for name in sets}
    ordered = sorted(table, key=lambda choice: -table[choice].mean())
    lines = []
    for choice in ordered:
        behind = table[ordered[0]] - table[choice]
        error = behind.std(ddof=1) / len(behind) ** 0.5
        means = {name: float(table[choice][at].mean()) for name, at in of_set.items()}
        lines.append(
            dict(zip(task.choice, choice, strict=True))
            | means
            | {"mean": table[choice].mean(), "behind": behind.mean(), "error": error, "parameters": size[choice]}
        )
    show(lines)
    near = [line for line in lines if line["behind"] <= line["error"]]
    picked = min(near, key=lambda line: (line["parameters"], line["behind"]))
    print("chosen:", ", ".join(f"{name} = {picked[name]}" for name in task.choice))


if __name__ == "__main__":
    main()
