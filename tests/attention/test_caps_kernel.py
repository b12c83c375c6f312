"""CAPS's kernel is the recurrence, outputs and gradients, at any length and for gates of any size."""

import pytest
import torch
from caps_parts import layer_of, mix_sequentially, tokens_of
from kernel_parts import DEVICE, compiled_errors, errors, needs_a_device, needs_kernels, with_gradients
from torch import Tensor
from torch.nn import functional

from rearview.attention.caps.recurrence import mix_chunks

ROWS = 2
pytestmark = needs_kernels


def drawn(tokens: int, channels: int = 5, values: int = 3) -> list[Tensor]:
    """Queries, keys, values and log-gates."""
    draw = torch.Generator().manual_seed(tokens)
    q, k, gate = (torch.randn(ROWS, tokens, channels, generator=draw) for _ in range(3))
    return [q, k, torch.randn(ROWS, tokens, values, generator=draw), -functional.softplus(gate)]


def kernel(q: Tensor, k: Tensor, v: Tensor, gate: Tensor) -> Tensor:
    from rearview.attention.kernels import caps

    return caps.mix(q, k, v, gate)


@pytest.mark.parametrize(("tokens", "channels", "values"), [(2, 5, 3), (13, 1, 1), (42, 24, 8), (65, 3, 20)])
def test_the_kernel_is_the_recurrence(tokens: int, channels: int, values: int) -> None:
    assert max(errors(kernel, mix_sequentially, drawn(tokens, channels, values))) <= 2e-6


def test_one_token_is_its_own_past() -> None:
    q, k, v, gate = (part.to(DEVICE) for part in drawn(1))
    y, *_, dgate = with_gradients(kernel, [q, k, v, gate])
    torch.testing.assert_close(y, (q * k).sum(-1, keepdim=True) * v)
    assert dgate.eq(0).all()


@pytest.mark.parametrize("size", [1e-6, 30.0, 1e6, 1e30])
def test_gates_of_any_size_are_right(size: float) -> None:
    """Every fifth token forgets by `size`; a gate that lets nothing through has a gradient of 0, not of rounding."""
    q, k, v, gate = drawn(37)
    gate[:, 2::5] = -size
    assert max(errors(kernel, mix_chunks, [q, k, v, gate])) <= 2e-6
    dgate = with_gradients(kernel, [part.to(DEVICE) for part in (q, k, v, gate)])[-1]
    if size > 100:
        assert dgate[:, 2::5].eq(0).all()


@needs_a_device
@pytest.mark.parametrize(("tokens", "channels", "values"), [(193, 96, 32), (1000, 24, 128), (100_000, 32, 32)])
def test_long_rows_are_right(tokens: int, channels: int, values: int) -> None:
    assert max(errors(kernel, mix_chunks, drawn(tokens, channels, values))) <= 5e-6


@needs_a_device
@pytest.mark.parametrize("long", [False, True])
def test_a_layer_on_a_device_is_the_layer(long: bool, monkeypatch) -> None:
    """With padding, short and long form, against the layer in float64, which has no kernel."""
    from rearview.attention import caps

    monkeypatch.setattr(caps.layer, "LONG", 1 if long else 1 << 20)
    layer, x = layer_of(77).cuda(), tokens_of(77).cuda()
    mask = torch.rand(x.shape[:3], generator=torch.Generator().manual_seed(1)) < 0.7
    exact = layer(x, mask=mask.cuda())
    found = layer.float()(x.float(), mask=mask.cuda())
    assert (found.double() - exact).abs().max() <= 1e-5 * exact.abs().max()


@needs_a_device
@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_compiled_is_eager_on_a_device() -> None:
    layer, x = layer_of(77).float().cuda(), tokens_of(77).float().cuda()
    assert max(compiled_errors(layer, x)) <= 1e-4
