"""Linear attention: both fast forms against the definition, chunks of any length, numbers by hand."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview.attention import linear
from rearview.core.errors import SettingsError
from rearview.testing.places import EXACT, place, tokens_for

BATCH, GROUPS, HEADS, HEAD_WIDTH, VALUE_WIDTH = 1, 2, 3, 5, 7
EPS = 1e-6


def heads(tokens: int) -> list[Tensor]:
    torch.manual_seed(tokens)
    widths = (HEAD_WIDTH, HEAD_WIDTH, VALUE_WIDTH)
    return [torch.randn(BATCH, GROUPS, HEADS, tokens, width, dtype=torch.float64).requires_grad_() for width in widths]


def fast(q: Tensor, k: Tensor, v: Tensor, causal: bool, chunk: int = linear.CHUNK) -> Tensor:
    q, k = linear.positive_features(q), linear.positive_features(k)
    top, bottom = linear.attend_chunks(q, k, v, chunk) if causal else linear.attend_all(q, k, v)
    return top / (bottom + EPS)


def by_definition(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    rows = zip(q.flatten(0, 2), k.flatten(0, 2), v.flatten(0, 2), strict=True)
    return torch.stack([linear.reference(*row, causal=causal, eps=EPS) for row in rows]).view(v.shape)


def with_gradients(y: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    cotangent = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    return [y, *torch.autograd.grad(y, inputs, cotangent)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tokens", [1, 2, 13, 42, 65, 193])
def test_the_fast_form_is_the_definition(tokens: int, causal: bool) -> None:
    inputs = heads(tokens)
    ours = with_gradients(fast(*inputs, causal), inputs)
    theirs = with_gradients(by_definition(*inputs, causal), inputs)
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("chunk", [1, 3, 42, 64, 128])
def test_the_length_of_a_chunk_does_not_matter(chunk: int) -> None:
    inputs = heads(42)
    assert_close(fast(*inputs, True, chunk), fast(*inputs, True, 7), rtol=EXACT, atol=EXACT)


def test_padding_in_front_is_a_shorter_sequence() -> None:
    for causal in (False, True):
        layer = place("linear", causal=causal)
        x = tokens_for(layer)
        mask = (torch.arange(layer.site.tokens) >= 3).expand(x.shape[:3])
        assert_close(layer(x, mask=mask)[:, :, 3:], layer(x[:, :, 3:]), rtol=EXACT, atol=EXACT)


def test_a_row_of_padding_mixes_nothing() -> None:
    layer = place("linear")
    x = tokens_for(layer)
    mask = torch.ones(x.shape[:3], dtype=torch.bool)
    mask[1, 2] = False
    assert not layer.weights(x, mask=mask)[1, 2].any()


def test_numbers_by_hand() -> None:
    """phi(0) = 1 and phi(1) = 2: weights 1/3 and 2/3."""
    q, k, v = torch.zeros(2, 1), torch.tensor([[0.0], [1.0]]), torch.tensor([[3.0], [6.0]])
    assert_close(linear.reference(q, k, v), torch.tensor([[5.0], [5.0]]), rtol=1e-5, atol=0)
    assert_close(linear.reference(q, k, v, causal=True), torch.tensor([[3.0], [5.0]]), rtol=1e-5, atol=0)


def test_eps_is_a_setting() -> None:
    x = tokens_for(place("linear"))
    plain = place("linear")
    plain.settings = linear.Settings(eps=1e9)
    assert plain.weights(x).abs().max() < 1e-6


def test_a_bias_is_refused_with_what_else_to_use() -> None:
    layer = place("linear")
    with pytest.raises(SettingsError, match="no scores to add a bias to; use softmax"):
        layer(tokens_for(layer), bias=torch.zeros(()))
