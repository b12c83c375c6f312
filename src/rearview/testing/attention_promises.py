"""What holds of every attention mechanism: one function a promise, each tried on a mechanism by name or mapping.

`ATTENTION_PROMISES` is the list. A new mechanism needs no edit here, whatever it claims; a claim is tried in both
directions, so that one that says too little fails like one that says too much. A promise that is broken is an
AssertionError.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from rearview import attention
from rearview.attention import Spec
from rearview.attention.contract import Attention, Weights
from rearview.testing.assertions import expect, refusal, same
from rearview.testing.places import (
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

Promise = Callable[[Spec], None]
ATTENTION_PROMISES: list[Promise] = []


def promise(function: Promise) -> Promise:
    ATTENTION_PROMISES.append(function)
    return function


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


def parts_of(weights: Weights) -> list[Tensor]:
    return list(weights.values()) if isinstance(weights, dict) else [weights]


def expect_claim(found: bool, layer: Attention, claim: str) -> None:
    said = getattr(layer.claims, claim)
    expect(found == said, f"{claim} is {said} in the layer's claims, and {found} of what it does")


@promise
def tokens_come_out_as_they_went_in(spec: Spec) -> None:
    for layer in both(spec):
        x = tokens_for(layer)
        y = layer(x)
        expect(y.shape == x.shape, f"tokens {list(x.shape)} come out as {list(y.shape)}")
        expect(y.dtype == x.dtype, f"tokens of {x.dtype} come out as {y.dtype}")
        expect(y.isfinite().all(), "an output is not finite")
        expect(not torch.equal(y, x), "the output is the input")


@promise
def operator_has_the_promised_axes(spec: Spec) -> None:
    layer = place(spec)
    within = (BATCH, GROUPS, HEADS, TOKENS, TOKENS)
    across = (BATCH, GROUPS, HEADS, TOKENS, GROUPS, TOKENS)
    for part in parts_of(layer.weights(tokens_for(layer))):
        expect(part.shape in (within, across), f"weights are {list(part.shape)}, not {within} or {across}")


@promise
def operator_reproduces_the_output(spec: Spec) -> None:
    for layer in both(spec):
        x = tokens_for(layer)
        for given in situations(layer):
            called = f"with {' and '.join(given) or 'tokens alone'}, project(weights @ values) is not the output"
            same(operated(layer, layer.weights(x, **given), x), output(layer, x, **given), called)


@promise
def causal_claim_is_true(spec: Spec) -> None:
    for layer in both(spec):
        moves = influence(layer, tokens_for(layer), axis=2)
        expect_claim(bool((moves.triu(1) <= EXACT).all()), layer, "causal")
        expect_claim(bool(moves.tril(-1).max() > EXACT), layer, "mixes_tokens")
    placed = place_causal(spec)
    expect(placed is None or placed.claims.causal, "a layer in a causal place is not causal; it must refuse the place")
    if placed is None:
        name = attention.split(spec)[0]
        expect(name in refusal(place, spec, causal=True), f"the refusal of a causal place does not name {name}")


@promise
def group_claims_are_true(spec: Spec) -> None:
    layer = place(spec)
    x = tokens_for(layer)
    expect_claim(not apart(influence(layer, x, axis=1)), layer, "mixes_groups")
    order = torch.tensor([2, 0, 1])
    moved = (layer(x[:, order]) - layer(x)[:, order]).abs().max()
    expect_claim(bool(moved <= EXACT), layer, "equivariant_to_groups")


@promise
def token_claims_are_true(spec: Spec) -> None:
    for layer in both(spec):
        x = tokens_for(layer)
        order = torch.randperm(TOKENS, generator=torch.Generator().manual_seed(53))
        moved = (layer(x[:, :, order]) - layer(x)[:, :, order]).abs().max()
        expect_claim(bool(moved <= EXACT), layer, "equivariant_to_tokens")


@promise
def time_order_claim_is_true(spec: Spec) -> None:
    name = attention.split(spec)[0]
    if place(spec).claims.needs_time_order:
        sentence = refusal(place, spec, time_ordered=False, host="Nowhere")
        expect(bool(sentence), "needs_time_order is claimed, and a place without an order in time is not refused")
        expect(name in sentence and "Nowhere" in sentence, f"the refusal does not name {name} and its host: {sentence}")
        return
    layer = place(spec, time_ordered=False)
    expect(layer(tokens_for(layer)).isfinite().all(), "an output without an order in time is not finite")


@promise
def linear_claim_is_true(spec: Spec) -> None:
    for causal in (False, True):
        if causal and place_causal(spec) is None:
            continue
        narrow: dict[str, Any] = {
            "groups": 2,
            "heads": 1,
            "width": 3,
            "head_width": 5,
            "value_width": 7,
            "causal": causal,
        }
        once, twice, thrice = (cost(place(spec, tokens=tokens, **narrow)) for tokens in (256, 512, 768))
        # a + b n has no second difference; c n^2 has 2 c 256^2, and 9 c 256^2 of it are in the whole.
        bent = (thrice - 2 * twice + once) / thrice.clamp(min=1)
        expect_claim(bool((bent < 0.01).all()), place(spec, causal=causal), "linear_in_tokens")


@promise
def bias_claim_is_true(spec: Spec) -> None:
    name = attention.split(spec)[0]
    for layer in both(spec):
        x = tokens_for(layer)
        bias = scores_bias(layer)
        if not layer.claims.takes_bias:
            for call in (layer, layer.weights):
                said = refusal(call, x, bias=bias)
                expect(name in said, "takes_bias is False, and a bias is not refused in a sentence that names it")
            continue
        plain = layer(x)
        same(layer(x, bias=torch.zeros_like(bias)), plain, "a bias of 0 changes the output")
        if not layer.claims.mixes_tokens:
            same(layer(x, bias=bias), plain, "tokens are not mixed, and a bias changes the output")
            continue
        expect((layer(x, bias=bias) - plain).abs().max() > EXACT, "takes_bias is claimed, and a bias changes nothing")
        narrow = bias[0, 0]
        same(layer(x, bias=narrow), layer(x, bias=narrow.expand_as(bias)), "a bias is not broadcast")
        learned = bias.clone().requires_grad_()
        layer(x, bias=learned).square().sum().backward()
        gradient = learned.grad
        reached = gradient is not None and bool(gradient.isfinite().all()) and bool(gradient.abs().max() > 0)
        expect(reached, "a bias gets no gradient, or one that is not finite")


@promise
def hiding_claim_is_true(spec: Spec) -> None:
    for layer in both(spec):
        if not layer.claims.takes_bias:
            continue
        hidden = torch.zeros(TOKENS, TOKENS, dtype=torch.bool)
        hidden[1:, 0] = hidden[-1, 2:-1] = True
        bias = torch.zeros(TOKENS, TOKENS, dtype=torch.float64).masked_fill(hidden, -torch.inf)
        moves = influence(layer, tokens_for(layer), axis=2, bias=bias)
        expect_claim(bool((moves[hidden] <= EXACT).all()), layer, "hides_pairs")


@promise
def carry_claim_is_true(spec: Spec) -> None:
    first, second = place(spec, layer=0, layers=2), place(spec, seed=43, layer=1, layers=2)
    x = tokens_for(first)
    y, carry = first(x, carry=())
    same(y, first(x), "a first layer gives something else where scores are carried")
    expect_claim(bool(carry), first, "carries_scores")
    carried, further = second(y, carry=carry)
    expect_claim(bool((carried - second(y)).abs().max() > EXACT), first, "carries_scores")
    expect_claim(bool(further), first, "carries_scores")
    same(operated(second, second.weights(y, carry=carry), y), carried, "weights leave out what is carried")


@promise
def softmax_claim_is_true(spec: Spec) -> None:
    """A layer that says "always" is softmax attention as it stands; other settings are for its own test."""
    layer = place(spec)
    if layer.claims.reduces_to_softmax_at != "always":
        return
    plain = attention.create("softmax", layer.site).to(torch.float64)
    plain.load_state_dict(layer.state_dict())
    x = tokens_for(layer)
    same(layer(x), plain(x), "the layer claims to be softmax attention always, and is not")


@promise
def padding_never_moves_a_real_token(spec: Spec) -> None:
    for layer in both(spec):
        mask = ragged_mask(layer)
        x = tokens_for(layer)
        other = torch.where(mask[..., None], x, 100 * torch.randn_like(x))
        same(layer(other, mask=mask)[mask], layer(x, mask=mask)[mask], "what stands in padding moves a real token")


@promise
def mask_changes_what_is_mixed(spec: Spec) -> None:
    layer = place(spec)
    mask = ragged_mask(layer)
    x = tokens_for(layer)
    moved = bool((layer(x, mask=mask) - layer(x))[mask].abs().max() > EXACT)
    expect(moved == layer.claims.mixes_tokens, "a mask changes nothing" if not moved else "a mask changes the output")
    same(layer(x, mask=torch.ones_like(mask)), layer(x), "a mask without padding changes the output")


@promise
def padding_at_the_end_is_a_shorter_sequence(spec: Spec) -> None:
    for layer in both(spec):
        x = tokens_for(layer)
        for real in (1, 4):
            mask = (torch.arange(TOKENS) < real).expand(BATCH, GROUPS, TOKENS)
            short = layer(x[:, :, :real])
            same(layer(x, mask=mask)[:, :, :real], short, f"{real} tokens and padding are not {real} tokens alone")


@promise
def row_of_padding_stays_finite(spec: Spec) -> None:
    for layer in both(spec):
        mask = ragged_mask(layer)
        mask[0, 0] = False
        x = tokens_for(layer).requires_grad_()
        expect_finite(layer, x, layer(x, mask=mask), "where a row is padding from end to end")


@promise
def fewer_tokens_are_taken_and_more_refused(spec: Spec) -> None:
    layer = place(spec)
    for tokens in range(1, TOKENS + 1):
        x = tokens_for(layer, tokens=tokens)
        y = layer(x)
        expect(y.shape == x.shape, f"{tokens} tokens in a place of {TOKENS} come out as {list(y.shape)}")
        same(operated(layer, layer.weights(x), x), y, f"weights of {tokens} tokens do not make their output")
    for call in (layer, layer.weights):
        said = refusal(call, tokens_for(layer, tokens=TOKENS + 1))
        expect(f"got {TOKENS + 1}" in said, f"{TOKENS + 1} tokens in a place of {TOKENS} are not refused by number")
        said = refusal(call, torch.zeros(BATCH, GROUPS, TOKENS, WIDTH + 4, dtype=torch.float64))
        expect(f"width {WIDTH}" in said, f"tokens of another width than {WIDTH} are not refused by number")


@promise
def other_axes_are_refused(spec: Spec) -> None:
    layer = place(spec)
    x = tokens_for(layer)
    # By the layer's own refusal: where shapes are checked against signatures, that would come first.
    for wrong in (x[0], x[None]):
        said = refusal(layer.check, wrong)
        expect(f"got {wrong.dim()} axes" in said, f"tokens of {wrong.dim()} axes are not refused by number")


@promise
def empty_batch_is_taken(spec: Spec) -> None:
    for layer in both(spec):
        x = tokens_for(layer, batch=0).requires_grad_()
        y = layer(x)
        expect(y.shape == x.shape, f"an empty batch comes out as {list(y.shape)}")
        y.sum().backward()
        expect(
            all(part.shape[0] == 0 for part in parts_of(layer.weights(x))), "weights of an empty batch are not empty"
        )


@promise
def saved_layer_is_the_same_layer(spec: Spec) -> None:
    layer, other = place(spec), place(spec, seed=47)
    x = tokens_for(layer)
    differ = bool((layer(x) - other(x)).abs().max() > EXACT)
    expect(differ == bool(list(layer.parameters())), "layers of other parameters give the same output")
    other.load_state_dict(layer.state_dict(), strict=True)
    expect(torch.equal(layer(x), other(x)), "a layer with the state of another gives another output")


@promise
def rows_of_a_batch_do_not_see_one_another(spec: Spec) -> None:
    for layer in both(spec):
        x = tokens_for(layer)
        mask = ragged_mask(layer)
        expect(apart(influence(layer, x, axis=0)), "a row of a batch moves another")
        expect(apart(influence(layer, x, axis=0, mask=mask)), "a row of a batch with a mask moves another")
        same(layer(x)[1:], layer(x[1:]), "a row of a batch is another one alone")


@promise
def gradients_are_those_of_the_function(spec: Spec) -> None:
    layer = place(spec, groups=2, tokens=3, width=5, heads=1, head_width=7, value_width=11)
    x = tokens_for(layer, batch=1).requires_grad_()
    named = dict(layer.named_parameters())
    for given in situations_for_gradients():

        def run(tokens: Tensor, *values: Tensor, given: dict[str, Any] = given) -> Tensor:
            state = dict(zip(named, values, strict=True))
            return torch.func.functional_call(layer, state, (tokens,), given)

        expect(torch.autograd.gradcheck(run, (x, *named.values()), fast_mode=True), "gradients are not the function's")


def situations_for_gradients() -> Iterator[dict[str, Any]]:
    yield {}
    yield {"mask": torch.tensor([[[True, True, False], [False, True, True]]])}


@promise
def bfloat16_is_as_exact_as_plain_bfloat16(spec: Spec) -> None:
    """Twice the error that the plain form, operator times values, has against float64, plus one rounding."""
    for layer in both(spec):
        low = copy.deepcopy(layer).to(torch.bfloat16)
        exact_layer = copy.deepcopy(low).to(torch.float64)
        x = tokens_for(low)
        exact = exact_layer(x.double()).detach()
        plain = operated(low, low.weights(x), x).detach().double()
        rounding = torch.finfo(torch.bfloat16).eps * exact.abs().max()
        allowed = 2 * (plain - exact).abs().max() + rounding
        error = (low(x).detach().double() - exact).abs().max()
        expect(error <= allowed, f"in bfloat16 the output is off by {float(error):.2g}, {float(allowed):.2g} allowed")


@promise
def smallest_places_work(spec: Spec) -> None:
    thin = {"width": WIDTH, "heads": WIDTH, "head_width": None, "value_width": None}
    places: tuple[dict[str, Any], ...] = ({"tokens": 1}, {"groups": 1}, thin, {"value_width": 1})
    for changes in places:
        layer = place(spec, **changes)
        x = tokens_for(layer).requires_grad_()
        y = layer(x)
        expect(y.shape == x.shape, f"in a place of {changes} tokens come out as {list(y.shape)}")
        same(operated(layer, layer.weights(x), x), y, f"in a place of {changes} the weights do not make the output")
        expect_finite(layer, x, y, f"in a place of {changes}")


@promise
def large_and_small_values_stay_finite(spec: Spec) -> None:
    for scale in (1e6, 1e-6, 0.0):
        for causal in (False, True):
            if causal and place_causal(spec) is None:
                continue
            layer = place(spec, dtype=torch.float32, causal=causal)
            x = (scale * tokens_for(layer)).requires_grad_()
            expect_finite(layer, x, layer(x, mask=ragged_mask(layer)), f"of tokens of {scale:g} in float32")


@promise
def dropout_acts_in_training_only(spec: Spec) -> None:
    layer, dropping = place(spec), place(spec, dropout=0.5)
    x = tokens_for(layer).requires_grad_()
    same(dropping(x), layer(x), "dropout changes the output in evaluation")
    expect_finite(dropping, x, dropping.train()(x), "in training with dropout")


def expect_finite(layer: Attention, x: Tensor, y: Tensor, where: str) -> None:
    """Output and gradients, under a cotangent of unit size: a loss would add a power of its own to large values."""
    expect(y.isfinite().all(), f"{where} the output is not finite")
    wanted = [x, *layer.parameters()]
    cotangent = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    found = torch.autograd.grad(y, wanted, cotangent, allow_unused=True)
    finite = all(gradient is None or bool(gradient.isfinite().all()) for gradient in found)
    expect(finite, f"{where} a gradient is not finite")
