"""How sure it is that the default detector is ahead of k-means and PCA: entities drawn again and again, clean cut.

    python benchmarks/detection_bootstrap.py --data-dir DATA --seeds 3

The default, k-means and PCA score the same rows as in `detection_portfolio.py`; nothing is chosen here. Entities are
drawn with replacement, as many as there are, the same ones for every arm, and VUS-PR is measured again: `pooled`, of
the scores of all drawn entities together, and `each`, the mean over entities of each one's own. A row has the
difference on the entities as they are and the middle 95 % of it over the draws; VUS-PR is the mean over seeds.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from _rows import Row, append, origin, show
from detection_portfolio import AUTO, KMEANS, PCA, SETS, SLACK, Judge, Scores, fit, plain
from rearview.tasks.alarms import Flags, find_runs
from rearview.tasks.rankings import THRESHOLDS, _soften, vus_pr

MIDDLE = (0.025, 0.975)


@dataclass(frozen=True)
class Surface:
    """What VUS-PR of some entities together adds up, for each of them: at every cut and buffer."""

    alarms: NDArray[np.float64]
    """[entity, cut]: rows at or above the cut."""
    hits: NDArray[np.float64]
    """[entity, buffer, cut]: those rows, by their soft label."""
    met: NDArray[np.float64]
    """[entity, buffer, cut]: widened anomalies with such a row."""
    stretches: NDArray[np.float64]
    """[entity, buffer]: widened anomalies."""
    wanted: NDArray[np.float64]
    """[entity, buffer]: half the sum of hard and soft labels."""

    def measure(self, drawn: NDArray[np.int64]) -> float:
        """VUS-PR where each entity [entity] is there so many times."""
        alarms, stretches, wanted = drawn @ self.alarms, drawn @ self.stretches, drawn @ self.wanted
        hits, met = np.tensordot(drawn, self.hits, 1), np.tensordot(drawn, self.met, 1)
        recall = np.minimum(hits / wanted[:, None], 1) * met / stretches[:, None]
        steps = np.diff(recall, axis=1, prepend=0)
        return float((steps * hits / np.maximum(alarms, 1)).sum(axis=1).mean())


def find_surface(labels: list[Flags], scores: list[Scores]) -> Surface:
    """The surface of entities at the cuts that VUS-PR has for all of them together."""
    ranked = -np.sort(-np.concatenate(scores))
    cuts = ranked[np.linspace(0, len(ranked) - 1, min(THRESHOLDS, len(ranked))).astype(np.int64)]
    shape = len(labels), SLACK + 1
    alarms, hits, met = np.zeros((shape[0], len(cuts))), np.zeros((*shape, len(cuts))), np.zeros((*shape, len(cuts)))
    stretches, wanted = np.zeros(shape), np.zeros(shape)
    for s, (marked, own) in enumerate(zip(labels, scores, strict=True)):
        order = np.argsort(-own, kind="stable")
        alarms[s] = at = np.searchsorted(-own[order], -cuts, side="right")
        events = find_runs(marked)
        limits = np.tile([0, len(own)], (len(events), 1))
        for buffer in range(SLACK + 1):
            soft = _soften(len(own), events, limits, buffer)
            peaks = np.sort([own[first:end].max() for first, end in find_runs(soft > 0).tolist()])
            hits[s, buffer] = np.concatenate([[0.0], np.cumsum(soft[order])])[at]
            met[s, buffer] = len(peaks) - np.searchsorted(peaks, cuts, side="left")
            stretches[s, buffer], wanted[s, buffer] = len(peaks), (marked.sum() + soft.sum()) / 2
    return Surface(alarms, hits, met, stretches, wanted)


def compare(judge: Judge, arms: dict[str, list[Scores]], group: str, draws: int) -> list[Row]:
    """The default beside each other arm, each with the scores of all seeds."""
    members, bounds = judge.entities[group], judge.test.bounds()
    labels = [judge.labels[slice(*bounds[s])] for s in members]
    pooled: dict[str, list[Surface]] = {}
    each: dict[str, NDArray[np.float64]] = {}
    for arm, seeds in arms.items():
        parts = [[rows[slice(*bounds[s])] for s in members] for rows in seeds]
        pooled[arm] = [find_surface(labels, scores) for scores in parts]
        single = [[vus_pr(*pair, SLACK) for pair in zip(labels, scores, strict=True)] for scores in parts]
        each[arm] = np.mean(single, axis=0)
    random = np.random.default_rng(0)
    number = len(members)
    drawn = random.multinomial(number, np.full(number, 1 / number), size=draws)
    drawn = np.concatenate([np.ones((1, number), dtype=np.int64), drawn])
    found = {
        "pooled": {arm: np.mean([[one.measure(d) for d in drawn] for one in pooled[arm]], axis=0) for arm in arms},
        "each": {arm: drawn @ each[arm] / number for arm in arms},
    }
    rows: list[Row] = []
    for measure, values in found.items():
        for arm in (KMEANS, PCA):
            apart = values[AUTO] - values[arm]
            low, high = np.quantile(apart[1:], MIDDLE)
            rows.append(
                {
                    "entities": group,
                    "number": number,
                    "measure": measure,
                    "against": arm,
                    "auto": round(float(values[AUTO][0]), 6),
                    "other": round(float(values[arm][0]), 6),
                    "difference": round(float(apart[0]), 6),
                    "low": round(float(low), 6),
                    "high": round(float(high), 6),
                    "ahead": round(float((apart[1:] > 0).mean()), 4),
                }
            )
    return rows


def main() -> None:
    """Score, draw and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("results/detection_bootstrap.csv"))
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--draws", type=int, default=1_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.sets:
        judge = Judge(options.data_dir, name, "clean", 1)
        arms = {
            AUTO: [fit(judge, seed, default=True)[0][AUTO] for seed in range(options.seeds)],
            KMEANS: [plain(judge, KMEANS, seed) for seed in range(options.seeds)],
            PCA: [plain(judge, PCA, 0)],
        }
        facts = {"dataset": name, "cut": "clean", "seeds": options.seeds, "draws": options.draws}
        rows = [facts | row for group in ("all", "others") for row in compare(judge, arms, group, options.draws)]
        show(rows)
        append(options.out, [row | origin() for row in rows])


if __name__ == "__main__":
    main()
