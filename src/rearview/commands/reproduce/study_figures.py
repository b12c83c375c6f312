"""The figures of the synthetic studies, drawn from the runs as they are kept."""

from collections.abc import Mapping, Sequence

import numpy as np

from rearview.bench.synthetic import StoredRun
from rearview.bench.synthetic.flipflop import KINDS
from rearview.data.synthetic.harmonic import REGIMES, tone_periods
from rearview.report.common.summary import Values
from rearview.report.results.study import Figure, Series, View

Runs = Mapping[str, StoredRun]
"""Runs by name."""


def draw(study: str, runs: Sequence[StoredRun]) -> tuple[Figure, ...]:
    """All figures of a study."""
    draw_study = {"flipflop": _draw_flipflop, "harmonic": _draw_harmonic, "components": _draw_components}[study]
    return tuple(draw_study(name_runs(runs)))


def name_runs(runs: Sequence[StoredRun]) -> dict[str, StoredRun]:
    """Runs by arm, with the seed where there are several."""
    several = len({run.row.seed for run in runs}) > 1
    return {f"{run.row.arm}, seed {run.row.seed}" if several else run.row.arm: run for run in runs}


def _draw_flipflop(runs: Runs) -> list[Figure]:
    sets = {"sparse": "sparse strings", "dense": "dense strings", "same": "strings as in training"}
    reads = tuple(_curves(runs, metric, words) for metric, words in sets.items())
    about_reads = (
        "Share of the last reads of fixed strings that were answered right, look by look. Guessing is right half the "
        "time."
    )
    losses = _curves(runs, "same", "loss", "train_loss")
    about_losses = "Mean loss of fresh samples since the look before."
    attention = []
    for name, run in runs.items():
        shares, means = run.arrays["shares"], run.arrays["means"]
        layer, head = np.unravel_index(means[..., 0].argmax(), means.shape[:2])
        bins = (np.arange(shares.shape[-1]) + 0.5) / shares.shape[-1]
        bars = tuple(Series(kind, bins, shares[layer, head, place]) for place, kind in enumerate(KINDS))
        attention.append(View(f"{name}, layer {layer + 1}, head {head + 1}", bars))
    about_attention = (
        "Attention weights of the last read of sparse strings, in the head that looks hardest at the right bit: on "
        "that bit, on the write before it, and on the bits and writes that no longer count. Best: all right bits at 1, "
        "all wrong ones at 0."
    )
    title = "Where the last read looks"
    return [
        Figure(
            "Last reads answered right", about_reads, "lines", reads, "step", "share answered right", False, "Test set"
        ),
        Figure("Training loss", about_losses, "lines", (losses,), "step", "loss", y_log=True),
        Figure(title, about_attention, "bars", tuple(attention), "attention weight", "share of weights"),
    ]


def _draw_harmonic(runs: Runs) -> list[Figure]:
    steps = max(run.arrays["noisy"].shape[1] for run in runs.values())
    every = -(-steps // max(run.arrays["operators"].shape[-1] for run in runs.values()))
    errors = (_curves(runs, "mse", "all regimes"), *(_curves(runs, f"mse_{regime}", regime) for regime in REGIMES))
    about_errors = "Mean squared error against the clean signal, look by look."
    operators, m2 = _maps(runs, "operators"), _maps(runs, "offsets")
    about_operators = (
        "What a head does to a stationary signal: how much of each earlier or later step (across) goes into a step "
        "(down). Colours say the sign."
    )
    about_m2 = "The part of the value operator S2 = I + M2 that was learned and is the same for every signal."
    responses = tuple(
        View(
            f"layer {layer + 1}, head {head + 1}",
            tuple(_line(name, run.arrays["responses"][layer, head]) for name, run in runs.items()),
        )
        for layer, head in np.ndindex(next(iter(runs.values())).arrays["responses"].shape[:2])
    )
    *cycles, last = (f"{steps / period:g}" for period in tone_periods(steps))
    about_responses = (
        "By how much a head's effective operator passes a wave on, over rows and signals: the root of the mean squared "
        f"gain. The tones of a stationary signal stand at {', '.join(cycles)} and {last} cycles a window."
    )
    signals = tuple(
        View(f"{name}, {regime}", tuple(_line(of, run.arrays[of][place]) for of in ("noisy", "clean", "restored")))
        for name, run in runs.items()
        for place, regime in enumerate(REGIMES)
    )
    about_signals = "One test signal of each regime."
    return [
        Figure(
            "Error on the test signals", about_errors, "lines", errors, "step", "mean squared error", True, "Regime"
        ),
        Figure("Effective operators", about_operators, "map", operators, "key", "query", False, "Operator", every),
        *(
            [Figure("Learned operators M2", about_m2, "map", m2, "key", "query", False, "Operator", every)]
            if m2
            else []
        ),
        Figure("Frequency responses", about_responses, "lines", responses, "cycles a window", "gain", True, "Head"),
        Figure("Signals restored", about_signals, "lines", signals, "step", "value", False, "Arm and regime"),
    ]


def _draw_components(runs: Runs) -> list[Figure]:
    # Runs with every path first: they have the most to show.
    whole_first = dict(sorted(runs.items(), key=lambda named: not named[1].row.arm.endswith("/all")))
    weights, forecasts = [], []
    for name, run in whole_first.items():
        weights.append(View(name, tuple(map(_line, run.arrays["paths"].tolist(), run.arrays["by_age"]))))
        past, future, said = (run.arrays[of] for of in ("past", "future", "said"))
        ahead = len(past) + np.arange(len(future), dtype=np.float64)
        forecast = (_line("past", past), Series("future", ahead, future), Series("forecast", ahead, said))
        forecasts.append(View(name, forecast))
    about_weights = (
        "Mean absolute weight of the steps ahead on steps so long before, path by path, over layers, heads and windows."
    )
    about_forecasts = "The first test window: the past, the future, and the forecast."
    parts: dict[str, dict[str, StoredRun]] = {}
    for name, run in runs.items():
        parts.setdefault(run.row.arm.partition("/")[0], {})[name] = run
    errors = tuple(_curves(same, "mse", part) for part, same in parts.items())
    about_errors, choice = "Mean squared error of the forecast, look by look.", "Parts and paths"
    weight = "mean absolute weight"
    return [
        Figure("Weight by age", about_weights, "lines", tuple(weights), "age in steps", weight, True, choice),
        Figure("A forecast", about_forecasts, "lines", tuple(forecasts), "step", "value", False, choice),
        Figure("Error on the test windows", about_errors, "lines", errors, "step", "mean squared error", True, "Parts"),
    ]


def _maps(runs: Runs, of: str) -> tuple[View, ...]:
    return tuple(
        View(f"{name}, layer {layer + 1}, head {head + 1}", map=run.arrays[of][layer, head])
        for name, run in runs.items()
        if of in run.arrays
        for layer, head in np.ndindex(run.arrays[of].shape[:2])
    )


def _curves(runs: Runs, metric: str, name: str, column: str = "value") -> View:
    """A column of each run's curve over steps, at the measurements of a metric."""
    series = []
    for arm, run in runs.items():
        points = [(look.step, getattr(look, column)) for look in run.looks if look.metric == metric]
        steps, values = np.array(points, dtype=np.float64).reshape(-1, 2).T
        series.append(Series(arm, steps, values))
    return View(name, tuple(series))


def _line(name: str, values: Values) -> Series:
    return Series(name, np.arange(len(values), dtype=np.float64), values)
