"""Result files of other versions: earlier ones get today's columns and lose nothing, later ones are refused."""

import csv
import io
import multiprocessing
import os
import signal
import stat
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from small import row
from small_labelled import classified, detected

from rearview import bench
from rearview.bench import tasks
from rearview.bench.rows import result_file
from rearview.core.errors import InputError, RearviewWarning

KINDS = {"forecasting": row, "classification": classified, "detection": detected}
"""By task: what makes a row."""


def text(lines) -> bytes:
    content = io.StringIO()
    csv.writer(content, lineterminator="\n").writerows(lines)
    return content.getvalue().encode()


def earlier(path: Path, make, seeds=(0, 1)) -> bytes:
    """A file as the version before wrote it."""
    kind = type(make())
    version, columns = max(kind.EARLIER.items())
    cells = [make(schema=version, seed=seed).cells()[:columns] for seed in seeds]
    path.write_bytes(text([kind.columns()[:columns], *cells]))
    return path.read_bytes()


def several(path: Path, first: int, number: int) -> None:
    """Appends rows; run by processes beside one another."""
    for seed in range(first, first + number):
        bench.append(path, detected(seed=seed))


def die_before_the_new_file_is_in_place(path: Path) -> None:
    """Appends a row, and is killed when the new file is written and the old one is still there."""
    os.replace = lambda part, place: os.kill(os.getpid(), signal.SIGKILL)
    bench.append(path, detected(seed=7))


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_file_of_an_earlier_version_grows_with_the_next_row(tmp_path, make):
    path = tmp_path / "results.csv"
    before = earlier(path, make)
    kind = type(make())
    there = result_file.known_rows(path, kind)
    assert path.read_bytes() == before  # asking changes nothing
    assert [(one.schema, one.status, one.problem) for one in there] == [(max(kind.EARLIER), "done", "")] * 2
    new = bench.append(path, make(seed=2))
    assert bench.read(path, kind) == [*there, new]
    header, *lines = path.read_bytes().splitlines()
    assert header == ",".join(kind.columns()).encode()
    assert all(line.startswith(old) for line, old in zip(lines, before.splitlines()[1:], strict=False))
    grown = path.read_bytes()
    bench.append(path, make(seed=3))
    assert path.read_bytes().startswith(grown)  # once is enough
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_whatever_was_added_has_a_default(make):
    kind = type(make())
    assert max(kind.EARLIER) < kind.SCHEMA == make().schema
    for columns in kind.EARLIER.values():
        later = kind.columns()[columns:]
        assert all(field.default is not MISSING for field in fields(kind) if field.name in later)


def test_a_row_that_makes_another_needless_may_be_of_an_earlier_version(tmp_path):
    path = tmp_path / "results.csv"
    before = earlier(path, classified)
    found = bench.append(path, classified(seed=1), unless=lambda rows: [one for one in rows if one.seed == 1])
    assert (found.schema, found.seed) == (max(bench.ClassificationRow.EARLIER), 1)
    assert path.read_bytes() == before


def test_half_a_last_line_of_an_earlier_version_is_left_out(tmp_path):
    path = tmp_path / "results.csv"
    path.write_bytes(earlier(path, detected)[:-30])
    with pytest.warns(RearviewWarning, match="ends in half a line"):
        bench.append(path, detected(seed=5))
    assert [one.seed for one in bench.read(path, bench.DetectionRow)] == [0, 5]


def test_a_line_that_is_no_row_keeps_a_file_from_growing(tmp_path):
    path = tmp_path / "results.csv"
    broken = earlier(path, classified).replace(b"\n2,", b"\none,", 1)
    path.write_bytes(broken)
    with pytest.raises(InputError, match=r"line 2 is no result row .its schema is 'one'.*add this line: 3,"):
        bench.append(path, classified(seed=2))
    assert path.read_bytes() == broken


def test_a_grown_file_keeps_its_permissions_and_the_links_to_it(tmp_path):
    path, link = tmp_path / "deep" / "results.csv", tmp_path / "link.csv"
    path.parent.mkdir()
    earlier(path, classified)
    path.chmod(0o600)
    link.symlink_to(path)
    bench.append(link, classified(seed=2))
    assert link.is_symlink()
    assert len(bench.read(path, bench.ClassificationRow)) == 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_folder_that_takes_no_new_file_is_reported_before_a_run(tmp_path, monkeypatch):
    path = tmp_path / "results.csv"
    earlier(path, classified)
    monkeypatch.setattr(os, "access", lambda place, mode: place == path)
    with pytest.raises(InputError, match=rf"can't be written: {tmp_path} is read-only"):
        result_file.known_rows(path, bench.ClassificationRow)
    bench.append(path, classified(seed=2))
    assert len(result_file.known_rows(path, bench.ClassificationRow)) == 3  # nothing is replaced any more


def test_whoever_waited_for_a_file_that_was_replaced_writes_to_the_new_one(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    path = tmp_path / "results.csv"
    earlier(path, detected)
    lock, waited = fcntl.flock, []

    def wait(handle, how):
        """The first to ask waits while somebody else adds a row."""
        waited.append(handle)
        if len(waited) == 1:
            bench.append(path, detected(seed=2))
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", wait)
    bench.append(path, detected(seed=3))
    assert len(waited) == 3
    assert [one.seed for one in bench.read(path, bench.DetectionRow)] == [0, 1, 2, 3]


def test_writers_beside_one_another_let_a_file_grow_and_lose_nothing(tmp_path):
    path = tmp_path / "results.csv"
    earlier(path, detected)
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=several, args=(path, 100 * number, 20)) for number in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    rows = bench.read(path, bench.DetectionRow)
    assert [one.schema for one in rows] == [max(bench.DetectionRow.EARLIER)] * 2 + [bench.DetectionRow.SCHEMA] * 40
    assert sorted(one.seed for one in rows) == [0, 1, *range(100, 120), *range(200, 220)]


def test_a_kill_between_the_new_file_and_its_place_loses_nothing(tmp_path):
    path = tmp_path / "results.csv"
    before = earlier(path, detected)
    writer = multiprocessing.get_context("spawn").Process(target=die_before_the_new_file_is_in_place, args=(path,))
    writer.start()
    writer.join()
    assert writer.exitcode == -signal.SIGKILL
    assert path.read_bytes() == before
    [part] = [one for one in tmp_path.iterdir() if one != path]  # the new file, under another name
    os.utime(part, (0, 0))  # which is cleared away once it is old
    bench.append(path, detected(seed=8))
    assert [one.seed for one in bench.read(path, bench.DetectionRow)] == [0, 1, 8]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("more", [(), ("later",)], ids=["the same columns", "more columns"])
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path, make, more):
    path = tmp_path / "results.csv"
    kind = type(make())
    rows = [make(), make(schema=kind.SCHEMA + 1, seed=1)]  # older rows stay when a file grows
    path.write_bytes(text([[*kind.columns(), *more], *([*one.cells(), *more] for one in rows)]))
    before = path.read_bytes()
    message = rf"holds rows of a newer version of rearview .schema {kind.SCHEMA + 1}; .* bring rearview up to date"
    for use in (lambda: bench.read(path, kind), lambda: result_file.known_rows(path, kind), lambda: tasks.read(path)):
        with pytest.raises(InputError, match=message):
            use()
    with pytest.raises(InputError, match=message + ".*add this line: "):
        bench.append(path, make(seed=2))
    assert path.read_bytes() == before


@pytest.mark.parametrize("make", [classified, detected])
def test_rows_of_another_kind_are_refused_and_reported_by_name(tmp_path, make):
    path = tmp_path / "results.csv"
    before = earlier(path, make)
    with pytest.raises(InputError, match="is no results file of this version"):
        bench.append(path, row())
    with pytest.raises(InputError, match=r"holds rows of \w+, and those of forecasting need a file of their own"):
        tasks.read_rows(tasks.FORECASTING, path)
    assert path.read_bytes() == before
