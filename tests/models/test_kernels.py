"""Kernels between a block's products are their formulas, outputs and gradients, and drop at the rate they say.

They run on a CUDA device, or in Triton's interpreter on a CPU, asked for with TRITON_INTERPRET=1.
"""

from typing import Any

import pytest
import torch
from kernel_parts import DEVICE, errors, needs_a_device, needs_kernels
from torch import Tensor
from torch.nn import functional

pytestmark = [
    needs_kernels,
    # What a device computes in silence; the interpreter runs on numpy, which warns.
    pytest.mark.filterwarnings("ignore:overflow encountered in exp", "ignore:divide by zero encountered"),
    pytest.mark.filterwarnings("ignore:invalid value encountered"),
]
EPS = 1e-5
EXACT = 5e-5
"""Of the largest number: float32, sums of up to 2048 numbers near 1 that may nearly cancel."""
SHAPES = [(1, 3), (1, 5), (3, 16), (300, 16), (41, 100), (9, 300), (2, 3, 7, 128), (2, 2048)]
FUNCTIONS = {
    "none": lambda h: h,
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda h: functional.gelu(h, approximate="tanh"),
}


@pytest.fixture(autouse=True)
def _few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer than tiles, so that a program takes several."""
    from rearview.models.kernels import _rows

    monkeypatch.setattr(_rows, "PROGRAMS", 2)


def seed_of(number: int) -> Tensor:
    return torch.tensor([number], device=DEVICE)


def kept_by(seed: Tensor, rate: float, shape: tuple[int, ...]) -> Tensor:
    """What dropout multiplies by: ones that are added to nothing show it."""
    from rearview.models.kernels.branch import add

    return add(torch.zeros(shape, device=DEVICE), torch.ones(shape, device=DEVICE), None, seed, rate)


def drawn(*shapes: tuple[int, ...]) -> list[Tensor]:
    draw = torch.Generator().manual_seed(sum(shapes[0]))
    return [torch.randn(shape, generator=draw) for shape in shapes]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_norm_is_the_formula(shape: tuple[int, ...]) -> None:
    from rearview.models.kernels.norm import add_norm

    width = shape[-1:]

    def ours(x: Tensor, weight: Tensor, shift: Tensor) -> Tensor:
        return add_norm(x, None, None, weight, shift, None, 0.0, EPS, x.dtype)

    def theirs(x: Tensor, weight: Tensor, shift: Tensor) -> Tensor:
        return functional.layer_norm(x, width, weight, shift, EPS)

    assert max(errors(ours, theirs, drawn(shape, width, width))) <= EXACT


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("biased", [False, True])
def test_the_norm_of_a_sum_is_the_formula(shape: tuple[int, ...], rate: float, biased: bool) -> None:
    from rearview.models.kernels.norm import add_norm

    seed = seed_of(5) if rate else None
    kept = kept_by(seed_of(5), rate, shape).double() if rate else 1.0
    width = shape[-1:]

    def ours(x: Tensor, r: Tensor, weight: Tensor, shift: Tensor, c: Tensor | None = None) -> Tensor:
        return add_norm(x, r, c, weight, shift, seed, rate, EPS, x.dtype)

    def theirs(x: Tensor, r: Tensor, weight: Tensor, shift: Tensor, c: Tensor | None = None) -> Tensor:
        return functional.layer_norm(x + (r if c is None else r + c) * kept, width, weight, shift, EPS)

    parts = drawn(shape, shape, width, width, *([width] if biased else []))
    assert max(errors(ours, theirs, parts)) <= EXACT


@pytest.mark.parametrize("shape", [(1, 5), (300, 16), (2, 3, 7, 130), (3, 1100)], ids=str)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("biased", [False, True])
def test_an_activation_is_the_formula(shape: tuple[int, ...], function: Any, rate: float, biased: bool) -> None:
    from rearview.models.kernels.branch import activate

    seed = seed_of(5) if rate else None
    kept = kept_by(seed_of(5), rate, shape).double() if rate else 1.0

    def ours(h: Tensor, c: Tensor | None = None) -> Tensor:
        return activate(h, c, function, seed, rate)

    def theirs(h: Tensor, c: Tensor | None = None) -> Tensor:
        return FUNCTIONS[function](h if c is None else h + c) * kept

    assert max(errors(ours, theirs, drawn(shape, *([shape[-1:]] if biased else [])))) <= EXACT


@pytest.mark.parametrize("shape", [(1, 5), (300, 16), (3, 1100)], ids=str)
def test_a_dropped_branch_is_added(shape: tuple[int, ...]) -> None:
    from rearview.models.kernels.branch import add

    kept = kept_by(seed_of(7), 0.4, shape).double()
    parts = drawn(shape, shape, shape[-1:])
    assert (
        max(errors(lambda x, h, c: add(x, h, c, seed_of(7), 0.4), lambda x, h, c: x + (h + c) * kept, parts)) <= EXACT
    )


@pytest.mark.parametrize("function", ["relu", "gelu", "gelu_tanh"])
def test_activations_hold_far_out_and_pass_nan_on(function: Any) -> None:
    from rearview.models.kernels.branch import activate

    h = torch.tensor([[-1e4, -60.0, -9.0, 0.0, 9.0, 60.0, 1e4, torch.nan]], device=DEVICE, requires_grad=True)
    y = activate(h, None, function, None, 0.0)
    (slope,) = torch.autograd.grad(y.sum(), h)
    there = h.detach().double().requires_grad_()
    wanted = FUNCTIONS[function](there)
    torch.testing.assert_close(y.double(), wanted, equal_nan=True, rtol=1e-6, atol=1e-6)
    (wanted_slope,) = torch.autograd.grad(wanted.sum(), there)
    torch.testing.assert_close(slope[:, :-1].double(), wanted_slope[:, :-1], rtol=1e-6, atol=1e-6)


def test_a_constant_row_and_rows_beyond_the_last_leave_no_trace() -> None:
    """Without an eps, what is no row has an infinite scale; here 3 rows stand in tiles of many more."""
    from rearview.models.kernels.norm import add_norm

    x, weight, shift = (part.to(DEVICE).requires_grad_() for part in drawn((3, 5), (5,), (5,)))
    y = add_norm(x, None, None, weight, shift, None, 0.0, 0.0, x.dtype)
    assert all(part.isfinite().all() for part in (y, *torch.autograd.grad(y.square().sum(), [x, weight, shift])))
    flat = torch.full((3, 5), 7.0, device=DEVICE)
    assert torch.equal(add_norm(flat, None, None, weight, shift, None, 0.0, EPS, x.dtype), shift.expand(3, 5))


@pytest.mark.parametrize("shape", [(1000, 16), (61, 70), (7, 1500)], ids=str)
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_keeps_its_share_and_the_mean(shape: tuple[int, ...], rate: float) -> None:
    kept = kept_by(seed_of(11), rate, shape)
    survivors = kept[kept > 0]
    torch.testing.assert_close(survivors, torch.full_like(survivors, 1 / (1 - rate)))
    # Five standard deviations of a mean of so many draws, over all cells and over each quarter of the columns' order.
    for cells in (kept, *(kept[..., start::4] for start in range(4))):
        allowed = 5 * (rate * (1 - rate) / cells.numel()) ** 0.5
        assert (cells > 0).double().mean().item() == pytest.approx(1 - rate, abs=allowed)


def test_every_seed_every_row_and_every_column_drops_others() -> None:
    kept, again, other = (kept_by(seed_of(number), 0.5, (200, 32)) > 0 for number in (1, 1, 2))
    assert torch.equal(kept, again)
    # Seven standard deviations of a share of 32 or 200 equal draws, for the largest of thousands of pairs.
    for lines, length in ((torch.cat([kept[:40], other[:40]]), 32), (torch.cat([kept, other], dim=1).T, 200)):
        signs = lines.double() * 2 - 1
        alike = signs @ signs.T / length
        assert (alike - torch.eye(len(lines), device=alike.device)).abs().max() < min(0.999, 7 / length**0.5)


def test_what_is_kept_does_not_depend_on_the_size_of_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    from rearview.models.kernels import _rows

    whole = kept_by(seed_of(3), 0.5, (100, 48))
    monkeypatch.setattr(_rows, "NUMBERS", 256)
    assert torch.equal(whole, kept_by(seed_of(3), 0.5, (100, 48)))


@pytest.mark.parametrize("low", [torch.float16, pytest.param(torch.bfloat16, marks=needs_a_device)], ids=str)
def test_low_precision_is_summed_in_full_and_keeps_its_types(low: torch.dtype) -> None:
    """As under autocast: tokens in float32, what is added to them in low precision, and so in each way back."""
    from rearview.models.kernels.branch import activate
    from rearview.models.kernels.norm import add_norm

    x, r, c, weight, shift = (part.to(DEVICE) for part in drawn((300, 24), (300, 24), (24,), (24,), (24,)))
    leaves = [x, r.to(low), c, weight, shift]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    y = add_norm(*leaves, None, 0.0, EPS, torch.float32)
    gradients = torch.autograd.grad(y.square().sum(), leaves)
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    wanted = functional.layer_norm(exact[0] + exact[1] + exact[2], (24,), exact[3], exact[4], EPS)
    assert y.dtype == torch.float32
    torch.testing.assert_close(y.double(), wanted, rtol=1e-5, atol=1e-5)
    for leaf, one, other in zip(leaves, gradients, torch.autograd.grad(wanted.square().sum(), exact), strict=True):
        assert one.dtype == leaf.dtype
        rough = torch.finfo(one.dtype).eps
        torch.testing.assert_close(
            one.double(), other, rtol=2 * rough, atol=2 * rough * other.abs().max().item() + 1e-4
        )
    hidden = activate(leaves[1], c, "gelu", None, 0.0)
    assert hidden.dtype == low
    torch.testing.assert_close(hidden.double(), functional.gelu(exact[1] + exact[2]), rtol=1e-2, atol=1e-2)


def test_columns_that_lie_apart_are_taken_as_they_are_meant() -> None:
    from rearview.models.kernels.norm import add_norm

    x, r, weight, shift = (part.to(DEVICE) for part in drawn((7, 5, 3), (5, 7, 3), (3,), (3,)))
    x = x.transpose(0, 1)
    x.requires_grad_()
    y = add_norm(x, r, None, weight, shift, None, 0.0, EPS, x.dtype)
    torch.testing.assert_close(y, functional.layer_norm(x + r, (3,), weight, shift, EPS))
    (gradient,) = torch.autograd.grad(y.square().sum(), x)
    (wanted,) = torch.autograd.grad(functional.layer_norm(x + r, (3,), weight, shift, EPS).square().sum(), x)
    torch.testing.assert_close(gradient, wanted, rtol=1e-4, atol=1e-5)


def test_a_second_derivative_is_refused() -> None:
    from rearview.models.kernels.norm import add_norm

    x, weight, shift = (part.to(DEVICE).requires_grad_() for part in drawn((3, 5), (5,), (5,)))
    y = add_norm(x, None, None, weight, shift, None, 0.0, EPS, x.dtype)
    (gradient,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        gradient.sum().backward()


@needs_a_device
def test_gradients_are_the_same_every_time() -> None:
    from rearview.models.kernels.norm import add_norm

    parts = [part.cuda().requires_grad_() for part in drawn((20_000, 16), (20_000, 16), (16,), (16,), (16,))]
    x, r, c, weight, shift = parts
    runs = []
    for _ in range(2):
        y = add_norm(x, r, c, weight, shift, seed_of(3), 0.2, EPS, x.dtype)
        runs.append([y, *torch.autograd.grad(y.square().sum(), parts)])
    assert all(torch.equal(one, other) for one, other in zip(*runs, strict=True))
