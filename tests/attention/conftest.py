"""The checks and strangers of this folder are importable by its tests, with pytest's readable assertions."""

import sys
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("shelf_checks")


@pytest.fixture
def unchecked() -> Iterator[None]:
    """No run-time type checks: they would answer before the library does, and no compiler can trace them."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
