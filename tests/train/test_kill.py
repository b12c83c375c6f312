"""A run killed with SIGKILL at any moment, and resumed, ends as the run that was never killed."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file
from toys import same_weights

KILLED = Path(__file__).with_name("killed.py")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL"),
]


def start(folder: Path, *moment: str) -> "subprocess.Popen[str]":
    folder.mkdir(exist_ok=True)
    return subprocess.Popen([sys.executable, KILLED, folder, *moment], stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def never_killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    process = start(folder)
    process.communicate()
    assert process.returncode == 0
    return folder


def assert_same_end(folder: Path, whole: Path) -> None:
    process = start(folder)
    process.communicate()
    assert process.returncode == 0
    assert json.loads((folder / "history.json").read_text()) == json.loads((whole / "history.json").read_text())
    assert same_weights(load_file(folder / "result.safetensors"), load_file(whole / "result.safetensors"))


@pytest.mark.parametrize(
    "moments",
    [
        # In the first update, in mid-epoch, in validation, in the next epoch.
        ["gather:1", "gather:7", "gather:9", "gather:12"],
        # The file is half a name away: written, not replaced; replaced, the folder not synced.
        ["fsync:1", "replace:1", "fsync:2", "fsync:5", "replace:4", "close:1"],
    ],
)
def test_a_run_killed_at_chosen_moments_resumes_to_the_same_bits(
    tmp_path: Path, never_killed: Path, moments: list[str]
) -> None:
    for moment in moments:
        process = start(tmp_path / "run", moment)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    assert_same_end(tmp_path / "run", never_killed)


def test_a_run_killed_from_outside_resumes_to_the_same_bits(tmp_path: Path, never_killed: Path) -> None:
    for lines in (3, 10, 17):
        process = start(tmp_path / "run")
        assert process.stdout is not None
        for _ in range(lines):
            process.stdout.readline()
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    assert_same_end(tmp_path / "run", never_killed)
