"""The figures of the synthetic studies, drawn from the runs as they are kept."""

from collections.abc import Mapping, Sequence

import numpy as np

from rearview.bench.synthetic import StoredRun
from rearview.bench.synthetic.flipflop import KINDS
from rearview.core.files import read_yaml
from rearview.core.grouping import group_by
from rearview.data.synthetic.harmonic import REGIMES, tone_periods
from rearview.report.common.summary import Values
from rearview.report.results.study import Figure, Series, View

Runs = Mapping[str, StoredRun]
"""Runs by name."""


def draw(study: str, runs: Sequence[StoredRun]) -> tuple[Figure, ...]:
    """All figures of a study."""
    by_name = {"flipflop": _draw_flipflop, "harmonic": _draw_harmonic, "operators": _draw_operators}
    return tuple(by_name.get(study, _draw_components)(name_runs(runs)))


def name_runs(runs: Sequence[StoredRun]) -> dict[str, StoredRun]:
    """Runs by arm, with the seed where there are several."""
    several = len({run.row.seed for run in runs}) > 1
    return {f"{run.row.arm}, seed {run.row.seed}" if several else run.row.arm: run for run in runs}


def _draw_flipflop(runs: Runs) -> list[Figure]:
    sets = {"sparse": "sparse strings", "dense": "dense strings", "same": "strings as in training"}
    reads = tuple(_curves(runs, metric, words) for metric, words in sets.items())
    attention = []
    for name, run in runs.items():
        shares, means = run.arrays["shares"], run.arrays["means"]
        layer, head = np.unravel_index(means[..., 0].argmax(), means.shape[:2])
        bins = (np.arange(shares.shape[-1]) + 0.5) / shares.shape[-1]
        bars = tuple(Series(kind, bins, shares[layer, head, place]) for place, kind in enumerate(KINDS))
        attention.append(View(f"{name}, layer {layer + 1}, head {head + 1}", bars))
    return [
        _figure("flipflop", "reads", reads),
        _figure("flipflop", "losses", (_curves(runs, "same", "loss", "train_loss"),)),
        _figure("flipflop", "attention", tuple(attention)),
    ]


def _draw_harmonic(runs: Runs) -> list[Figure]:
    steps = max(run.arrays["noisy"].shape[1] for run in runs.values())
    every = -(-steps // max(run.arrays["operators"].shape[-1] for run in runs.values()))
    errors = (_curves(runs, "mse", "all regimes"), *(_curves(runs, f"mse_{regime}", regime) for regime in REGIMES))
    responses = tuple(
        View(
            f"layer {layer + 1}, head {head + 1}",
            tuple(_line(name, run.arrays["responses"][layer, head]) for name, run in runs.items()),
        )
        for layer, head in np.ndindex(next(iter(runs.values())).arrays["responses"].shape[:2])
    )
    *cycles, last = (f"{steps / period:g}" for period in tone_periods(steps))
    signals = tuple(
        View(f"{name}, {regime}", tuple(_line(of, run.arrays[of][place]) for of in ("noisy", "clean", "restored")))
        for name, run in runs.items()
        for place, regime in enumerate(REGIMES)
    )
    maps = {of: views for of in ("operators", "offsets") if (views := _maps(runs, of))}
    return [
        _figure("harmonic", "errors", errors),
        *(_figure("harmonic", of, views, every=every) for of, views in maps.items()),
        _figure("harmonic", "responses", responses, cycles=f"{', '.join(cycles)} and {last}"),
        _figure("harmonic", "signals", signals),
    ]


def _draw_operators(runs: Runs) -> list[Figure]:
    every = max(-(-len(run.arrays["seen"]) // run.arrays["operators"].shape[-1]) for run in runs.values())
    signals = tuple(
        View(name, tuple(_line(of, run.arrays[of]) for of in ("seen", "wanted", "made"))) for name, run in runs.items()
    )
    return [
        _figure("operators", "errors", tuple(_curves(same, "mse", case) for case, same in _by_part(runs).items())),
        _figure("operators", "operators", _maps(runs, "operators"), every=every),
        _figure("operators", "signals", signals),
    ]


def _by_part(runs: Runs) -> dict[str, dict[str, StoredRun]]:
    """The runs of each part or case, which stands before the stroke in the name of an arm."""
    parts = group_by(runs.items(), lambda named: named[1].row.arm.partition("/")[0])
    return {part: dict(same) for part, same in parts.items()}


def _draw_components(runs: Runs) -> list[Figure]:
    # Runs with every path first: they have the most to show.
    whole_first = dict(sorted(runs.items(), key=lambda named: not named[1].row.arm.endswith("/all")))
    weights, forecasts = [], []
    for name, run in whole_first.items():
        weights.append(View(name, tuple(map(_line, run.arrays["paths"].tolist(), run.arrays["by_age"]))))
        past, future, predicted = (run.arrays[of] for of in ("past", "future", "said"))
        ahead = len(past) + np.arange(len(future), dtype=np.float64)
        forecast = (_line("past", past), Series("future", ahead, future), Series("forecast", ahead, predicted))
        forecasts.append(View(name, forecast))
    return [
        _figure("components", "weights", tuple(weights)),
        _figure("components", "forecasts", tuple(forecasts)),
        _figure("components", "errors", tuple(_curves(same, "mse", part) for part, same in _by_part(runs).items())),
    ]


def _figure(study: str, name: str, views: tuple[View, ...], every: int = 1, cycles: str = "") -> Figure:
    """A figure with the words that studies.yaml has for it."""
    words = read_yaml("rearview.bench.synthetic", "studies")[study]["figures"][name]
    return Figure(**{**words, "about": words["about"].format(cycles=cycles)}, views=views, every=every)


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
        points = [(point.step, getattr(point, column)) for point in run.curve if point.metric == metric]
        steps, values = np.array(points, dtype=np.float64).reshape(-1, 2).T
        series.append(Series(arm, steps, values))
    return View(name, tuple(series))


def _line(name: str, values: Values) -> Series:
    return Series(name, np.arange(len(values), dtype=np.float64), values)
