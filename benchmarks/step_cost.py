"""What a training step of the arms of a comparison costs, measured one at a time: the rows that the page puts beside
gains (results/step_cost.csv).

    python benchmarks/step_cost.py --dataset ETTh1 --model itransformer --presets toa \\
        --attention "softmax; toa:kind=softmax; toa:kind=relu; toa:kind=gated; prime" --out results/step_cost.csv

Network, sizes, batch and loss are those of the run that `rearview bench` would make of the same words; the step is that
of the real loop, gathers of windows included, captured in a CUDA graph on a GPU. Portions of steps of all arms take
turns, so that a ratio is of one stretch of time; on a busy machine only ratios count. Nothing else may run on the GPU.
"""

import argparse
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from _loop_modes import MIB, Stopwatch, Timing
from _rows import Row, append, origin, show
from rearview import train
from rearview.bench.analysis.step_costs import arm_of
from rearview.bench.runs import forecasting, measurement
from rearview.bench.runs.provenance import device_words
from rearview.bench.runs.request import Request
from rearview.bench.runs.run_spec import ForecastingSpec
from rearview.cli.parse import mechanisms, pairs


def main() -> None:
    """Measure every arm in turns and show, and with --out keep, a row of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--attention", required=True, help="as for `rearview bench`")
    parser.add_argument("--lookback", type=int, default=96)
    parser.add_argument("--horizon", type=int, default=96)
    parser.add_argument("--protocol", default="clean")
    parser.add_argument("--presets")
    parser.add_argument("--set", default="", help="settings of the network")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60, help="of a portion")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    specs = [
        forecasting.resolve(
            Request(
                options.dataset,
                options.model,
                attention,
                options.lookback,
                options.horizon,
                protocol=options.protocol,
                presets=options.presets,
                settings=pairs(options.set, "--set"),
            )
        )
        for attention in mechanisms(options.attention)
    ]
    turns = [[measure_step(spec, options) for spec in specs] for _ in range(options.rounds)]
    rows = [_summarise(list(same)) for same in zip(*turns, strict=True)]
    show([{name: row[name] for name in ("arm", "model", "dataset", "parameters", "ms_per_step")} for row in rows])
    append(options.out, rows)


def measure_step(spec: ForecastingSpec, options: argparse.Namespace) -> Row:
    """The milliseconds of a step of one arm in two portions, after one that is not counted."""
    device = torch.device(options.device)
    data = forecasting.read(spec, options.data_dir)
    parts = forecasting.split(data.panel, spec.data, spec.lookback, spec.horizon)
    trial = forecasting.Fit.begin(spec, data.panel, parts, device)
    trial.network.prepare(trial.source.pasts(trial.learned[:: max(1, len(trial.learned) // 512)]).past)
    assert spec.training is not None
    training = replace(
        spec.training, epochs=1_000_000, patience=None, schedule="constant", keep_last=True,
        capture=device.type == "cuda",
    )  # fmt: skip
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    watch = Stopwatch(Timing(options.device, 2, options.steps))
    history = train.fit(trial.network, trial.task, trial.source, trial.learned, None, training, progress=watch)
    return {
        "arm": arm_of(*spec.split_attention()),
        "model": spec.model,
        "dataset": spec.dataset,
        "lookback": spec.lookback,
        "horizon": spec.horizon,
        "batch": training.batch,
        "parameters": sum(parameter.numel() for parameter in trial.network.parameters()),
        "taken": [1000 * seconds for seconds in watch.taken],
        "captured": history.captured,
        "preparing_seconds": history.preparing_seconds,
        "peak_mib": torch.cuda.max_memory_allocated() / MIB if device.type == "cuda" else None,
        "latency_ms": measurement.latency(trial.network, trial.source, training.precision),
        "device": device_words(device),
        "torch": torch.__version__,
        "commit": origin()["commit"],
    }


def _summarise(same: list[Row]) -> Row:
    """One row of the rounds of an arm."""
    taken = [milliseconds for row in same for milliseconds in row["taken"]]
    row: dict[str, Any] = {}
    for name, value in same[0].items():
        if name == "taken":
            row |= {"ms_per_step": statistics.median(taken), "ms_least": min(taken), "ms_most": max(taken)}
        else:
            row[name] = value
    return row


if __name__ == "__main__":
    main()
