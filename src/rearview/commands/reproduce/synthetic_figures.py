"""The figures of the synthetic studies, from runs as they are kept."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rearview.bench.synthetic import Kept
from rearview.bench.synthetic.flipflop import KINDS
from rearview.data.synthetic.harmonic import REGIMES, tones
from rearview.report.results.study import Figure, Series, View


def figures(study: str, runs: Sequence[Kept]) -> tuple[Figure, ...]:
    """All figures of a study."""
    return tuple(_FIGURES[study](runs))


def named(runs: Sequence[Kept]) -> dict[str, Kept]:
    """Runs by arm, with the seed where there are several."""
    several = len({run.row.seed for run in runs}) > 1
    return {f"{run.row.arm}, seed {run.row.seed}" if several else run.row.arm: run for run in runs}


def _flipflop(runs: Sequence[Kept]) -> list[Figure]:
    sets = {"sparse": "sparse strings", "dense": "dense strings", "same": "strings as in training"}
    return [
        Figure(
            "Last reads answered right",
            "Share of the last reads of fixed strings that were answered right, look by look. Guessing is right half "
            "the time.",
            "lines",
            tuple(_curves(runs, metric, words) for metric, words in sets.items()),
            "step",
            "share answered right",
            choice="Test set",
        ),
        _losses(runs),
        Figure(
            "Where the last read looks",
            "Attention weights of the last read of sparse strings, in the head that looks hardest at the right bit: on "
            "that bit, on the write before it, and on the bits and writes that no longer count. Best: all right bits "
            "at 1, all wrong ones at 0.",
            "bars",
            tuple(_attention(name, run) for name, run in named(runs).items()),
            "attention weight",
            "share of weights",
        ),
    ]


def _attention(name: str, run: Kept) -> View:
    shares, means = run.arrays["shares"], run.arrays["means"]
    layer, head = np.unravel_index(means[..., 0].argmax(), means.shape[:2])
    bins = (np.arange(shares.shape[-1]) + 0.5) / shares.shape[-1]
    series = tuple(Series(kind, bins, shares[layer, head, place]) for place, kind in enumerate(KINDS))
    return View(f"{name}, layer {layer + 1}, head {head + 1}", series)


def _harmonic(runs: Sequence[Kept]) -> list[Figure]:
    steps = max(run.arrays["noisy"].shape[1] for run in runs)
    every = -(-steps // max(run.arrays["operators"].shape[-1] for run in runs))
    found = [
        Figure(
            "Error on the test signals",
            "Mean squared error against the clean signal, look by look.",
            "lines",
            (_curves(runs, "mse", "all regimes"), *(_curves(runs, f"mse_{regime}", regime) for regime in REGIMES)),
            "step",
            "mean squared error",
            y_log=True,
            choice="Regime",
        ),
        Figure(
            "Effective operators",
            "What a head does to a stationary signal: how much of each earlier or later step (across) goes into a step "
            "(down). Colours say the sign.",
            "map",
            _maps(runs, "operators"),
            "key",
            "query",
            choice="Operator",
            every=every,
        ),
        Figure(
            "Frequency responses",
            "By how much a head's effective operator passes a wave on, over rows and signals: the root of the mean "
            f"squared gain. The tones of a stationary signal stand at {_tones(steps)} cycles a window.",
            "lines",
            _responses(runs),
            "cycles a window",
            "gain",
            y_log=True,
            choice="Head",
        ),
        Figure(
            "Signals restored",
            "One test signal of each regime.",
            "lines",
            tuple(_restored(name, run, place) for name, run in named(runs).items() for place in range(len(REGIMES))),
            "step",
            "value",
            choice="Arm and regime",
        ),
    ]
    learned = _maps(runs, "offsets")
    if learned:
        about = "The part of the value operator S2 = I + M2 that was learned and is the same for every signal."
        found.insert(
            2, Figure("Learned operators M2", about, "map", learned, "key", "query", choice="Operator", every=every)
        )
    return found


def _tones(steps: int) -> str:
    cycles = [f"{steps / period:g}" for period in tones(steps)]
    return f"{', '.join(cycles[:-1])} and {cycles[-1]}"


def _maps(runs: Sequence[Kept], what: str) -> tuple[View, ...]:
    return tuple(
        View(f"{name}, layer {layer + 1}, head {head + 1}", map=run.arrays[what][layer, head])
        for name, run in named(runs).items()
        if what in run.arrays
        for layer, head in np.ndindex(run.arrays[what].shape[:2])
    )


def _responses(runs: Sequence[Kept]) -> tuple[View, ...]:
    layers, heads = runs[0].arrays["responses"].shape[:2]
    return tuple(
        View(
            f"layer {layer + 1}, head {head + 1}",
            tuple(_line(name, run.arrays["responses"][layer, head]) for name, run in named(runs).items()),
        )
        for layer in range(layers)
        for head in range(heads)
    )


def _restored(name: str, run: Kept, place: int) -> View:
    lines = tuple(_line(what, run.arrays[what][place]) for what in ("noisy", "clean", "restored"))
    return View(f"{name}, {REGIMES[place]}", lines)


def _components(runs: Sequence[Kept]) -> list[Figure]:
    # Runs with every path first: they have the most to show.
    whole_first = sorted(runs, key=lambda run: not run.row.arm.endswith("/all"))
    parts = dict.fromkeys(run.row.arm.partition("/")[0] for run in runs)
    return [
        Figure(
            "Weight by age",
            "Mean absolute weight of the steps ahead on steps so long before, path by path, over layers, heads and "
            "windows.",
            "lines",
            tuple(_by_age(name, run) for name, run in named(whole_first).items()),
            "age in steps",
            "mean absolute weight",
            y_log=True,
            choice="Parts and paths",
        ),
        Figure(
            "A forecast",
            "The first test window: what was seen, what came, and what was said.",
            "lines",
            tuple(_forecast(name, run) for name, run in named(whole_first).items()),
            "step",
            "value",
            choice="Parts and paths",
        ),
        Figure(
            "Error on the test windows",
            "Mean squared error of the forecast, look by look.",
            "lines",
            tuple(_curves([run for run in runs if run.row.arm.startswith(f"{part}/")], "mse", part) for part in parts),
            "step",
            "mean squared error",
            y_log=True,
            choice="Parts",
        ),
    ]


def _by_age(name: str, run: Kept) -> View:
    paths = run.arrays["paths"].tolist()
    return View(name, tuple(_line(path, row) for path, row in zip(paths, run.arrays["by_age"], strict=True)))


def _forecast(name: str, run: Kept) -> View:
    past, future, said = (run.arrays[what] for what in ("past", "future", "said"))
    ahead = len(past) + np.arange(len(future), dtype=np.float64)
    lines = (_line("seen", past), Series("came", ahead, future), Series("said", ahead, said))
    return View(name, lines)


def _losses(runs: Sequence[Kept]) -> Figure:
    lines = tuple(
        Series(
            name, np.array([look.step for look in seen], dtype=np.float64), np.array([look.train_loss for look in seen])
        )
        for name, seen in ((name, _looks(run, _first_metric(run))) for name, run in named(runs).items())
    )
    about = "Mean loss of fresh samples since the look before."
    return Figure("Training loss", about, "lines", (View("loss", lines),), "step", "loss", y_log=True)


def _curves(runs: Sequence[Kept], metric: str, words: str) -> View:
    lines = []
    for name, run in named(runs).items():
        seen = _looks(run, metric)
        lines.append(
            Series(
                name, np.array([look.step for look in seen], dtype=np.float64), np.array([look.value for look in seen])
            )
        )
    return View(words, tuple(lines))


def _looks(run: Kept, metric: str) -> list[Any]:
    return [look for look in run.looks if look.metric == metric]


def _first_metric(run: Kept) -> str:
    return run.looks[0].metric if run.looks else ""


def _line(name: str, values: Any) -> Series:
    return Series(name, np.arange(len(values), dtype=np.float64), values)


_FIGURES: Mapping[str, Callable[[Sequence[Kept]], list[Figure]]] = {
    "flipflop": _flipflop,
    "harmonic": _harmonic,
    "components": _components,
}
