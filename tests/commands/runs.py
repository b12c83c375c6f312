"""Runs of the command line in this process and in others."""

import csv
import os
import subprocess
import sys
from pathlib import Path

from rearview.cli import main

TINY = {"--set": "width=8,heads=2,feed_forward=16,depth=1", "--train": "epochs=2"}
FILES = ["backtest.csv", "forecast.csv", "model", "report.html", "run.json", "summary.md"]


def forecast(file: Path, out: Path, *arguments: str) -> int:
    """`rearview forecast` with a tiny network, two epochs and two windows, unless the arguments say otherwise."""
    given = {"--horizon": "5", "--lookback": "24", "--windows": "2", **TINY}
    model = arguments[arguments.index("--model") + 1] if "--model" in arguments else "patchtst"
    if "former" not in model and "patchtst" not in model:
        del given["--set"]
    rest = [part for flag, value in given.items() if flag not in arguments for part in (flag, value)]
    return main(["forecast", str(file), "--out", str(out), *rest, *arguments])


def start(*arguments: str, folder: Path | None = None) -> "subprocess.Popen[str]":
    """The command line as a process of its own, one thread, one order of sums."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", "from rearview.cli import run; run()", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=environment
    )


def rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file by column."""
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def header(path: Path) -> list[str]:
    """The columns of a CSV file."""
    return path.read_text(encoding="utf-8").splitlines()[0].split(",")
