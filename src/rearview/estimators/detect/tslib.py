"""The detection protocol of the Time-Series-Library with all of its habits, to show what they contribute to numbers.

The protocol `published:tslib` (`rearview.bench.protocols`) lists the habits.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from rearview.data.panel import Panel
from rearview.data.windows import Source, Windows
from rearview.models.contract import Model
from rearview.tasks.alarms import Flags, Quality, adjust, chance_adjusted_f1, score_rows
from rearview.tasks.objectives import Detect

VALIDATION = 0.8


@dataclass(frozen=True, slots=True)
class Published:
    """What the protocol reports, and what it leaves out."""

    threshold: float
    raw: Quality
    """Before the adjustment."""
    adjusted: Quality
    by_chance: float
    """The adjusted F1 of as many flags thrown at random."""
    flagged: int
    rows: int
    """Rows as this protocol counts them: windows times their length."""
    anomalous: int


def join_series(panel: Panel) -> Panel:
    """All entities as one series, centred on one mean for each channel."""
    if panel.series == 1:
        return panel
    lengths = panel.lengths
    centre = (panel.centre * lengths[:, None]).sum(axis=0) / lengths.sum()
    shift = np.repeat(panel.centre - centre, lengths, axis=0)
    return replace(
        panel,
        values=(panel.values + shift).astype(np.float32),
        centre=centre[None],
        offsets=np.array([0, len(panel.values)], dtype=np.int64),
        first=np.zeros((1, len(panel.columns)), dtype=np.int64),
        stamps=np.arange(len(panel.values), dtype=np.int64),
        ids=("series",),
        layout=replace(panel.layout, form="wide", id_col=None),
    )


def stride_windows(rows: int, lookback: int, step: int, begin: int = 0) -> Windows:
    """Windows of whole length from row `begin` on, one each `step` rows; rows after the last one are in none."""
    starts = np.arange(begin + lookback, rows + 1, step, dtype=np.int64)
    return Windows(starts, np.zeros(len(starts), dtype=np.int64))


def validation_begin(rows: int) -> int:
    """The row from which the training rows also stop the training."""
    return int(rows * VALIDATION)


def energies(network: Model, source: Source, batch: int) -> NDArray[np.float32]:
    """[window, time]: the mean squared error over channels of every row of every window."""
    task = Detect()
    parts = []
    with torch.inference_mode():
        for index in torch.split(torch.arange(len(source), device=source.device), batch):
            parts.append(task.errors(network, source.batch(index)).mean(dim=1).cpu().numpy())
    return np.concatenate(parts)


def threshold(train: NDArray[np.floating], test: NDArray[np.floating], ratio: float) -> float:
    """The percentile above which `ratio` percent of training and test errors lie."""
    return float(np.percentile(np.concatenate([train.ravel(), test.ravel()]), 100 - ratio))


def judge(train: NDArray[np.floating], test: NDArray[np.floating], labels: Flags, ratio: float) -> Published:
    """Threshold, adjust and score errors [window, time] beside the labels of the same rows."""
    limit = threshold(train, test, ratio)
    flags, truth = test.ravel() > limit, labels.ravel()
    return Published(
        threshold=limit,
        raw=score_rows(truth, flags),
        adjusted=score_rows(truth, adjust(truth, flags)),
        by_chance=chance_adjusted_f1(truth, int(flags.sum())),
        flagged=int(flags.sum()),
        rows=len(flags),
        anomalous=int(truth.sum()),
    )


def window_labels(labels: NDArray[np.float64], which: Windows, lookback: int) -> Flags:
    """[window, time]: the labels of the rows of each window."""
    return (labels == 1)[which.starts[:, None] + np.arange(-lookback, 0)]
