"""What the benchmarks of classification and detection share: options, and a sweep over seeds, tables and protocols."""

import argparse
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path


def read_options(description: str | None, results: Path) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--results", type=Path, default=results)
    parser.add_argument("--datasets", nargs="*", default=[], help="default: those of the table that are there")
    parser.add_argument("--models", nargs="*", default=[], help="default: all of the table")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600.0, help="no run begins after this long")
    parser.add_argument("--device", default="auto")
    return parser.parse_args()


def sweep(parts: Sequence[tuple[str, str]], options: argparse.Namespace) -> None:
    """Make the runs that the results lack, all of one seed before the next seed.

    `parts` are tables of `rearview list experiments`, of those that no paper has, and the protocols to run them under.
    """
    from rearview.bench.papers import catalogue
    from rearview.bench.runs.sweep import SweepPlan
    from rearview.bench.runs.sweep import sweep as make
    from rearview.data.datasets import archives, detection_sets

    until = time.monotonic() + options.seconds
    for place in range(options.seeds):
        for name, protocol in parts:
            table = catalogue.get("rearview", name)
            names = dict.fromkeys(cell.dataset for cell in table.cells)
            marked = detection_sets.available(options.data_dir)
            there = marked if table.task == "detection" else archives.available(names, options.data_dir)
            cells = [
                cell
                for cell in table.cells
                if cell.dataset in (options.datasets or there) and cell.model in (options.models or [cell.model])
            ]
            plan = SweepPlan(
                results=options.results,
                seeds=(table.first_seed + place,),
                protocol=protocol,
                data_dir=options.data_dir,
                device=options.device,
            )
            left = max(0.0, until - time.monotonic())
            make(cells, plan, workers=options.workers, seconds=left, say=partial(print, flush=True))
