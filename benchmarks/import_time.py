"""What it costs to import rearview and to ask it for help, beside a Python that does nothing.

    python benchmarks/import_time.py --out results/import_time.csv

Every round starts each command once, so that all meet the same weather. A start costs what the machine's disk and
cores make it cost; the ratio to `python -c pass` in the same round is what compares between machines.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from _rows import append, origin, show

NOTHING = "python -c pass"
COMMANDS = {
    NOTHING: ["-c", "pass"],
    "import rearview": ["-c", "import rearview"],
    "rearview --help": ["-m", "rearview.cli", "--help"],
}
WANTED = 0.3
SHOWN = ("command", "seconds", "ratio", "imports_torch", "wanted_seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, help="CSV that the rows are added to")
    options = parser.parse_args()
    for words in COMMANDS.values():
        _seconds(words)  # once unmeasured: the first start also compiles modules and fills the disk's cache
    taken = [{name: _seconds(words) for name, words in COMMANDS.items()} for _ in range(options.rounds)]
    rows = [
        {
            "command": name,
            "seconds": statistics.median(times[name] for times in taken),
            "ratio": statistics.median(times[name] / times[NOTHING] for times in taken),
            "imports_torch": "torch" in _modules(words),
            "wanted_seconds": None if name == NOTHING else WANTED,
            "rounds": options.rounds,
            **origin(),
        }
        for name, words in COMMANDS.items()
    ]
    show(rows, SHOWN)
    append(options.out, rows)


def _seconds(words: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    return time.perf_counter() - started


def _modules(words: list[str]) -> set[str]:
    """The top-level packages that a command imports, as Python itself tells them."""
    done = subprocess.run([sys.executable, "-X", "importtime", *words], check=True, capture_output=True, text=True)
    lines = (line for line in done.stderr.splitlines() if line.startswith("import time:"))
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


if __name__ == "__main__":
    main()
