"""How long a portfolio may take, what it does in that time, and how much of a panel it looks at."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rearview import train
from rearview.core.wording import quantity
from rearview.data.panel import Panel
from rearview.data.panel_checks import TooShort, check_length
from rearview.estimators.base import Session
from rearview.estimators.forecast.spec import ForecastSpec

DEFAULT_LIMIT = 180.0
MOST_WINDOWS = 5
LEAST_ROWS = 3
START = 3.0
"""Seconds until the libraries of statistical models are loaded."""
LEAST_SPENT = 0.5
"""Seconds of the processor before which nothing is said of its speed."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Callbacks for the progress of a fit or a job."""

    progress: train.Progress | bool | None = None
    say: Callable[[str], None] = lambda _: None
    """Receives the plan, and a line for each model."""
    stage: Callable[[str, Sequence[str]], None] = lambda doing, left: None
    """Receives what runs now and what is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Listener):
    """How a portfolio is fitted."""

    time_limit: float = DEFAULT_LIMIT
    """Seconds, about."""
    quick: bool = False
    """Without networks that train."""
    windows: int | None = None
    """Backtest windows; None: as many as fit, five at most."""
    refit: bool = False
    """Train networks afresh at every window."""
    checkpoints: Path | None = None
    """Folder for what is finished: backtests of members and checkpoints of networks."""
    resume: bool = False
    started: float = field(default_factory=time.monotonic)
    made: tuple[float, float] = field(default_factory=lambda: (time.monotonic(), processor_seconds()))
    """When the options were made: by the clock, and in seconds of the processor."""

    def session(self, name: str, seconds: float | None) -> Session:
        """Where a network of this name trains, and how long; without seconds, nothing that trains."""
        path = None
        if self.checkpoints is not None and seconds is not None:
            path = self.checkpoints / f"{name}.safetensors"
        return Session(path, self.resume and path is not None, self.progress, seconds)

    def left(self) -> float:
        """Seconds left."""
        return self.started + self.time_limit - time.monotonic()

    def slowness(self) -> float:
        """How many seconds one of the processor takes: more than 1 where others use the machine, too."""
        clock, processor = self.made
        spent = processor_seconds() - processor
        return max(1.0, (time.monotonic() - clock) / spent) if spent > LEAST_SPENT else 1.0


def processor_seconds() -> float:
    """Seconds that the processor has spent on this process and on those it waited for."""
    return sum(os.times()[:4])


def check_rows(panel: Panel, spec: ForecastSpec) -> None:
    """Refuse a panel that is too short for the look-back asked for, or for anything."""
    if spec.lookback is not None:
        check_length(panel, spec.lookback, spec.horizon)
    longest = int(panel.lengths.max())
    if longest < LEAST_ROWS:
        raise TooShort(
            f"{panel.layout.source} is not long enough: a forecast needs {LEAST_ROWS} rows, but there are {longest}; "
            "bring more history."
        )


def choose_windows(panel: Panel, horizon: int, seasons: tuple[int, ...], requested: int | None) -> int:
    """As many backtest windows as leave two seasons, or two horizons, before the first, five at most; or as asked."""
    longest = int(panel.lengths.max())
    if requested is not None:
        needed = requested * horizon + LEAST_ROWS
        if requested and needed > longest:
            raise TooShort(
                f"{panel.layout.source} is not long enough: {quantity(requested, 'backtest window')} of "
                f"{quantity(horizon, 'step')} and {LEAST_ROWS} rows before them need {needed:,} rows, but there are "
                f"{longest:,}; ask for fewer windows."
            )
        return requested
    needed = max([2 * season + 2 for season in seasons if 3 * season <= longest] + [2 * horizon, 12])
    return max(0, min(MOST_WINDOWS, (longest - needed) // horizon))
