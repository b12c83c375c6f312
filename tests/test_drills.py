"""Drills of benchmarks/drills.py, a few rounds each: nothing is lost, nothing gets in, nothing goes in silence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DRILLS = Path(__file__).parents[1] / "benchmarks" / "drills.py"
ROUNDS = {"writers": 4, "inputs": 12, "models": 12}
LONG = {"kills": 8, "pages": 2}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the drills fork")
@pytest.mark.parametrize("drill", [*ROUNDS, *(pytest.param(name, marks=pytest.mark.slow) for name in LONG)])
def test_a_drill_ends_at_zero(drill: str, tmp_path: Path) -> None:
    rounds = {**ROUNDS, **LONG}[drill]
    words = [sys.executable, str(DRILLS), drill, "--rounds", str(rounds), "--seed", "7"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert drill in done.stdout
