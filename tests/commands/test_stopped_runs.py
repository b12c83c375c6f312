"""A run killed with SIGKILL and resumed writes the same forecast; a run stopped with Ctrl-C writes what it has."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from runs import FILES, start
from samples import wide

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL"),
]

ASKED = ["--horizon", "5", "--lookback", "24", "--model", "patchtst", "--windows", "2"]
TRAINING = ["--set", "width=16,heads=2", "--train", "epochs=12,patience=None,checkpoint_every=2"]
PATIENCE_SECONDS = 120


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "sales.csv"
    wide(400).to_csv(path, index=False)
    return path


def run(sales: Path, out: Path, *arguments: str) -> "subprocess.Popen[str]":
    return start("forecast", str(sales), "--out", str(out), *ASKED, *TRAINING, *arguments)


def wait_for(process: "subprocess.Popen[str]", out: Path, part: str) -> None:
    """Until the process has written a checkpoint of the part."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not list(out.glob(f"checkpoints/*{part}*.safetensors")):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, "no checkpoint was written"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def whole(sales: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "out"
    process = run(sales, out)
    _, said = process.communicate()
    assert process.returncode == 0, said
    assert not (out / "checkpoints").exists()
    return out


def test_killed_and_resumed(sales: Path, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for part in ("backtest", "final"):
        process = run(sales, out, "--resume")
        wait_for(process, out, part)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not (out / "forecast.csv").exists()
    process = run(sales, out, "--resume")
    _, said = process.communicate()
    assert process.returncode == 0, said
    for name in ("forecast.csv", "backtest.csv"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    assert not (out / "checkpoints").exists()


@pytest.mark.parametrize(("part", "by"), [("backtest", "SIGINT"), ("final", "SIGINT"), ("final", "SIGTERM")])
def test_stopped_with_ctrl_c_or_by_the_system(sales: Path, whole: Path, tmp_path: Path, part: str, by: str) -> None:
    out = tmp_path / "out"
    process = run(sales, out)
    wait_for(process, out, part)
    process.send_signal(signal.Signals[by])
    printed, said = process.communicate()
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert "Interrupted" in printed
    assert sorted(path.name for path in out.iterdir()) == sorted([*FILES, "checkpoints"])
    assert json.loads((out / "run.json").read_text())["interrupted"] is True
    lines = (out / "forecast.csv").read_text().splitlines()
    assert len(lines) == len((whole / "forecast.csv").read_text().splitlines())

    # The run can be taken up again, and ends as if it had never been stopped.
    process = run(sales, out, "--resume")
    process.communicate()
    assert process.returncode == 0
    assert (out / "forecast.csv").read_bytes() == (whole / "forecast.csv").read_bytes()
