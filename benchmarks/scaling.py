"""What networks cost as channels and look-backs grow: GFLOPs, latency and peak memory of a forward pass.

    python benchmarks/scaling.py                                        on a CPU, the smaller sizes
    python benchmarks/scaling.py --device cuda --mode captured --out results/scaling.csv
    python benchmarks/scaling.py --device cuda --mode compiled+captured --network patchtst --network patchtst+mica
    python benchmarks/scaling.py --out results/scaling.csv --figure results/scaling.svg     draws what is there

The sizes are those of figures 4 and 5 of the MICA paper: 7 to 600 channels at 96 steps, and 64 to 8,192 steps of 7
channels, 48 steps ahead. Networks have the sizes of the paper's tables (`rearview reproduce mica --table T7`). GFLOPs
are those of one window, as the paper prints them; latency and memory are those of a batch. Memory is what is held
beyond the network itself, at most: torch's own account on a GPU, on a CPU the tensors alive between operations.

The printed costs of PatchTST leave residual scores out; the paper's own PatchTST has them, and the networks that end in
"+residual" here.
"""

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from _curves import Panel, draw
from _held import peak_bytes
from _rows import Row, append, origin, read, show
from rearview import models
from rearview.bench.papers.costs import CostCell, cells, network_name
from rearview.bench.runs.provenance import device_words
from rearview.models.costs import cost
from rearview.train.capture import Graph, attempt
from rearview.train.updates import CompiledModel

STEPS, CHANNELS, LOOKBACK = 48, 7, 96
SWEEPS = {"channels": (7, 50, 150, 300, 600), "lookback": (64, 512, 2048, 8192)}
SMALL = {"channels": 150, "lookback": 512}
"""The largest sizes that suit two CPU cores."""
MODES = ("plain", "captured", "compiled", "compiled+captured")
MIB = 1 << 20
WANTED = 1.5
"""How many times the latency of PatchTST its form with MICA may take at 600 channels; the paper's own: 1.9."""
SHOWN = ("network", "channels", "lookback", "gflops", "latency_ms", "peak_mib", "preparing_seconds", "note")
PAIR = ("patchtst", "patchtst+mica")
NETWORKS = (
    "patchtst", "patchtst+mica", "moment+mica", "itransformer", "itransformer_t5", "crossformer", "timer_xl", "tsmixer",
    "mlp_joint",
)  # fmt: skip
DRAWN = (*NETWORKS, "mlp")
"""Kept rows have the MLP that maps each channel by itself, too."""


def _cases() -> dict[str, CostCell]:
    """The networks of the figures, at the sizes of the paper's tables 5 and 7, and PatchTST with residual scores."""
    found = {network_name(cell): cell for table in ("T5", "T7") for cell in cells("mica", table)}
    carried = {
        f"{name}+residual": replace(found[name], settings={**(found[name].settings or {}), "residual_scores": True})
        for name in PAIR
    }
    return {**{name: found[name] for name in NETWORKS}, **carried}


CASES = _cases()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--mode", default="plain", choices=MODES)
    parser.add_argument("--network", action="append", choices=list(CASES), help="may be given more than once")
    parser.add_argument("--sweep", choices=list(SWEEPS), help="one of the two alone")
    parser.add_argument("--size", type=int, action="append", help="channels or steps of the sweep, instead of its own")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no further measurement after these")
    parser.add_argument("--out", type=Path, help="CSV that the rows are added to")
    parser.add_argument("--figure", type=Path, help="SVG of the rows in --out, which are measured if it is not there")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    if options.figure is None or not (options.out and options.out.exists()):
        rows = []
        for row in _measured(options):
            rows.append(row)
            append(options.out, [row])
        if not rows:
            raise SystemExit("Nothing was measured; ask for other networks, a smaller size or more seconds.")
        show(rows, SHOWN)
        _compare(rows)
    if options.figure and options.out:
        options.figure.write_text(figure(read(options.out)), encoding="utf-8")


def _measured(options: argparse.Namespace) -> Iterator[Row]:
    """Size by size, so that every network has its row of the largest when time runs out among the smaller ones."""
    end, made = time.perf_counter() + options.seconds, origin()
    for sweep in [options.sweep] if options.sweep else list(SWEEPS):
        for size in sorted(options.size or SWEEPS[sweep], reverse=True):
            if options.device == "cpu" and not options.size and size > SMALL[sweep]:
                continue
            for network in options.network or NETWORKS:
                if time.perf_counter() > end:
                    return
                yield {**measure(network, sweep, size, options), **made}


def measure(network: str, sweep: str, size: int, options: argparse.Namespace) -> Row:
    """The row of a network at one size."""
    case = CASES[network]
    sizes: dict[str, Any] = {"channels": CHANNELS, "lookback": LOOKBACK, "steps": STEPS, sweep: size}
    counted = cost(case.model, **sizes, attention=case.attention, **(case.settings or {}))
    try:
        timed = _timed(case, sizes, options)
    except torch.OutOfMemoryError:
        timed = dict.fromkeys(("latency_ms", "ms_least", "ms_most", "peak_mib", "preparing_seconds"))
        timed["note"] = "out of memory"
    return {
        "network": network,
        "sweep": sweep,
        **sizes,
        "batch": options.batch,
        "mode": options.mode,
        "gflops": counted.flops / 1e9,
        "parameters": counted.parameters,
        **timed,
        "rounds": options.rounds,
        "device": device_words(torch.device(options.device)),
        "torch": torch.__version__,
    }


def _timed(case: CostCell, sizes: dict[str, Any], options: argparse.Namespace) -> Row:
    torch.manual_seed(0)
    network = models.create(case.model, **sizes, attention=case.attention, **(case.settings or {}))
    model = network.eval().to(options.device)
    past = torch.randn(options.batch, sizes["channels"], sizes["lookback"], device=options.device)
    run, note = CompiledModel(model) if "compiled" in options.mode else model, ""
    with torch.no_grad():
        started = time.perf_counter()
        work: Callable[[], Any] = partial(run, past)
        work()
        peak = _peak(work) if options.device == "cuda" else peak_bytes(work) / MIB
        if "captured" in options.mode:
            graph = Graph(past.device)
            why = attempt(lambda: graph.record(work, nullcontext()))
            work, note = (graph.replay, "") if why is None else (work, f"not captured: {why}")
        preparing = time.perf_counter() - started
        taken = [_milliseconds(work, options.device) for _ in range(options.rounds)]
    return {
        "latency_ms": statistics.median(taken),
        "ms_least": min(taken),
        "ms_most": max(taken),
        "peak_mib": peak,
        "preparing_seconds": preparing,
        "note": note,
    }


def _peak(work: Callable[[], Any]) -> float:
    """MiB held at once beyond what lies there."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / MIB


def _milliseconds(work: Callable[[], Any], device: str) -> float:
    if device == "cpu":
        started = time.perf_counter()
        work()
        return 1e3 * (time.perf_counter() - started)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def _compare(rows: list[Row]) -> None:
    """What is wanted beside what was seen: the price of seeing the other channels, and how it grows."""
    seen = {(row["network"], row["channels"]): row["latency_ms"] for row in rows if row["sweep"] == "channels"}
    for added in ("", "+residual"):
        alone, mixed = (f"{name}{added}" for name in PAIR)
        both = [c for c in SWEEPS["channels"] if seen.get((alone, c)) and seen.get((mixed, c))]
        for channels in both:
            ratio = seen[mixed, channels] / seen[alone, channels]
            wanted = f" (wanted: at most {WANTED})" if channels == 600 else ""
            print(f"{mixed} takes {ratio:.2f} times the latency of {alone} at {channels} channels{wanted}")
        if len(both) > 1:
            least, most = both[-2:]
            grown = seen[mixed, most] / seen[mixed, least]
            print(f"from {least} to {most} channels, {most / least:.2f} times as many, {mixed} grows {grown:.2f} times")


def figure(rows: list[dict[str, str]]) -> str:
    """The rows as an SVG, a line for each network.

    Of each sweep it shows the device and mode with most of its sizes, or the later of two that have as many.
    """
    panels = []
    for sweep, words in (("channels", "channels"), ("lookback", "steps of look-back")):
        of_sweep = [row for row in rows if row["sweep"] == sweep]
        sizes = {(_made(row), row["network"], row[sweep]): None for row in reversed(of_sweep)}
        made = statistics.mode(made for made, *_ in sizes)
        for column, title in (("gflops", "GFLOPs"), ("latency_ms", "latency, ms"), ("peak_mib", "peak memory, MiB")):
            lines: dict[str, dict[float, float]] = {name: {} for name in DRAWN}
            for row in of_sweep:
                if row["network"] in lines and row[column] and (column == "gflops" or _made(row) == made):
                    lines[row["network"]][float(row[sweep])] = float(row[column])
            below = words if column == "gflops" else f"{words}; {made}"
            panels.append(Panel(title, below, {name: sorted(line.items()) for name, line in lines.items() if line}))
    return draw(panels, columns=3)


def _made(row: dict[str, str]) -> str:
    return f"{row['device']}, {row['mode']}, batch {row['batch']}"


if __name__ == "__main__":
    main()
