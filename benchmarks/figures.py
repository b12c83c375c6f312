"""Draw the figures of docs/findings-attention.md from the rows under results/.

    python benchmarks/figures.py
    python benchmarks/figures.py --only mechanisms --only cost --out figures

A figure shows the rows that are there; one without enough of them is left out, in a sentence.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import _figures_cost
import _figures_forecasting
import _figures_synthetic
import _figures_tasks
import _figures_zero_shot
from _evidence import Missing

HOME = Path(__file__).resolve().parents[1]
FIGURES: Mapping[str, Callable[[Path], str]] = {
    "mechanisms": _figures_forecasting.mechanisms,
    "channels": _figures_forecasting.channels,
    "prime_lookback": _figures_forecasting.prime_lookback,
    "prime_ablations": _figures_forecasting.prime_ablations,
    "rbca": _figures_forecasting.rbca,
    "mica": _figures_forecasting.mica,
    "caps": _figures_forecasting.caps,
    "flipflop": _figures_synthetic.flipflop,
    "harmonic": _figures_synthetic.harmonic,
    "classification": _figures_tasks.classification,
    "detection": _figures_tasks.detection,
    "cost": _figures_cost.cost,
    "glance": _figures_zero_shot.glance,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=HOME / "results", help="folder with the rows")
    parser.add_argument("--out", type=Path, default=HOME / "docs" / "figures", help="folder for the figures")
    parser.add_argument("--only", action="append", choices=list(FIGURES), help="may be given more than once")
    options = parser.parse_args()
    for sentence in draw_figures(options.results, options.out, options.only or list(FIGURES)):
        print(sentence)


def draw_figures(results: Path, out: Path, names: Sequence[str]) -> list[str]:
    """Write the figures into a folder; what became of each, in a sentence."""
    out.mkdir(parents=True, exist_ok=True)
    sentences = []
    for name in names:
        place = out / f"{name}.svg"
        try:
            place.write_text(FIGURES[name](results), encoding="utf-8")
            sentences.append(f"{place} is drawn.")
        except Missing as problem:
            sentences.append(f"{place.name} is left out: {problem}.")
    return sentences


if __name__ == "__main__":
    main()
