"""The progress line: what it shows, how seldom, and where not at all."""

import io

import pytest
from toys import TRAIN, VALIDATION, Squares, Table, network

from rearview import train
from rearview.core.errors import SettingsError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_progress_line_says_how_far_training_is() -> None:
    stream, times = Terminal(), iter([0.0, 0.0, 2.0])
    line = train.Line(stream, clock=lambda: next(times))
    line.begin(epochs=3, windows=100, done=0)
    line.epoch(train.Epoch(1, 0.5, 0.4, 1e-3, 1.0))
    line.step(2, 50, lambda: 0.123456)
    assert stream.getvalue() == "\r\x1b[Kepoch 2/3   50%  loss 0.1235  validation 0.4  75 windows/s  0:02 left at most"
    line.end()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_the_progress_line_counts_speed_from_where_a_resumed_run_began() -> None:
    stream, times = Terminal(), iter([0.0, 0.0, 10.0])
    line = train.Line(stream, clock=lambda: next(times))
    line.begin(epochs=100, windows=1000, done=1000)
    line.step(2, 100, lambda: 1.0)
    assert "10 windows/s" in stream.getvalue()
    assert "2:44:50 left" in stream.getvalue()


def test_the_progress_line_reads_the_loss_at_most_five_times_a_second() -> None:
    ticks = iter(tick / 100 for tick in range(1000))
    line = train.Line(Terminal(), clock=lambda: next(ticks))
    line.begin(epochs=1, windows=300, done=0)
    reads = []
    for done in range(300):
        line.step(1, done, lambda: float(len(reads)) if reads.append(0) is None else 0.0)
    assert len(reads) == 15


def test_the_progress_line_fits_the_terminal(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    line = train.Line(stream)
    line.begin(epochs=1, windows=10, done=0)
    line.step(1, 5, lambda: 1.0)
    assert stream.getvalue() == "\r\x1b[Kepoch 1/1   50%  lo"


def test_the_progress_line_is_silent_where_no_terminal_is() -> None:
    stream = io.StringIO()
    train.fit(network(), Squares(), Table(), TRAIN, None, train.Settings(epochs=1), progress=train.Line(stream))
    assert stream.getvalue() == ""


def test_a_run_is_followed_from_its_beginning_to_its_end() -> None:
    calls: list[object] = []

    class Notes:
        def begin(self, epochs: int, windows: int, done: int) -> None:
            calls.append(("begin", epochs, windows, done))

        def step(self, epoch: int, done: int, loss) -> None:
            calls.append((epoch, done, loss() > 0))

        def epoch(self, epoch: train.Epoch) -> None:
            calls.append(epoch.number)

        def end(self) -> None:
            calls.append("end")

    settings = train.Settings(epochs=2, batch=32)
    train.fit(network(), Squares(), Table(), TRAIN, VALIDATION, settings, progress=Notes())
    epochs = [[(epoch, 32, True), (epoch, 47, True), epoch] for epoch in (1, 2)]
    assert calls == [("begin", 2, 47, 0), *epochs[0], *epochs[1], "end"]


def test_true_is_a_line_and_nothing_is_nobody() -> None:
    assert isinstance(train.follower(True), train.Line)
    assert isinstance(train.follower(None), train.Silent)
    assert isinstance(train.follower(False), train.Silent)
    line = train.Line(Terminal())
    assert train.follower(line) is line
    with pytest.raises(SettingsError, match=r"progress is 3; it is True .* begin, step, epoch and end"):
        train.follower(3)


def test_the_line_of_a_job_says_what_runs_how_far_it_is_and_what_is_left() -> None:
    stream, now = Terminal(), [100.0]
    line = train.JobLine(180.0, stream, clock=lambda: now[0])
    now[0] = 112.0
    line.stage("backtest of ets", ["ridge", "patchtst"])
    assert stream.getvalue().endswith("\r\x1b[K0:12 of 3:00  backtest of ets; left: ridge, patchtst")
    line.begin(epochs=3, windows=100, done=0)
    line.step(2, 50, lambda: 0.5)
    assert "left: ridge, patchtst (epoch 2/3   50%" in stream.getvalue()
    line.wipe()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_the_line_of_a_job_is_plain_and_seldom_where_no_terminal_is() -> None:
    stream, now = io.StringIO(), [0.0]
    line = train.JobLine(None, stream, clock=lambda: now[0])
    for second in range(61):
        now[0] = float(second)
        line.stage("backtest of ets", ["ridge"])
    assert stream.getvalue().splitlines() == [
        f"{time}  backtest of ets; left: ridge" for time in ("0:20", "0:40", "1:00")
    ]


def test_a_job_that_is_over_leaves_no_line() -> None:
    stream = Terminal()
    with train.JobLine(stream=stream) as line:
        line.stage("page")
    assert stream.getvalue().endswith("\r\x1b[K")
