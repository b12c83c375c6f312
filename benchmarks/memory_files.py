"""How much memory `rearview forecast` takes on wide and on long files, with --quick and with one named network.

    python benchmarks/memory_files.py --out results/memory_files.csv

Each row is a command in a process of its own on a generated file. The peak counts the whole tree of processes: the
resident memory of the command and of all that it starts, added up several times a second.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from _rows import append, origin, show

FILES = {"long": (20_000, 200), "wide": (2_000, 500), "small": (50, 200)}
"""Series (of a long file) or columns (of a wide one), and rows of each."""
WAYS = {"quick": ["--quick"], "dlinear": ["--model", "dlinear", "--train", "epochs=1"]}
WANTED_GIB = 2.0
SHOWN = ("file", "way", "series", "rows", "cells", "peak_gib", "wanted_gib", "seconds", "code")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--file", action="append", choices=list(FILES), help="may be given more than once")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="may be given more than once")
    parser.add_argument("--out", type=Path, help="CSV that the rows are added to")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in options.file or FILES:
            series, rows = FILES[kind]
            path = write_file(folder / f"{kind}.csv", series, rows, long=kind != "wide")
            for way in options.way or WAYS:
                words = ["forecast", str(path), "--horizon", "7", "--device", "cpu", *WAYS[way]]
                measured = measure([*words, "--out", str(folder / f"{kind}-{way}")])
                sizes = {"series": series, "rows": rows, "cells": series * rows}
                row = {"file": kind, "way": way, **sizes, **measured, "wanted_gib": WANTED_GIB, **origin()}
                show([row], SHOWN)
                append(options.out, [row])


def write_file(path: Path, series: int, rows: int, *, long: bool) -> Path:
    """A file of random walks: a row for each series and day, or a column for each series."""
    random = np.random.default_rng(0)
    days = (np.datetime64("2020-01-01") + np.arange(rows)).astype(str)
    with path.open("w") as file:
        if long:
            file.write("unique_id,ds,y\n")
            for number in range(series):
                values = 10 + random.normal(size=rows).cumsum() / 10
                file.writelines(f"s{number},{day},{value:.3f}\n" for day, value in zip(days, values, strict=True))
        else:
            file.write(",".join(["date", *(f"c{number}" for number in range(series))]) + "\n")
            for day, values in zip(days, 10 + random.normal(size=(rows, series)).cumsum(0) / 10, strict=True):
                file.write(",".join([day, *(f"{value:.3f}" for value in values)]) + "\n")
    return path


def measure(words: list[str]) -> dict[str, object]:
    """Run a command and return its seconds, its exit code and the peak of its tree of processes in GiB."""
    started, most = time.perf_counter(), 0
    process = subprocess.Popen([sys.executable, "-m", "rearview", *words], stdout=subprocess.DEVNULL)
    while process.poll() is None:
        most = max(most, tree_bytes(process.pid))
        time.sleep(0.1)
    seconds = round(time.perf_counter() - started, 1)
    return {"peak_gib": round(most / 2**30, 2), "seconds": seconds, "code": process.returncode}


def tree_bytes(root: int) -> int:
    """Resident memory of a process and all below it (Linux; elsewhere 0)."""
    parents, sizes = {}, {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            facts = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except OSError:  # it has ended meanwhile
            continue
        pid = int(status.parent.name)
        parents[pid], sizes[pid] = int(facts["PPid"]), 1024 * int(facts.get("VmRSS", "0 kB").split()[0])
    tree = {root}
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return sum(sizes.get(pid, 0) for pid in tree)


if __name__ == "__main__":
    main()
