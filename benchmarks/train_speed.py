"""How fast a training step is, and how fast a peer's: data handling, forward, backward and update, in the real loops.

    python benchmarks/train_speed.py                      ours alone, or beside neuralforecast where it is installed
    python benchmarks/train_speed.py --make-peer          install neuralforecast in .venv-neuralforecast first
    python benchmarks/train_speed.py --device cuda --out results/train_speed.csv
    python benchmarks/train_speed.py --device cuda --mode plain --mode captured --out results/train_step.csv
    python benchmarks/train_speed.py --mode plain --host mica-patchtst-ETT1_H --attention mica-mlp-query --out steps.csv
    python benchmarks/train_speed.py --device cuda --mode captured --whole FOLDER --out results/train_whole.csv

A machine is never quiet for long, so both libraries take turns in one run, each in a process of its own that sleeps
while the other works: a portion of steps here, a portion there, for several rounds. The ratio is taken within each
round; its median over the rounds is what counts, and milliseconds are there to say what kind of machine it was.

With `--mode` it is ours alone, by the way the step runs (plain, compiled, captured in a CUDA graph, both) and with any
attention, at the sizes that the peers' own steps were measured at, or at those of MICA's table 15; with `--whole` it is
whole trainings on ETTh1 from that folder.
"""

import argparse
import difflib
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from _gate import Loop
from _loop_modes import ATTENTIONS, HOSTS, MODES, Host, Timing, describe, fits, measure_mode, mica_hosts, train_whole
from _rows import Row, append, origin, show
from rearview import data
from rearview.data.synthetic.energy import write_demo

HERE = Path(__file__).resolve().parent
PEER = HERE.parent / ".venv-neuralforecast"
PEER_PYTHON = PEER / "bin" / "python"
TORCH = "torch==2.13.0"
ROWS, CHANNELS = 17_420, 7  # ETTh1's shape
MIB = 1 << 20
FEWEST, MOST = 1, 200  # steps in a portion


@dataclass(frozen=True, slots=True)
class Case:
    """A network and the batches it trains on."""

    name: str
    model: str
    lookback: int
    batch: int
    settings: dict[str, Any] = field(default_factory=dict)
    marks: bool = False
    """Calendar features as four more tokens; no peer has the same, so ours runs alone."""
    horizon: int = 96
    wanted: float | None = None
    """The ratio to the peer that is asked for on two CPU cores."""


def _patchtst(name: str, width: int, heads: int, feed_forward: int) -> Case:
    settings = {"width": width, "heads": heads, "feed_forward": feed_forward, "depth": 3, "dropout": 0.2}
    return Case(name, "patchtst", 336, 128, {**settings, "patch": 16, "stride": 8}, wanted=0.7)


def _itransformer(name: str, batch: int, *, marks: bool = False) -> Case:
    settings = {"width": 256, "heads": 8, "feed_forward": 256, "depth": 2, "dropout": 0.1}
    return Case(name, "itransformer", 96, batch, settings, marks, wanted=None if marks else 0.9)


CASES = (
    _patchtst("patchtst-16", width=16, heads=4, feed_forward=128),
    _patchtst("patchtst-128", width=128, heads=16, feed_forward=256),
    _itransformer("itransformer-b128", 128),
    _itransformer("itransformer-b32", 32),
    _itransformer("itransformer-b128-marks", 128, marks=True),
    _itransformer("itransformer-b32-marks", 32, marks=True),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES], help="only this one; repeat")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each library")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a turn, about")
    parser.add_argument("--threads", type=int, help="CPU threads of each library; default: one a core")
    parser.add_argument("--compile", action="store_true", help="train ours through torch.compile")
    parser.add_argument("--make-peer", action="store_true", help="install neuralforecast in .venv-neuralforecast")
    parser.add_argument("--no-peer", action="store_true", help="ours alone")
    parser.add_argument("--mode", action="append", choices=MODES, help="ours alone, its step run this way; repeat")
    parser.add_argument("--attention", action="append", choices=ATTENTIONS, help="for --mode, default: all; repeat")
    parser.add_argument(
        "--host",
        action="append",
        type=_host,
        help="for --mode, only this one; repeat. mica-patchtst-ETT1_H and its "
        f"like are those of MICA's table 15, the others {', '.join(HOSTS)}",
    )
    parser.add_argument("--steps", type=int, default=100, help="for --mode, steps of a portion")
    parser.add_argument("--exact", action="store_true", help="for --mode, float32 products without tensor cores")
    parser.add_argument("--whole", type=Path, metavar="FOLDER", help="for --mode, whole trainings on ETTh1 from there")
    parser.add_argument("--epochs", type=int, default=100, help="for --whole")
    parser.add_argument("--out", type=Path, help="CSV that the rows are added to")
    options = parser.parse_args()
    if options.mode:
        by_mode(options)
        return
    if options.make_peer:
        make_peer()
    peer = PEER_PYTHON.exists() and not options.no_peer
    if not peer and not options.no_peer:
        print("neuralforecast is not installed for comparison; --make-peer installs it in .venv-neuralforecast.")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        file = write_demo(Path(folder) / "series.csv", rows=ROWS)
        for case in CASES:
            if not options.case or case.name in options.case:
                rows += measure(case, file, options, peer and not case.marks)
                print(_verdict(case, rows), flush=True)
    print()
    show(rows, SHOWN)
    append(options.out, rows)


def _host(name: str) -> Host:
    """The host of that name."""
    hosts = {**HOSTS, **mica_hosts()}
    if name not in hosts:
        near = ", ".join(difflib.get_close_matches(name, hosts, n=3))
        raise argparse.ArgumentTypeError(f"there is no host {name}{f'; near are {near}' if near else ''}")
    return hosts[name]


def by_mode(options: argparse.Namespace) -> None:
    """Measure and show ours by host, attention and mode."""
    common = Timing(options.device, options.rounds, options.steps, not options.exact)
    with tempfile.TemporaryDirectory() as folder:
        panel = data.load(write_demo(Path(folder) / "series.csv", rows=ROWS))
    rows = []
    hosts = options.host or HOSTS.values()
    for host, attention, mode in product(hosts, options.attention or ATTENTIONS, options.mode):
        if not fits(host, attention):
            continue
        if options.whole:
            row = train_whole(host, attention, mode, options.whole, common, options.epochs)
        else:
            row = measure_mode(host, attention, mode, panel, common)
        rows.append(row)
        print(f"{host.name}, {attention}, {mode}: {describe(row)}", flush=True)
        append(options.out, [row])
    print()
    show([{name: value for name, value in row.items() if name in BY_MODE} for row in rows])


def make_peer() -> None:
    """Install neuralforecast with the torch that we are measured with."""
    if not PEER_PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEER)], check=True)
    pip = [str(PEER_PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # torch by itself first: beside other requirements an index may offer a build with gigabytes of CUDA libraries.
    subprocess.run([*pip, TORCH], check=True)
    with tempfile.TemporaryDirectory() as folder:
        pins = Path(folder) / "constraints.txt"
        pins.write_text(f"{TORCH}\n", encoding="utf-8")
        subprocess.run([*pip, "neuralforecast", "-c", str(pins)], check=True)


def measure(case: Case, file: Path, options: argparse.Namespace, peer: bool) -> list[Row]:
    """A row for ours, and one for the peer where there is one."""
    facts = {**asdict(case), "file": str(file), "device": options.device, "compile": options.compile}
    environment = {} if options.threads is None else {"OMP_NUM_THREADS": str(options.threads)}
    loops = [Loop(sys.executable, HERE / "_loop_rearview.py", facts, environment)]
    if peer:
        loops.append(Loop(PEER_PYTHON, HERE / "_loop_neuralforecast.py", facts, environment))
    counts = []  # steps that fill a turn, found while the loops warm up
    for loop in loops:
        loop.run(3)
        counts.append(max(FEWEST, min(MOST, round(3 * options.seconds / loop.run(3)))))
    rounds = [
        [loop.run(count) / count for loop, count in zip(loops, counts, strict=True)] for _ in range(options.rounds)
    ]
    watched = loops[0].watch(counts[0])
    # A CUDA graph gathers by itself, and nobody can watch it.
    shares = [watched["data"] / watched["seconds"] if "data" in watched else None, None]
    ratios = [taken[0] / taken[1] for taken in rounds] if peer else []
    common = origin()
    rows = []
    for at, loop in enumerate(loops):
        said = loop.stop()
        step = statistics.median(taken[at] for taken in rounds)
        rows.append(
            {
                "case": case.name,
                "library": loop.facts["library"],
                "ms_per_step": 1000 * step,
                "windows_per_second": case.batch / step,
                "data_share": shares[at],
                "peak_mib": said["peak"] / MIB,
                "ratio": statistics.median(ratios) if ratios and not at else None,
                "ratio_least": min(ratios) if ratios and not at else None,
                "ratio_most": max(ratios) if ratios and not at else None,
                "wanted": case.wanted if ratios and not at else None,
                "rounds": options.rounds,
                "steps": counts[at],
                "compiled": options.compile and not at,
                "parameters": loop.facts["parameters"],
                "device": loops[0].facts["device"],
                "threads": loop.facts["threads"],
                "library_version": loop.facts["version"],
                "torch": loop.facts["torch"],
                **common,
            }
        )
    return rows


SHOWN = (
    "case",
    "library",
    "ms_per_step",
    "windows_per_second",
    "data_share",
    "peak_mib",
    "ratio",
    "ratio_least",
    "ratio_most",
)


BY_MODE = (
    *("host", "attention", "mode", "ms_per_step", "ms_least", "ms_most", "wanted_ms", "peer_ms", "train_seconds"),
    *("epochs", "preparing_seconds", "windows_per_second", "peak_mib", "captured"),
)


def _verdict(case: Case, rows: list[Row]) -> str:
    ours = next(row for row in rows if row["case"] == case.name)
    words = f"{case.name}: {ours['ms_per_step']:.1f} ms a step"
    if ours["data_share"] is not None:
        words = f"{words}, {ours['data_share']:.1%} of it on data"
    if ours["ratio"] is None:
        return words
    return f"{words}; {ours['ratio']:.2f} of neuralforecast's (wanted: {case.wanted} on two CPU cores)"


if __name__ == "__main__":
    main()
