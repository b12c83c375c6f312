"""Errors of rows: squared, on the scaled axis, averaged over all windows that hold a row.

Windows go through the network in portions, and their errors are added up where they belong: memory is bounded by the
rows and one portion, however much windows overlap. Cells that were not observed have no error; all others have a finite
one, however far off they are: the most extreme anomaly must not be lost because a number overflowed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rearview.data.panel import Panel
from rearview.data.scale import Scaler
from rearview.data.windows import Batch, Source, Windows
from rearview.estimators.detect import constant_channels
from rearview.estimators.detect.spec import Mode
from rearview.models.contract import Model
from rearview.tasks.objectives import Detect

MOST_CELLS = 1 << 21  # cells that go through the network at once
FURTHEST = 1e6
"""Standard deviations at which the input of a network is clipped: beyond, layers overflow and spoil other rows."""
LARGEST = 1e30
"""The largest error of a cell: sums over the windows that hold it, and what is usual for it, stay within float32."""


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """How unusual the rows of a panel are."""

    rows: NDArray[np.float64]
    """[row]: mean over the observed channels; NaN where there is none, or too little before it to forecast from."""
    channels: NDArray[np.float32]
    """[row, channel]: errors, over what is usual for their channel; NaN where a cell was not observed."""
    members: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """[row]: what each member of a portfolio adds to the score."""
    divisors: tuple[float, ...] = ()
    """[series]: what the scores of a portfolio are divided by, where rows are far off for good; 1 elsewhere."""


class WholeWindows(Source):
    """Windows to be reconstructed: what should come out is what went in."""

    def batch(self, index: Tensor) -> Batch:
        given = self.pasts(index)
        return replace(given, future=given.past, observed=self._seen(index.to(self.device), given.mask))

    def _seen(self, index: Tensor, mask: Tensor | None) -> Tensor | None:
        """[batch, channel, time]: cells that were observed, none of them before the series began."""
        if self.observed is None:
            return None if mask is None else mask[:, None].expand(-1, self.targets, -1)
        rows = self.starts[index][:, None] + self._ahead[: self.lookback]
        rows = torch.maximum(rows, self.begin[index][:, None])
        seen = self.observed[rows].transpose(1, 2)
        return seen if mask is None else seen & mask[:, None]


def source_of(
    panel: Panel, scaler: Scaler, which: Windows, lookback: int, mode: Mode, device: torch.device | str
) -> Source:
    """Batches of windows, to reconstruct or to forecast from, as the mode says."""
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
    which = covering_windows(panel, lookback, stride) if mode == "reconstruct" else forecast_windows(panel, lookback)
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
            # NaN: the network has no answer at all, which counts as the largest error.
            errors = errors.nan_to_num(nan=LARGEST).clamp(max=LARGEST)
            seen = torch.ones_like(errors) if batch.observed is None else batch.observed.to(errors.dtype)
            # Padding stands before the first row of a series; it counts nothing wherever it is added.
            rows = (source.starts[index][:, None] + ahead).clamp(min=0).reshape(-1)
            total.index_add_(0, rows, (errors * seen).transpose(1, 2).reshape(len(rows), -1))
            count.index_add_(0, rows, seen.transpose(1, 2).reshape(len(rows), -1))
    means = torch.where(count > 0, total / count, torch.nan).cpu().numpy()
    if constant is not None:
        constant_channels.replace_errors(means, panel, scaler, constant, LARGEST)
    return means


def covering_windows(panel: Panel, lookback: int, stride: int) -> Windows:
    """Windows that hold every row of every series: one each `stride` rows, and one at the very end.

    A series shorter than a window has one window, padded at the front.
    """
    parts = []
    for a, b in panel.bounds():
        starts = np.arange(min(a + lookback, b), b, stride, dtype=np.int64)
        parts.append(np.append(starts, b))
    return _concatenate(parts)


def forecast_windows(panel: Panel, lookback: int) -> Windows:
    """A window before every row that has at least a quarter of a window before it, padded at the front if need be."""
    least = max(1, lookback // 4)
    return _concatenate([np.arange(min(a + least, b), b, dtype=np.int64) for a, b in panel.bounds()])


def _concatenate(parts: list[np.ndarray[tuple[int], np.dtype[np.int64]]]) -> Windows:
    counts = [len(part) for part in parts]
    return Windows(np.concatenate(parts), np.repeat(np.arange(len(parts)), counts))
