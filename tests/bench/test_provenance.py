"""Where a result comes from: checksums of numbers, the commit of the code, and machines with less installed."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small import HORIZON, LOOKBACK, ROWS, write

from rearview.bench.runs import provenance
from rearview.data.datasets import catalogue


def test_numbers_decide_not_the_dress_of_the_file(folder):
    first = provenance.values_checksum(catalogue.load("Small", folder))
    write(folder / "small.csv", end="\r\n")
    panel = catalogue.load("Small", folder)
    assert provenance.values_checksum(panel) == first
    values = panel.values.copy()
    values[ROWS - 1, 0] += 1
    assert provenance.values_checksum(replace(panel, values=values)) != first
    assert provenance.values_checksum(replace(panel, centre=panel.centre + 1)) != first
    assert provenance.values_checksum(replace(panel, observed=np.ones_like(values, bool))) != first


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_the_commit_is_that_of_the_package(tmp_path):
    package = tmp_path / "project" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    assert provenance.commit_of(package) == ""

    def git(*arguments):
        names = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(["git", "-C", str(package), *names, *arguments], capture_output=True, check=True)
        return done.stdout.decode().strip()

    git("init", "-q")
    assert provenance.commit_of(package) == ""
    git("add", "__init__.py")
    git("commit", "-q", "-m", "one")
    head = git("rev-parse", "HEAD")
    assert len(head) == 40
    assert provenance.commit_of(package) == head
    (package.parent / "results.csv").touch()
    assert provenance.commit_of(package) == head
    (package / "new.py").touch()
    assert provenance.commit_of(package) == f"{head}-dirty"


def test_the_processor_has_a_name():
    assert provenance.device_words(torch.device("cpu")).startswith("cpu (")
    assert len(provenance.device_words(torch.device("cpu"))) > len("cpu ()")


def test_a_machine_with_pandas_alone_runs_benchmarks(folder):
    program = f"""
import sys
from pathlib import Path
for absent in ("polars", "pyarrow", "pydantic", "cyclopts", "rich", "plotly"):
    sys.modules[absent] = None
sys.path.insert(0, {str(Path(__file__).parent)!r})
from small import SMALL
from rearview import bench
from rearview.data.datasets import catalogue
catalogue.register(SMALL)
row = bench.run("Small", "dlinear", lookback={LOOKBACK}, horizon={HORIZON}, data_dir={str(folder)!r},
                training={{"epochs": 1}}, results=Path({str(folder / "results.csv")!r}), device="cpu")
print(*bench.table(bench.read(Path({str(folder / "results.csv")!r}))), sep="\\n")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].startswith("Small    dlinear")


def test_a_copy_without_its_repository_takes_its_commit_from_the_environment(monkeypatch):
    monkeypatch.setenv("REARVIEW_COMMIT", "abc123")
    monkeypatch.setattr(provenance, "commit_of", lambda package: "")
    assert provenance.commit.__wrapped__() == "abc123"
    monkeypatch.setattr(provenance, "commit_of", lambda package: "def456")
    assert provenance.commit.__wrapped__() == "def456"
