"""Nearest neighbours of windows that a small trained network reads, as a member of the default detector: do they pay?

    python benchmarks/detection_embeddings.py --data-dir DATA

For each entity a convolutional network of three layers learns from the ordinary rows before the held-out ones to tell
windows of 50 rows apart: one a few rows later is the same, all others of a batch are not (InfoNCE). Up to 600 windows
are remembered; the error of a row is the mean cosine distance of the windows that hold it from their three nearest,
over what is usual on held-out rows. Arms: the member alone, and beside the default's score at some weights. VUS-PR on
the development entities (`detection_portfolio.DEVELOPMENT`, the first of each so many) under TSB-AD's cut; one seed.
"""

import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from _member_trials import list_rows, main
from _rows import Row
from detection_portfolio import DEVELOPMENT, Judge, Scores
from rearview.data.panel import Panel
from rearview.data.scale import Scaler
from rearview.estimators.detect.portfolio import portfolio
from rearview.estimators.detect.portfolio.patches import first_rows
from rearview.estimators.detect.spec import DetectSpec

WINDOW, WIDTH, REMEMBERED, NEAREST = 50, 64, 600, 3
UPDATES, BATCH, RATE, TEMPERATURE, SHIFT, NOISE = 200, 128, 1e-3, 0.1, 4, 0.05
FURTHEST = 20.0
WEIGHTS = (0.1, 0.2, 0.35)


class Encoder(nn.Module):
    """A window [channel, row] as a point on a sphere."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(channels, WIDTH, 7, 2, 3),
            nn.GELU(),
            nn.Conv1d(WIDTH, WIDTH, 5, 2, 2),
            nn.GELU(),
            nn.Conv1d(WIDTH, WIDTH, 3, 2, 1),
            nn.GELU(),
        )
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, windows: Tensor) -> Tensor:
        return functional.normalize(self.out(self.layers(windows).mean(-1)), dim=-1)


def cut(rows: Tensor, firsts: Tensor) -> Tensor:
    """[window, channel, row]."""
    return rows[firsts[:, None] + torch.arange(WINDOW)].transpose(1, 2)


def train(rows: Tensor) -> Encoder:
    """An encoder of the windows of some rows."""
    torch.manual_seed(0)
    encoder, last = Encoder(rows.shape[1]), len(rows) - WINDOW
    optimiser = torch.optim.AdamW(encoder.parameters(), RATE)
    for _ in range(UPDATES):
        here = torch.randint(0, last + 1, (BATCH,))
        near = (here + torch.randint(-SHIFT, SHIFT + 1, (BATCH,))).clamp(0, last)
        windows = cut(rows, near)
        alike = encoder(cut(rows, here)) @ encoder(windows + NOISE * torch.randn_like(windows)).T / TEMPERATURE
        overlapping = ((here[:, None] - here).abs() < WINDOW).fill_diagonal_(False)
        loss = functional.cross_entropy(alike.masked_fill(overlapping, -1e4), torch.arange(BATCH))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return encoder.eval()


@torch.inference_mode()
def remember(encoder: Encoder, rows: Tensor) -> Tensor:
    """Points of some windows."""
    return encoder(cut(rows, torch.randperm(len(rows) - WINDOW + 1)[:REMEMBERED]))


@torch.inference_mode()
def judge_rows(encoder: Encoder, bank: Tensor, rows: Tensor) -> Scores:
    """[row]: mean distance of the windows that hold a row from those that are remembered."""
    firsts = first_rows(len(rows), WINDOW)
    apart = torch.cat([1 - encoder(cut(rows, some)) @ bank.T for some in firsts.split(2_048)])
    distance = apart.topk(min(NEAREST, len(bank)), 1, largest=False).values.mean(1)
    at = (firsts[:, None] + torch.arange(WINDOW)).flatten()
    total, number = torch.zeros(2, len(rows)).unbind()
    total.index_add_(0, at, distance.repeat_interleave(WINDOW))
    number.index_add_(0, at, torch.ones(len(at)))
    return (total / number).double().numpy()


def scale(part: Panel, scaler: Scaler, series: int) -> Tensor:
    """[row, channel]: the scaled rows of a series."""
    a, b = part.bounds()[series]
    scaled = (part.values[a:b] - scaler.mean[series]) / scaler.std[series]
    return torch.from_numpy(np.clip(scaled, -FURTHEST, FURTHEST).astype(np.float32))


def run(name: str, folder: Path) -> list[Row]:
    """The rows of a set."""
    judge = Judge(folder, name, "tsb-ad", DEVELOPMENT[name][0])
    prepared = portfolio.prepare(judge.train, DetectSpec(device="cpu"))
    panel, border, scaler = prepared.prepared.panel, prepared.prepared.border, prepared.prepared.scaler
    fitted = prepared.train()
    default, test_scaler = fitted.raw_scores(judge.test).rows, fitted.network.scaler(judge.test)
    started, parts = time.perf_counter(), []
    for s in range(panel.series):
        ordinary = scale(panel, scaler, s)
        before, held = ordinary[: border[s]], ordinary[border[s] :]
        encoder = train(before)
        usual = judge_rows(encoder, remember(encoder, before), held) if len(held) >= WINDOW else np.ones(1)
        level = np.sort(usual)[: max(1, round((1 - portfolio.TRIMMED) * len(usual)))].mean()
        said = judge_rows(encoder, remember(encoder, ordinary), scale(judge.test, test_scaler, s))
        parts.append(np.log1p(said / max(level, portfolio.LEAST_LEVEL)))
    seconds, member = time.perf_counter() - started, np.concatenate(parts)
    arms = {"auto": default, "trained windows": member}
    arms |= {f"auto and trained windows, {weight}": (1 - weight) * default + weight * member for weight in WEIGHTS}
    measured = {arm: judge.measure(rows, ["all"])["all"] for arm, rows in arms.items()}
    return list_rows(name, panel.series, seconds, measured)


if __name__ == "__main__":
    main(__doc__, "results/detection_embeddings.csv", run)
