"""Does attention over the time axis of Hydra's features add to them? Three folds of TRAIN; no test case is read.

    python benchmarks/attention_over_features.py --data-dir DATA --out results/attention_over_features.csv

A case becomes tokens: Hydra's features of overlapping windows, each projected to a width. One layer of attention mixes
the tokens, their mean is classified. Beside it stand the same network without attention, and the linear classifier over
the same kernels, of the whole case and of all windows side by side. Kernels, folds and first weights are the same for
all arms.
"""

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from _rows import Row, append, origin, read
from rearview import attention
from rearview.data.cases.padding import ChannelScaler, stretch_cases
from rearview.data.io import ts
from rearview.estimators.classify.fit import code_classes
from rearview.estimators.classify.portfolio.members import draw_folds
from rearview.estimators.classify.portfolio.ridge import fit_ridge
from rearview.models.features.hydra import Hydra

SETS = ("BasicMotions", "Libras", "RacketSports", "JapaneseVowels", "Handwriting", "UWaveGestureLibrary")
ARMS: dict[str, dict[str, object] | None] = {
    "no attention": None,
    "softmax": {"name": "softmax"},
    "rbca": {"name": "rbca"},
    "toa relu, l2": {"name": "toa", "kind": "relu", "score_norm": "l2"},
    "caps": {"name": "caps"},
}
WINDOWS, WIDTH, HEADS, GROUPS = 7, 64, 4, 32
EPOCHS, BATCH, RATE, DECAY, DROPOUT = 60, 16, 1e-3, 0.05, 0.3


class Reader(nn.Module):
    """Tokens to classes, with or without a layer of attention between projection and mean."""

    def __init__(self, features: int, classes: int, mechanism: dict[str, object] | None) -> None:
        super().__init__()
        self.project = nn.Sequential(nn.Dropout(DROPOUT), nn.Linear(features, WIDTH), nn.LayerNorm(WIDTH))
        self.head = nn.Linear(WIDTH, classes)
        self.positions = nn.Parameter(torch.zeros(WINDOWS, WIDTH))
        self.mix = None
        if mechanism is not None:
            options = {key: value for key, value in mechanism.items() if key != "name"}
            site = attention.Site(groups=1, tokens=WINDOWS, width=WIDTH, heads=HEADS)
            self.mix = attention.create(str(mechanism["name"]), site, **options)

    def forward(self, tokens: Tensor) -> Tensor:
        mixed = self.project(tokens) + self.positions
        if self.mix is not None:
            mixed = mixed + self.mix(mixed[:, None])[:, 0]
        return self.head(torch.relu(mixed).mean(1))


def train(network: nn.Module, tokens: Tensor, codes: Tensor, seed: int, epochs: int, rate: float) -> nn.Module:
    """The network after all epochs; the order of cases is the same for all arms."""
    order = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=DECAY)
    for _ in range(epochs):
        for batch in torch.randperm(len(tokens), generator=order).split(BATCH):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(tokens[batch]), codes[batch]).backward()
            optimiser.step()
    return network.eval()


def scale(learned: Tensor, held: Tensor) -> tuple[Tensor, Tensor]:
    """Both standardised by the first; square roots first, as Hydra's features are counts and gains."""
    learned, held = learned.clamp(min=0).sqrt(), held.clamp(min=0).sqrt()
    axes = tuple(range(learned.ndim - 1))
    centre, spread = learned.mean(axes), learned.std(axes) + 1e-2
    return (learned - centre) / spread, (held - centre) / spread


def measure(folder: Path, name: str, fold: int) -> list[Row]:
    """A row for each arm on one fold."""
    cases = ts.read(folder / f"{name}_TRAIN.ts")
    classes, codes = code_classes(cases)
    folds = draw_folds(codes, 3, np.random.default_rng(0))
    learned, held = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
    scaler = ChannelScaler.fit(cases.take(learned))
    steps = max(32, int(cases.lengths.max()))
    values = stretch_cases(cases, scaler, steps, longest=int(cases.lengths.max()))
    window = steps // 3
    starts = np.linspace(0, steps - window, WINDOWS).round().astype(int)
    hydra = Hydra.draw(cases.channels, window, GROUPS, np.random.default_rng(fold))
    with torch.no_grad():
        tokens = torch.stack([hydra(values[..., begin : begin + window]) for begin in starts], dim=1)
        whole = hydra(values)
    truth, rows = torch.from_numpy(codes), []
    inner = draw_folds(codes[learned], 10, np.random.default_rng(1))

    def record(arm: str, answers: Tensor, seconds: float, parameters: int) -> None:
        right = float((answers.argmax(1) == truth[held]).double().mean())
        facts = {"dataset": name, "fold": fold, "arm": arm, "cases": len(learned), "held": len(held)}
        made = {"accuracy": round(right, 6), "parameters": parameters, "seconds": round(seconds, 2)}
        rows.append({**facts, **made, "protocol": "three folds of TRAIN", **origin()})

    for arm, features in (("linear, whole case", whole), ("linear, windows", tokens.flatten(1))):
        started = time.perf_counter()
        known, new = scale(features[learned], features[held])
        ridge = fit_ridge(known, truth[learned], len(classes), inner).ridge
        record(arm, ridge.decide(new), time.perf_counter() - started, ridge.weights.numel())
    known, new = scale(tokens[learned], tokens[held])
    for arm, mechanism in ARMS.items():
        started = time.perf_counter()
        torch.manual_seed(fold)
        reader = train(Reader(known.shape[-1], len(classes), mechanism), known, truth[learned], fold, EPOCHS, RATE)
        with torch.no_grad():
            record(arm, reader(new), time.perf_counter() - started, sum(p.numel() for p in reader.parameters()))
    return rows


def main() -> None:
    """Run what is missing and show means over folds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/attention_over_features.csv"))
    parser.add_argument("--sets", nargs="+", default=SETS)
    options = parser.parse_args()
    made = read(options.out) if options.out.exists() else []
    done = {(row["dataset"], int(row["fold"])) for row in made}
    if options.data_dir is not None:
        for name in options.sets:
            for fold in range(3):
                if (name, fold) not in done:
                    append(options.out, measure(options.data_dir / "uea" / name, name, fold))
    rows = read(options.out)
    sets = list(dict.fromkeys(row["dataset"] for row in rows))
    print(f"{'':22s}" + "".join(f"{name[:12]:>14s}" for name in sets) + "          mean")
    for arm in dict.fromkeys(row["arm"] for row in rows):
        means = [
            statistics.mean(float(row["accuracy"]) for row in rows if (row["arm"], row["dataset"]) == (arm, name))
            for name in sets
        ]
        print(f"{arm:22s}" + "".join(f"{mean:14.4f}" for mean in means) + f"{statistics.mean(means):14.4f}")


if __name__ == "__main__":
    main()
