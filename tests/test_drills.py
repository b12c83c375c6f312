"""Drills of benchmarks/drills.py, a few rounds each: nothing is lost, nothing gets in, nothing goes in silence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DRILLS = Path(__file__).parents[1] / "benchmarks" / "drills.py"
ROUNDS = {"kills": 4, "writers": 4, "inputs": 16, "models": 16, "pages": 1}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the drills fork")
@pytest.mark.parametrize("drill", ROUNDS)
def test_a_drill_ends_at_zero(drill: str, tmp_path: Path) -> None:
    words = [sys.executable, str(DRILLS), drill, "--rounds", str(ROUNDS[drill]), "--seed", "7"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert drill in done.stdout
