"""Work spread over processes that may be killed: one that dies takes its own task with it, and no other.

A pool is told that a process of it died, not which task it had in hand. So every task that was under way is tried once
more by itself: the one that loses its process again is the one. What rearview warns of in any of the processes is
warned of here, once.
"""

import multiprocessing
import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple, TypeVar

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
    """Each task with what came of it, as they end: None where its process was killed.

    No task begins after `until`, by the monotonic clock. What `work` raises is raised here.
    """
    waiting = deque(tasks)
    said = set[str]()
    while waiting and in_time(until):
        for task in (yield from _together(work, waiting, workers, until, said)):
            if (yield from _together(work, deque([task]), 1, None, said)):
                yield task, None


class Done(NamedTuple):
    """What came of a task in another process, and what rearview warned of on the way."""

    result: Any
    warned: list[str]


def done(work: Callable[[Task], Result], task: Task) -> Done:
    """Do a task in this process, whose warnings another one will tell."""
    with collect_warnings(lambda sentence: None) as warned:
        return Done(work(task), warned)


def retold(found: Done, said: set[str]) -> Any:
    """The result of a task of another process; its warnings become this one's, unless they are said already."""
    for sentence in found.warned:
        if sentence not in said:
            said.add(sentence)
            warnings.warn(sentence, RearviewWarning, stacklevel=2)
    return found.result


def in_time(until: float | None) -> bool:
    """Whether something may still begin."""
    return until is None or time.monotonic() < until


def through(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    names: Sequence[str],
    *,
    workers: int,
    until: float | None,
    there: Callable[[Task], Sequence[Result]],
    tell: Callable[[str], None],
) -> Iterator[tuple[Task, Result | None]]:
    """Each task with what came of it; then those that there was no time for and that were done before.

    `there` gives what came of a task before. One worker is this process, which tells the name of every task
    that it begins.
    """
    begun = set[int]()
    found = _in_turn(work, tasks, names, until, there, tell) if workers == 1 else spread(work, tasks, workers, until)
    for task, result in found:
        begun.add(id(task))
        yield task, result
    for task in tasks:
        if id(task) not in begun:
            yield from ((task, result) for result in there(task)[-1:])


def _in_turn(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    names: Sequence[str],
    until: float | None,
    there: Callable[[Task], Sequence[Result]],
    tell: Callable[[str], None],
) -> Iterator[tuple[Task, Result | None]]:
    for place, (name, task) in enumerate(zip(names, tasks, strict=True), start=1):
        if not in_time(until):
            return
        if not there(task):
            tell(f"run {place} of {len(tasks)}: {name}")
        yield task, work(task)


def not_begun(count: int, of: int) -> str:
    """What is said of runs that there was no time for."""
    were = "run was" if of == 1 else "runs were"
    return (
        f"time was up: {count} of {of} {were} not begun; the same command goes on with {'it' if count == 1 else 'them'}"
    )


def _together(
    work: Callable[[Task], Result], waiting: deque[Task], workers: int, until: float | None, said: set[str]
) -> Generator[tuple[Task, Result], None, list[Task]]:
    """What comes of the tasks waiting until all have ended or a process dies: then those that were under way."""
    running: dict[Future[Done], Task] = {}
    # Spawned, not forked: a forked child can't use CUDA.
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawned, initializer=_end_with_parent) as pool:
        while True:
            try:
                while waiting and len(running) < workers and in_time(until):
                    future = pool.submit(done, work, waiting[0])
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
                    yield running.pop(future), retold(future.result(), said)
            if any(future in running for future in ended):
                return list(running.values())


def _end_with_parent() -> None:
    """Let this process end when the one that spawned it does: killed, that one can't tell it to."""
    threading.Thread(target=_outlive_nobody, daemon=True).start()


def _outlive_nobody() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _killed(future: Future[Any]) -> bool:
    return isinstance(future.exception(), BrokenProcessPool)
