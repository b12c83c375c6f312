"""Rows to learn from, without cells that are beyond measure.

The error of such a cell is the largest there is, whatever a network says. Among the rows held out from training it
would end the training and be all that is usual for its channel, so that it hid itself and every other anomaly.
"""

from dataclasses import replace

import numpy as np

from rearview.data.panel import Finding, Panel
from rearview.data.scale import Scaler
from rearview.estimators.detect.scoring import LARGEST

REACH = LARGEST**0.5
"""Standard deviations from the mean of the training rows beyond which a cell is left out."""


def measurable(panel: Panel, scaler: Scaler) -> tuple[Panel, tuple[Finding, ...]]:
    """The panel with cells beyond measure taken for missing, and a word on them."""
    mean = scaler.mean.astype(np.float32)
    reach = np.minimum(REACH * scaler.std, np.finfo(np.float32).max).astype(np.float32)
    far = np.concatenate([np.abs(panel.values[a:b] - mean[s]) > reach[s] for s, (a, b) in enumerate(panel.bounds())])
    if panel.observed is not None:
        far &= panel.observed
    if not far.any():
        return panel, ()
    row, column = np.argwhere(far)[0].tolist()
    count = int(far.sum())
    rest = f", and {count - 1} more" if count > 1 else ""
    message = (
        f"Channel {panel.columns[column]!r} at {panel.stamps[row]}{rest}: more than {REACH:g} standard deviations from "
        "the mean; left out of training and of the threshold, and scored as the worst there is."
    )
    values = np.where(far, np.repeat(mean, panel.lengths, axis=0), panel.values)
    observed = ~far if panel.observed is None else panel.observed & ~far
    return replace(panel, values=values, observed=observed), (Finding("warning", "beyond_measure", count, message),)
