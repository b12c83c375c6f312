"""Do glance's 80 % intervals hold what they say on the series that it was made for?

    python benchmarks/glance_intervals.py --out results/glance_intervals.csv [--weights RUN] [--series 256]

Series of the synthetic prior, of a seed that nothing was trained or validated with, and random walks, each with so many
rows and so many steps ahead. A row is the coverage within one pass of the network; steps beyond it are rolled out.
"""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import torch
from torch import Tensor

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
AT_ONCE = 64
"""Series that are forecast at once."""


def draw(kind: str, count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Values [series, step] in float64, and which of them are observed."""
    if kind == "prior":
        sample = prior.draw(count, length, generator)
        return sample.values.double(), sample.observed
    values = torch.randn(count, length, generator=generator, dtype=torch.float64).cumsum(-1)
    return values, torch.ones_like(values, dtype=torch.bool)


def measure(network: Network, kind: str, rows: int, horizon: int, count: int, seed: int) -> Iterator[dict[str, object]]:
    """Shares of the truths within, below and above the quantiles 0.1 and 0.9, pass by pass."""
    values, observed = draw(kind, count, rows + horizon, torch.Generator().manual_seed(seed))
    low, high = (network.settings.quantiles.index(quantile) for quantile in (0.1, 0.9))
    parts = []
    for start in range(0, count, AT_ONCE):
        batch = slice(start, start + AT_ONCE)
        with torch.inference_mode():
            parts.append(network.forecast(values[batch, None, :rows], observed[batch, None, :rows], horizon)[:, 0])
    ahead, there = values[:, rows:], observed[:, rows:]
    # A constant past is forecast exactly, so that it says nothing about intervals.
    there = there & (values[:, :rows].std(-1) > 0)[:, None]
    below, above = ahead < torch.cat(parts)[..., low], ahead > torch.cat(parts)[..., high]
    for first in range(0, horizon, network.reach):
        part = slice(first, first + network.reach)
        outside = [float(one[:, part][there[:, part]].double().mean()) for one in (below, above)]
        yield {
            "series": kind,
            "rows": rows,
            "horizon": horizon,
            "from_step": first + 1,
            "to_step": min(first + network.reach, horizon),
            "count": count,
            "coverage": round(1 - sum(outside), 4),
            "below": round(outside[0], 4),
            "above": round(outside[1], 4),
            "seed": seed,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", default="shipped", help="a training folder, or `shipped`")
    parser.add_argument("--series", type=int, default=256, help="of each size; a quarter of them where steps roll out")
    parser.add_argument("--seed", type=int, default=77001)
    parser.add_argument("--out", type=Path, help="CSV to add rows to")
    options = parser.parse_args()
    shipped = options.weights == "shipped"
    network = weights.load(weights.read_card()) if shipped else read_network(Path(options.weights))[0]
    for kind in ("prior", "walk"):
        for rows, horizon in SIZES if kind == "prior" else SIZES[-2:]:
            count = options.series // 4 if horizon > network.reach else options.series
            for row in measure(network, kind, rows, horizon, count, options.seed):
                print(row, flush=True)
                if options.out is not None:
                    when = datetime.now(UTC).isoformat(timespec="seconds")
                    add_row(options.out, {"model": options.weights, **row, "commit": commit(), "created": when})


if __name__ == "__main__":
    main()
