"""VUS-PR and AUC-PR of the default detector, of its members and of plain k-means and PCA, under two cuts.

    python benchmarks/detection_portfolio.py --data-dir DATA --seeds 3 --workers 14

Cut `clean`: the training part of each entity trains, the test part is judged, and the scores of all entities are judged
together; VUS-PR has buffers of up to 100 rows. Cut `tsb-ad`: that of the TSB-AD benchmark (see
`rearview.data.datasets.tsb_ad`): the test part of an entity is a file, whose first part trains; every file is judged by
itself over all of its rows, and the mean over files counts. The network among the members is one for all files.

Each fit gives a row for the default's members combined (`auto`), one for them with equal weights, one without what
makes up for drift, one for them with the network and one without it, whatever the default does, one for each member
and one for the network as `--model itransformer` uses it; with --default the network is trained only where the
default has it. Beside them stand k-means and PCA over windows of 20 rows, plain, fitted to the same rows; `k-means,
whole file` is fitted to the rows that it judges, as TSB-AD's board has it, with the board's settings. PCA draws
nothing, and the whole file is the board's business: both are run for the first seed alone.

Settings were chosen on the entities that DEVELOPMENT names, whose labels were looked at. There are rows for all
entities, for the others, which no setting was tuned on, and for those that are files of the board. Fits are spread over
processes of one thread each; what the file holds already is skipped, so that a changed detector is measured with --out
NEW and its rows are put behind the others. Without --data-dir the rows that are there are shown.
"""

import argparse
import itertools
import multiprocessing
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from _rows import Row, append, origin, read
from rearview.data.datasets.labelled_arrays import LabelledArrays

SETS = ("ASD", "SMAP", "SMD19")
DEVELOPMENT = {"ASD": (2, (0,)), "SMAP": (5, (0,)), "SMD19": (7, (0, 3, 5))}
"""Entities whose number, divided by the first, leaves one of the others."""
CUTS = ("clean", "tsb-ad")
SLACK = 100
AUTO, KMEANS, PCA, WHOLE = "auto", "k-means", "PCA", "k-means, whole file"
BOARD: Mapping[str, frozenset[tuple[int, int]]] = {
    "SMAP": frozenset(
        {
            (2052, 5300), (2133, 5400), (2128, 5000), (2160, 6449), (2011, 5060), (2077, 5394), (1971, 4870),
            (2073, 5600), (1840, 4030), (2117, 4770), (1907, 4800), (1173, 2750), (2126, 5000), (2075, 5610),
            (1757, 2650), (1832, 5300), (2075, 5550), (1908, 4690), (2051, 4575), (2129, 5000), (1113, 1890),
            (2094, 5600), (1998, 2098), (1811, 4510), (2160, 4690),
        }
    ),
    "SMD19": frozenset(
        {
            (4529, 4629), (1087, 1187), (757, 857), (7176, 10609), (7176, 15144), (5923, 6506), (2272, 2372),
            (737, 837), (2634, 2734), (1980, 2080), (1099, 1199), (5925, 12760), (1070, 1170), (1109, 1209),
            (5926, 10620), (7174, 21230), (564, 664), (5925, 17580), (3026, 3126), (500, 326),
        }
    ),
}  # fmt: skip
"""Rows that train and the first anomaly of the files of TSB-AD's board, which tell them apart; no tuning files."""
Scores = NDArray[np.float64]


class Judge:
    """The rows of a set under one cut, and how scores of them are judged."""

    def __init__(self, folder: Path, name: str, cut: str, every: int) -> None:
        from rearview.data.datasets import detection_sets, tsb_ad

        arrays = detection_sets.load(detection_sets.get(name), folder)
        by, left = DEVELOPMENT[name]
        looked_at = {one for number, one in enumerate(arrays.test.ids) if number % by in left}
        kept = arrays.test.ids[::every]
        rows = np.concatenate(
            [np.full(length, one in kept) for one, length in zip(arrays.test.ids, arrays.test.lengths, strict=True)]
        )
        arrays = LabelledArrays(arrays.train.only(kept), arrays.test.only(kept), arrays.labels[rows])
        arrays = tsb_ad.cut(arrays) if cut == "tsb-ad" else arrays
        self.cut, self.train, self.test, self.labels = cut, arrays.train, arrays.test, arrays.labels == 1
        bounds = self.test.bounds()
        self.entities = {
            "all": list(range(len(bounds))),
            "others": [s for s, one in enumerate(self.test.ids) if one not in looked_at],
        }
        if cut == "tsb-ad":
            self.reach = [
                tsb_ad.find_period(self.test.original_column(slice(a, b), s, 0)) for s, (a, b) in enumerate(bounds)
            ]
            files = [(tsb_ad.training_rows(self.labels[a:b]), int(self.labels[a:b].argmax())) for a, b in bounds]
            self.entities["board"] = [s for s, file in enumerate(files) if file in BOARD.get(name, ())]

    def measure(self, rows: Scores, groups: Sequence[str]) -> dict[str, tuple[float, float]]:
        """VUS-PR and AUC-PR of scores [row] over the entities of some groups."""
        from rearview.tasks.rankings import auc_pr, vus_pr

        bounds = self.test.bounds()
        if self.cut == "tsb-ad":
            each = [
                (vus_pr(self.labels[a:b], rows[a:b], self.reach[s]), auc_pr(self.labels[a:b], rows[a:b]))
                for s, (a, b) in enumerate(bounds)
            ]
            return {
                group: tuple(statistics.mean(each[s][m] for s in members) for m in (0, 1))
                for group in groups
                if (members := self.entities.get(group))
            }
        measured = {}
        for group in groups:
            if not (members := self.entities.get(group)):
                continue
            taken = np.concatenate([np.arange(*bounds[s]) for s in members])
            offsets = np.concatenate([[0], np.cumsum([bounds[s][1] - bounds[s][0] for s in members])])
            labels, scores = self.labels[taken], rows[taken]
            measured[group] = vus_pr(labels, scores, SLACK, offsets), auc_pr(labels, scores)
        return measured


def plain(judge: Judge, kind: str, seed: int) -> Scores:
    """Plain k-means or PCA, entity by entity: the distance of a window, averaged over the windows that hold a row."""
    import torch

    from rearview.estimators.detect.portfolio.members import find_centres, thin

    whole = kind == WHOLE
    window = 40 if whole else 20
    parts = []
    for s, (a, b) in enumerate(judge.test.bounds()):
        c, d = judge.train.bounds()[s]
        test, train = judge.test.original(slice(a, b), s), judge.train.original(slice(c, d), s)
        if whole:
            train = test
        else:
            spread = train.std(axis=0)
            spread[spread == 0] = 1
            test, train = (test - train.mean(axis=0)) / spread, (train - train.mean(axis=0)) / spread
        learned, judged = (
            torch.from_numpy(part.astype(np.float32)).unfold(0, window, 1).flatten(1) for part in (train, test)
        )
        if kind == PCA:
            mean = learned.mean(0)
            apart = (learned - mean).double()
            values, vectors = torch.linalg.eigh(apart.T @ apart / len(apart))
            share = values.flip(0).cumsum(0) / values.sum()
            axes = vectors[:, -int((share < 0.9).sum()) - 1 :].float()
            apart = judged - mean
            distance = (apart - apart @ axes @ axes.T).norm(dim=1)
        else:
            random = np.random.default_rng([seed, s])
            centres = find_centres(thin(learned, 5_000), 30 if whole else 20, random)
            distance = torch.cdist(judged, centres).amin(1)
        sums = np.concatenate([[0.0], np.cumsum(distance.double().numpy())])
        at = np.arange(b - a)
        first, last = np.maximum(at - window + 1, 0), np.minimum(at, len(distance) - 1)
        parts.append((sums[last + 1] - sums[first]) / (last + 1 - first))
    return np.concatenate(parts)


@dataclass(frozen=True)
class Unit:
    """What one process does at a time: the arms of a fit, or one plain arm."""

    name: str
    cut: str
    seed: int
    every: int
    plain: str | None
    default: bool = False
    """Whether the network is trained only where the default has it."""

    @property
    def mark(self) -> tuple[str, str, str, str]:
        """What the rows of a unit hold, one of them at least."""
        return _name(self.name, self.every), self.cut, str(self.seed), self.plain or AUTO

    @property
    def weight(self) -> int:
        """Units that take long begin first."""
        return (self.plain is None) * (1 + SETS.index(self.name)) * (1 + (self.cut == "clean"))


def list_units(names: Sequence[str], cuts: Sequence[str], seeds: int, every: int, default: bool) -> list[Unit]:
    """All units, those that take longest first."""
    units = []
    for name, cut, seed in itertools.product(names, cuts, range(seeds)):
        once = () if seed else (PCA, *((WHOLE,) if cut == "tsb-ad" else ()))
        units += [Unit(name, cut, seed, every, plain, default) for plain in (None, KMEANS, *once)]
    return sorted(units, key=lambda unit: -unit.weight)


def measure(unit: Unit, folder: Path) -> list[Row]:
    """The rows of a unit."""
    import torch

    from rearview.bench.runs.provenance import device_words

    torch.set_num_threads(1)
    judge = Judge(folder, unit.name, unit.cut, unit.every)
    arms, facts = (
        ({unit.plain: plain(judge, unit.plain, unit.seed)}, {})
        if unit.plain
        else fit(judge, unit.seed, default=unit.default)
    )
    rows: list[Row] = []
    for arm, scores in arms.items():
        groups = ("all",) if arm.startswith("member") else ("all", "others", "board")
        for group, (vus, auc) in judge.measure(scores, groups).items():
            rows.append(
                {
                    "dataset": _name(unit.name, unit.every),
                    "cut": unit.cut,
                    "seed": unit.seed,
                    "arm": arm,
                    "entities": group,
                    "number": len(judge.entities[group]),
                    "vus_pr": round(vus, 6),
                    "auc_pr": round(auc, 6),
                    **{key: facts.get(key) for key in ("fit_seconds", "score_seconds", "network_seconds")},
                    "threads": 1,
                    "device": device_words(torch.device("cpu")),
                    **origin(),
                }
            )
    return rows


def fit(judge: Judge, seed: int, *, default: bool) -> tuple[dict[str, Scores], Row]:
    """(scores of the portfolio and its parts, seconds)."""
    from rearview.estimators.detect.portfolio import portfolio
    from rearview.estimators.detect.portfolio.drift import divide
    from rearview.estimators.detect.portfolio.trust import Weights
    from rearview.estimators.detect.spec import NETWORK, DetectSpec

    spec = DetectSpec(seed=seed, device="cpu")
    chosen = portfolio.choose_members(spec, judge.train)
    # Trained even where the default leaves it out: what does the network add?
    least = portfolio.LEAST_NETWORK if default else 0
    with patch.object(portfolio, "LEAST_NETWORK", least):
        fitted = portfolio.prepare(judge.train, spec).train()
    started = time.perf_counter()
    errors = fitted.errors(judge.test)
    place = fitted.place(judge.test)
    everyone = tuple(fitted.references)

    def score(*members: str, equal: bool = False, undivided: bool = False) -> Scores:
        references = {member: fitted.references[member] for member in members}
        at = [everyone.index(member) for member in members]
        weights = Weights(fitted.weights.known[:, at], fitted.weights.elsewhere[at])
        if equal:
            weights = Weights.equal(len(fitted.ids), len(members))
        raw = portfolio.combine(errors, references, weights, judge.test, place, fitted.averaged)
        if len(members) > 1:  # what one member says is ranked as it is
            raw = portfolio.rank_rows(raw, fitted.ranks, judge.test, place)
        bounds = judge.test.bounds()
        divisors = [fitted.drift.divisor(raw.rows[a:b], at) for at, (a, b) in zip(place, bounds, strict=True)]
        return raw.rows if undivided else divide(raw, judge.test, divisors).rows

    arms = {AUTO: score(*chosen)}
    seconds = {one.name: one.seconds for one in fitted.standings}
    facts = {
        "fit_seconds": round(sum(seconds[member] for member in chosen), 2),
        "score_seconds": round(time.perf_counter() - started, 2),
        "network_seconds": seconds.get(NETWORK),
    }
    arms["auto, equal weights"] = score(*chosen, equal=True)
    arms["auto, drift left in"] = score(*chosen, undivided=True)
    arms |= {f"member: {member}": score(member) for member in everyone}
    if NETWORK in everyone:
        arms["auto with the network"] = score(*everyone)
        arms["auto without the network"] = score(*(member for member in everyone if member != NETWORK))
        arms[f"{NETWORK} alone"] = fitted.network.scores(judge.test).rows
    return arms, facts


def _name(name: str, every: int) -> str:
    """A part of a set does not go by its name."""
    return name if every == 1 else f"{name}/{every}"


def show(path: Path, group: str) -> None:
    """Means over seeds; of rows for the same thing the last one in the file counts."""
    rows = [row for row in read(path) if row["entities"] == group]
    latest = {(row["arm"], row["dataset"], row["cut"], row["seed"]): float(row["vus_pr"]) for row in rows}
    cells: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for (arm, name, cut, _), value in latest.items():
        cells[arm][name, cut].append(value)
    columns = sorted({at for arm in cells.values() for at in arm}, key=lambda at: (at[1], at[0]))
    print(f"VUS-PR, entities: {group}")
    print(f"{'':26s}" + "".join(f"{f'{name} {cut}':>14s}" for name, cut in columns))
    for arm, found in cells.items():
        line = "".join(f"{statistics.mean(found[at]):14.3f}" if found[at] else f"{'-':>14s}" for at in columns)
        print(f"{arm:26s}{line}")


def main() -> None:
    """Run what is missing and show the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/detection_portfolio.csv"))
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--cuts", nargs="+", default=CUTS)
    parser.add_argument("--every", type=int, default=1, help="one of so many entities: a part, named NAME/EVERY")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--default", action="store_true", help="train the network only where the default has it")
    parser.add_argument("--workers", type=int, default=1, help="processes of one thread each")
    options = parser.parse_args()
    made = read(options.out) if options.out.exists() else []
    done = {(row["dataset"], row["cut"], row["seed"], row["arm"]) for row in made}
    if options.data_dir is not None:
        units = list_units(options.sets, options.cuts, options.seeds, options.every, options.default)
        units = [unit for unit in units if unit.mark not in done]
        with ProcessPoolExecutor(options.workers, multiprocessing.get_context("spawn")) as pool:
            waiting = {pool.submit(measure, unit, options.data_dir): unit for unit in units}
            for ended in as_completed(waiting):
                append(options.out, ended.result())
                print(*waiting[ended].mark, flush=True)
    for group in ("all", "others", "board"):
        show(options.out, group)


if __name__ == "__main__":
    main()
