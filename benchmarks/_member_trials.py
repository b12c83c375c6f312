"""What trials of one more member of the default detector share: their rows and their command line."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from _rows import Row, append, origin
from detection_portfolio import SETS


def list_rows(dataset: str, number: int, seconds: float, arms: Mapping[str, tuple[float, float]]) -> list[Row]:
    """A row for the (VUS-PR, AUC-PR) of each arm on the development entities, so many of them."""
    return [
        {
            "dataset": dataset,
            "cut": "tsb-ad",
            "arm": arm,
            "entities": "development",
            "number": number,
            "vus_pr": round(vus, 6),
            "auc_pr": round(auc, 6),
            "seconds": round(seconds, 1),
            **origin(),
        }
        for arm, (vus, auc) in arms.items()
    ]


def main(words: str | None, out: str, run: Callable[[str, Path], list[Row]]) -> None:
    """Run all sets and print their rows."""
    parser = argparse.ArgumentParser(description=words, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path(out))
    parser.add_argument("--sets", nargs="+", default=SETS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.sets:
        rows = run(name, options.data_dir)
        append(options.out, rows)
        for row in rows:
            print(row["dataset"], row["arm"], row["vus_pr"], flush=True)
