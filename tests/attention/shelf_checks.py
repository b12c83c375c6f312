"""What holds of every attention mechanism: one function a promise, each tried on a mechanism by name.

`CHECKS` is the list. A new mechanism needs no edit here, whatever it claims; a claim is tried in both directions, so
that one that says too little fails like one that says too much.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from places import (
    BATCH,
    EXACT,
    GROUPS,
    HEADS,
    TOKENS,
    WIDTH,
    apart,
    both,
    cost,
    influence,
    operated,
    place,
    place_causal,
    ragged_mask,
    scores_bias,
    tokens_for,
)
from torch import Tensor
from torch.testing import assert_close

from rearview import attention
from rearview.attention.contract import Attention
from rearview.core.errors import SettingsError

Check = Callable[[str], None]
CHECKS: list[Check] = []


def check(function: Check) -> Check:
    CHECKS.append(function)
    return function


def same(ours: Tensor, theirs: Tensor) -> None:
    assert_close(ours, theirs, rtol=EXACT, atol=EXACT)


def situations(layer: Attention, batch: int = BATCH) -> Iterator[dict[str, Any]]:
    """The keyword arguments a layer can be called with, alone and together."""
    mask = ragged_mask(layer, batch)
    yield {}
    yield {"mask": mask}
    if layer.claims.takes_bias:
        bias = scores_bias(layer, batch)
        yield {"bias": bias}
        yield {"bias": bias, "mask": mask}
    if layer.claims.carries_scores:
        _, carry = layer(tokens_for(layer, batch, seed=41), carry=())
        yield {"carry": carry}
        yield {"carry": carry, "mask": mask}


def output(layer: Attention, x: Tensor, **given: Any) -> Tensor:
    result = layer(x, **given)
    return result[0] if "carry" in given else result


@check
def tokens_come_out_as_they_went_in(name: str) -> None:
    for layer in both(name):
        x = tokens_for(layer)
        y = layer(x)
        assert y.shape == x.shape == (BATCH, GROUPS, TOKENS, WIDTH)
        assert y.dtype == x.dtype
        assert y.isfinite().all()
        assert not torch.equal(y, x)


@check
def operator_has_the_promised_axes(name: str) -> None:
    layer = place(name)
    weights = layer.weights(tokens_for(layer))
    for part in weights.values() if isinstance(weights, dict) else [weights]:
        within = (BATCH, GROUPS, HEADS, TOKENS, TOKENS)
        across = (BATCH, GROUPS, HEADS, TOKENS, GROUPS, TOKENS)
        assert part.shape in (within, across)


@check
def operator_reproduces_the_output(name: str) -> None:
    for layer in both(name):
        x = tokens_for(layer)
        for given in situations(layer):
            same(operated(layer, layer.weights(x, **given), x), output(layer, x, **given))


@check
def causal_claim_is_true(name: str) -> None:
    for layer in both(name):
        moves = influence(layer, tokens_for(layer), axis=2)
        assert bool((moves.triu(1) <= EXACT).all()) == layer.claims.causal
        assert bool(moves.tril(-1).max() > EXACT) == layer.claims.mixes_tokens
    placed = place_causal(name)
    assert placed is None or placed.claims.causal, "a layer in a causal place is causal or refuses the place"


@check
def group_claims_are_true(name: str) -> None:
    layer = place(name)
    x = tokens_for(layer)
    assert apart(influence(layer, x, axis=1)) == (not layer.claims.mixes_groups)
    order = torch.tensor([2, 0, 1])
    moved = (layer(x[:, order]) - layer(x)[:, order]).abs().max()
    assert bool(moved <= EXACT) == layer.claims.equivariant_to_groups


@check
def token_claims_are_true(name: str) -> None:
    for layer in both(name):
        x = tokens_for(layer)
        order = torch.randperm(TOKENS, generator=torch.Generator().manual_seed(53))
        moved = (layer(x[:, :, order]) - layer(x)[:, :, order]).abs().max()
        assert bool(moved <= EXACT) == layer.claims.equivariant_to_tokens


@check
def time_order_claim_is_true(name: str) -> None:
    if place(name).claims.needs_time_order:
        with pytest.raises(SettingsError, match=name) as refusal:
            place(name, time_ordered=False, host="Nowhere")
        assert "Nowhere" in str(refusal.value)
        return
    layer = place(name, time_ordered=False)
    assert layer(tokens_for(layer)).isfinite().all()


@check
def linear_claim_is_true(name: str) -> None:
    for causal in (False, True):
        if causal and place_causal(name) is None:
            continue
        narrow = {"groups": 2, "heads": 1, "width": 3, "head_width": 5, "value_width": 7, "causal": causal}
        once, twice, thrice = (cost(place(name, tokens=tokens, **narrow)) for tokens in (256, 512, 768))
        # a + b n has no second difference; c n^2 has 2 c 256^2, and 9 c 256^2 of it are in the whole.
        bent = (thrice - 2 * twice + once) / thrice.clamp(min=1)
        assert bool((bent < 0.01).all()) == place(name, causal=causal).claims.linear_in_tokens


@check
def bias_claim_is_true(name: str) -> None:
    for layer in both(name):
        x = tokens_for(layer)
        bias = scores_bias(layer)
        if not layer.claims.takes_bias:
            for call in (layer, layer.weights):
                with pytest.raises(SettingsError, match=name):
                    call(x, bias=bias)
            continue
        plain = layer(x)
        same(layer(x, bias=torch.zeros_like(bias)), plain)
        if not layer.claims.mixes_tokens:
            same(layer(x, bias=bias), plain)
            continue
        assert (layer(x, bias=bias) - plain).abs().max() > EXACT
        narrow = bias[0, 0]
        same(layer(x, bias=narrow), layer(x, bias=narrow.expand_as(bias)))
        learned = bias.clone().requires_grad_()
        layer(x, bias=learned).square().sum().backward()
        assert learned.grad is not None
        assert learned.grad.isfinite().all()
        assert learned.grad.abs().max() > 0


@check
def hiding_claim_is_true(name: str) -> None:
    for layer in both(name):
        if not layer.claims.takes_bias:
            continue
        hidden = torch.zeros(TOKENS, TOKENS, dtype=torch.bool)
        hidden[1:, 0] = hidden[-1, 2:-1] = True
        bias = torch.zeros(TOKENS, TOKENS, dtype=torch.float64).masked_fill(hidden, -torch.inf)
        moves = influence(lambda tokens, run=layer, bias=bias: run(tokens, bias=bias), tokens_for(layer), axis=2)
        assert bool((moves[hidden] <= EXACT).all()) == layer.claims.hides_pairs


@check
def carry_claim_is_true(name: str) -> None:
    first, second = place(name, layer=0, layers=2), place(name, seed=43, layer=1, layers=2)
    x = tokens_for(first)
    y, carry = first(x, carry=())
    same(y, first(x))
    assert bool(carry) == first.claims.carries_scores
    carried, further = second(y, carry=carry)
    moved = (carried - second(y)).abs().max()
    assert bool(moved > EXACT) == first.claims.carries_scores
    assert bool(further) == first.claims.carries_scores
    same(operated(second, second.weights(y, carry=carry), y), carried)


@check
def softmax_claim_is_true(name: str) -> None:
    """A layer that says "always" is softmax attention as it stands; other settings are for its own test."""
    layer = place(name)
    if layer.claims.reduces_to_softmax_at != "always":
        return
    plain = attention.create("softmax", layer.site).to(torch.float64)
    plain.load_state_dict(layer.state_dict())
    x = tokens_for(layer)
    same(layer(x), plain(x))


@check
def padding_never_moves_a_real_token(name: str) -> None:
    for layer in both(name):
        mask = ragged_mask(layer)
        x = tokens_for(layer)
        other = torch.where(mask[..., None], x, 100 * torch.randn_like(x))
        same(layer(other, mask=mask)[mask], layer(x, mask=mask)[mask])


@check
def mask_changes_what_is_mixed(name: str) -> None:
    layer = place(name)
    mask = ragged_mask(layer)
    x = tokens_for(layer)
    assert bool((layer(x, mask=mask) - layer(x))[mask].abs().max() > EXACT) == layer.claims.mixes_tokens
    same(layer(x, mask=torch.ones_like(mask)), layer(x))


@check
def padding_at_the_end_is_a_shorter_sequence(name: str) -> None:
    for layer in both(name):
        x = tokens_for(layer)
        for real in (1, 4):
            mask = (torch.arange(TOKENS) < real).expand(BATCH, GROUPS, TOKENS)
            same(layer(x, mask=mask)[:, :, :real], layer(x[:, :, :real]))


@check
def row_of_padding_stays_finite(name: str) -> None:
    for layer in both(name):
        mask = ragged_mask(layer)
        mask[0, 0] = False
        x = tokens_for(layer).requires_grad_()
        y = layer(x, mask=mask)
        assert y.isfinite().all()
        assert gradients_are_finite(layer, x, y)


@check
def fewer_tokens_are_taken_and_more_refused(name: str) -> None:
    layer = place(name)
    for tokens in range(1, TOKENS + 1):
        x = tokens_for(layer, tokens=tokens)
        y = layer(x)
        assert y.shape == x.shape
        same(operated(layer, layer.weights(x), x), y)
    for call in (layer, layer.weights):
        with pytest.raises(SettingsError, match=f"{TOKENS} tokens .* got {TOKENS + 1}"):
            call(tokens_for(layer, tokens=TOKENS + 1))
        with pytest.raises(SettingsError, match=f"width {WIDTH}"):
            call(torch.zeros(BATCH, GROUPS, TOKENS, WIDTH + 4, dtype=torch.float64))


@check
def other_axes_are_refused(name: str) -> None:
    layer = place(name)
    x = tokens_for(layer)
    # By the layer's own refusal: these tests compare every annotated shape with its tensor before a call.
    for wrong in (x[0], x[None]):
        with pytest.raises(SettingsError, match=rf"\[batch, group, token, width\] and got {wrong.dim()} axes"):
            layer.check(wrong)


@check
def empty_batch_is_taken(name: str) -> None:
    for layer in both(name):
        x = tokens_for(layer, batch=0).requires_grad_()
        y = layer(x)
        assert y.shape == x.shape
        y.sum().backward()
        weights = layer.weights(x)
        assert all(part.shape[0] == 0 for part in (weights.values() if isinstance(weights, dict) else [weights]))


@check
def saved_layer_is_the_same_layer(name: str) -> None:
    layer, other = place(name), place(name, seed=47)
    x = tokens_for(layer)
    assert bool((layer(x) - other(x)).abs().max() > EXACT) == bool(list(layer.parameters()))
    other.load_state_dict(layer.state_dict(), strict=True)
    assert torch.equal(layer(x), other(x))


@check
def rows_of_a_batch_do_not_see_one_another(name: str) -> None:
    for layer in both(name):
        x = tokens_for(layer)
        mask = ragged_mask(layer)
        assert apart(influence(layer, x, axis=0))
        assert apart(influence(lambda tokens, run=layer, real=mask: run(tokens, mask=real), x, axis=0))
        same(layer(x)[1:], layer(x[1:]))


@check
def gradients_are_those_of_the_function(name: str) -> None:
    layer = place(name, groups=2, tokens=3, width=5, heads=1, head_width=7, value_width=11)
    x = tokens_for(layer, batch=1).requires_grad_()
    named = dict(layer.named_parameters())
    for given in situations_for_gradients(layer):

        def run(tokens: Tensor, *values: Tensor, given: dict[str, Any] = given) -> Tensor:
            state = dict(zip(named, values, strict=True))
            return torch.func.functional_call(layer, state, (tokens,), given)

        assert torch.autograd.gradcheck(run, (x, *named.values()), fast_mode=True)


def situations_for_gradients(layer: Attention) -> Iterator[dict[str, Any]]:
    yield {}
    yield {"mask": torch.tensor([[[True, True, False], [False, True, True]]])}


@check
def bfloat16_is_as_exact_as_plain_bfloat16(name: str) -> None:
    """Twice the error that the plain form, operator times values, has against float64, plus one rounding."""
    for layer in both(name):
        low = copy.deepcopy(layer).to(torch.bfloat16)
        exact_layer = copy.deepcopy(low).to(torch.float64)
        x = tokens_for(low)
        exact = exact_layer(x.double())
        plain = operated(low, low.weights(x), x).double()
        rounding = torch.finfo(torch.bfloat16).eps * exact.abs().max()
        allowed = 2 * (plain - exact).abs().max() + rounding
        assert (low(x).double() - exact).abs().max() <= allowed


@check
def smallest_places_work(name: str) -> None:
    thin = {"width": WIDTH, "heads": WIDTH, "head_width": None, "value_width": None}
    for changes in ({"tokens": 1}, {"groups": 1}, thin, {"value_width": 1}):
        layer = place(name, **changes)
        x = tokens_for(layer).requires_grad_()
        y = layer(x)
        assert y.shape == x.shape
        same(operated(layer, layer.weights(x), x), y)
        assert gradients_are_finite(layer, x, y)


@check
def large_and_small_values_stay_finite(name: str) -> None:
    for scale in (1e6, 1e-6, 0.0):
        for causal in (False, True):
            if causal and place_causal(name) is None:
                continue
            layer = place(name, dtype=torch.float32, causal=causal)
            x = (scale * tokens_for(layer)).requires_grad_()
            y = layer(x, mask=ragged_mask(layer))
            assert y.isfinite().all()
            assert gradients_are_finite(layer, x, y)


@check
def dropout_acts_in_training_only(name: str) -> None:
    layer, dropping = place(name), place(name, dropout=0.5)
    x = tokens_for(layer).requires_grad_()
    same(dropping(x), layer(x))
    y = dropping.train()(x)
    assert y.isfinite().all()
    assert gradients_are_finite(dropping, x, y)


def gradients_are_finite(layer: Attention, x: Tensor, y: Tensor) -> bool:
    """Under a cotangent of unit size: a loss would add a power of its own to what the layer made of large values."""
    wanted = [x, *layer.parameters()]
    cotangent = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    found = torch.autograd.grad(y, wanted, cotangent, allow_unused=True)
    return all(gradient is None or bool(gradient.isfinite().all()) for gradient in found)
