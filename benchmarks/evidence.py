"""The comparisons that are still to be run, as lines that fit into calls of ten minutes on one GPU.

    python benchmarks/evidence.py                                          what is missing of each line, and minutes
    python benchmarks/evidence.py --run patchtst-rates --workers 8 --seconds 450 --out results
    python benchmarks/evidence.py --run all --workers 8 --seconds 450 --out results

A line is a rectangle: all arms, all horizons, three seeds. Runs that the files of `--out` hold are not made again, none
begins after `--seconds`, and one that was cut off goes on from its checkpoint: call it again until nothing is missing.
Minutes are runs x seconds of a run while eight share an H200 (medians of the rows under results/), over eight; short
runs come to eleven a minute. Without `--run` nothing is trained.
"""

import argparse
import contextlib
import io
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

AT_ONCE = 8
ALL_HORIZONS = "--horizon 96,192,336,720"
CONTROLS = "zero; identity; uniform; fixed:kind=plain; positional"
TRAINED_TOA = "toa:kind=relu,score_norm=mean; toa:kind=gated,score_norm=mean"
ITRANSFORMER = f"softmax; softmax:places=True; toa:kind=softmax; toa:kind=relu; toa:kind=gated; prime; {CONTROLS}"
PATCHTST = f"softmax; softmax:places=True; toa:kind=softmax; {TRAINED_TOA}; prime; rbca; caps; {CONTROLS}"


@dataclass(frozen=True, slots=True)
class Line:
    """A comparison: its question, the file of its rows and the commands that make them."""

    question: str
    file: str
    commands: tuple[str, ...]
    seconds: float
    """Of a run while eight share the GPU."""


def _bench(words: str, attentions: str) -> str:
    return f'bench {words} --seeds 3 --attention "{attentions}"'


LINES = {
    "patchtst-rates": Line(
        "PatchTST at the rate that validation chooses: controls, and TOA's relu and gated in the form that trains",
        "mechanisms_rates.csv",
        tuple(
            _bench(
                "--dataset ETTh1,ETTh2 --model patchtst --lookback 336 --horizon 96 "
                f"--train epochs=30,patience=None,learning_rate={rate}",
                f"softmax:places=True; {TRAINED_TOA}; {CONTROLS}",
            )
            for rate in ("1e-4", "3e-4", "1e-3")
        ),
        50,
    ),
    "itransformer-long": Line(
        "iTransformer on the larger sets at all horizons, beside tables 1, 3 and 6",
        "itransformer_horizons.csv",
        (_bench(f"--dataset ETTm1,Weather --model itransformer {ALL_HORIZONS} --presets toa", ITRANSFORMER),),
        36,
    ),
    "patchtst-hourly": Line(
        "PatchTST at all horizons with rbca, caps and controls, at the rate that validation chose for softmax",
        "patchtst_horizons.csv",
        (
            _bench(
                f"--dataset ETTh1,ETTh2 --model patchtst --lookback 336 {ALL_HORIZONS} "
                "--train epochs=30,patience=None,learning_rate=3e-4",
                PATCHTST,
            ),
        ),
        45,
    ),
    "patchtst-long": Line(
        "The same on the larger sets, ten epochs, the arms that matter",
        "patchtst_horizons.csv",
        (
            _bench(
                f"--dataset ETTm1,Weather --model patchtst --lookback 336 {ALL_HORIZONS} "
                "--train epochs=10,patience=None",
                "softmax; toa:kind=softmax; prime; rbca; caps; identity",
            ),
        ),
        100,
    ),
    "mica-full": Line(
        "MICA's gates at full length, 12,000 steps, the last weights kept",
        "mica_full.csv",
        (
            _bench(
                "--protocol published:mica --dataset ETT1_H,M_DENSE_H --model patchtst --lookback 96 --horizon 48",
                "softmax; mica:gate=shared; mica:gate=channelwise; mica:gate=layerwise; "
                "mica:gate=layerwise_channelwise; mica:gate=mlp; mica:gate=mlp_query",
            ),
        ),
        560,
    ),
    "caps-annealed": Line(
        "The CAPS network on equal budgets: 30 epochs, the rate fallen to its end, no patience",
        "caps_annealed.csv",
        (
            _bench(
                "--dataset ETTh1,ETTh2 --model caps_net --horizon 96 "
                "--train epochs=30,schedule_epochs=30,patience=None",
                "caps; softmax; softmax:rotary=True; linear_rope; caps:normaliser=softmax",
            ),
        ),
        300,
    ),
    "caps-full": Line(
        "The CAPS network at its full schedule, 100 epochs",
        "caps_annealed.csv",
        (
            _bench(
                "--dataset ETTh1,ETTh2 --model caps_net --horizon 96 --train patience=None",
                "caps; softmax; softmax:rotary=True; linear_rope",
            ),
        ),
        1000,
    ),
    "flipflop": Line(
        "Flip-flop at the paper's rate, three seeds, with the answers hidden and without a mask as well",
        "flipflop.csv",
        ("reproduce flipflop --full --seeds 3",),
        280,
    ),
    "harmonic": Line(
        "Harmonic demixing and the operator cases with three seeds",
        "harmonic.csv",
        ("reproduce harmonic --full --seeds 3", "reproduce operators --full --seeds 3"),
        110,
    ),
    **{
        f"published-{paper}": Line(
            f"Every printed cell of {paper} on {dataset}, under its own protocol",
            f"published_{paper}.csv",
            (f"reproduce {paper} --dataset {dataset} --seeds 3",),
            seconds,
        )
        for paper, dataset, seconds in (
            ("prime", "ETTh1", 20.0),
            ("toa", "ETTh1", 60.0),
            ("caps", "ETTh1", 300.0),
            ("rbca", "ETTh1", 107.0),
            ("mica", "ETT1_D", 320.0),
        )
    },
}


def main() -> None:
    """Show what is missing, or make it."""
    options = _arguments()
    names = list(LINES) if "all" in options.run else options.run
    if not names:
        show_plan(options.out, options.device)
        return
    until = time.monotonic() + options.seconds
    for name in names:
        for command in LINES[name].commands:
            left = until - time.monotonic()
            if left < 1:
                print(f"{name}: time is up; call again to go on.", flush=True)
                return
            extra = ["--workers", str(options.workers), "--seconds", f"{left:.0f}"]
            print(f"{name}: {command}", flush=True)
            if code := call(LINES[name], command, options.out, options.device, extra):
                raise SystemExit(code)


def show_plan(out: Path, device: str) -> None:
    """Print for each line how many runs are missing and what they take."""
    total = 0.0
    for name, line in LINES.items():
        missing, finished = count_runs(line, out, device)
        minutes = missing * line.seconds / AT_ONCE / 60
        total += minutes
        print(
            f"{name:18} {missing:4} of {missing + finished:4} runs missing, about {minutes:4.0f} min  {line.question}"
        )
    print(f"all together about {total:.0f} min on one H200 with {AT_ONCE} at once")


def count_runs(line: Line, out: Path, device: str) -> tuple[int, int]:
    """(the runs of a line that are missing, those that are there), as dry runs of its commands tell."""
    finished = 0
    missing: set[tuple[str, str]] = set()  # a run may stand in several tables of a paper
    for command in line.commands:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = call(line, command, out, device, ["--dry-run"])
        if code:
            raise SystemExit(f"`rearview {command}` ends with {code}.")
        for text in printed.getvalue().splitlines():
            if text.startswith("would run: "):
                missing.add((command, text))
            if text.startswith("would fail: "):
                raise SystemExit(text)
            if text.endswith(" already."):
                finished += int(text.split()[0].replace(",", ""))
    return len(missing), finished


def call(line: Line, command: str, out: Path, device: str, extra: Sequence[str]) -> int:
    """Call the command line with one command of a line; returns its exit code."""
    from rearview.bench.synthetic import NAMES
    from rearview.cli import main as rearview

    words = shlex.split(command)
    place = ["--out", str(out)] if words[1] in NAMES else ["--results", str(out / line.file)]
    return rearview([*words, *place, "--device", device, *extra])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", nargs="*", default=[], choices=[*LINES, "all"], metavar="LINE", help=", ".join(LINES))
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of the rows' files")
    parser.add_argument("--workers", type=int, default=AT_ONCE)
    parser.add_argument("--seconds", type=float, default=450.0, help="no run begins after this long")
    parser.add_argument("--device", default="auto")
    return parser.parse_args()


if __name__ == "__main__":
    main()
