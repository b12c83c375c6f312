"""A generated data set small enough to train on in a blink, and a row with something in every column."""

from pathlib import Path

import numpy as np

from rearview.bench.rows.row import Row
from rearview.data.datasets.catalogue import Dataset
from rearview.data.step import Step

ROWS, CHANNELS, LOOKBACK, HORIZON = 503, 3, 29, 7
TRAIN_END, TEST_START = 352, 403  # int(0.7 * 503), 503 - int(0.2 * 503)

SMALL = Dataset("Small", ("small.csv",), ROWS, CHANNELS, step=Step(1, "h"), rule="custom", source="our own desk")


def numbers() -> np.ndarray:
    """[row, channel]: a daily cycle, a trend that test rows stand apart by, and noise."""
    draw = np.random.default_rng(17)
    hours = np.arange(ROWS)[:, None]
    wave = np.sin(2 * np.pi * hours / 24 + np.arange(CHANNELS)) * np.array([1.0, 20.0, 0.3])
    return np.round(wave + 0.01 * hours + 0.2 * draw.standard_normal((ROWS, CHANNELS)) + [0.0, 1000.0, -5.0], 4)


def write(path: Path, cells: np.ndarray | None = None, end: str = "\n") -> Path:
    """A CSV file of the cells, NaN as an empty field."""
    cells = numbers() if cells is None else cells
    stamps = np.datetime64("2021-03-01T00:00:00") + np.arange(len(cells)) * np.timedelta64(1, "h")
    lines = ["date," + ",".join(f"c{channel}" for channel in range(cells.shape[1]))]
    for stamp, row in zip(stamps.astype(str), cells, strict=True):
        fields = ["" if np.isnan(cell) else repr(float(cell)) for cell in row]
        lines.append(",".join([stamp.replace("T", " "), *fields]))
    path.write_bytes((end.join(lines) + end).encode())
    return path


def row(**changes: object) -> Row:
    """A row with awkward text and awkward numbers."""
    values: dict[str, object] = {
        "dataset": "Small",
        "file_sha256": "f0",
        "values_sha256": "0f",
        "rows": ROWS,
        "channels": CHANNELS,
        "protocol": "clean",
        "borders": '{"train":[0,352]}',
        "lookback": LOOKBACK,
        "horizon": HORIZON,
        "model": "patchtst",
        "attention": "softmax",
        "attention_settings": "{}",
        "calendar": "",
        "settings": '{"note":"a, \\"b\\"","width":16}',
        "training": '{"batch":32}',
        "seed": 3,
        "version": "0.1.0",
        "commit": "",
        "device": "cpu (a processor, of sorts)",
        "torch": "2.6.0",
        "threads": 1,
        "parameters": 11,
        "train_windows": 13,
        "validation_windows": 17,
        "test_windows": 1019,
        "epochs": 5,
        "best_epoch": None,
        "mse": 0.1 + 0.2,
        "mae": 1 / 3,
        "original_mse": 1e-17,
        "original_mae": 1e22,
        "validation_loss": 0.25,
        "train_seconds": 2.5,
        "total_seconds": 1234.56,
        "windows_per_second": None,
        "peak_memory_bytes": 2**40,
        "latency_ms": 0.7,
        "created": "2026-01-02T03:04:05+00:00",
    }
    return Row(**{**values, **changes})
