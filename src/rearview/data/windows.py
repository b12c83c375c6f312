"""Windows are index arithmetic, and a batch is one gather on the device where the model is.

The panel's values go to the device once. A window is a series and the row at which its future starts; nothing is
copied per window, so memory is bounded by the batch.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rearview.data.calendar import features
from rearview.data.panel import Panel
from rearview.data.scale import Scaler


@dataclass(frozen=True, slots=True)
class Batch:
    """Windows of a batch, scaled."""

    past: Tensor
    """[batch, channel, time]: targets, then past inputs."""
    future: Tensor
    """[batch, target, ahead]."""
    mask: Tensor | None
    """[batch, time], False before a series began; None when no window reaches back that far."""
    observed: Tensor | None
    """[batch, target, ahead], False where the future is missing; None when nothing is."""
    past_marks: Tensor | None
    """[batch, mark, time]: calendar features, then known inputs, then what describes the series."""
    future_marks: Tensor | None
    """[batch, mark, ahead]."""
    series: Tensor
    """[batch]."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Which windows there are: for each, the series and the row where its future starts."""

    starts: NDArray[np.int64]
    series: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def __add__(self, other: "Windows") -> "Windows":
        return Windows(np.concatenate([self.starts, other.starts]), np.concatenate([self.series, other.series]))

    def take(self, which: slice | NDArray[np.int64]) -> "Windows":
        return Windows(self.starts[which], self.series[which])


def rows_of_past(length: int, lookback: int, horizon: int) -> int:
    """Rows of past that a window of a series needs: all of the look-back, or a quarter of it in a short series."""
    return lookback if length >= lookback + horizon else max(1, lookback // 4)


def list_windows(
    panel: Panel,
    lookback: int,
    horizon: int,
    first: NDArray[np.int64] | None = None,
    last: NDArray[np.int64] | None = None,
    stride: int = 1,
) -> Windows:
    """Every window of a panel whose future lies within rows first[s] to last[s] (exclusive) of its series.

    `first` and `last` count from the start of each series; None stands for its start and end. The past may reach back
    before `first`. With a stride, windows are counted back from the last possible one.
    """
    lengths = panel.lengths
    low = np.zeros(panel.series, np.int64) if first is None else first
    high = lengths if last is None else np.minimum(last, lengths)
    parts = []
    for s in range(panel.series):
        begin = max(int(low[s]), rows_of_past(int(lengths[s]), lookback, horizon))
        final = int(high[s]) - horizon
        parts.append(np.arange(final, begin - 1, -stride, dtype=np.int64)[::-1] + panel.offsets[s])
    counts = np.array([len(part) for part in parts], dtype=np.int64)
    return Windows(np.concatenate(parts or [np.zeros(0, np.int64)]), np.repeat(np.arange(panel.series), counts))


def final_windows(panel: Panel) -> Windows:
    """One window per series, its future starting after the last row."""
    return Windows(panel.offsets[1:].copy(), np.arange(panel.series))


class Source:
    """The windows of a panel on a device."""

    def __init__(
        self,
        panel: Panel,
        scaler: Scaler,
        which: Windows,
        lookback: int,
        horizon: int,
        *,
        device: torch.device | str = "cpu",
        inputs: bool = True,
        calendar: str | None = None,
        statics: NDArray[np.float64] | None = None,
        begins: NDArray[np.int64] | None = None,
    ) -> None:
        """`inputs`: whether past and known inputs come along; `calendar`: the step whose calendar features do.

        `statics` [series, feature] describe the series. `begins` [window, target]: rows before which a past is not
        read, such as those of launches.
        """
        known = len(panel.columns) - panel.known
        self.lookback, self.horizon = lookback, horizon
        self.targets = panel.targets
        self.channels = known if inputs else panel.targets
        self.known = panel.known if inputs else 0
        taken = slice(None) if inputs else slice(0, panel.targets)
        self.device = torch.device(device)
        self.values = self._put(panel.values[:, taken])
        self.mean = self._put(scaler.mean[:, taken].astype(np.float32))
        self.inverse = self._put((1 / scaler.std[:, taken]).astype(np.float32))
        self.observed = None if panel.observed is None else self._put(panel.observed[:, : panel.targets])
        self.first = self._put(panel.first[:, taken]) if bool((panel.first > panel.offsets[:-1, None]).any()) else None
        begin, idle = panel.offsets[which.series], None
        if begins is not None:
            late = (begins > panel.first[which.series, : panel.targets]).any(axis=1)
            begin = np.where(late, begins.min(axis=1), begin)
            idle = begins if bool((begins[late] > begin[late, None]).any()) else None
        self.begin = self._put(begin)
        """[window]: the first row that it may read."""
        self.idle = None if idle is None else self._put(idle)
        self.padded = bool((which.starts - lookback < begin).any())
        self.marks = None if calendar is None else self._put(features(panel.stamps, calendar).T.copy())
        self.statics = None if statics is None else self._put(statics.astype(np.float32))
        self.starts = self._put(which.starts)
        self.series = self._put(which.series)
        self._ahead = torch.arange(-lookback, horizon, device=self.device)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def mark_count(self) -> int:
        """Marks that come with each window."""
        features = (part.shape[1] for part in (self.marks, self.statics) if part is not None)
        return sum(features) + self.known

    def batch(self, index: Tensor) -> Batch:
        """The windows of an index, gathered, scaled and masked."""
        return self._gather(index, self._ahead)

    def pasts(self, index: Tensor) -> Batch:
        """The same without a future: what a forecast starts from."""
        return self._gather(index, self._ahead[: self.lookback])

    def _gather(self, index: Tensor, ahead: Tensor) -> Batch:
        index = index.to(self.device, non_blocking=True)
        series = self.series[index]
        rows = self.starts[index][:, None] + ahead
        mask = None
        if self.padded:
            begin = self.begin[index][:, None]
            mask = rows[:, : self.lookback] >= begin
            rows = torch.maximum(rows, begin)
        cells = self.values[rows]
        one = len(self.mean) == 1
        mean, inverse = (self.mean, self.inverse) if one else (self.mean[series], self.inverse[series])
        cells = cells.sub_(mean[:, None]).mul_(inverse[:, None])
        if self.first is not None:
            # Before the first observed value there is nothing to repeat: the training mean stands there, which is 0.
            cells.masked_fill_(rows[:, :, None] < self.first[series][:, None], 0)
        if self.idle is not None:
            cells[:, :, : self.targets].masked_fill_(rows[:, :, None] < self.idle[index][:, None], 0)
        if mask is not None:
            cells[:, : self.lookback].masked_fill_(~mask[:, :, None], 0)
        observed = None if self.observed is None else self.observed[rows[:, self.lookback :]].transpose(1, 2)
        marks = [] if self.marks is None else [self.marks[rows]]
        if self.known:
            marks.append(cells[:, :, self.channels :])
        if self.statics is not None:
            marks.append(self.statics[series][:, None].expand(-1, rows.shape[1], -1))
        joined = (marks[0] if len(marks) == 1 else torch.cat(marks, dim=2)).transpose(1, 2) if marks else None
        cells = cells.transpose(1, 2)
        return Batch(
            past=cells[:, : self.channels, : self.lookback].contiguous(),
            future=cells[:, : self.targets, self.lookback :],
            mask=mask,
            observed=observed,
            past_marks=None if joined is None else joined[..., : self.lookback],
            future_marks=None if joined is None else joined[..., self.lookback :],
            series=series,
        )

    def _put(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(array).to(self.device)
