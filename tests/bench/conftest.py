"""The small data sets of these tests: importable tools, and shelves that forget what a test adds."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from small import SMALL, write

from rearview.data.datasets import catalogue, detection_sets

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def benchmark_scripts() -> Iterator[Path]:
    """The folder of the benchmarks, whose scripts can be imported within."""
    sys.path.insert(0, str(BENCHMARKS))
    yield BENCHMARKS
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture
def shelf(monkeypatch):
    """A catalogue that forgets what the test registers."""
    from rearview.bench.analysis import candidates

    monkeypatch.setattr(catalogue, "_SHELF", dict(catalogue._SHELF))
    candidates.protocol_defaults.cache_clear()
    yield
    candidates.protocol_defaults.cache_clear()


@pytest.fixture
def folder(shelf, tmp_path) -> Path:
    """A folder with the file of the data set Small, which stands in the catalogue."""
    catalogue.register(SMALL)
    write(tmp_path / "small.csv")
    return tmp_path


@pytest.fixture
def pumps(tmp_path, monkeypatch) -> Path:
    """A folder with Pumps, a labelled set of two machines, which stands among the sets."""
    from rearview.bench.runs import detection

    rng = np.random.default_rng(11)
    train, test = rng.normal(size=(400, 3)), rng.normal(size=(300, 3))
    labels = np.zeros(300, dtype=np.uint8)
    labels[100:120] = labels[250:260] = 1
    test[labels == 1] += 6
    test[150:] += 1000
    train[200:] += 1000
    lengths = np.array([[200, 150], [200, 150]])
    np.savez(tmp_path / "pumps.npz", train=train, test=test, test_label=labels, pump=["a", "b"], pump_lengths=lengths)
    pumps = detection_sets.LabelledSet("Pumps", ("pumps.npz",), 400, 300, 3, "our own desk", ratio=5.0)
    monkeypatch.setattr(detection_sets, "_SHELF", (*detection_sets._SHELF, pumps))
    detection._load.cache_clear()
    return tmp_path
