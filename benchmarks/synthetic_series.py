"""Draw sixty series of the synthetic prior on one page, to look at what the zero-shot network learns from.

python benchmarks/synthetic_series.py --out series.html [--seed 0] [--length 1024]
"""

import argparse
from pathlib import Path

import torch

from rearview.data.synthetic import prior

COUNT, WIDTH, HEIGHT = 60, 320, 90
STYLE = "body{font:14px sans-serif;margin:16px}main{display:flex;flex-wrap:wrap;gap:8px}svg{background:#f6f7f9}"


def polyline(values: torch.Tensor, observed: torch.Tensor) -> str:
    """One series as SVG, broken where values are missing."""
    low, high = values[observed].min(), values[observed].max()
    x = torch.linspace(2, WIDTH - 2, len(values))
    y = HEIGHT - 4 - (HEIGHT - 8) * (values - low) / (high - low).clamp(min=1e-9)
    parts, open_ = [], False
    for place, level, there in zip(x.tolist(), y.tolist(), observed.tolist(), strict=True):
        parts.append(f"{'L' if open_ else 'M'}{place:.1f} {level:.1f}" if there else "")
        open_ = there
    path = "".join(parts)
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}"><path d="{path}" fill="none" stroke="#1f5fa8" stroke-width="1"/></svg>'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--length", type=int, default=1024)
    options = parser.parse_args()
    sample = prior.draw(COUNT * 4, options.length, torch.Generator().manual_seed(options.seed))
    drawings = "".join(polyline(*pair) for pair in zip(sample.values[:COUNT], sample.observed[:COUNT], strict=True))
    title = f"{COUNT} series of the synthetic prior, seed {options.seed}, {options.length} steps"
    options.out.write_text(
        f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{STYLE}</style><h1>{title}</h1>"
        f"<main>{drawings}</main>",
        encoding="utf-8",
    )
    print(options.out)


if __name__ == "__main__":
    main()
