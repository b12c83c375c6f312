"""The switch for products of float32 matrices: used within a run, and put back, whichever of torch's two was used."""

from collections.abc import Iterator

import pytest
import torch

from rearview.attention.shared.execution import tf32_allowed
from rearview.train.loop import float32_products

CUDA, MATMUL = torch.device("cuda"), torch.backends.cuda.matmul
needs_second_switch = pytest.mark.skipif(
    not hasattr(MATMUL, "fp32_precision"), reason="this torch has one switch for products of float32 only"
)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("tf32", [True, False])
@pytest.mark.parametrize("before", ["highest", "high"])
def test_the_older_tf32_switch_is_set_and_put_back(before: str, tf32: bool) -> None:
    torch.set_float32_matmul_precision(before)
    assert tf32_allowed() is (before == "high")
    with float32_products(CUDA, tf32):
        assert tf32_allowed() is tf32
        assert torch.get_float32_matmul_precision() == ("high" if tf32 else "highest")
    assert torch.get_float32_matmul_precision() == before


@needs_second_switch
@pytest.mark.parametrize("tf32", [True, False])
@pytest.mark.parametrize("before", ["ieee", "tf32"])
def test_the_newer_tf32_switch_is_set_and_put_back(before: str, tf32: bool) -> None:
    MATMUL.fp32_precision = before
    assert tf32_allowed() is (before == "tf32")
    with float32_products(CUDA, tf32):
        assert tf32_allowed() is tf32
    assert MATMUL.fp32_precision == before


@needs_second_switch
def test_the_older_tf32_switch_can_not_be_read_once_the_newer_is_used() -> None:
    """Or the second way would not be needed."""
    MATMUL.fp32_precision = "tf32"
    with pytest.raises(RuntimeError, match="mix of the legacy and new APIs"):
        torch.get_float32_matmul_precision()


def test_an_error_within_puts_the_tf32_switch_back() -> None:
    with pytest.raises(ValueError, match="within"), float32_products(CUDA, tf32=True):
        raise ValueError("within")
    assert not tf32_allowed()


def test_a_compiled_function_reads_the_tf32_switch() -> None:
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return 2 * x if tf32_allowed() else x

    torch.set_float32_matmul_precision("high")
    compiled = torch.compile(doubled, fullgraph=True, backend="eager")
    assert compiled(torch.ones(1)).item() == 2
