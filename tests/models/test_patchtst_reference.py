"""PatchTST written out a second time, from the paper's words and the parameters alone: no part of the library runs.

Scores of a layer are those of all layers up to it, each with its mask where there is one: the official code carries
them so.
"""

import math
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview.attention.contract import Site
from rearview.models import Model
from rearview.models.blocks.stack import BlockSettings, Stack
from rearview.testing.small_models import past_for, small

BATCH, GROUPS, TOKENS, WIDTH, HEADS, DEPTH, EPS = 5, 3, 7, 26, 13, 3, 1e-5
EXACT = {"rtol": 1e-9, "atol": 1e-9}
ALPHA = 0.5


def affine(state: Mapping[str, Tensor], part: str, x: Tensor) -> Tensor:
    return torch.einsum("...i,oi->...o", x, state[f"{part}.weight"]) + state[f"{part}.bias"]


def batch_norm(state: Mapping[str, Tensor], part: str, x: Tensor, training: bool) -> Tensor:
    """Of each feature over all tokens: of this batch in training, as remembered in evaluation."""
    if training:
        rows = x.reshape(-1, x.shape[-1])
        mean = rows.sum(0) / len(rows)
        variance = (rows - mean).square().sum(0) / len(rows)
    else:
        mean, variance = state[f"{part}.running_mean"], state[f"{part}.running_var"]
    return (x - mean) / (variance + EPS).sqrt() * state[f"{part}.weight"] + state[f"{part}.bias"]


def layer_norm(state: Mapping[str, Tensor], part: str, x: Tensor, training: bool) -> Tensor:
    """Of each token over its features."""
    centred = x - x.sum(-1, keepdim=True) / x.shape[-1]
    variance = centred.square().sum(-1, keepdim=True) / x.shape[-1]
    return centred / (variance + EPS).sqrt() * state[f"{part}.weight"] + state[f"{part}.bias"]


def attended(state: Mapping[str, Tensor], part: str, x: Tensor, heads: int, added: Tensor) -> tuple[Tensor, Tensor]:
    """softmax(Q K^T / sqrt(d) + what is added) V, head by head, then the way out; and the scores."""
    queries, keys, values = affine(state, f"{part}.qkv", x).chunk(3, dim=-1)
    each = queries.shape[-1] // heads
    own = [slice(head * each, (head + 1) * each) for head in range(heads)]
    products = [torch.einsum("bgic,bgjc->bgij", queries[..., one], keys[..., one]) for one in own]
    scores = torch.stack(products, dim=2) / math.sqrt(each) + added
    shares = (scores - scores.amax(-1, keepdim=True)).exp()
    shares = shares / shares.sum(-1, keepdim=True)
    mixed = [torch.einsum("bgij,bgjc->bgic", shares[:, :, head], values[..., one]) for head, one in enumerate(own)]
    return affine(state, f"{part}.out", torch.cat(mixed, dim=-1)), scores


def blocks(
    state: Mapping[str, Tensor], x: Tensor, heads: int, kind: str, residual: bool, training: bool, mask: Tensor
) -> Tensor:
    """x = norm(x + attention(x)), then x = norm(x + W2 gelu(W1 x)), block after block."""
    normed = {"batch": batch_norm, "layer": layer_norm}[kind]
    added = mask
    for block in (f"blocks.{layer}" for layer in range(DEPTH)):
        found, scores = attended(state, f"{block}.attend", x, heads, added)
        added = scores + mask if residual else mask
        x = normed(state, f"{block}.norm_attended", x + found, training)
        inner = affine(state, f"{block}.feed_forward.0", x)
        inner = inner * (1 + torch.erf(inner / math.sqrt(2))) / 2
        x = normed(state, f"{block}.norm_fed", x + affine(state, f"{block}.feed_forward.3", inner), training)
    return x


def patchtst(model: Model, past: Tensor, heads: int, residual: bool, training: bool, mask: Tensor) -> Tensor:
    """The whole network, at patches of 7 steps every 3."""
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    mean = past.sum(-1, keepdim=True) / past.shape[-1]
    spread = ((past - mean).square().sum(-1, keepdim=True) / past.shape[-1] + EPS).sqrt()
    series = (past - mean) / spread
    series = torch.cat([series] + 3 * [series[..., -1:]], dim=-1)
    starts = range(0, series.shape[-1] - 6, 3)
    patches = torch.stack([series[..., start : start + 7] for start in starts], dim=2)
    tokens = affine(state, "patches.project", patches) + state["positions.table"]
    inner = {name.removeprefix("stack."): tensor for name, tensor in state.items()}
    mixed = blocks(inner, tokens, heads, "batch", residual, training, mask)
    return affine(state, "head", mixed.flatten(2)) * spread + mean


def recency(tokens: int) -> Tensor:
    """A power law of the age of a key; what lies ahead is not seen."""
    age = torch.arange(tokens)[:, None] - torch.arange(tokens)
    return torch.where(age >= 0, -ALPHA * (1 + age.clamp(min=0)).double().log(), -torch.inf)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("mechanism", ["softmax", "rbca"])
def test_patchtst_is_its_definition_written_out(mechanism: str, residual: bool, training: bool) -> None:
    spec = {"name": "rbca", "bias": "power_law", "alpha": ALPHA} if mechanism == "rbca" else mechanism
    model = small("patchtst", attention=spec, depth=DEPTH, residual_scores=residual).train(training)
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                buffer.add_(0.2 * torch.rand_like(buffer))
    past = past_for(model)
    tokens = model.patches.tokens
    mask = recency(tokens) if mechanism == "rbca" else torch.zeros(tokens, tokens, dtype=torch.float64)
    expected = patchtst(model, past, HEADS, residual, training, mask)
    assert_close(model(past), expected, **EXACT)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("kind", ["batch", "layer"])
def test_a_stack_and_its_gradients_are_its_definition_written_out(kind: str, residual: bool, training: bool) -> None:
    torch.manual_seed(19)
    site = Site(groups=GROUPS, tokens=TOKENS, width=WIDTH, heads=HEADS)
    stack = Stack(site, DEPTH, BlockSettings(17, norm=kind), residual_scores=residual).double().train(training)
    with torch.no_grad():
        for tensor in stack.state_dict().values():
            if tensor.is_floating_point():
                tensor.add_(0.05 * torch.rand_like(tensor))
    state = {name: tensor.clone() for name, tensor in stack.state_dict().items()}
    x = torch.randn(BATCH, GROUPS, TOKENS, WIDTH, dtype=torch.float64, requires_grad=True)
    expected = blocks(state, x, HEADS, kind, residual, training, torch.zeros(TOKENS, TOKENS, dtype=x.dtype))
    found = stack(x)
    assert_close(found, expected, **EXACT)
    cotangent = torch.randn_like(expected)
    assert_close(torch.autograd.grad(found, x, cotangent), torch.autograd.grad(expected, x, cotangent), **EXACT)
