"""Where tokens share moments, and where a network turns queries and keys: every mechanism with pairs follows."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview import attention
from rearview.attention import Site
from rearview.attention.shared.rotary import quarter_turn
from rearview.core.errors import SettingsError

CHANNELS, TIMES, WIDTH, HEADS = 3, 5, 14, 2
TOKENS = CHANNELS * TIMES
SITE = Site(
    groups=1,
    tokens=TOKENS,
    width=WIDTH,
    heads=HEADS,
    causal=True,
    times=tuple(range(TIMES)) * CHANNELS,
    host="Timer-XL",
)
PAIRWISE = ["differential", "prime", "rbca", "softmax", "toa"]


def tokens() -> Tensor:
    return torch.randn(2, 1, TOKENS, WIDTH, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def built(name: str, site: Site = SITE) -> attention.Attention:
    torch.manual_seed(5)
    layer = attention.create(name, site).double().eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return layer


@pytest.mark.parametrize("name", PAIRWISE)
def test_a_token_sees_all_channels_up_to_its_time_and_no_further(name: str) -> None:
    layer, x = built(name), tokens().requires_grad_()
    assert layer.claims.causal
    times = torch.tensor(SITE.times)
    out = layer(x)
    for query in range(TOKENS):
        (moved,) = torch.autograd.grad(out[0, 0, query].square().sum(), x, retain_graph=True)
        seen = moved[0, 0].abs().amax(-1) > 0
        assert not seen[times > times[query]].any()
        if name in ("softmax", "prime", "rbca"):
            assert seen[times <= times[query]].all()


@pytest.mark.parametrize("name", PAIRWISE)
def test_the_weights_are_those_that_are_applied(name: str) -> None:
    layer, x = built(name), tokens()
    weights, values = layer.weights(x), layer.values(x)
    if name == "prime":
        mixed = torch.einsum("bghij,bghjd,ijhd->bghid", weights, values, layer.primers())
    else:
        mixed = weights @ values
    assert_close(layer.project(mixed), layer(x))


def test_causal_by_times_that_follow_tokens_is_causal_by_tokens() -> None:
    x, inside = tokens(), replace(SITE, times=tuple(range(TOKENS)))
    assert_close(built("softmax", inside)(x), built("softmax", replace(inside, times=None))(x))


def test_a_bias_is_kept_where_nothing_is_hidden() -> None:
    layer, x = built("softmax"), tokens()
    bias = torch.randn(HEADS, TOKENS, TOKENS, dtype=x.dtype)
    times = torch.tensor(SITE.times)
    hidden = bias.masked_fill(times > times[:, None], -torch.inf)
    free = built("softmax", replace(SITE, causal=False))
    assert_close(layer(x, bias=bias), free(x, bias=hidden))
    assert_close(layer.weights(x, bias=bias), free.weights(x, bias=hidden))


@pytest.mark.parametrize("name", PAIRWISE)
def test_leading_channels_are_turned_by_token_index(name: str) -> None:
    x, width = tokens(), 4
    plain, turning = built(name), built(name, replace(SITE, turned=width))
    angles = torch.arange(TOKENS, dtype=x.dtype)[:, None] * 10000.0 ** -torch.tensor([0, 0, 0.5, 0.5], dtype=x.dtype)
    for before, after in zip(plain.heads(x)[:2], turning.heads(x)[:2], strict=True):
        first = before[..., :width]
        assert_close(after[..., :width], first * angles.cos() + quarter_turn(first) * angles.sin())
        assert torch.equal(after[..., width:], before[..., width:])
    assert torch.equal(plain.values(x), turning.values(x))
    assert (plain(x) - turning(x)).abs().max() > 1e-6


def test_no_more_channels_are_turned_than_a_head_has() -> None:
    with pytest.raises(SettingsError, match=r"Site\.turned is 8, but a head has 7 channels"):
        attention.create("softmax", replace(SITE, turned=8))
