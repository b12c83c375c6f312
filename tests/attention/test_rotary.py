"""Rotary positions: a rotation by offset, exact at late positions, in every place that uses it."""

import copy
import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview import attention
from rearview.attention import Site, caps
from rearview.attention.shared.rotary import Rotary, frequencies, quarter_turn
from rearview.attention.softmax import Layer
from rearview.core.errors import SettingsError
from rearview.testing.places import EXACT, operated

BATCH, GROUPS, HEADS, HEAD_WIDTH, TOKENS, WIDTH = 2, 3, 5, 7, 11, 13
SITE = Site(groups=GROUPS, tokens=TOKENS, width=WIDTH, heads=HEADS, head_width=HEAD_WIDTH)


def heads(tokens: int = TOKENS, width: int = HEAD_WIDTH, seed: int = 1) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, GROUPS, HEADS, tokens, width, generator=draw, dtype=torch.float64)


def repeated(tokens: int = TOKENS, width: int = HEAD_WIDTH, seed: int = 1) -> Tensor:
    """The same token at every position."""
    return heads(1, width, seed).expand(-1, -1, -1, tokens, -1)


def rotary(layout: str = "fixed", **changes) -> Rotary:
    site = {"groups": GROUPS, "tokens": TOKENS, "width": WIDTH, "heads": HEADS, "head_width": HEAD_WIDTH, **changes}
    return Rotary(Site(**site), layout).double()


def softmax(site: Site = SITE, **settings) -> Layer:
    torch.manual_seed(3)
    made = attention.create("softmax", site, **settings).double()
    assert isinstance(made, Layer)
    return made


def tokens_for(site: Site, seed: int = 5) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, site.groups, site.tokens, site.width, generator=draw, dtype=torch.float64)


def scores(rotation: Rotary, q: Tensor, k: Tensor, **given) -> Tensor:
    q, k = rotation(q, k, **given)
    return q @ k.transpose(-1, -2)


def test_numbers_by_hand() -> None:
    """Width 4: the first pair turns by 1 a token, the second by 1/100."""
    assert_close(frequencies(4), torch.tensor([1.0, 0.01], dtype=torch.float64))
    x = torch.tensor([1.0, 0.0, 0.0, 2.0], dtype=torch.float64).expand(1, 1, 1, 4, 4)
    out, _ = Rotary(Site(groups=1, tokens=4, width=4, heads=1)).double()(x, x)
    expected = [math.cos(3), math.sin(3), -2 * math.sin(0.03), 2 * math.cos(0.03)]
    assert_close(out[0, 0, 0, 3], torch.tensor(expected, dtype=torch.float64))
    assert quarter_turn(torch.arange(1.0, 6.0)).tolist() == [-2.0, 1.0, -4.0, 3.0, 0.0]


@pytest.mark.parametrize(
    ("layout", "width"), [("fixed", 1), ("fixed", 2), ("fixed", 6), ("fixed", 7), ("learned", 2), ("learned", 7)]
)
def test_it_is_the_rotation_of_the_paper(layout: str, width: int) -> None:
    rotation = rotary(layout, head_width=width)
    x = heads(width=width)
    out, again = rotation(x, x)
    assert torch.equal(out, again)
    omega = frequencies(width) if rotation.frequencies is None else rotation.frequencies[0]
    for t in range(TOKENS):
        assert_close(out[..., t, :], x[..., t, :] @ caps.rotation_matrix(t, omega, width).T, rtol=1e-6, atol=1e-6)
    assert_close(out.norm(dim=-1), x.norm(dim=-1))


@pytest.mark.parametrize("width", [6, 7])
def test_scores_depend_on_the_offset_alone(width: int) -> None:
    found = scores(rotary(head_width=width), repeated(width=width, seed=1), repeated(width=width, seed=2))
    for offset in range(-TOKENS + 1, TOKENS):
        diagonal = found.diagonal(offset, dim1=-2, dim2=-1)
        assert_close(diagonal, diagonal[..., :1].expand_as(diagonal), rtol=EXACT, atol=EXACT)
    assert found.diagonal(1, dim1=-2, dim2=-1)[..., 0].sub(found[..., 0, 0]).abs().min() > 1e-6


def test_the_released_layout_is_no_rotation() -> None:
    found = scores(rotary("released", head_width=6), repeated(width=6, seed=1), repeated(width=6, seed=2))
    diagonal = found.diagonal(0, dim1=-2, dim2=-1)
    assert (diagonal - diagonal[..., :1]).abs().max() > 0.1
    with pytest.raises(SettingsError, match="heads of width 7 have none"):
        rotary("released", head_width=7)


def test_angles_are_exact_at_late_positions() -> None:
    """A float32 angle at position 100,000 would be off by 6e-4."""
    late = 100_000
    rotation = Rotary(Site(groups=1, tokens=late + 1, width=6, heads=1))
    exact = late * frequencies(6)
    x = torch.zeros(1, 1, 1, late + 1, 6)
    x[..., 0::2] = 1
    out, _ = rotation(x, x)
    assert out.dtype == torch.float32
    expected = torch.stack([exact.cos(), exact.sin()], dim=-1).flatten()
    assert (out[0, 0, 0, late].double() - expected).abs().max() < 1e-7


def test_the_table_is_rounded_once_whatever_the_layer_went_through() -> None:
    fresh, travelled = rotary(), rotary()
    travelled = copy.deepcopy(travelled.half().float()).double()
    x = heads()
    assert torch.equal(fresh(x, x)[0], travelled(x, x)[0])
    low = rotary().bfloat16()
    out, _ = low(x.bfloat16(), x.bfloat16())
    assert out.dtype == torch.bfloat16
    exact, _ = fresh(x.bfloat16().double(), x)
    assert (out.double() - exact).abs().max() <= 2**-8 * exact.abs().max()
    assert "table" not in "".join(fresh.state_dict())


def test_real_gaps_take_the_place_of_token_indices() -> None:
    q, k = heads(seed=1), heads(seed=2)
    index = torch.arange(TOKENS, dtype=torch.float64)
    ages = index[:, None] - index
    for layout in ("fixed", "learned"):
        rotation = rotary(layout)
        assert_close(scores(rotation, q, k, ages=ages), scores(rotation, q, k), rtol=EXACT, atol=EXACT)
    times = torch.tensor([0, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29])
    at_times = scores(rotary(times=tuple(times.tolist())), q, k)
    gaps = (times[:, None] - times).double().expand(BATCH, GROUPS, -1, -1)
    assert_close(scores(rotary(), q, k, ages=gaps), at_times, rtol=EXACT, atol=EXACT)
    assert (at_times - scores(rotary(), q, k)).abs().max() > 0.1
    later = scores(rotary(times=tuple((times + 1000).tolist())), q, k)
    assert_close(later, at_times, rtol=1e-9, atol=1e-9)


def test_learned_frequencies_start_at_the_fixed_ones_and_learn() -> None:
    learned = Rotary(SITE, "learned")
    assert learned.frequencies is not None
    assert learned.frequencies.shape == (HEADS, HEAD_WIDTH // 2)
    q, k = heads().float(), heads(seed=2).float()
    assert_close(learned(q, k), Rotary(SITE)(q, k), rtol=1e-5, atol=1e-5)
    scores(learned, q, k).square().sum().backward()
    assert learned.frequencies.grad is not None
    assert learned.frequencies.grad.abs().min() > 0
    with pytest.raises(SettingsError, match="heads of width 1 have none"):
        rotary("learned", head_width=1)


@pytest.mark.parametrize("causal", [False, True])
def test_softmax_with_rotary_is_softmax_of_turned_queries_and_keys(causal: bool) -> None:
    site = Site(groups=GROUPS, tokens=TOKENS, width=WIDTH, heads=HEADS, head_width=HEAD_WIDTH, causal=causal)
    layer, plain = softmax(site, rotary=True), softmax(site)
    plain.load_state_dict(layer.state_dict(), strict=True)
    x = tokens_for(site)
    q, k, v = layer.heads(x)
    q, k = rotary()(q, k)
    logits = q @ k.transpose(-1, -2) / HEAD_WIDTH**0.5
    if causal:
        logits = logits.masked_fill(torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1), -torch.inf)
    expected = layer.project(logits.softmax(-1) @ v)
    assert_close(layer(x), expected, rtol=EXACT, atol=EXACT)
    assert_close(operated(layer, layer.weights(x), x), expected, rtol=EXACT, atol=EXACT)
    assert (layer(x) - plain(x)).abs().max() > 1e-4


def test_softmax_with_rotary_carries_what_its_layer_turned() -> None:
    first, second = softmax(rotary=True), softmax(rotary=True)
    x = tokens_for(SITE)
    y, carry = first(x, carry=())
    out, (queries, _) = second(y, carry=carry)
    assert queries.shape[-1] == 2 * HEAD_WIDTH
    logits = sum(scores(rotary(), *layer.heads(z)[:2]) for layer, z in ((first, x), (second, y))) / HEAD_WIDTH**0.5
    assert_close(out, second.project(logits.softmax(-1) @ second.values(y)), rtol=EXACT, atol=EXACT)


def test_softmax_with_rotary_says_what_it_is_and_where_it_does_not_fit() -> None:
    layer = softmax(rotary=True)
    assert layer.claims.needs_time_order
    assert layer.claims.reduces_to_softmax_at == "rotary=False"
    assert softmax().claims.reduces_to_softmax_at == "always"
    site = Site(groups=1, tokens=TOKENS, width=10, heads=HEADS, time_ordered=False, host="iTransformer")
    with pytest.raises(SettingsError, match="iTransformer's tokens have no order in time; use rotary=False"):
        softmax(site, rotary=True)
    by_name = {setting.name: setting for setting in attention.describe("softmax").settings}
    assert by_name["rotary"].default == "False"


def test_softmax_with_rotary_runs_in_bfloat16() -> None:
    layer = softmax(rotary=True).float()
    x = tokens_for(SITE).float()
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
    assert y.dtype == torch.bfloat16
    assert (y - layer(x)).abs().max() < 0.05
