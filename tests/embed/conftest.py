"""Shape checks can be switched off where the library's own answer is wanted."""

from collections.abc import Iterator

import jaxtyping
import pytest


@pytest.fixture
def unchecked() -> Iterator[None]:
    """No run-time type checks: they would answer before the library does, and no compiler can trace them."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
