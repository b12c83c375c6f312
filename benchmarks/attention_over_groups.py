"""Does attention between Hydra's groups of kernels add to their features? Three folds of TRAIN; no test case is read.

    python benchmarks/attention_over_groups.py --data-dir DATA --out results/attention_over_groups.csv

A token is a group of eight kernels at one dilation, over the series or its differences: its eight gains and its eight
counts. Tokens have no order in time, so that rbca and caps have no place here. Each token is projected by a matrix of
its own, and a mechanism mixes the tokens. What becomes of the mixture:

    mix     it is added to the tokens, and their mean is classified
    gate    it gives each group a factor between 0 and 2, which its features are multiplied by before a linear
            classifier reads all of them

Beside the mechanisms stand `identity` (a token sees itself alone), `uniform` (the mean of all tokens) and `zero` (no
mixture: of "mix" the plain mean, of "gate" a linear classifier trained alike), gates that are the same for every case,
and the ridge classifier of the portfolio. Kernels, folds, order of cases, epochs, batch and rate are the same for all
arms of a set, fold and seed; another seed draws other kernels and other first weights.
"""

import argparse
import statistics
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from _rows import Row, append, origin, read
from attention_over_features import DROPOUT, scale, train
from rearview import attention
from rearview.data.cases.padding import ChannelScaler, stretch_cases
from rearview.data.io import ts
from rearview.estimators.classify.fit import code_classes
from rearview.estimators.classify.portfolio.members import draw_folds
from rearview.estimators.classify.portfolio.ridge import fit_ridge
from rearview.models.features.hydra import Hydra

SETS = ("Libras", "RacketSports", "JapaneseVowels", "BasicMotions")
MECHANISMS: Mapping[str, Mapping[str, object]] = {
    "softmax": {"name": "softmax"},
    "toa gated": {"name": "toa", "kind": "gated"},
    "toa relu, l2": {"name": "toa", "kind": "relu", "score_norm": "l2"},
    "prime": {"name": "prime"},
    "identity": {"name": "identity"},
    "uniform": {"name": "uniform"},
    "zero": {"name": "zero"},
}
LINEAR, FIXED_GATES = "ridge", "gate: the same for every case"
GROUPS, WIDTH, HEADS = 16, 16, 4
EPOCHS, RATE = 30, 2e-3


class Groups(nn.Module):
    """Tokens of groups, mixed by a mechanism."""

    def __init__(self, tokens: int, features: int, mechanism: Mapping[str, object]) -> None:
        super().__init__()
        self.own = nn.Parameter(torch.randn(tokens, features, WIDTH) * features**-0.5)
        self.place = nn.Parameter(torch.zeros(tokens, WIDTH))
        self.norm = nn.LayerNorm(WIDTH)
        options = {key: value for key, value in mechanism.items() if key != "name"}
        site = attention.Site(groups=1, tokens=tokens, width=WIDTH, heads=HEADS, time_ordered=False)
        self.attend = attention.create(str(mechanism["name"]), site, **options)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """(projected tokens, what the mechanism makes of them)."""
        projected = self.norm(torch.einsum("btf,tfw->btw", tokens, self.own) + self.place)
        return projected, self.attend(projected[:, None])[:, 0]


class Mix(nn.Module):
    """The mean of the tokens and of what was mixed into them, classified."""

    def __init__(self, tokens: int, features: int, classes: int, mechanism: Mapping[str, object]) -> None:
        super().__init__()
        self.drop, self.groups = nn.Dropout(DROPOUT), Groups(tokens, features, mechanism)
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        projected, mixed = self.groups(self.drop(tokens))
        return self.head(torch.relu(projected + mixed).mean(1))


class Gate(nn.Module):
    """A linear classifier over all groups, each times a factor.

    A case decides the factors by a mechanism; without one they are learned but the same for all cases, and with `zero`
    they are 1.
    """

    def __init__(self, tokens: int, features: int, classes: int, mechanism: Mapping[str, object] | None) -> None:
        super().__init__()
        self.drop = nn.Dropout(DROPOUT)
        plain = mechanism is not None and mechanism["name"] == "zero"
        self.level = nn.Parameter(torch.zeros(tokens), requires_grad=not plain)
        self.groups = self.read = None
        if mechanism is not None and not plain:
            self.groups, self.read = Groups(tokens, features, mechanism), nn.Linear(WIDTH, 1, bias=False)
            nn.init.zeros_(self.read.weight)
        self.head = nn.Linear(tokens * features, classes)
        nn.init.zeros_(self.head.weight)  # all arms begin as the same classifier, with gates of 1

    def forward(self, tokens: Tensor) -> Tensor:
        dropped, opening = self.drop(tokens), self.level
        if self.groups is not None and self.read is not None:
            opening = opening + self.read(self.groups(dropped)[1])[..., 0]
        return self.head((2 * torch.sigmoid(opening)[..., None] * dropped).flatten(1))


def tokens_of(hydra: Hydra, values: Tensor) -> Tensor:
    """[case, group, gains and counts]."""
    dilations, forms, groups, kernels, _ = hydra.weights.shape
    by_kind = hydra(values).view(len(values), dilations, forms, 2, groups, kernels)
    return by_kind.permute(0, 1, 2, 4, 3, 5).reshape(len(values), dilations * forms * groups, 2 * kernels)


def measure(folder: Path, name: str, fold: int, seed: int) -> list[Row]:
    """A row for each arm on one fold."""
    cases = ts.read(folder / f"{name}_TRAIN.ts")
    classes, codes = code_classes(cases)
    folds = draw_folds(codes, 3, np.random.default_rng(0))
    learned, held = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
    longest = int(cases.lengths.max())
    values = stretch_cases(cases, ChannelScaler.fit(cases.take(learned)), max(10, longest), longest=longest)
    hydra = Hydra.draw(cases.channels, values.shape[-1], GROUPS, np.random.default_rng([seed, fold]))
    truth, rows = torch.from_numpy(codes), []
    tokens = tokens_of(hydra, values)
    known, new = scale(tokens[learned].flatten(1), tokens[held].flatten(1))

    def record(arm: str, answers: Tensor, parameters: int, began: tuple[float, float]) -> None:
        facts = {"dataset": name, "fold": fold, "seed": seed, "arm": arm, "cases": len(learned), "held": len(held)}
        made = {
            "accuracy": round(float((answers.argmax(1) == truth[held]).double().mean()), 6),
            "tokens": tokens.shape[1],
            "parameters": parameters,
            "seconds": round(time.perf_counter() - began[0], 2),
            "cpu_seconds": round(time.process_time() - began[1], 2),
        }
        rows.append({**facts, **made, "protocol": "three folds of TRAIN", **origin()})

    began = time.perf_counter(), time.process_time()
    inner = draw_folds(codes[learned], 10, np.random.default_rng(1))
    ridge = fit_ridge(known, truth[learned], len(classes), inner).ridge
    record(LINEAR, ridge.decide(new), ridge.weights.numel(), began)
    known, new = (part.view(-1, *tokens.shape[1:]) for part in (known, new))
    size = *known.shape[1:], len(classes)
    arms = [(f"{kind.__name__.lower()}: {arm}", kind, one) for kind in (Mix, Gate) for arm, one in MECHANISMS.items()]
    for arm, kind, mechanism in [*arms, (FIXED_GATES, Gate, None)]:
        began = time.perf_counter(), time.process_time()
        torch.manual_seed(seed)
        network = train(kind(*size, mechanism), known, truth[learned], seed, EPOCHS, RATE)
        with torch.no_grad():
            answers = network(new)
        record(arm, answers, sum(one.numel() for one in network.parameters() if one.requires_grad), began)
    return rows


def show(path: Path) -> None:
    """Means over folds and seeds, with the standard error over seeds of the mean over sets."""
    rows = read(path)
    sets = list(dict.fromkeys(row["dataset"] for row in rows))
    seeds = list(dict.fromkeys(row["seed"] for row in rows))
    titles = (*(name[:12] for name in sets), "mean", "error", "parameters", "CPU s")
    print(f"{'':32s}" + "".join(f"{title:>14s}" for title in titles))

    def mean(column: str, arm: str, sets: list[str], seeds: list[str]) -> float:
        return statistics.mean(
            float(row[column]) for row in rows if row["arm"] == arm and row["dataset"] in sets and row["seed"] in seeds
        )

    for arm in dict.fromkeys(row["arm"] for row in rows):
        by_set = [mean("accuracy", arm, [name], seeds) for name in sets]
        by_seed = [statistics.mean(mean("accuracy", arm, [name], [seed]) for name in sets) for seed in seeds]
        error = statistics.stdev(by_seed) / len(by_seed) ** 0.5 if len(by_seed) > 1 else 0.0
        figures = "".join(f"{one:14.4f}" for one in (*by_set, statistics.mean(by_set), error))
        cost = f"{mean('parameters', arm, sets, seeds):14,.0f}{mean('cpu_seconds', arm, sets, seeds):14.1f}"
        print(f"{arm:32s}{figures}{cost}")


def main() -> None:
    """Run what is missing and show the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/attention_over_groups.csv"))
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--seeds", type=int, nargs="+", default=(0, 1, 2))
    options = parser.parse_args()
    made = read(options.out) if options.out.exists() else []
    done = {(row["dataset"], int(row["fold"]), int(row["seed"])) for row in made}
    if options.data_dir is not None:
        for seed in options.seeds:
            for name in options.sets:
                for fold in range(3):
                    if (name, fold, seed) not in done:
                        append(options.out, measure(options.data_dir / "uea" / name, name, fold, seed))
                        print(f"{name}, fold {fold}, seed {seed}", flush=True)
    show(options.out)


if __name__ == "__main__":
    main()
