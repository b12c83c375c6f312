"""Which windows a detector looks at, and what it is asked to say about them."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from rearview.data.panel import Panel
from rearview.data.windows import Batch, Source, Windows


class WholeWindows(Source):
    """Windows that are asked for themselves: what should come out is what went in."""

    def batch(self, index: Tensor) -> Batch:
        given = self.pasts(index)
        return replace(given, future=given.past, observed=self._seen(index.to(self.device), given.mask))

    def _seen(self, index: Tensor, mask: Tensor | None) -> Tensor | None:
        """[batch, channel, time]: cells that were observed, none of them before the series began."""
        if self.observed is None:
            return None if mask is None else mask[:, None].expand(-1, self.targets, -1)
        rows = self.starts[index][:, None] + self._ahead[: self.lookback]
        rows = torch.maximum(rows, self.begin[self.series[index]][:, None])
        seen = self.observed[rows].transpose(1, 2)
        return seen if mask is None else seen & mask[:, None]


def covering(panel: Panel, lookback: int, stride: int) -> Windows:
    """Windows that hold every row of every series: one each `stride` rows, and one at the very end.

    A series shorter than a window has one window, padded at the front.
    """
    parts = []
    for a, b in panel.bounds():
        starts = np.arange(min(a + lookback, b), b, stride, dtype=np.int64)
        parts.append(np.append(starts, b))
    return _joined(parts)


def following(panel: Panel, lookback: int) -> Windows:
    """A window before every row that has at least a quarter of a window before it, padded at the front if need be."""
    least = max(1, lookback // 4)
    return _joined([np.arange(min(a + least, b), b, dtype=np.int64) for a, b in panel.bounds()])


def _joined(parts: list[np.ndarray[tuple[int], np.dtype[np.int64]]]) -> Windows:
    counts = [len(part) for part in parts]
    return Windows(np.concatenate(parts), np.repeat(np.arange(len(parts)), counts))
