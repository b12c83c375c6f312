"""Dropout: the right share dropped, the mean kept, one mask for both directions, nothing in evaluation."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview.core.errors import SettingsError
from rearview.embed import Dropout, dropout
from rearview.embed.dropout import LEVELS

CELLS = 1_000_003


def kept_share(rate: float) -> float:
    return 1 - round(rate * LEVELS) / LEVELS


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.36, 0.5, 0.9])
def test_survivors_are_as_many_and_as_large_as_they_should(rate: float) -> None:
    torch.manual_seed(7)
    y = dropout(torch.ones(CELLS), rate, training=True)
    share = kept_share(rate)
    assert abs(share - (1 - rate)) <= 0.5 / LEVELS
    alive = y[y != 0]
    assert_close(alive, torch.full_like(alive, 1 / share))
    deviation = math.sqrt(share * (1 - share) / CELLS)
    assert abs(len(alive) / CELLS - share) < 5 * deviation
    assert abs(y.mean().item() - 1) < 5 * deviation / share
    assert y.var().item() == pytest.approx((1 - share) / share, rel=0.02)


def test_neighbouring_cells_are_dropped_independently() -> None:
    """Eight cells come from one random number; none of its bytes may tell of another."""
    torch.manual_seed(11)
    alive = (dropout(torch.ones(CELLS - CELLS % 8), 0.5, training=True) != 0).double().view(-1, 8)
    correlation = torch.corrcoef(alive.T) - torch.eye(8, dtype=torch.float64)
    assert correlation.abs().max() < 5 / math.sqrt(len(alive))
    assert (alive.mean(0) - 0.5).abs().max() < 5 * 0.5 / math.sqrt(len(alive))


@pytest.mark.parametrize("shape", [(1,), (7,), (8,), (3, 5, 7), (0,)])
def test_the_gradient_is_dropped_where_the_value_is(shape: tuple[int, ...]) -> None:
    torch.manual_seed(13)
    x = torch.ones(shape, dtype=torch.float64, requires_grad=True)
    y = dropout(x, 0.4, training=True)
    upstream = torch.randn(shape, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(y, x, upstream)
    assert torch.equal(gradient, upstream * y.detach())


def test_a_view_is_dropped_like_a_copy() -> None:
    x = torch.randn(5, 7).T
    torch.manual_seed(17)
    view = dropout(x, 0.3, training=True)
    torch.manual_seed(17)
    assert torch.equal(view, dropout(x.contiguous(), 0.3, training=True))


def test_the_input_is_left_alone() -> None:
    x = torch.ones(101)
    dropout(x, 0.5, training=True)
    assert torch.equal(x, torch.ones(101))


@pytest.mark.parametrize(("rate", "training"), [(0.0, True), (0.5, False), (0.0, False)])
def test_rate_0_and_evaluation_change_nothing(rate: float, training: bool) -> None:
    x = torch.randn(101)
    assert dropout(x, rate, training) is x
    assert Dropout(rate).train(training)(x) is x


def test_rate_1_drops_everything() -> None:
    assert not dropout(torch.ones(101), 1.0, training=True).any()


@pytest.mark.parametrize("rate", [0.0001, 0.9999])
def test_a_rate_is_never_rounded_to_all_or_nothing(rate: float) -> None:
    torch.manual_seed(19)
    y = dropout(torch.ones(CELLS), rate, training=True)
    assert 0 < (y == 0).sum() < CELLS


def test_a_seed_makes_it_repeatable() -> None:
    def draw(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return Dropout(0.5)(torch.ones(1009))

    assert torch.equal(draw(23), draw(23))
    assert not torch.equal(draw(23), draw(29))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_the_dtype_is_kept(dtype: torch.dtype) -> None:
    assert dropout(torch.ones(101, dtype=dtype), 0.5, training=True).dtype == dtype


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_an_impossible_rate_is_refused(rate: float) -> None:
    with pytest.raises(SettingsError, match=f"dropout is {rate}"):
        Dropout(rate)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_the_compiled_form_drops_the_same_share() -> None:
    torch.manual_seed(31)
    torch.compiler.reset()
    module = torch.compile(Dropout(0.2), fullgraph=True)
    x = torch.ones(CELLS, requires_grad=True)
    y = module(x)
    deviation = math.sqrt(0.2 * 0.8 / CELLS)
    assert abs((y != 0).float().mean().item() - 0.8) < 5 * deviation
    alive = y.detach()[y.detach() != 0]
    assert_close(alive, torch.full_like(alive, 1 / 0.8))
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert_close(gradient, y.detach())
