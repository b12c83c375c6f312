"""Small sets of cases that a small network can tell apart, and the settings of that network."""

from pathlib import Path
from typing import Any

import numpy as np

SETTINGS: dict[str, Any] = {"width": 16, "heads": 2, "depth": 1, "feed_forward": 32}
TRAINING: dict[str, Any] = {"epochs": 25, "learning_rate": 0.01}


def waves(cases: int = 60, channels: int = 2, steps: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three classes of noisy waves: slow, quick, flat; the phase is random."""
    random = np.random.default_rng(seed)
    labels = np.arange(cases) % 3
    speed = np.array([1.0, 4.0, 0.0])[labels]
    phase = random.uniform(0, 2 * np.pi, (cases, channels, 1))
    time = np.linspace(0, 2 * np.pi, steps)
    values = np.sin(speed[:, None, None] * time + phase) * (speed > 0)[:, None, None]
    return values + 0.1 * random.standard_normal((cases, channels, steps)), np.array(["slow", "quick", "flat"])[labels]


def unequal(X: np.ndarray, shortest: int = 24, seed: int = 1) -> list[np.ndarray]:
    """The cases cut at the front to lengths of their own; the first keeps its length."""
    random = np.random.default_rng(seed)
    lengths = random.integers(shortest, X.shape[2] + 1, len(X))
    lengths[0] = X.shape[2]
    return [one[:, -length:] for one, length in zip(X, lengths, strict=True)]


def write_ts(path: Path, X: Any, y: Any, **header: str) -> Path:
    """A .ts file of the cases; header lines can be replaced, or left out with an empty text."""
    classes = " ".join(dict.fromkeys(map(str, y)))
    lengths = {one.shape[1] for one in X}
    lines = {
        "problemName": path.stem,
        "timeStamps": "false",
        "missing": "false",
        "univariate": str(X[0].shape[0] == 1).lower(),
        "dimensions": str(X[0].shape[0]),
        "equalLength": str(len(lengths) == 1).lower(),
        "seriesLength": str(max(lengths)) if len(lengths) == 1 else "",
        "classLabel": f"true {classes}",
        **header,
    }
    head = [f"@{name} {text}" for name, text in lines.items() if text]
    body = [
        ":".join([*(",".join("?" if np.isnan(v) else f"{v:.6f}" for v in channel) for channel in one), str(label)])
        for one, label in zip(X, y, strict=True)
    ]
    path.write_text("\n".join(["# made for a test", *head, "@data", *body]) + "\n", encoding="utf-8")
    return path
