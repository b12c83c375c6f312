"""What tests of this folder import lies here, and for kernels beside attention's; shape checks can be switched off."""

import sys
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "attention"))


@pytest.fixture
def unchecked() -> Iterator[None]:
    """No run-time type checks: they would answer before the library does, and no compiler can trace them."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
