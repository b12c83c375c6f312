"""Softmax attention: the fused form against the definition, residual scores against explicit ones, numbers by hand."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from rearview.attention import Site, softmax
from rearview.attention.contract import causal_bias, pad_bias
from rearview.testing.places import EXACT, operated, place, tokens_for

BATCH, GROUPS, HEADS, HEAD_WIDTH, VALUE_WIDTH = 1, 2, 3, 5, 7
LENGTHS = [1, 2, 13, 42, 65, 193]


def site(tokens: int, **changes) -> Site:
    return Site(GROUPS, tokens, 11, HEADS, head_width=HEAD_WIDTH, value_width=VALUE_WIDTH, **changes)


def heads(tokens: int) -> list[Tensor]:
    torch.manual_seed(tokens)
    widths = (HEAD_WIDTH, HEAD_WIDTH, VALUE_WIDTH)
    return [torch.randn(BATCH, GROUPS, HEADS, tokens, width, dtype=torch.float64).requires_grad_() for width in widths]


def by_definition(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    biases = [None] * (BATCH * GROUPS * HEADS) if bias is None else bias.flatten(0, 2)
    rows = zip(q.flatten(0, 2), k.flatten(0, 2), v.flatten(0, 2), biases, strict=True)
    return torch.stack([softmax.reference(*row) for row in rows]).view(v.shape)


def with_gradients(y: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    cotangent = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    return [y, *torch.autograd.grad(y, inputs, cotangent)]


def agree(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("kind", ["plain", "bias", "causal", "causal with bias"])
@pytest.mark.parametrize("tokens", LENGTHS)
def test_the_fused_form_is_the_definition(tokens: int, kind: str) -> None:
    q, k, v = heads(tokens)
    bias = torch.randn(BATCH, GROUPS, HEADS, tokens, tokens, dtype=q.dtype) if "bias" in kind else None
    whole = bias
    if "causal" in kind:
        whole = causal_bias(tokens, q).expand(BATCH, GROUPS, HEADS, -1, -1) + (0 if bias is None else bias)
    fused = softmax.attend_heads(q, k, v, bias, site(tokens, causal="causal" in kind), training=False)
    agree(with_gradients(fused, [q, k, v]), with_gradients(by_definition(q, k, v, whole), [q, k, v]))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tokens", [1, 13, 65])
def test_carried_queries_and_keys_are_added_scores(tokens: int, causal: bool) -> None:
    depth = 3
    where = {"tokens": tokens, "causal": causal, "layers": depth}
    layers = [place("softmax", seed=layer, layer=layer, **where) for layer in range(depth)]
    x = tokens_for(layers[0]).requires_grad_()
    inputs = [x, *(parameter for layer in layers for parameter in layer.parameters())]

    carried, carry = x, ()
    for layer in layers:
        carried, carry = layer(functional.layer_norm(carried, carried.shape[-1:]), carry=carry)
    assert carry[0].shape[-1] == depth * layers[0].site.per_head

    explicit, scores = x, torch.zeros(())
    for layer in layers:
        q, k, v = layer.heads(functional.layer_norm(explicit, explicit.shape[-1:]))
        scores = scores + q @ k.transpose(-1, -2) / math.sqrt(layer.site.per_head)
        seen = scores + causal_bias(tokens, x) if causal else scores
        explicit = layer.project(seen.softmax(-1) @ v)
    agree(with_gradients(carried, inputs), with_gradients(explicit, inputs))


def test_padding_and_bias_of_a_layer_are_not_carried() -> None:
    layer = place("softmax")
    x = tokens_for(layer)
    mask = torch.ones(x.shape[:3], dtype=torch.bool)
    mask[..., :3] = False
    bias = torch.randn(layer.site.heads, layer.site.tokens, layer.site.tokens, dtype=x.dtype)
    _, carry = layer(x, mask=mask, bias=bias, carry=())
    _, plain = layer(x, carry=())
    assert all(torch.equal(one, other) for one, other in zip(carry, plain, strict=True))


def test_padding_in_front_is_a_shorter_sequence() -> None:
    layer = place("softmax")
    x = tokens_for(layer)
    mask = (torch.arange(layer.site.tokens) >= 3).expand(x.shape[:3])
    agree([layer(x, mask=mask)[:, :, 3:]], [layer(x[:, :, 3:])])


def test_numbers_by_hand() -> None:
    """Scores ln 3 and 0 give weights 3/4 and 1/4."""
    q, k = torch.tensor([[2 * math.log(3), 0, 0, 0]]), torch.tensor([[1.0, 0, 0, 0], [0, 5.0, 0, 0]])
    v = torch.tensor([[8.0, 4.0], [16.0, -4.0]])
    assert_close(softmax.reference(q, k, v), torch.tensor([[10.0, 2.0]]))
    assert_close(softmax.reference(q, k, v, torch.tensor([[0.0, math.log(3)]])), torch.tensor([[12.0, 0.0]]))


def test_a_row_of_padding_sees_itself_and_its_gradient_is_right() -> None:
    layer = place("softmax")
    x = tokens_for(layer).requires_grad_()
    mask = torch.ones(x.shape[:3], dtype=torch.bool)
    mask[1, 2] = False
    weights = layer.weights(x, mask=mask)
    assert_close(weights[1, 2], torch.eye(layer.site.tokens, dtype=x.dtype).expand_as(weights[1, 2]))
    (fused,) = torch.autograd.grad(layer(x, mask=mask).square().sum(), x)
    (plain,) = torch.autograd.grad(operated(layer, weights, x).square().sum(), x)
    agree([fused], [plain])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_padding_stays_finite_under_autocast(dtype: torch.dtype) -> None:
    layer = place("softmax", dtype=torch.float32)
    x = tokens_for(layer).requires_grad_()
    mask = torch.ones(x.shape[:3], dtype=torch.bool)
    mask[0, 0] = False
    mask[1, :, :4] = False
    with torch.autocast("cpu", dtype=dtype):
        y = layer(x, mask=mask)
    (gradient,) = torch.autograd.grad(y.float().square().sum(), x)
    assert y.isfinite().all()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("carry", [None, ()])
def test_dropout_acts_on_the_weights_in_training(carry: tuple[()] | None) -> None:
    layer = place("softmax", dropout=0.5).train()
    x = tokens_for(layer)

    def run(seed: int) -> Tensor:
        torch.manual_seed(seed)
        out = layer(x, carry=carry)
        return out if carry is None else out[0]

    draws = torch.stack([run(seed) for seed in range(500)])
    assert torch.equal(run(1), draws[1])
    assert not torch.equal(draws[0], draws[1])
    exact = layer.eval()(x)
    error = draws.std(0) / math.sqrt(len(draws))
    assert ((draws.mean(0) - exact).abs() < 5 * error).all()


def test_the_mask_as_a_bias_hides_padding_from_all_but_itself() -> None:
    mask = torch.tensor([[[True, False, True]]])
    hidden = torch.tensor([[0, -math.inf, 0], [0, 0, 0], [0, -math.inf, 0]])
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert torch.equal(pad_bias(mask, dtype), hidden.to(dtype)[None, None, None])


@pytest.mark.parametrize("tokens", LENGTHS)
@pytest.mark.parametrize("causal", [False, True])
def test_places_join_the_queries_and_keys_of_their_tokens(tokens: int, causal: bool) -> None:
    layer = with_places(tokens, causal=causal)
    x = tokens_for(layer, batch=BATCH)
    q, k, v = layer.heads(x)
    place_q, place_k = layer.places(tokens)
    hidden = causal_bias(tokens, x).expand(BATCH, GROUPS, HEADS, -1, -1) if causal else None
    expected = layer.project(by_definition(q + place_q, k + place_k, v, hidden))
    assert_close(layer(x), expected, rtol=EXACT, atol=EXACT)
    assert_close(operated(layer, layer.weights(x), x), expected, rtol=EXACT, atol=EXACT)


def test_places_tell_equal_tokens_apart_and_without_them_it_is_softmax() -> None:
    layer = with_places(7)
    x = tokens_for(layer)[:, :, :1].expand(-1, -1, 7, -1)
    weights = layer.weights(x)
    assert (weights[0, 0, :, 0] - weights[0, 0, :, 1]).abs().max() > EXACT
    with torch.no_grad():
        for parameter in layer.places.parameters():
            parameter.zero_()
    assert_close(layer.weights(x), torch.full_like(weights, 1 / 7))
    assert layer.claims.reduces_to_softmax_at == "places=False"
    assert place("softmax").claims.reduces_to_softmax_at == "always"


def test_places_take_part_in_residual_scores() -> None:
    first, second = with_places(7), with_places(7)
    x = tokens_for(first, batch=BATCH)
    y, carry = first(x, carry=())
    z, _ = second(y, carry=carry)
    q, k, v = second.heads(y)
    place_q, place_k = second.places(7)
    joined_q, joined_k = torch.cat([carry[0], q + place_q], -1), torch.cat([carry[1], k + place_k], -1)
    joined_q = joined_q * 2**0.5  # scores are divided by the root of one head's width, not of two
    assert_close(z, second.project(by_definition(joined_q, joined_k, v, None)), rtol=EXACT, atol=EXACT)


def with_places(tokens: int, **changes) -> softmax.Layer:
    torch.manual_seed(tokens)
    layer = softmax.Layer(site(tokens, **changes), softmax.Settings(places=True))
    return layer.double().eval()
