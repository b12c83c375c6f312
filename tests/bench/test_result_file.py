"""Result files: whole rows, once and for all, whatever happens while they are written."""

import multiprocessing
import os
import subprocess
import sys

import pytest
from small import row

from rearview import bench
from rearview.bench.rows import result_file
from rearview.bench.rows.row import Row
from rearview.core.errors import InputError, RearviewWarning, SettingsError


def several(path, first, number):
    """Appends rows; run by processes beside one another."""
    for seed in range(first, first + number):
        bench.append(path, row(seed=seed))


def test_rows_come_back_as_they_were(tmp_path):
    path = tmp_path / "deep" / "results.csv"
    rows = [row(), row(best_epoch=3, windows_per_second=0.1, peak_memory_bytes=None, device='ü, "quoted"')]
    for one in rows:
        bench.append(path, one)
    assert bench.read(path) == rows
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == ",".join(Row.columns())
    assert len(lines) == 3


def test_configuration_is_made_of_columns():
    assert set(row().configuration) < set(Row.columns())
    assert row(mse=7.0).configuration == row().configuration
    assert row(seed=4).configuration != row().configuration


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.999])
def test_half_a_last_line_is_left_out_reported_and_replaced(tmp_path, share):
    path = tmp_path / "results.csv"
    bench.append(path, row(seed=1))
    whole = path.read_bytes()
    bench.append(path, row(seed=2))
    line = path.read_bytes()[len(whole) :]
    path.write_bytes(whole + line[: max(1, int(share * len(line)))])
    with pytest.warns(RearviewWarning, match="ends in half a line"):
        assert bench.read(path) == [row(seed=1)]
    with pytest.warns(RearviewWarning, match="ends in half a line"):
        bench.append(path, row(seed=3))
    assert bench.read(path) == [row(seed=1), row(seed=3)]
    assert path.read_bytes().startswith(whole)


def test_half_a_header_is_replaced_too(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("schema,data")
    with pytest.warns(RearviewWarning, match="ends in half a line"):
        assert bench.read(path) == []
    with pytest.warns(RearviewWarning, match="ends in half a line"):
        bench.append(path, row())
    assert bench.read(path) == [row()]


def test_an_empty_file_holds_no_rows(tmp_path):
    path = tmp_path / "results.csv"
    path.touch()
    assert bench.read(path) == []
    bench.append(path, row())
    assert bench.read(path) == [row()]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("patchtst", "patchtst,", "line 2 is no result row .it has 49 cells instead of 48"),
        (",503,", ",five,", "line 2 is no result row .its rows is 'five'"),
        ('"cpu (', 'cpu "(', "line 2 is no result row"),
    ],
)
def test_a_line_that_was_edited_is_refused(tmp_path, old, new, message):
    path = tmp_path / "results.csv"
    several(path, 0, 2)
    assert len(Row.columns()) == 48
    text = path.read_text()
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        bench.read(path)


@pytest.mark.parametrize("content", ["date,a,b\n1,2,3\n", "no line end", ",".join(Row.columns()[:-4]) + "\n"])
def test_another_file_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "other.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=r"no results file of this version of rearview .schema 4"):
        bench.append(path, row())
    assert path.read_text() == content


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.csv can't be read"):
        bench.read(tmp_path / "none.csv")
    assert result_file.known_rows(tmp_path / "none.csv", Row) == []


def test_a_row_that_can_not_be_written_is_not_lost(tmp_path, monkeypatch):
    path = tmp_path / "results.csv"
    several(path, 0, 1)
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:10]))
    with pytest.raises(InputError, match=r"only 10 of .* bytes.*add this line: 4,Small,f0,0f"):
        bench.append(path, row(seed=1))
    monkeypatch.undo()
    with pytest.warns(RearviewWarning, match="half a line"):
        bench.append(path, row(seed=2))
    assert [one.seed for one in bench.read(path)] == [0, 2]


def test_writers_beside_one_another_lose_nothing(tmp_path):
    path = tmp_path / "results.csv"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=several, args=(path, 100 * number, 20)) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    seeds = [one.seed for one in bench.read(path)]
    assert sorted(seeds) == sorted(100 * number + seed for number in range(3) for seed in range(20))


def test_a_row_that_somebody_else_has_made_meanwhile_is_not_added(tmp_path):
    path = tmp_path / "results.csv"
    first = bench.append(path, row(seed=1, mse=0.5))
    assert first == row(seed=1, mse=0.5)

    def there(rows):
        return [one for one in rows if one.seed == 1]

    assert bench.append(path, row(seed=1, mse=0.7), unless=there) == first
    assert bench.read(path) == [first]
    assert bench.append(path, row(seed=1, mse=0.7)).mse == 0.7
    assert bench.append(path, row(seed=2), unless=lambda rows: []) == row(seed=2)
    assert len(bench.read(path)) == 3


def test_rows_are_found_by_their_columns():
    rows = [row(horizon=96), row(horizon=192), row(horizon=96, seed=9)]
    assert bench.find(rows, horizon=96) == [rows[0], rows[2]]
    assert bench.find(rows, horizon=96, seed=9) == [rows[2]]
    assert bench.find(rows) == rows
    with pytest.raises(SettingsError, match=r"no column 'horizn'. Did you mean 'horizon'"):
        bench.find(rows, horizn=96)


def test_a_table_has_a_line_for_each_row():
    lines = bench.table([row(), row(model="dlinear", attention="", total_seconds=2.0)])
    assert lines[0].split() == [
        "dataset", "model", "attention", "lookback", "horizon", "seed", "mse", "mae", "windows", "seconds"
    ]  # fmt: skip
    assert lines[1].split() == ["Small", "patchtst", "softmax", "29", "7", "3", "0.3000", "0.3333", "1,019", "1,234.6"]
    assert lines[2].split()[:3] == ["Small", "dlinear", "-"]
    assert len({len(line) for line in lines}) == 1
    assert bench.table([]) == ["dataset  model  attention  lookback  horizon  seed  mse  mae  windows  seconds"]


def test_rows_of_a_table_are_distinguished():
    rows = [
        row(),
        row(attention="rbca", attention_settings='{"alpha":0.25}'),
        row(attention="rbca", attention_settings='{"alpha":1.0}', adapters='["lift"]'),
    ]
    lines = bench.table(rows)
    assert lines[0].split()[:4] == ["dataset", "model", "attention", "with"]
    named = [line.split()[2:4] for line in lines[1:]]
    assert named == [["softmax", "-"], ["rbca(alpha=0.25)", "-"], ["rbca(alpha=1.0)", "lift"]]
    assert len({len(line) for line in lines}) == 1


def test_rows_need_no_torch():
    program = "import sys; from rearview import bench; bench.read, bench.table, bench.Row; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout.split()
    assert "rearview.bench.analysis.candidates" in loaded
    assert not {"torch", "polars", "pandas"} & set(loaded)
