"""Work in processes that are killed, and runs that two commands make at once."""

import multiprocessing
import os
import signal
import sys
import time

import pytest

from rearview.bench.claim import claimed
from rearview.bench.pool import spread

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and locks are those of POSIX")


def doubled(number):
    """Twice a number; the process of 3 is killed, and that of 5 finds its number bad."""
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 5:
        raise ValueError("five")
    return 2 * number


def hold(folder, name, held, free):
    """Claims a run until told; run by another process."""
    with claimed(folder, name) as ours:
        held.put(ours)
        free.get()


def test_a_killed_process_takes_its_own_task_with_it_alone():
    found = dict(spread(doubled, [1, 2, 3, 4, 6], 2))
    assert found == {1: 2, 2: 4, 3: None, 4: 8, 6: 12}


def test_what_the_work_raises_is_raised():
    with pytest.raises(ValueError, match="five"):
        list(spread(doubled, [5], 2))


def test_nothing_begins_when_the_time_is_up():
    assert list(spread(doubled, [1, 2], 2, until=time.monotonic())) == []


def test_a_run_is_claimed_by_one_process_at_a_time(tmp_path):
    context = multiprocessing.get_context("spawn")
    held, free = context.Queue(), context.Queue()
    other = context.Process(target=hold, args=(tmp_path / "runs", "ff00", held, free))
    other.start()
    assert held.get()
    with claimed(tmp_path / "runs", "ff00") as ours:
        assert not ours
    with claimed(tmp_path / "runs", "ff01") as ours:
        assert ours
    free.put(None)
    other.join()
    with claimed(tmp_path / "runs", "ff00") as ours:
        assert ours
