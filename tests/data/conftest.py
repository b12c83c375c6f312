"""Fixtures of the tests of data; the generator of broken files is importable here and by the command line's tests."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=["polars", "pandas"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Files are read with polars, and as on a machine that has no polars."""
    if request.param == "pandas":
        monkeypatch.setattr("rearview.data.io.csv.has_polars", lambda: False)
        monkeypatch.setattr("rearview.data.io.columnar.has_polars", lambda: False)
    return str(request.param)
