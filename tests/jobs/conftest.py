"""The generators of broken files and the small frames are importable by these tests; so are a wide and a long file."""

import sys
from pathlib import Path

import pytest

for folder in ("jobs", "data", "estimators/forecast"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    """A wide file."""
    from samples import wide

    path = tmp_path / "sales.csv"
    wide().to_csv(path, index=False)
    return path


@pytest.fixture
def shops(tmp_path: Path) -> Path:
    """A long file."""
    from samples import long

    path = tmp_path / "shops.csv"
    long().to_csv(path, index=False)
    return path
