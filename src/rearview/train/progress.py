"""One line on the terminal that says how far training is."""

import shutil
import sys
import time
from collections.abc import Callable
from typing import Protocol, TextIO, runtime_checkable

from rearview.core.errors import SettingsError
from rearview.train.history import Epoch

REFRESH_SECONDS = 0.2


@runtime_checkable
class Progress(Protocol):
    """Something that follows a run."""

    def begin(self, epochs: int, windows: int, done: int) -> None:
        """A run of `epochs` with `windows` each starts; `done` windows were visited before, if it is a resumed one."""

    def step(self, epoch: int, done: int, loss: Callable[[], float]) -> None:
        """An update is over: `done` windows of this epoch are visited; calling `loss` waits for the device."""

    def epoch(self, epoch: Epoch) -> None:
        """An epoch is over, validation included."""

    def end(self) -> None:
        """The run is over, well or not."""


class Silent:
    """Progress that shows nothing."""

    def begin(self, epochs: int, windows: int, done: int) -> None: ...

    def step(self, epoch: int, done: int, loss: Callable[[], float]) -> None: ...

    def epoch(self, epoch: Epoch) -> None: ...

    def end(self) -> None: ...


def follower(progress: "Progress | bool | None") -> Progress:
    """The follower of a run: True is a line on the terminal, False and None nothing; other objects must be one."""
    if progress is None or isinstance(progress, bool):
        return Line() if progress else Silent()
    if not isinstance(progress, Progress):
        raise SettingsError(
            f"progress is {progress!r}; it is True for a line on the terminal, or an object with the methods begin, "
            "step, epoch and end (rearview.train.Progress)."
        )
    return progress


class Line:
    """One line, rewritten at most five times a second and wiped at the end; nothing where no terminal is."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream = stream or sys.stderr
        self.clock = clock
        self.shown = self.stream.isatty()
        self.begin(epochs=0, windows=0, done=0)

    def begin(self, epochs: int, windows: int, done: int) -> None:
        self.epochs, self.windows, self.before = epochs, windows, done
        self.started = self.clock()
        self.drawn = self.started - REFRESH_SECONDS
        self.validation: float | None = None

    def step(self, epoch: int, done: int, loss: Callable[[], float]) -> None:
        now = self.clock()
        if self.shown and now - self.drawn >= REFRESH_SECONDS:
            self.drawn = now
            visited = (epoch - 1) * self.windows + done
            speed = (visited - self.before) / max(now - self.started, 1e-9)
            minutes, seconds = divmod(round((self.epochs * self.windows - visited) / max(speed, 1e-9)), 60)
            left = f"{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"{minutes}:{seconds:02}"
            validation = "" if self.validation is None else f"  validation {self.validation:.4g}"
            self._draw(
                f"epoch {epoch}/{self.epochs}  {done / self.windows:4.0%}  loss {loss():.4g}{validation}"
                f"  {speed:,.0f} windows/s  {left} left at most"
            )

    def epoch(self, epoch: Epoch) -> None:
        self.validation = epoch.validation_loss

    def end(self) -> None:
        if self.shown:
            self._draw("")

    def _draw(self, text: str) -> None:
        columns = shutil.get_terminal_size().columns
        self.stream.write("\r\x1b[K" + text[: columns - 1])
        self.stream.flush()
