"""Nearest neighbours from the layers of glance as one more member of the default detector: does it pay?

    python benchmarks/detection_glance.py --data-dir DATA

Each channel of an entity is scaled by its ordinary rows and read by the shipped weights in windows of 512 rows, 32
tokens of 16 rows. Up to 600 tokens of the ordinary rows are remembered for each channel that varies; the error of a
cell is the squared distance of its token from the nearest of them. Two arms for each of some layers: the member alone,
and beside the default's simple members with equal weights. VUS-PR on the development entities
(`detection_portfolio.DEVELOPMENT`) under TSB-AD's cut; one seed.
"""

import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from _member_trials import list_rows, main
from _rows import Row
from detection_portfolio import DEVELOPMENT, Judge
from rearview.data.panel import Panel
from rearview.data.scale import Scaler
from rearview.estimators.detect import constant_channels
from rearview.estimators.detect.calibration import Usual
from rearview.estimators.detect.portfolio import portfolio
from rearview.estimators.detect.portfolio.trust import Weights
from rearview.estimators.detect.spec import DetectSpec
from rearview.models.patch_hosts.glance import Grain, Network
from rearview.pretrained import weights

LAYERS = (2, 4, 6)
WINDOW = 512
REMEMBERED = 600
Errors = dict[int, portfolio.Errors]


def embed(network: Network, grain: Grain, column: Tensor) -> dict[int, Tensor]:
    """[token, width] after each layer, for the last whole tokens of a scaled channel; windows do not overlap."""
    tokens = len(column) // grain.patch
    column = column[len(column) - tokens * grain.patch :]
    windows = [column[max(0, min(first, len(column) - WINDOW)) :][:WINDOW] for first in range(0, len(column), WINDOW)]
    past = torch.asinh(torch.stack(windows))[:, None]
    kept: dict[int, Tensor] = {}

    def keep(layer: int, out: tuple[Tensor, object]) -> None:
        flat = out[0][:, 0, :-1]  # without the token ahead
        last = tokens - (len(flat) - 1) * flat.shape[1]
        kept[layer] = torch.cat([flat[:-1].flatten(0, 1), flat[-1, -last:]])

    hooks = [
        block.register_forward_hook(lambda _, __, out, layer=layer: keep(layer, out))
        for layer, block in enumerate(network.stack.blocks, 1)
        if layer in LAYERS
    ]
    network.read(past, torch.ones_like(past, dtype=torch.bool), 1, grain)
    for hook in hooks:
        hook.remove()
    return kept


def measure(network: Network, judge: Judge) -> tuple[Errors, Errors, Panel, portfolio.Portfolio]:
    """Errors by layer of the held-out and of the judged rows, the held-out rows, and the default's members."""
    prepared = portfolio.prepare(judge.train, DetectSpec(device="cpu"))
    panel, border = prepared.prepared.panel, prepared.prepared.border
    fitted = prepared.train()
    scaler, held = prepared.prepared.scaler, panel.between(panel.offsets[:-1] + border, panel.offsets[1:])
    constant = constant_channels.find(panel, border)
    grain = network.choose_grain(WINDOW, 1)
    random = np.random.default_rng(0)
    before = panel.between(panel.offsets[:-1], panel.offsets[:-1] + border)
    parts = (before, scaler), (held, scaler), (judge.test, fitted.network.scaler(judge.test))
    errors: list[Errors] = [{layer: np.zeros(part.values.shape, np.float32) for layer in LAYERS} for part, _ in parts]
    for s, channel in np.argwhere(~constant).tolist():
        bank, own, new = (embed(network, grain, _column(part, scale, s, channel)) for part, scale in parts)
        for layer in LAYERS:
            for at, remembered in ((1, bank[layer]), (2, torch.cat([bank[layer], own[layer]]))):
                some = remembered[torch.from_numpy(random.permutation(len(remembered))[:REMEMBERED])]
                apart = torch.cdist((own, new)[at - 1][layer], some).amin(1).square().numpy()
                a, b = parts[at][0].bounds()[s]
                spread = np.repeat(apart, grain.patch)
                errors[at][layer][a:b, channel] = np.concatenate([np.repeat(spread[:1], b - a - len(spread)), spread])
    for at in (1, 2):
        for layer in LAYERS:
            constant_channels.replace_errors(
                errors[at][layer], parts[at][0], parts[at][1], constant, portfolio.FURTHEST**2
            )
    return errors[1], errors[2], held, fitted


def _column(part: Panel, scaler: Scaler, series: int, channel: int) -> Tensor:
    a, b = part.bounds()[series]
    scaled = (part.values[a:b, channel] - scaler.mean[series, channel]) / scaler.std[series, channel]
    return torch.from_numpy(np.clip(scaled, -portfolio.FURTHEST, portfolio.FURTHEST).astype(np.float32))


def refer(errors: portfolio.Errors, held: Panel, averaged: int) -> portfolio.Reference:
    """What is usual on held-out rows."""
    usual = Usual.ones(held.series, errors.shape[1])
    rows = portfolio.smooth(usual.weigh(errors, held, list(range(held.series))), held, averaged).rows
    levels = [np.sort(rows[a:b])[: round((1 - portfolio.TRIMMED) * (b - a))].mean() for a, b in held.bounds()]
    return portfolio.Reference(usual, np.maximum(levels, portfolio.LEAST_LEVEL), 1.0)


def run(name: str, folder: Path) -> list[Row]:
    """The rows of a set."""
    judge = Judge(folder, name, "tsb-ad", DEVELOPMENT[name][0])
    started = time.perf_counter()
    own, new, held, fitted = measure(weights.load(weights.read_card()), judge)
    seconds = time.perf_counter() - started
    place, others = fitted.place(judge.test), fitted.errors(judge.test)

    def score(errors: dict[str, portfolio.Errors], references: dict[str, portfolio.Reference]) -> tuple[float, float]:
        alike = Weights.equal(held.series, len(references))
        scores = portfolio.combine(errors, references, alike, judge.test, place, fitted.averaged)
        return judge.measure(scores.rows, ["all"])["all"]

    arms = {"simple members": score(others, dict(fitted.references))}
    for layer in LAYERS:
        mine, known = {"glance": new[layer]}, {"glance": refer(own[layer], held, fitted.averaged)}
        arms[f"glance, layer {layer}"] = score(mine, known)
        arms[f"simple members and glance, layer {layer}"] = score(others | mine, dict(fitted.references) | known)
    return list_rows(name, held.series, seconds, arms)


if __name__ == "__main__":
    main(__doc__, "results/detection_glance.csv", torch.no_grad()(run))
