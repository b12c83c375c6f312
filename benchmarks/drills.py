"""Drills that must end at zero: kills, several writers, mutated inputs and models, names that try to be code.

    python benchmarks/drills.py                          all of them, as long as `make drills` makes them
    python benchmarks/drills.py inputs --rounds 200 --seed 3 --keep failures
    python benchmarks/drills.py models --from 400 --out results/drills.csv

Each line of the output is a drill: tried, failed, and how many ended in the sentence of last resort, which tells what
nobody foresaw. A round is a process that is forked from this one, so that it starts at once; its random numbers follow
from the seed and its own number, so `--only 17` repeats round 17 alone. Ctrl-C ends a drill after its round, and
`--from 400` goes on from there. `--keep` is a folder for what failed.
"""

import argparse
import contextlib
import csv
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import torch

import _mutants
from _rows import append, origin
from rearview import Classifier, Detector, Forecaster
from rearview.cli import main as command_line
from rearview.core.errors import RearviewError

ROUNDS = {"kills": 400, "writers": 50, "inputs": 2000, "models": 1000, "pages": 19}
MOST_SECONDS, MOST_BYTES = 60, 2 << 30
LAST_RESORT = "please report it"


@dataclass(slots=True)
class Tally:
    """How a drill went."""

    tried: int = 0
    last_resort: list[str] = field(default_factory=list)
    """Sentences of last resort."""
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Exit:
    """A process that came to its end."""

    code: int
    """Minus the number of a signal that killed it."""
    output: str
    seconds: float
    """Of the processor: other work on the machine does not count."""
    most_bytes: int

    def problem(self) -> str | None:
        """What a process of a drill must not do; None: nothing of it."""
        if "Traceback" in self.output or "panicked" in self.output:
            return "a traceback"
        if self.seconds > MOST_SECONDS:
            return f"{self.seconds:.0f} seconds"
        if self.most_bytes > MOST_BYTES:
            return f"{self.most_bytes / 2**30:.1f} GiB of memory"
        if self.code not in (0, 1, 2):
            return f"exit code {self.code}"
        return None


def fork(work: Callable[[], int | None], log: Path, kill_after: float | None = None) -> Exit:
    """Run work in a process of its own whose output goes to a file; kill it when it hangs.

    `kill_after`: kill it after so many seconds of its processor, which other work on the machine does not change.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.default_int_handler)
            handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            for stream in (1, 2):
                os.dup2(handle, stream)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            resource.setrlimit(resource.RLIMIT_AS, (6 * MOST_BYTES, 6 * MOST_BYTES))
            code = work() or 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    started, limit = time.monotonic(), 10.0 * MOST_SECONDS
    while True:
        done, status, used = os.wait4(child, os.WNOHANG)
        if done:
            break
        waited = time.monotonic() - started
        if waited > limit or (kill_after is not None and _seconds_of(child, waited) > kill_after):
            os.kill(child, signal.SIGKILL)
            _, status, used = os.wait4(child, 0)
            break
        time.sleep(0.002)
    seconds = used.ru_utime + used.ru_stime
    code, most_bytes = os.waitstatus_to_exitcode(status), used.ru_maxrss * 1024
    return Exit(code, log.read_text(errors="replace"), seconds, most_bytes)


def run_whole(work: Callable[[], int | None], log: Path) -> Exit:
    """Run work in a process of its own, which must end well."""
    ended = fork(work, log)
    assert ended.code == 0, ended.output
    return ended


def _seconds_of(process: int, waited: float) -> float:
    """Seconds of the processor that a process has had; where the system does not say, those of waiting for it."""
    try:
        threads = [path.read_text() for path in Path(f"/proc/{process}/task").glob("*/schedstat")]
    except OSError:  # a thread that ended in between
        return 0.0
    return sum(int(one.split()[0]) for one in threads) / 1e9 if threads else waited


SMALL = ["--device", "cpu", "--train", "epochs=2"]
DLINEAR = ["--model", "dlinear", "--lookback", "14"]
TRIES: dict[str, list[str]] = {
    "forecast": ["forecast", "x.csv", "--horizon", "3", *DLINEAR, "--windows", "1", *SMALL],
    "detect": ["detect", "x.csv", "--lookback", "8", *SMALL],
    "classify": ["classify", "x.ts", "x.ts", "--set", "width=8,heads=1,depth=1", *SMALL],
    "sweep": ["bench", "--dataset", "x.csv", "--model", "dlinear,mlp", "--lookback", "14", "--horizon", "3", *SMALL],
}
RESULTS = {"forecast": "forecast.csv", "detect": "scores.csv", "classify": "predictions.csv"}


def kills(rounds: Iterator[int], seed: int, work: Path) -> Tally:
    """kill -9 at a random moment of a run over an older finished one: afterwards one of the two is there, whole."""
    tally = Tally()
    os.chdir(work)
    _write_inputs(seed)
    states: dict[str, list[Any]] = {}
    lengths: dict[str, float] = {}
    for name in RESULTS:
        states[name] = []
        for number in (1, 2):
            words = [*TRIES[name], "--seed", str(number), "--out", f"{name}{number}"]
            lengths[name] = run_whole(lambda words=words: command_line(words), Path("log")).seconds  # type: ignore[misc]
            states[name].append(_state(Path(f"{name}{number}"), name))
    words = [*TRIES["sweep"], "--seed", "1", "--results", "sweep.csv"]
    lengths["sweep"] = run_whole(lambda: command_line(words), Path("log")).seconds
    for number in rounds:
        draw = random.Random(f"{seed} kills {number}")
        name = [*TRIES][number % len(TRIES)]
        problem = (
            _kill_sweep(draw, Path(f"sweep{number}.csv"), lengths[name])
            if name == "sweep"
            else _kill_run(draw, name, states[name], lengths[name])
        )
        tally.tried += 1
        if problem:
            tally.failures.append(f"round {number}, {name}: {problem}")
    return tally


def _write_inputs(seed: int) -> None:
    Path("x.csv").write_bytes(_mutants.to_csv(_mutants.wide_rows(random.Random(seed))))
    good = random.Random(0)
    lines = [",".join(f"{good.random():.3f}" for _ in range(12)) + ":" + "ab"[case % 2] for case in range(24)]
    Path("x.ts").write_text("@problemName x\n@univariate true\n@classLabel true a b\n@data\n" + "\n".join(lines) + "\n")


def import_ahead() -> None:
    """Import what the commands import, so that processes forked from this one begin with their work."""
    home = Path.cwd()

    def run() -> int:
        codes = [
            command_line([*words, "--results" if name == "sweep" else "--out", name]) for name, words in TRIES.items()
        ]
        Path("modules").write_text("\n".join(sys.modules))
        return max(codes)

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        _write_inputs(0)
        run_whole(run, Path("log"))
        for name in Path("modules").read_text().splitlines():
            with contextlib.suppress(Exception):  # some are no modules that can be named
                importlib.import_module(name)
        os.chdir(home)


def _state(folder: Path, name: str) -> tuple[object, ...]:
    """What a folder holds: the numbers of its run, and its model as it loads."""
    kind = {"forecast": Forecaster, "detect": Detector, "classify": Classifier}[name]
    model: Any = kind.load(folder / "model")
    network = (model.fitted_ if name == "classify" else model.fitted).network
    weights = tuple(float(tensor.double().sum()) for tensor in network.state_dict().values())
    with (folder / RESULTS[name]).open(newline="") as file:
        rows = tuple(map(tuple, csv.reader(file)))
    seed = json.loads((folder / "run.json").read_text())["command"].partition("--seed ")[2][:1]
    return weights, rows, seed, "</html>" in (folder / "report.html").read_text()


def _kill_run(draw: random.Random, name: str, states: list[Any], length: float) -> str | None:
    out = Path(name)
    if not out.exists():
        shutil.copytree(f"{name}1", out)
    before = _state(out, name)
    other = 2 if before == states[0] else 1
    words = [*TRIES[name], "--seed", str(other), "--out", str(out)]
    # The files of a run are put in place at its end, so half of the kills fall there.
    late = draw.random() < 0.5
    for _ in range(9):
        moment = draw.uniform(0.8, 1) * length if late else draw.uniform(0, length)
        ended = fork(lambda moment=moment: command_line(words), Path("log"), kill_after=moment)  # type: ignore[misc]
        if ended.code < 0:
            break
        # It was done before: no kill. The same run again, over itself, until one hits it.
        length = ended.seconds
    else:
        return f"it was never hit: {ended.output[-300:]}"
    try:
        after = _state(out, name)
    except Exception as problem:
        shutil.rmtree(out)
        return f"killed after {moment:.3f} s, it no longer loads: {problem}"
    if after not in states:
        shutil.rmtree(out)
        return f"killed after {moment:.3f} s, it is neither the old run nor the new one"
    return None


def _kill_sweep(draw: random.Random, results: Path, length: float) -> str | None:
    """A sweep that is killed and made again over the rows of an older one: those stay, each new one is there once."""
    shutil.copy("sweep.csv", results)
    older = results.read_text().splitlines()
    words = [*TRIES["sweep"], "--seed", "2", "--results", str(results)]
    for _ in range(2):
        moment = draw.uniform(0, length)
        fork(lambda moment=moment: command_line(words), Path("log"), kill_after=moment)  # type: ignore[misc]
    killed = results.read_text().splitlines()
    ended = fork(lambda: command_line(words), Path("log"))
    if ended.code:
        return ended.output[-300:]
    rows = results.read_text().splitlines()
    # Of a row that was being written when its process was killed, a part may be there, which goes again.
    kept = [row for row in killed if row in rows]
    if rows[: len(older)] != older or len(rows) != len(older) + 2 or len(kept) < len(killed) - 1:
        return f"{len(rows)} rows instead of {len(older) + 2}, {len(kept)} of {len(killed)} of those that were there"
    for path in results.parent.glob(f"{results.stem}.*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return None


def writers(rounds: Iterator[int], seed: int, work: Path) -> Tally:
    """Four processes save to one folder and one reads it, round after round: it loads at all times."""
    tally, stop = Tally(), work / "stop"
    for number in range(4):
        run_whole(lambda number=number: _fit(seed + number, work / f"model{number}"), work / "log")  # type: ignore[misc]
    count = len([*rounds])

    def write(number: int) -> None:
        model = Forecaster.load(work / f"model{number}", device="cpu")
        draw = random.Random(f"{seed} writers {number}")
        for _ in range(count):
            model.save(work / "shared")
            time.sleep(draw.uniform(0, 0.005))

    def read() -> int:
        known = [_sum(work / f"model{number}") for number in range(4)]
        read, wrong = 0, []
        while not stop.exists() or not read:
            if (work / "shared" / "forecaster.json").exists():
                try:
                    if _sum(work / "shared") not in known:
                        wrong.append("a mixture")
                except Exception as problem:
                    wrong.append(str(problem))
                read += 1
        (work / "read.json").write_text(json.dumps([read, wrong]))
        return 0

    reader = _start(read)
    children = [_start(lambda number=number: write(number)) for number in range(4)]  # type: ignore[misc]
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    stop.touch()
    os.waitpid(reader, 0)
    loads, wrong = json.loads((work / "read.json").read_text())
    tally.tried = 4 * count + loads
    tally.failures += [f"a reader: {problem}" for problem in wrong]
    tally.failures += [f"writer {number}: exit code {code}" for number, code in enumerate(codes) if code]
    left = sorted(path.name for path in (work / "shared").iterdir())
    if len(left) != 2:
        tally.failures.append(f"the folder holds {', '.join(left)}")
    return tally


def _start(work: Callable[[], int | None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            os._exit(work() or 0)
        except BaseException:
            os._exit(1)
    return child


def _frame() -> Any:
    import pandas as pd

    steps = np.arange(80)
    dates = pd.date_range("2024-01-01", periods=80, freq="D")
    return pd.DataFrame({"date": dates, "a": np.sin(steps / 3) + 10, "b": np.cos(steps / 5)})


def _fit(seed: int, folder: Path) -> None:
    small = {"width": 8, "heads": 1, "depth": 1, "feed_forward": 8}
    model = Forecaster(
        "patchtst", horizon=3, lookback=16, settings=small, training={"epochs": 1}, seed=seed, device="cpu"
    )
    model.fit(_frame()).save(folder)


def _sum(folder: Path) -> float:
    network = Forecaster.load(folder, device="cpu").fitted.network
    return float(sum(tensor.double().sum() for tensor in network.state_dict().values()))


def inputs(rounds: Iterator[int], seed: int, work: Path) -> Tally:
    """Mutated CSV, parquet, ts, npz and gz files and odd options: a result or a sentence, in time and memory."""
    tally = Tally()
    for number in rounds:
        folder = work / f"{number}"
        folder.mkdir()
        words = _mutants.input_command(random.Random(f"{seed} inputs {number}"), folder)
        others = {
            path: path.read_bytes() for path in (folder / "x.csv", folder / "out" / _mutants.MINE) if path.exists()
        }
        ended = fork(lambda words=words: command_line(words), folder / "log")  # type: ignore[misc]
        lost = [path.name for path, content in others.items() if not path.exists() or path.read_bytes() != content]
        _judge(tally, number, ended, " ".join(words[:2]), folder, f"{lost[0]} is lost" if lost else None)
    return tally


SAVED = ("forecaster", "glance", "ensemble", "effects", "detector", "detectors", "classifier", "classifiers")
"""Every kind of model that is saved: networks by name, and portfolios of forecasters, detectors and classifiers."""


def models(rounds: Iterator[int], seed: int, work: Path) -> Tally:
    """Mutated model folders, many with checksums in order: they load and answer, or are refused in a sentence."""
    tally = Tally()
    run_whole(lambda: _fit_each(work), work / "log")
    for number in rounds:
        draw, folder = random.Random(f"{seed} models {number}"), work / f"{number}"
        kind = SAVED[number % len(SAVED)]
        shutil.copytree(work / kind, folder / "model")
        for file in work.glob("*.csv"):
            shutil.copy(file, folder)
        if draw.random() < 0.15:  # a sound model, and rows that are not
            _mutants.damage_rows(draw, folder / ("promoted.csv" if kind == "effects" else "x.csv"))
        else:
            _mutants.damage_model(draw, folder / "model")
        _judge(tally, number, fork(lambda kind=kind, folder=folder: _use(kind, folder), folder / "log"), kind, folder)  # type: ignore[misc]
    return tally


def _fit_each(work: Path) -> int:
    frame = _frame()
    frame.to_csv(work / "x.csv", index=False)
    _fit(0, work / "forecaster")
    small = {"settings": {"width": 8, "heads": 1, "depth": 1}, "training": {"epochs": 1}, "device": "cpu"}
    Detector(lookback=8, **small).fit(frame).save(work / "detector")  # type: ignore[arg-type]
    cases = np.random.default_rng(0).normal(size=(24, 2, 12))
    Classifier(**small).fit(cases, np.arange(24) % 2).save(work / "classifier")  # type: ignore[arg-type]
    Forecaster(horizon=3, device="cpu").fit(frame, quick=True).save(work / "ensemble")
    Classifier(device="cpu").fit(cases, np.arange(24) % 2).save(work / "classifiers")
    Forecaster("glance", horizon=3, device="cpu").fit(frame).save(work / "glance")
    Detector(lookback=8, device="cpu").fit(frame).save(work / "detectors")
    promoted = frame.assign(promo=np.arange(80) % 5 == 0)
    promoted["a"] += promoted["promo"]
    promoted.to_csv(work / "promoted.csv", index=False)
    ahead = frame["date"].tail(3) + np.timedelta64(3, "D")
    ahead.to_frame("date").assign(promo=1).to_csv(work / "ahead.csv", index=False)
    Forecaster(horizon=3, device="cpu", known=["promo"]).fit(promoted, quick=True).save(work / "effects")
    return 0


def _use(kind: str, folder: Path) -> int:
    model, file = str(folder / "model"), str(folder / "x.csv")
    next_ = ["--device", "cpu", "--out", str(folder / "next.csv")]
    if kind in ("forecaster", "glance", "ensemble"):
        return command_line(["predict", model, file, *next_])
    if kind == "effects":
        ahead = ["--future", str(folder / "ahead.csv")]
        return command_line(["predict", model, str(folder / "promoted.csv"), *ahead, *next_])
    if kind in ("detector", "detectors"):
        return command_line(["detect", file, "--model", model, "--device", "cpu", "--out", str(folder / "out")])
    try:
        Classifier.load(model, device="cpu").predict(np.random.default_rng(1).normal(size=(4, 2, 12)))
    except RearviewError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    return 0


def _judge(tally: Tally, number: int, ended: Exit, what: str, folder: Path, problem: str | None = None) -> None:
    """Count a process that had this problem or none; a folder of one that did nothing wrong goes."""
    tally.tried += 1
    problem = problem or ended.problem()
    if problem is None:
        for path in (*folder.rglob("forecast.csv"), *folder.rglob("next.csv")):
            cells = {
                cell
                for row in csv.DictReader(path.open(newline=""))
                for name, cell in row.items()
                if name != "unique_id"
            }
            if {"inf", "-inf", "NaN", "nan"} & cells:
                problem = "a forecast that is not finite"
    if LAST_RESORT in ended.output:
        tally.last_resort.append(f"round {number}, {what}: {ended.output.strip().splitlines()[-1][-400:]}")
    if problem is not None:
        tally.failures.append(f"round {number}, {what}: {problem}: {' '.join(ended.output.split())[-300:]}")
    elif folder.exists():
        shutil.rmtree(folder)


PAYLOADS = (
    "<script>alert(1)</script>", "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)", "<!--", "-->", "]]>", "<style>*{display:none}</style>",
    "</title><script>alert(1)</script>",
    "javascript:alert(1)", "<a href='javascript:alert(1)'>x</a>", "&lt;script&gt;alert(1)&lt;/script&gt;",
    "<b>bold</b>",
    "${alert(1)}", "{{7*7}}", "\u2028alert(1)", "<iframe srcdoc='<script>alert(1)</script>'>",
    "%3Cscript%3Ealert(1)%3C/script%3E",
)  # fmt: skip


class Outline(HTMLParser):
    """The elements of a page with the names of their attributes, as a browser would see them."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[tuple[str, tuple[str, ...]]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag != "wbr" or attributes:  # where a long name may go on in the next line: as many as it has such places
            self.parts.append((tag, tuple(name for name, _ in attributes)))


def pages(rounds: Iterator[int], seed: int, work: Path) -> Tally:
    """Names of columns, series, classes and files that try to be code: pages have the elements of plain ones."""
    tally = Tally()
    plain = _write_pages("plain", work / "plain")
    for number in rounds:
        payload = PAYLOADS[number % len(PAYLOADS)]
        for name, parts in _write_pages(payload, work / f"{number}").items():
            tally.tried += 1
            if parts != plain[name] or len(parts) < 10:
                tally.failures.append(f"round {number}, {name}: {payload!r} changes the elements: {parts[:1]}")
    return tally


def _write_pages(name: str, work: Path) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Every kind of page with a name wherever a user can put one -> its outline, or what was said instead."""
    work.mkdir()
    quoted, file = '"' + name.replace('"', '""') + '"', "./" + name.replace("/", "_")
    rows = _mutants.wide_rows(random.Random(0))
    (work / f"{file}.csv").write_bytes(_mutants.to_csv([["date", quoted, "b"], *rows[1:]]))
    rows = _mutants.long_rows(random.Random(0))
    (work / f"{file} long.csv").write_bytes(
        _mutants.to_csv([rows[0], *([quoted if row[0] == "n" else row[0], *row[1:]] for row in rows[1:])])
    )
    cases = [
        [f"{case}", f"{step}", f"{np.sin(step + case):.3f}", quoted if case % 2 else "other"]
        for case in range(12)
        for step in range(9)
    ]
    (work / f"{file} cases.csv").write_bytes(_mutants.to_csv([["case", "time", "x", "label"], *cases]))
    wide, long, labelled = f"{file}.csv", f"{file} long.csv", f"{file} cases.csv"
    cpu, short = ["--device", "cpu"], ["--train", "epochs=1"]
    network = ["--horizon", "3", "--windows", "1", "--model", "dlinear", *cpu, *short]
    as_cases = [labelled, "--id-col", "case", "--time-col", "time", *cpu]
    small = ["--set", "width=8,heads=1,depth=1", "--model", "patchtst", *short]
    commands = {
        "wide forecast": ["forecast", wide, *network],
        "long forecast": ["forecast", long, *network],
        "zero-shot forecast": ["forecast", wide, "--horizon", "3", "--windows", "1", "--model", "glance", *cpu],
        "detection": ["detect", wide, "--model", "itransformer", "--lookback", "8", *cpu, *short],
        "detection of series": ["detect", long, "--lookback", "8", *cpu, *short],
        "detection by a model": ["detect", wide, "--model", "out3", *cpu],
        "classification": ["classify", labelled, *as_cases, *small],
        "classification by a model": ["classify", *as_cases, "--model", "out6"],
        "results": ["report", "rows.csv"],
    }  # fmt: skip
    bench = ["bench", "--dataset", wide, "--model", "dlinear,mlp", "--lookback", "14", "--horizon", "3", *cpu, *short]
    run_whole(lambda: _within(work, [*bench, "--results", "rows.csv"]), work / "log")
    outlines = {}
    for number, (page, words) in enumerate(commands.items()):
        place = work / f"out{number}"
        ended = fork(lambda words=words, place=place: _within(work, [*words, "--out", str(place)]), work / "log")  # type: ignore[misc]
        outline = Outline()
        outline.feed((place / "report.html").read_text() if ended.code == 0 else "")
        outlines[page] = outline.parts or [(ended.output[-300:], ())]
    return outlines


def _within(folder: Path, words: list[str]) -> int:
    os.chdir(folder)
    return command_line(words)


DRILLS: dict[str, Callable[[Iterator[int], int, Path], Tally]] = {
    "kills": kills, "writers": writers, "inputs": inputs, "models": models, "pages": pages
}  # fmt: skip


def until(end: float, rounds: Iterable[int]) -> Iterator[int]:
    """Rounds that begin before an end, by the monotonic clock, and before Ctrl-C."""
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    for number in rounds:
        if stopped or time.monotonic() > end:
            print(f"ended before round {number}; --from {number} goes on", flush=True)
            return
        yield number


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("drill", nargs="*", choices=[*DRILLS, []], help="default: all")
    parser.add_argument("--rounds", type=int, help="default: as many as make drills makes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from", dest="first", type=int, default=0, help="begin with this round")
    parser.add_argument("--only", type=int, help="one round, by its number")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no round of a drill after this long")
    parser.add_argument("--keep", type=Path, help="an empty folder for the files of failed rounds")
    parser.add_argument("--out", type=Path, help="CSV that a row for each drill is added to")
    parser.add_argument("--last-resort", action="store_true", help="show sentences of last resort")
    options = parser.parse_args()
    torch.set_num_threads(1)
    home = Path.cwd()
    print(f"{'drill':8} {'tried':>6} {'failed':>6} {'last resort':>11} {'seconds':>8}", flush=True)
    failed = 0
    import_ahead()
    for name in options.drill or DRILLS:
        work = Path(tempfile.mkdtemp(prefix=f"drill-{name}-"))
        started = time.monotonic()
        count = options.rounds or ROUNDS[name]
        rounds = until(
            started + options.seconds, range(options.first, count) if options.only is None else [options.only]
        )
        tally = DRILLS[name](rounds, options.seed, work)
        os.chdir(home)
        seconds = time.monotonic() - started
        counts = {"tried": tally.tried, "failed": len(tally.failures), "last_resort": len(tally.last_resort)}
        tried, lost, unforeseen = counts.values()
        print(f"{name:8} {tried:6} {lost:6} {unforeseen:11} {seconds:8.1f}", flush=True)
        if options.last_resort:
            sys.stderr.writelines(f"{sentence}\n" for sentence in tally.last_resort)
        if options.out:
            rounds_of = {"seed": options.seed, "first_round": options.first, "seconds": round(seconds)}
            append(home / options.out, [{"drill": name, **counts, **rounds_of, **origin()}])
        for failure in tally.failures:
            print(f"    {failure}", flush=True)
        failed += len(tally.failures)
        if options.keep and tally.failures:
            shutil.copytree(work, options.keep / name, dirs_exist_ok=True)
        shutil.rmtree(work, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
