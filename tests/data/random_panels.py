"""Panels of random numbers for the tests of windows, splits and scalers."""

import itertools

import numpy as np

from rearview.data.panel import Layout, Panel
from rearview.data.step import Step


def panel_of(
    lengths: tuple[int, ...] = (31,), targets: int = 2, inputs: int = 0, known: int = 0, missing: float = 0.0
) -> Panel:
    """Hourly series of random numbers far from zero; the first cells of a column may be missing too."""
    rng = np.random.default_rng(11)
    columns, rows = targets + inputs + known, sum(lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    observed = rng.random((rows, columns)) >= missing if missing else None
    first = np.repeat(offsets[:-1, None], columns, axis=1)
    if observed is not None:
        observed[offsets[0] : offsets[0] + 3, 0] = False
        for s, c in itertools.product(range(len(lengths)), range(columns)):
            seen = np.flatnonzero(observed[offsets[s] : offsets[s + 1], c])
            first[s, c] = offsets[s] + (seen[0] if len(seen) else lengths[s])
    step = Step(1, "h")
    start = np.datetime64("2024-02-28T20:00", "us")
    return Panel(
        values=rng.normal(size=(rows, columns)).astype(np.float32),
        centre=rng.normal(100, 10, size=(len(lengths), columns)),
        observed=observed,
        offsets=offsets,
        first=first,
        stamps=np.concatenate([step.grid(start + np.timedelta64(9 * s, "h"), n) for s, n in enumerate(lengths)]),
        ids=tuple(f"series {s}" for s in range(len(lengths))),
        columns=tuple(f"column {c}" for c in range(columns)),
        targets=targets,
        known=known,
        step=step,
        layout=Layout("wide" if len(lengths) == 1 else "long", "ds"),
    )
