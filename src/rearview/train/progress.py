"""One line on the terminal that says how far a training is, or a whole job."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol, Self, TextIO, runtime_checkable

from rearview.core.errors import SettingsError
from rearview.train.history import Epoch

REFRESH_SECONDS = 0.2
PLAIN_SECONDS = 20.0
"""Where no terminal is, a job says so often where it stands."""


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
    """One line, rewritten at most five times a second and wiped at the end; nothing where no terminal is.

    With `log`, every epoch leaves a line, and every stage of a job.
    """

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic, *, log: bool = False
    ) -> None:
        self.stream = stream or sys.stderr
        self.clock = clock
        self.log = log
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
            left = show_time((self.epochs * self.windows - visited) / max(speed, 1e-9))
            validation = "" if self.validation is None else f"  validation {self.validation:.4g}"
            self._draw(
                f"epoch {epoch}/{self.epochs}  {done / self.windows:4.0%}  loss {loss():.4g}{validation}"
                f"  {speed:,.0f} windows/s  {left} left at most"
            )

    def epoch(self, epoch: Epoch) -> None:
        self.validation = epoch.validation_loss
        validation = "" if epoch.validation_loss is None else f", validation {epoch.validation_loss:.4g}"
        self._note(
            f"epoch {epoch.number}/{self.epochs}: loss {epoch.train_loss:.4g}{validation}, {epoch.seconds:.1f} s"
        )

    def end(self) -> None:
        if self.shown:
            self._draw("")

    def _note(self, text: str) -> None:
        """A line that stays, where one is wanted."""
        if self.log:
            self.stream.write(("\r\x1b[K" if self.shown else "") + f"{text}\n")

    def _draw(self, text: str) -> None:
        columns = shutil.get_terminal_size().columns
        self.stream.write("\r\x1b[K" + text[: columns - 1])
        self.stream.flush()


class JobLine(Line):
    """One line over a whole job: the time, what runs, how far its training is, and what is left.

    On a terminal it is rewritten, also while nothing reports; elsewhere a plain line comes now and then.
    """

    def __init__(
        self,
        limit: float | None = None,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        log: bool = False,
        spent: float = 0.0,
    ) -> None:
        super().__init__(stream, clock, log=log)
        self.limit = limit
        self.said = self.clock()
        self.job_started = self.said - spent  # what the job took before there was a line
        self.doing = self.detail = ""
        self.left: tuple[str, ...] = ()
        self._lock = threading.RLock()
        self._over = threading.Event()

    def stage(self, doing: str, left: Sequence[str] = ()) -> None:
        """Say what runs now, and what comes after it."""
        self.doing, self.left, self.detail = doing, tuple(left), ""
        with self._lock:
            self._note(self.describe(self.clock()))
        self.refresh()

    def refresh(self) -> None:
        """Show where the job stands, if it is time to."""
        with self._lock:
            now = self.clock()
            if self.shown:
                super()._draw(self.describe(now))
            elif now - self.said >= PLAIN_SECONDS and self.doing:
                self.said = now
                self.stream.write(f"{self.describe(now)}\n")
                self.stream.flush()

    def describe(self, now: float) -> str:
        """The line."""
        limit = "" if self.limit is None else f" of {show_time(self.limit)}"
        after = f"; left: {', '.join(self.left)}" if self.left else ""
        detail = f" ({self.detail})" if self.detail else ""
        return f"{show_time(now - self.job_started)}{limit}  {self.doing}{after}{detail}"

    def wipe(self) -> None:
        """Clear the line, so that something else can be printed."""
        if self.shown:
            with self._lock:
                super()._draw("")

    def __enter__(self) -> Self:
        threading.Thread(target=self._tick, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: object, trace: TracebackType | None) -> None:
        self._over.set()
        self.wipe()

    def _tick(self) -> None:
        while not self._over.wait(1.0):
            self.refresh()

    def _draw(self, text: str) -> None:
        self.detail = text
        self.refresh()


def show_time(seconds: float) -> str:
    """Seconds as minutes:seconds, or hours:minutes:seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
