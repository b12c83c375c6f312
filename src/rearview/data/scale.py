"""Standard scaling, fitted on training rows only: one mean and one standard deviation per series and column."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rearview.data.panel import Panel

SMALLEST = 1e-37  # of standard deviations: float32 holds its inverse
BLOCK = 1 << 16  # rows summed at a time, so that float64 copies stay small


@dataclass(frozen=True, slots=True)
class Scaler:
    """z = (value - centre - mean) / std; `mean` is relative to the panel's centre."""

    mean: NDArray[np.float64]
    """[series, column]."""
    std: NDArray[np.float64]
    """[series, column]: population standard deviation; 1 where a column does not vary."""

    @staticmethod
    def fit(panel: Panel, rows: NDArray[np.int64] | None = None) -> "Scaler":
        """Statistics of the observed cells among the first `rows[s]` rows of each series (None: all rows)."""
        taken = panel.lengths if rows is None else np.minimum(rows, panel.lengths)
        mean = np.zeros((panel.series, len(panel.columns)))
        std = np.ones_like(mean)
        for s, start in enumerate(panel.offsets[:-1].tolist()):
            mean[s], std[s] = _moments(panel, start, start + int(taken[s]))
        return Scaler(mean, std)

    @staticmethod
    def known(panel: Panel, ids: tuple[str, ...], mean: NDArray[np.float64], std: NDArray[np.float64]) -> "Scaler":
        """Statistics [id, column], in original units, of the series that were seen in training; others have their own.

        A wide panel has one series, whatever it is called.
        """
        place = {name: s for s, name in enumerate(ids)}
        own = None
        means, stds = np.empty_like(panel.centre), np.empty_like(panel.centre)
        for s, name in enumerate(panel.ids):
            seen = 0 if len(ids) == 1 and panel.layout.form == "wide" else place.get(name)
            if seen is None:
                own = own or Scaler.fit(panel)
                means[s], stds[s] = own.mean[s], own.std[s]
            else:
                means[s], stds[s] = mean[seen] - panel.centre[s], std[seen]
        return Scaler(means, stds)

    def original(self, scaled: NDArray[np.floating], panel: Panel, series: int, columns: slice) -> NDArray[np.float64]:
        """Values [..., column, step] of one series back in original units."""
        mean = (self.mean[series, columns] + panel.centre[series, columns])[:, None]
        return scaled.astype(np.float64) * self.std[series, columns][:, None] + mean


def _moments(panel: Panel, start: int, stop: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    columns = len(panel.columns)
    count, total, square = np.zeros(columns), np.zeros(columns), np.zeros(columns)
    for a in range(start, stop, BLOCK):
        cells = panel.values[a : min(a + BLOCK, stop)].astype(np.float64)
        if panel.observed is None:
            count += len(cells)
        else:
            seen = panel.observed[a : min(a + BLOCK, stop)]
            cells *= seen
            count += seen.sum(axis=0)
        total += cells.sum(axis=0)
        square += np.square(cells).sum(axis=0)
    mean = total / np.maximum(count, 1)
    variance = np.maximum(square / np.maximum(count, 1) - np.square(mean), 0)
    std = np.sqrt(variance)
    # What float32 can't tell from a constant is one: dividing by rounding noise would blow it up.
    scale = np.sqrt(square / np.maximum(count, 1))
    return mean, np.where((std > 1e-7 * scale) & (std > SMALLEST), std, 1.0)
