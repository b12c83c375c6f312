"""Twelve things that a new user does in the first hour, done with README and guide alone, and how long each takes.

    python benchmarks/first_hour.py --out results/first_hour.csv

Files are made in a temporary folder from a seed; each task is the commands, or the Python, that the guide shows for it.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np

from _rows import append, origin, show

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Task:
    """What is wanted, and how it is had: commands of rearview, or a Python program."""

    name: str
    commands: tuple[str, ...] = ()
    program: str = ""
    made: str = ""
    """A file that must be there afterwards."""


TASKS = (
    Task("a file to an answer", ("forecast sales.csv --horizon 28",), made="rearview-sales/report.html"),
    Task(
        "a promotion that is known ahead",
        ("forecast promo.csv --horizon 14 --target sales --known promo --future plan.csv --quick --out promo",),
        made="promo/forecast.csv",
    ),
    Task(
        "what if it is called off",
        ("predict promo promo.csv --future plan.csv --what-if promo=0 --out if.csv --page if.html",),
        made="if.html",
    ),
    Task("many series", ("forecast stores.csv --horizon 14 --quick --out stores",), made="stores/report.html"),
    Task("a short series", ("forecast short.csv --horizon 6 --quick --out short",), made="short/forecast.csv"),
    Task(
        "a sheet of an Excel workbook",
        ("check book.xlsx --sheet Sales", "forecast book.xlsx --sheet Sales --horizon 14 --quick --out book"),
        made="book/report.html",
    ),
    Task(
        "a notebook",
        program="import rearview as rv; f = rv.Forecaster(horizon=28).fit('sales.csv', quick=True); f.predict(); "
        "f.leaderboard(); f._repr_html_(); f.plot()",
    ),
    Task(
        "a page from Python",
        program="import rearview as rv; rv.Forecaster(horizon=28).fit('sales.csv', quick=True).report('mine.html')",
        made="mine.html",
    ),
    Task(
        "anomalies, with ordinary rows and labels",
        ("detect today.csv --fit ordinary.csv --labels label --out watch",),
        made="watch/anomalies.csv",
    ),
    Task("anomalies in a file alone", ("detect today.csv --drop label --out alone",), made="alone/anomalies.csv"),
    Task(
        "new cases told apart",
        ("classify train.csv test.csv --labels label --out kinds", "classify --model kinds new.csv --out told"),
        made="told/predictions.csv",
    ),
    Task(
        "a run taken up again after Ctrl-C",
        (
            "forecast sales.csv --horizon 28 --model patchtst --out cut",
            "forecast sales.csv --horizon 28 --model patchtst --out cut --resume",
        ),
        made="cut/report.html",
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="numbers of tasks, by commas")
    parser.add_argument("--out", type=Path, help="CSV that the rows are added to")
    options = parser.parse_args()
    wanted = {int(number) for number in options.only.split(",") if number} or {*range(1, len(TASKS) + 1)}
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        for number, task in enumerate(TASKS, 1):
            if number not in wanted:
                continue
            began, before = time.perf_counter(), os.times()
            done = run(task, folder)
            after = os.times()
            spent = after.children_user + after.children_system - before.children_user - before.children_system
            rows.append(
                {
                    "task": task.name,
                    "done": done and (not task.made or (folder / task.made).exists()),
                    "seconds": round(time.perf_counter() - began, 1),
                    "cpu_seconds": round(spent, 1),
                }
            )
            show(rows[-1:])
    append(options.out, [{**row, **origin()} for row in rows])
    if not all(row["done"] for row in rows):
        sys.exit("Not every task was done.")


def run(task: Task, folder: Path) -> bool:
    """Do a task in a folder; of a run that is to be taken up again, the first command is interrupted."""
    if task.program:
        return (
            subprocess.run([sys.executable, "-c", task.program], cwd=folder, stdout=subprocess.DEVNULL).returncode == 0
        )
    codes = []
    for number, words in enumerate(task.commands):
        process = subprocess.Popen(
            [sys.executable, "-m", "rearview", *words.split()],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        if not number and "--resume" in task.commands[-1]:
            wait_for(lambda: any((folder / "cut" / "checkpoints").rglob("*.safetensors")), process)
            process.send_signal(signal.SIGINT)
        _, problem = process.communicate()
        codes.append(process.returncode)
        if process.returncode not in (0, 130):
            print(f"rearview {words}: {problem.decode()[-400:]}", file=sys.stderr)
    return all(code == 0 for code in codes[-1:]) and all(code in (0, 130) for code in codes)


def wait_for(there: Callable[[], bool], process: "subprocess.Popen[bytes]") -> None:
    """Wait until something is there, or a process has ended."""
    while process.poll() is None and not there():
        time.sleep(0.05)


def write_files(folder: Path) -> None:
    """The files of the guide, a little longer."""
    sys.path.insert(0, str(ROOT / "tests" / "data"))
    from workbooks import workbook

    random = np.random.default_rng(0)
    days = [str(date(2023, 1, 1) + timedelta(days=n)) for n in range(730)]
    week = 10 * np.sin(2 * np.pi * np.arange(730) / 7)
    sales = 100 + 0.05 * np.arange(730) + week + random.normal(0, 3, 730)
    table(folder / "sales.csv", "date,sales", zip(days, sales.round(1), strict=True))
    table(
        folder / "short.csv",
        "month,sales",
        ((f"2023-{n + 1:02d}" if n < 12 else f"2024-{n - 11:02d}", 50 + n) for n in range(18)),
    )
    promo = random.random(744) < 0.15
    lifted = np.concatenate([sales, 100 + week[:14]]) * np.where(promo, 1.8, 1.0)
    dates = [*days, *(str(date(2024, 12, 31) + timedelta(days=n)) for n in range(14))]
    table(
        folder / "promo.csv", "date,sales,promo", zip(dates[:730], lifted[:730].round(1), promo[:730] * 1, strict=True)
    )
    table(folder / "plan.csv", "date,promo", zip(dates[730:], promo[730:] * 1, strict=True))
    shops = [
        (f"shop{s}", day, round(value * (1 + s / 10), 1))
        for s in range(30)
        for day, value in zip(days[-300:], sales[-300:], strict=True)
    ]
    table(folder / "stores.csv", "unique_id,ds,y", shops)
    sheet: list[list[object]] = [
        ["date", "sales"],
        *([day, float(value)] for day, value in zip(days, sales.round(1), strict=True)),
    ]
    (folder / "book.xlsx").write_bytes(workbook(Notes=[["nothing here"]], Sales=sheet))
    for name, rows, spoilt in (("ordinary", 1500, False), ("today", 500, True)):
        load = 50 + 10 * np.sin(2 * np.pi * np.arange(rows) / 24) + random.normal(0, 1, rows)
        heat, label = 20 + 0.3 * load + random.normal(0, 0.5, rows), np.zeros(rows, int)
        if spoilt:
            heat[300:315] += 8
            label[300:315] = 1
        hours = [datetime(2024, 1, 1) + timedelta(hours=n) for n in range(rows)]
        table(
            folder / f"{name}.csv", "time,load,heat,label", zip(hours, load.round(2), heat.round(2), label, strict=True)
        )
    for name, cases in (("train", 60), ("test", 30), ("new", 30)):
        rows = []
        for case in range(cases):
            kind = case % 3
            wave = np.sin(2 * np.pi * (kind + 1) * np.arange(50) / 50 + random.uniform(0, 6)) + random.normal(
                0, 0.3, 50
            )
            rows += [
                (case, t, value.round(3), *(() if name == "new" else (f"kind{kind}",))) for t, value in enumerate(wave)
            ]
        table(folder / f"{name}.csv", "case,t,x" + ("" if name == "new" else ",label"), rows)


def table(path: Path, header: str, rows: object) -> None:
    """Write rows below a header."""
    lines = (",".join(map(str, row)) for row in rows)  # type: ignore[attr-defined]
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
