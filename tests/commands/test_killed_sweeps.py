"""A whole `rearview bench` killed with SIGKILL between rows and started again: no row is lost, none is made twice."""

import signal
import subprocess
import time
from pathlib import Path

import pytest
from runs import start

from rearview.bench import read

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL"),
]

HORIZONS, SEEDS = (3, 5), 4
PATIENCE_SECONDS = 120


def bench(results: Path) -> "subprocess.Popen[str]":
    return start(
        "bench", "--dataset", "PEMS08-standin:150", "--model", "dlinear", "--lookback", "12",
        "--horizon", ",".join(map(str, HORIZONS)), "--seeds", str(SEEDS), "--device", "cpu",
        "--train", "epochs=6,patience=None,windows_per_epoch=256,checkpoint_every=1",
        "--results", str(results),
    )  # fmt: skip


def ended(process: "subprocess.Popen[str]") -> str:
    _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, said
    return said


def kill_after(process: "subprocess.Popen[str]", results: Path, rows: int) -> bytes:
    """Kill the process when the file holds so many rows; what it then holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not results.exists() or results.read_bytes().count(b"\n") < rows + 1:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, "no row was written"
        time.sleep(0.005)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    return results.read_bytes()


def asked(row) -> tuple[int, int]:
    return row.horizon, row.seed


def test_killed_between_rows_and_resumed(tmp_path: Path) -> None:
    whole, results = tmp_path / "whole.csv", tmp_path / "rows.csv"
    ended(bench(whole))
    kept = b""
    for rows in (1, 4):
        held = kill_after(bench(results), results, rows)
        assert held.startswith(kept)
        kept = held
    before = {asked(row): row for row in read(results)}
    assert 4 <= len(before) < len(HORIZONS) * SEEDS
    said = ended(bench(results))
    assert said.count(": mse ") == len(HORIZONS) * SEEDS  # those that were there are told, too
    assert results.read_bytes().startswith(kept)
    made = {asked(row): row for row in read(results)}
    assert len(read(results)) == len(made) == len(HORIZONS) * SEEDS
    assert {place: made[place] for place in before} == before
    expected = {asked(row): row for row in read(whole)}
    assert {place: (row.mse, row.mae, row.status) for place, row in made.items()} == {
        place: (row.mse, row.mae, row.status) for place, row in expected.items()
    }
    ended(bench(results))
    assert len(read(results)) == len(made)
