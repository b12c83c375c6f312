"""Split a data set where the literature does: training, validation and test windows, and the training rows' scaler."""

from dataclasses import dataclass

import numpy as np

from rearview.core.errors import SettingsError
from rearview.data.datasets import catalogue
from rearview.data.datasets.borders import Borders, Range
from rearview.data.datasets.catalogue import Dataset
from rearview.data.panel import Panel
from rearview.data.scale import Scaler
from rearview.data.windows import Windows, list_windows


@dataclass(frozen=True, slots=True)
class Parts:
    """Every window of each part; none is dropped."""

    borders: Borders
    train: Windows
    validation: Windows
    test: Windows
    scaler: Scaler
    """Fitted on training rows alone."""


def split(panel: Panel, dataset: Dataset, lookback: int, horizon: int) -> Parts:
    """The parts of a benchmark set; a part too short for one window is refused."""
    if horizon < 1:
        raise SettingsError(f"horizon is {horizon}; it must be at least 1.")
    if panel.series != 1:
        raise SettingsError(
            f"{dataset.name} holds {panel.series:,} series, but published borders are rows of one; a benchmark set "
            "must be wide: one series, a column for each channel."
        )
    borders = borders_for(dataset, panel.values.shape[0], lookback, horizon)
    first, last = borders.train
    rows = panel.between(np.array([first]), np.array([last]))
    return Parts(
        borders,
        _windows(panel, borders.train, lookback, horizon),
        _windows(panel, borders.validation, lookback, horizon),
        _windows(panel, borders.test, lookback, horizon),
        Scaler.fit(rows),
    )


def borders_for(dataset: Dataset, rows: int, lookback: int, horizon: int) -> Borders:
    """The borders of a benchmark set of so many rows; a part too short for one window is refused."""
    borders = catalogue.borders(dataset, rows, lookback)
    parts = {"training": borders.train, "validation": borders.validation, "test": borders.test}
    for part, (first, last) in parts.items():
        if last - first < lookback + horizon:
            raise SettingsError(
                f"A lookback of {lookback:,} and a horizon of {horizon:,} need {lookback + horizon:,} rows, but the "
                f"{part} part has {last - first:,} (context included); use a shorter horizon."
            )
    return borders


def _windows(panel: Panel, rows: Range, lookback: int, horizon: int) -> Windows:
    """Every window that lies within the rows of a part, its context included."""
    first, last = rows
    return list_windows(panel, lookback, horizon, np.array([first + lookback]), np.array([last]))
