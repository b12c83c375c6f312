"""Work spread over processes that may be killed: one that dies takes its own task with it, and no other.

A pool is told that a process of it died, not which task it had in hand. So every task that was under way is tried once
more by itself: the one that loses its process again is the one.
"""

import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

KILLED = (
    "The process that made this run was killed from outside, most often because the machine ran out of memory; use "
    "fewer workers or a smaller batch."
)


def spread(
    work: Callable[[Task], Result], tasks: Iterable[Task], workers: int, until: float | None = None
) -> Iterator[tuple[Task, Result | None]]:
    """Each task with what came of it, as they end: None where its process was killed.

    No task begins after `until`, by the monotonic clock. What `work` raises is raised here.
    """
    waiting = deque(tasks)
    while waiting and in_time(until):
        for task in (yield from _together(work, waiting, workers, until)):
            if (yield from _together(work, deque([task]), 1, None)):
                yield task, None


def in_time(until: float | None) -> bool:
    """Whether something may still begin."""
    return until is None or time.monotonic() < until


def _together(
    work: Callable[[Task], Result], waiting: deque[Task], workers: int, until: float | None
) -> Generator[tuple[Task, Result], None, list[Task]]:
    """What comes of the tasks waiting until all have ended or a process dies: then those that were under way."""
    running: dict[Future[Result], Task] = {}
    # Spawned, not forked: a forked child can't use CUDA.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        while True:
            try:
                while waiting and len(running) < workers and in_time(until):
                    future = pool.submit(work, waiting[0])
                    running[future] = waiting.popleft()
            except BrokenProcessPool:
                wait(running)
            if not running:
                return []
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            if any(map(_killed, ended)):
                ended, _ = wait(running)
            for future in ended:
                if not _killed(future):
                    yield running.pop(future), future.result()
            if any(future in running for future in ended):
                return list(running.values())


def _killed(future: Future[Any]) -> bool:
    return isinstance(future.exception(), BrokenProcessPool)
