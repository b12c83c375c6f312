"""Measure a run: test errors pooled over every cell, training time, latency and peak memory."""

import math
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rearview.bench.rows.row import as_json
from rearview.data.windows import Source
from rearview.models.contract import Model
from rearview.tasks.objectives import Forecast
from rearview.train import Epoch, History, TrainingError
from rearview.train.evaluation import autocast, evaluation_mode
from rearview.train.settings import Precision

_WARM_UPS, _REPEATS = 5, 30


@dataclass(frozen=True, slots=True)
class Errors:
    """Means over all observed cells of all windows, never means of means."""

    mse: float
    mae: float
    original_mse: float
    """In original units, channels of different units added up as they are."""
    original_mae: float


def errors(
    network: Model,
    task: Forecast,
    source: Source,
    index: Tensor,
    std: NDArray[np.float64],
    *,
    batch: int,
    precision: Precision = "float32",
) -> Errors:
    """The errors of a point forecast on the windows of `index`; `std` [target] leads back to original units."""
    # A standardised error times its channel's deviation is the error in original units: sums per channel give both.
    squares, sizes, cells = torch.zeros(3, source.targets, dtype=torch.float64, device=source.device)
    with torch.no_grad():
        for some in torch.split(index, batch):
            windows = source.batch(some)
            with autocast(source.device, precision):
                yhat = task.forecasts(network, windows)[..., 0]
            error = yhat.double() - windows.future.double()
            observed = torch.ones_like(error) if windows.observed is None else windows.observed.double()
            error *= observed
            squares += error.square().sum((0, 2))
            sizes += error.abs().sum((0, 2))
            cells += observed.sum((0, 2))
    scale = torch.from_numpy(std).to(source.device)
    sums = torch.stack([squares.sum(), sizes.sum(), (squares * scale.square()).sum(), (sizes * scale).sum()])
    pooled = Errors(*(sums / cells.sum()).tolist())
    if not math.isfinite(pooled.mse):
        raise TrainingError(
            f"The test error is {pooled.mse}, although training ended well; use precision='float32', a lower "
            "learning_rate or clip=1.0, and look for huge values in the test rows."
        )
    return pooled


def best_epoch(history: History) -> Epoch:
    """The epoch whose weights are tested."""
    # Training ends well on Ctrl-C, but a row of a run cut short would pass for a whole one.
    if history.ended == "interrupted" or history.best_epoch is None:
        raise KeyboardInterrupt
    return history.epochs[history.best_epoch - 1]


def training_facts(history: History | None) -> dict[str, object]:
    """The columns that training fills in rows of every task; None: nothing was trained."""
    if history is None:
        return {"epochs": 0, "best_epoch": None, "train_seconds": 0.0, "windows_per_second": None, "loop": "eager"}
    return {
        "epochs": len(history.epochs),
        "best_epoch": history.best_epoch,
        "train_seconds": history.seconds,
        "windows_per_second": history.windows / history.seconds,
        "loop": "+".join(word for word in ("compiled", "captured") if getattr(history, word)) or "eager",
        "setup_seconds": history.preparing_seconds,
        "curve": as_json({"train": _losses(history, "train_loss"), "validation": _losses(history, "validation_loss")}),
    }


def _losses(history: History, name: str) -> list[float]:
    """The losses of all epochs to six digits, where they are numbers."""
    values = [getattr(epoch, name) for epoch in history.epochs]
    return [float(f"{value:.6g}") for value in values if value is not None and math.isfinite(value)]


def latency(network: Model, source: Source, precision: Precision = "float32") -> float:
    """Median time of a forward pass of one window, in milliseconds."""
    first = torch.zeros(1, dtype=torch.int64)
    window = source.batch(first) if network.shape.future else source.pasts(first)
    with autocast(source.device, precision):
        return _median_ms(
            lambda: network(window.past, window.past_marks, window.future_marks, mask=window.mask), source.device
        )


def latency_of_zeros(network: Model) -> float:
    """The same of a window of zeros, for networks that are fed values alone."""
    device = next((weight.device for weight in network.parameters()), torch.device("cpu"))
    window = torch.zeros(1, network.shape.channels, network.shape.lookback, device=device)
    with evaluation_mode(network):
        return _median_ms(lambda: network(window), device)


def _median_ms(forward: Callable[[], object], device: torch.device) -> float:
    times = []
    with torch.no_grad():
        for _ in range(_WARM_UPS + _REPEATS):
            _wait(device)
            started = time.perf_counter()
            forward()
            _wait(device)
            times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times[_WARM_UPS:])


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class PeakMemory:
    """The most memory held since this object was made: torch's on a CUDA device, else the process's."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        else:
            # Linux then counts the process's peak from now on; elsewhere it goes on from the start of the process.
            with suppress(OSError):
                Path("/proc/self/clear_refs").write_text("5", encoding="ascii")

    def read(self) -> int | None:
        """In bytes; None where the system does not say."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device)
        return _resident_peak()


def _resident_peak() -> int | None:
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
