"""Errors of rows: squared, on the scaled axis, averaged over all windows that hold a row.

Windows go through the network in portions, and their errors are added up where they belong: memory is bounded by the
rows and one portion, however much windows overlap. Cells that were not observed have no error; all others have a finite
one, however far off they are: the most extreme anomaly must not be lost because a number overflowed.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from rearview.data.panel import Panel
from rearview.data.scale import Scaler
from rearview.data.windows import Source, Windows
from rearview.estimators.detect import constant_channels
from rearview.estimators.detect.windows import WholeWindows, covering, following
from rearview.models.contract import Model
from rearview.tasks.detect import Detect, Mode

MOST_CELLS = 1 << 21  # cells that go through the network at once
FURTHEST = 1e6
"""Standard deviations that a network is shown, at most: beyond, layers overflow and spoil the rows around a cell."""
LARGEST = 1e30
"""The largest error of a cell: sums over the windows that hold it, and what is usual for it, stay within float32."""


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """How unusual the rows of a panel are."""

    rows: NDArray[np.float64]
    """[row]: mean over the observed channels; NaN where there is none, or too little before it to forecast from."""
    channels: NDArray[np.float32]
    """[row, channel]: errors, over what is usual for their channel; NaN where a cell was not observed."""


def source_of(
    panel: Panel, scaler: Scaler, which: Windows, lookback: int, mode: Mode, device: torch.device | str
) -> Source:
    """Batches of windows, asked for what the mode asks for."""
    if mode == "reconstruct":
        return WholeWindows(panel, scaler, which, lookback, 0, device=device)
    return Source(panel, scaler, which, lookback, 1, device=device)


def score(
    network: Model,
    panel: Panel,
    scaler: Scaler,
    lookback: int,
    mode: Mode,
    stride: int,
    constant: constant_channels.Channels | None = None,
) -> NDArray[np.float32]:
    """[row, channel]: errors of a network, on the device where it is; NaN where a cell has none.

    Channels that are `constant` [series, channel] are held against their constant, whatever the network says.
    """
    device = next((weight.device for weight in network.parameters()), torch.device("cpu"))
    which = covering(panel, lookback, stride) if mode == "reconstruct" else following(panel, lookback)
    source = source_of(panel, scaler, which, lookback, mode, device)
    ahead = torch.arange(-lookback, 0, device=device) if mode == "reconstruct" else torch.zeros(1, device=device).long()
    total = torch.zeros(panel.values.shape, device=device)
    count = torch.zeros_like(total)
    portion = max(1, MOST_CELLS // (source.channels * lookback))
    task = Detect()
    with torch.inference_mode():
        for index in torch.split(torch.arange(len(which), device=device), portion):
            batch = source.batch(index)
            errors = task.errors(network, replace(batch, past=batch.past.clamp(-FURTHEST, FURTHEST)))
            # NaN: the network has no answer at all, which is as far off as can be.
            errors = errors.nan_to_num(nan=LARGEST).clamp(max=LARGEST)
            seen = torch.ones_like(errors) if batch.observed is None else batch.observed.to(errors.dtype)
            # Padding stands before the first row of a series; it counts nothing wherever it is added.
            rows = (source.starts[index][:, None] + ahead).clamp(min=0).reshape(-1)
            total.index_add_(0, rows, (errors * seen).transpose(1, 2).reshape(len(rows), -1))
            count.index_add_(0, rows, seen.transpose(1, 2).reshape(len(rows), -1))
    found = torch.where(count > 0, total / count, torch.nan).cpu().numpy()
    if constant is not None:
        constant_channels.hold(found, panel, scaler, constant, LARGEST)
    return found
