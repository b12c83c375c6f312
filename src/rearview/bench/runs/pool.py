"""Work spread over processes that may be killed: one that dies takes its own task with it, and no other.

A pool learns that a process of it died, not which task it had. So every task that was under way is tried once more by
itself: the one that loses its process again is the one. What rearview warns of in any of the processes is warned of
here, once.
"""

import multiprocessing
import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from rearview.core.errors import RearviewWarning, collect_warnings

Task = TypeVar("Task")
Result = TypeVar("Result")

KILLED = (
    "The process that made this run was killed from outside, most often because the machine ran out of memory; use "
    "fewer workers or a smaller batch."
)


def spread(
    work: Callable[[Task], Result], tasks: Iterable[Task], workers: int, until: float | None = None
) -> Iterator[tuple[Task, Result | None]]:
    """Each task with its result, as they end: None where its process was killed.

    No task begins after `until`, by the monotonic clock. What `work` raises is raised here.
    """
    waiting = deque(tasks)
    said = set[str]()
    while waiting and has_time(until):
        for task in (yield from _run_together(work, waiting, workers, until, said)):
            if (yield from _run_together(work, deque([task]), 1, None, said)):
                yield task, None


@dataclass(frozen=True, slots=True)
class Reply(Generic[Result]):
    """The result of a task in another process, and what rearview warned of on the way."""

    result: Result
    warned: list[str]

    def repeat_warnings(self, said: set[str]) -> Result:
        """The result; its warnings become this process's, unless they are among those `said` already."""
        for sentence in self.warned:
            if sentence not in said:
                said.add(sentence)
                warnings.warn(sentence, RearviewWarning, stacklevel=2)
        return self.result


def reply(work: Callable[[Task], Result], task: Task) -> Reply[Result]:
    """Do a task in this process, whose warnings another one will repeat."""
    with collect_warnings(lambda sentence: None) as warned:
        return Reply(work(task), warned)


def has_time(until: float | None) -> bool:
    """Whether something may still begin."""
    return until is None or time.monotonic() < until


@contextmanager
def hold_run(folder: Path, name: str) -> Iterator[bool]:
    """Hold the run called `name`, a hexadecimal number, until the block ends, so that two commands that make the same
    run don't share its checkpoint; False: another process holds it. Where the system has no locks it is always held."""
    try:
        import fcntl
    except ImportError:
        yield True
        return
    folder.mkdir(parents=True, exist_ok=True)
    # A byte of one file for each run: nothing is to be cleared away, and a lock ends with its process.
    handle = os.open(folder / "claims.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, int(name, 16) % 2**62)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


def _run_together(
    work: Callable[[Task], Result], waiting: deque[Task], workers: int, until: float | None, said: set[str]
) -> Generator[tuple[Task, Result], None, list[Task]]:
    """The results of the waiting tasks until all have ended or a process dies; returns those then under way."""
    running: dict[Future[Reply[Result]], Task] = {}
    # Spawned, not forked: a forked child can't use CUDA.
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawned, initializer=_end_with_parent) as pool:
        while True:
            try:
                while waiting and len(running) < workers and has_time(until):
                    future = pool.submit(reply, work, waiting[0])
                    running[future] = waiting.popleft()
            except BrokenProcessPool:
                wait(running)
            if not running:
                return []
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            if any(map(_is_killed, ended)):
                ended, _ = wait(running)
            for future in ended:
                if not _is_killed(future):
                    yield running.pop(future), future.result().repeat_warnings(said)
            if any(future in running for future in ended):
                return list(running.values())


def _end_with_parent() -> None:
    """Let this process end when the one that spawned it does: killed, that one can't tell it to."""

    def watch() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _is_killed(future: Future[Reply[Result]]) -> bool:
    return isinstance(future.exception(), BrokenProcessPool)
