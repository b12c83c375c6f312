"""Do channels help one another? glance whose channels are read together, beside the same read one by one.

    python benchmarks/compare_coupled.py --seeds 0,1 --out results/coupled_small.csv     two small ones, trained here
    python benchmarks/compare_coupled.py --data-dir DATA --weights RUN --out results/coupled_tasks.csv

The small ones are trained on pairs of a random walk and a channel that repeats it eight steps later, both with noise:
what the second does next is known to who reads the first; or on the panels of four coupled channels that training draws
(`--series panels`). A row is the loss of all channels but the first, with softmax, which reads channels one by one, and
with mica. Of a training folder (`train_glance.py --coupled`) the development tasks whose series share their clock are
forecast both ways; no test task is looked at.
"""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from _rows import Row, append
from _task_files import development_tasks
from _tasks import QUANTILES, Floats, Task, score, seasonal_naive
from gift import Forecaster, glance
from rearview.bench.runs.provenance import commit
from rearview.data.synthetic import prior
from rearview.models.patch_hosts.glance import Network
from rearview.pretrained.training import DrawCoupled, Plan, Trainer, read_network

LAG = 8
TOGETHER: dict[str, object] = {"name": "mica", "gate": "added", "exclude_self": True}
SIZES: dict[str, object] = {
    "width": 48, "heads": 3, "depth": 2, "feed_forward": 96, "patches": (4,), "context": (16,), "ahead": (4,),
}  # fmt: skip
ALIGNED = ("electricity", "electricity_long", "traffic", "traffic_long", "solar", "solar_long")
"""Development tasks whose series share their clock."""


def lead_and_follow(count: int, channels: int, length: int, generator: torch.Generator) -> prior.Sample:
    """A random walk, and channels that repeat it `LAG` steps later, all seen through noise."""
    walk = torch.randn(count, 1, length + LAG, generator=generator).cumsum(-1)
    values = torch.cat([walk[..., LAG:], walk[..., :length].expand(-1, channels - 1, -1)], 1)
    values = values + 0.05 * torch.randn(values.shape, generator=generator)
    return prior.Sample(values, torch.ones_like(values, dtype=torch.bool))


KINDS: dict[str, tuple[int, DrawCoupled]] = {"pairs": (2, lead_and_follow), "panels": (4, prior.draw_coupled)}
"""Channels, and what draws them."""


def train_small(kind: str, seed: int, updates: int) -> Iterator[Row]:
    """The loss of all channels but the first on series of another seed, of both attentions."""
    channels, draw = KINDS[kind]
    for name, attention in (("softmax", "softmax"), ("mica", TOGETHER)):
        plan = Plan(
            updates=updates, seed=seed, attention=attention, settings=SIZES, tokens=1600, shapes=((0, 16, 2),),
            coupled_shapes=((0, 16, 2, channels),), lengths=(72,), coupled=1.0, fall=0.5, warm_up=50, device="cpu",
            compile=False,
        )  # fmt: skip
        trainer = Trainer(plan, draw)
        trainer.run()
        yield {
            "series": kind,
            "attention": name,
            "seed": seed,
            "updates": trainer.step_count,
            "seconds": round(trainer.seconds, 1),
            "loss": round(measure_loss(trainer), 5),
            "parameters": sum(weight.numel() for weight in trainer.network.parameters()),
        }


@torch.no_grad()
def measure_loss(trainer: Trainer) -> float:
    """Mean loss of all channels but the first, on series of a seed of their own."""
    trainer.generator.manual_seed(1_000_003)
    losses = []
    for cell, values, observed in (batch for _ in range(4) for batch in trainer.batches()):
        judged = observed.clone()
        judged[:, 0, 4 * cell.context :] = False
        losses.append(trainer.loss(values, judged, cell))
    return torch.stack(losses).mean().item()


def forecast_together(network: Network, device: str) -> Forecaster:
    """Forecasts of a network, all series of a window in one pass."""

    def forecast(task: Task) -> Floats:
        wanted = [network.settings.quantiles.index(round(float(q), 1)) for q in QUANTILES]
        result = np.empty(task.shape)
        for window in range(task.windows):
            pasts = [past[-network.room :] for _, at, past, _ in task.cases() if at == window]
            past = torch.tensor(np.stack(pasts), device=device)[None]
            with torch.inference_mode(), torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                quantiles = network.forecast(past.nan_to_num(), past.isfinite(), task.horizon)
            result[:, window] = quantiles[0, :, :, wanted].double().cpu().numpy()
        return result

    return forecast


def compare_tasks(data: Path, folder: Path, device: str) -> Iterator[Row]:
    """Scores of each aligned task, channels together and one by one."""
    network = read_network(folder)[0].to(device)
    for task in development_tasks(data):
        if task.name not in ALIGNED:
            continue
        naive = score(task, seasonal_naive(task))
        for reading, forecaster in (
            ("together", forecast_together(network, device)),
            ("apart", glance(network, device)),
        ):
            own = score(task, forecaster(task))
            yield {
                "model": folder.name,
                "task": task.name,
                "reading": reading,
                "mase": round(own.mase / naive.mase, 4),
                "crps": round(own.crps / naive.crps, 4),
                "coverage": round(own.coverage, 3),
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--weights", type=Path, help="a training folder; without it, two small networks are trained")
    parser.add_argument("--series", choices=tuple(KINDS), default="pairs")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--updates", type=int, default=800)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="CSV to add rows to")
    options = parser.parse_args()
    code = commit()
    if options.weights is None:
        seeds = [int(seed) for seed in options.seeds.split(",")]
        rows = (row for seed in seeds for row in train_small(options.series, seed, options.updates))
    else:
        rows = compare_tasks(options.data_dir, options.weights, options.device)
    for row in rows:
        row |= {"commit": code, "created": datetime.now(UTC).isoformat(timespec="seconds")}
        print(row, flush=True)
        append(options.out, [row])


if __name__ == "__main__":
    main()
