"""Strangers and other parts of this folder are importable by its tests, with pytest's readable assertions."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("kernel_parts")


@pytest.fixture
def float32_products() -> Iterator[None]:
    """Products as exact as float32, so that nothing but the formulas is compared."""
    import torch

    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before
