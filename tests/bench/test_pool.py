"""Work in processes that are killed, and runs that two commands make at once."""

import multiprocessing
import os
import signal
import sys
import time
import warnings
from pathlib import Path

import pytest

from rearview.bench.runs.pool import hold_run, spread
from rearview.core.errors import RearviewWarning

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and locks are those of POSIX")
PATIENCE_SECONDS = 60


def doubled(number):
    """Twice a number; the process of 3 is killed, and that of 5 finds its number bad."""
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 5:
        raise ValueError("five")
    return 2 * number


def wary(number):
    """The number, about which it warns in three ways."""
    warnings.warn("every number is doubtful", RearviewWarning, stacklevel=1)
    warnings.warn(f"{number % 2} is doubtful", RearviewWarning, stacklevel=1)
    warnings.warn("somebody else's", UserWarning, stacklevel=1)
    return number


def hold(folder, name, held, free):
    """Claims a run until told; run by another process."""
    with hold_run(folder, name) as ours:
        held.put(ours)
        free.get()


def test_a_killed_process_takes_its_own_task_with_it_alone():
    found = dict(spread(doubled, [1, 2, 3, 4, 6], 2))
    assert found == {1: 2, 2: 4, 3: None, 4: 8, 6: 12}


def pause(place):
    """Tells its process, and takes its time."""
    place.write_text(str(os.getpid()), encoding="ascii")
    time.sleep(PATIENCE_SECONDS)


def parent(place):
    """Hands a task that takes long to a process of its own; run by another process."""
    list(spread(pause, [place], 1))


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked up in /proc")
def test_processes_end_with_one_that_is_killed(tmp_path):
    place = tmp_path / "worker"
    process = multiprocessing.get_context("spawn").Process(target=parent, args=(place,))
    process.start()
    until = time.monotonic() + PATIENCE_SECONDS
    while not place.exists() or not place.read_text(encoding="ascii"):
        assert time.monotonic() < until
        time.sleep(0.02)
    worker = int(place.read_text(encoding="ascii"))
    process.kill()
    process.join()
    while time.monotonic() < until and alive(worker):
        time.sleep(0.02)
    assert not alive(worker)


def alive(number):
    """Whether a process runs; one that ended and is waited for by nobody does not."""
    try:
        return Path(f"/proc/{number}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_the_work_raises_is_raised():
    with pytest.raises(ValueError, match="five"):
        list(spread(doubled, [5], 2))


def test_warnings_of_all_processes_are_reported_here_once_and_not_there(capfd):
    with pytest.warns(RearviewWarning) as told:
        assert sorted(found for _, found in spread(wary, [1, 2, 3, 4], 2)) == [1, 2, 3, 4]
    expected = ["0 is doubtful", "1 is doubtful", "every number is doubtful"]
    assert sorted(str(one.message) for one in told) == expected
    there = capfd.readouterr().err
    assert "UserWarning: somebody else's" in there
    assert "RearviewWarning" not in there


def test_nothing_begins_when_the_time_is_up():
    assert list(spread(doubled, [1, 2], 2, until=time.monotonic())) == []


def test_a_run_is_claimed_by_one_process_at_a_time(tmp_path):
    context = multiprocessing.get_context("spawn")
    held, free = context.Queue(), context.Queue()
    other = context.Process(target=hold, args=(tmp_path / "runs", "ff00", held, free))
    other.start()
    assert held.get()
    with hold_run(tmp_path / "runs", "ff00") as ours:
        assert not ours
    with hold_run(tmp_path / "runs", "ff01") as ours:
        assert ours
    free.put(None)
    other.join()
    with hold_run(tmp_path / "runs", "ff00") as ours:
        assert ours
