"""The small data set of these tests: importable tools, and a catalogue that forgets what a test adds."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from small import SMALL, write

from rearview.data import catalogue


@pytest.fixture
def shelf(monkeypatch):
    """A catalogue that forgets what the test registers."""
    monkeypatch.setattr(catalogue, "_SHELF", dict(catalogue._SHELF))


@pytest.fixture
def folder(shelf, tmp_path) -> Path:
    """A folder with the file of the data set Small, which stands in the catalogue."""
    catalogue.register(SMALL)
    write(tmp_path / "small.csv")
    return tmp_path
