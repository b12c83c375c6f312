"""Do glance's intervals hold what they say on the series that it was made for, and beyond one pass of the network?

    python benchmarks/glance_intervals.py --out results/glance_intervals.csv [--weights RUN] [--series 256]
    python benchmarks/glance_intervals.py --out results/glance_intervals.csv --rolled [--data-dir DATA]

Series of the synthetic prior, of a seed that nothing was trained or validated with, and random walks, each with so many
rows and so many steps ahead. A row is the coverage within one pass of the network; steps beyond it are rolled out.
`--rolled` measures these alone, also of other simple processes and, with the data sets, of development tasks.
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from _task_files import development_tasks
from _tasks import Task
from rearview.bench.runs.provenance import commit
from rearview.data.synthetic import prior
from rearview.models.patch_hosts.glance import Network
from rearview.pretrained import weights
from rearview.pretrained.training import read_network
from tasks import add_row

SIZES = (
    (12, 4), (24, 8), (48, 8), (104, 8), (156, 8), (256, 48), (500, 48), (1024, 48), (2048, 48), (2048, 720),
    (512, 2304),
)  # fmt: skip
"""Rows of the past and steps ahead."""
PROCESSES = ("prior", "walk", "slow", "season", "trend")
"""Rolled out: the prior's series, random walks, autoregressions by 0.9, a season with noise, lines with noise."""
REAL = {"electricity_long": 3, "traffic_long": 3, "solar_long": 3, "bike": 6}
"""Development tasks that have the rows for long horizons, and windows of each of their series."""
AT_ONCE = 64
"""Series that are forecast at once."""


def draw(kind: str, count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Values [series, step] in float64, and which of them are observed."""
    if kind == "prior":
        sample = prior.draw(count, length, generator)
        return sample.values.double(), sample.observed
    values = torch.randn(count, length, generator=generator, dtype=torch.float64)
    step = torch.arange(length, dtype=torch.float64)
    if kind == "walk":
        values = values.cumsum(-1)
    elif kind == "slow":
        for place in range(1, length):
            values[:, place] += 0.9 * values[:, place - 1]
    elif kind == "season":
        values = values + 2 * torch.sin(2 * math.pi * step / 24)
    elif kind == "trend":
        values = values + 0.01 * torch.randn(count, 1, generator=generator, dtype=torch.float64) * step
    return values, torch.ones_like(values, dtype=torch.bool)


def cut(task: Task, rows: int, horizon: int) -> tuple[Tensor, Tensor]:
    """The windows of a development task's series, with so many rows before each."""
    longer = replace(task, horizon=horizon, windows=REAL[task.name])
    pieces = [np.concatenate([past[-rows:], truth]) for _, _, past, truth in longer.cases()]
    values = torch.from_numpy(np.stack(pieces))
    return values.nan_to_num(), values.isfinite()


def measure(network: Network, values: Tensor, observed: Tensor, rows: int) -> Iterator[dict[str, object]]:
    """Shares of the truths in, below and above the 80 % intervals, and the quantile loss, pass by pass."""
    levels, horizon = network.settings.quantiles, values.shape[1] - rows
    parts = []
    for start in range(0, len(values), AT_ONCE):
        batch = slice(start, start + AT_ONCE)
        with torch.inference_mode():
            parts.append(network.forecast(values[batch, None, :rows], observed[batch, None, :rows], horizon)[:, 0])
    quantiles = torch.cat(parts)
    ahead, there = values[:, rows:], observed[:, rows:]
    deviation = values[:, :rows].std(-1)
    # A constant past is forecast exactly, so that it says nothing about intervals.
    there = there & (deviation > 0)[:, None]
    below, above, lowest, highest = (
        (ahead < quantiles[..., levels.index(one)]) == (one < 0.5) for one in (0.1, 0.9, 0.025, 0.975)
    )
    # In deviations of the past, cut off so that one that hardly varies does not decide.
    errors = ((ahead[..., None] - quantiles) / deviation.clamp(min=1e-12)[:, None, None]).clamp(-30, 30)
    losses = 2 * torch.maximum(errors * errors.new_tensor(levels), errors * (errors.new_tensor(levels) - 1)).mean(-1)
    for first in range(0, horizon, network.reach):
        part = slice(first, first + network.reach)
        seen = there[:, part]
        under, over, tails = (one[:, part][seen].double().mean() for one in (below, above, lowest | highest))
        yield {
            "rows": rows,
            "horizon": horizon,
            "from_step": first + 1,
            "to_step": min(first + network.reach, horizon),
            "count": len(values),
            "coverage": round(1 - float(under + over), 4),
            "below": round(float(under), 4),
            "above": round(float(over), 4),
            "coverage_95": round(1 - float(tails), 4),
            "loss": round(float(losses[:, part][seen].mean()), 5),
        }


def draw_all(options: argparse.Namespace, reach: int) -> Iterator[tuple[str, int, Tensor, Tensor]]:
    """Kind of series, rows before the forecast, values and which of them are observed."""
    for kind in PROCESSES if options.rolled else PROCESSES[:2]:
        for rows, horizon in SIZES if kind == "prior" else SIZES[-2:]:
            if horizon > reach or not options.rolled:
                count = options.series // 4 if horizon > reach else options.series
                yield kind, rows, *draw(kind, count, rows + horizon, torch.Generator().manual_seed(options.seed))
    if options.rolled and options.data_dir is not None:
        for task in development_tasks(options.data_dir):
            if task.name in REAL:
                yield task.name, 2048, *cut(task, 2048, 2 * reach)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", default="shipped", help="a training folder, or `shipped`")
    parser.add_argument("--series", type=int, default=256, help="of each size; a quarter of them where steps roll out")
    parser.add_argument("--rolled", action="store_true", help="horizons beyond one pass alone, of more kinds")
    parser.add_argument("--data-dir", type=Path, help="of the data sets, for --rolled")
    parser.add_argument("--seed", type=int, default=77001)
    parser.add_argument("--out", type=Path, help="CSV to add rows to")
    options = parser.parse_args()
    shipped = options.weights == "shipped"
    network = weights.load(weights.read_card()) if shipped else read_network(Path(options.weights))[0]
    for kind, rows, values, observed in draw_all(options, network.reach):
        for row in measure(network, values, observed, rows):
            row = {"model": options.weights, "series": kind, **row, "seed": options.seed}
            print(row, flush=True)
            if options.out is not None:
                when = datetime.now(UTC).isoformat(timespec="seconds")
                add_row(options.out, {**row, "commit": commit(), "created": when})


if __name__ == "__main__":
    main()
