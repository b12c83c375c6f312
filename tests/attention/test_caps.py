"""CAPS against its paper: the fast form and the reference, numbers by hand, propositions, settings, refusals."""

import math
from typing import Any

import pytest
import torch
from caps_parts import (
    BATCH,
    GROUPS,
    HEAD_WIDTH,
    HEADS,
    SETTINGS,
    SUBSETS,
    VALUE_WIDTH,
    WIDTH,
    by_reference,
    head,
    layer_of,
    mix_sequentially,
    ones,
    signals,
    tokens_of,
)
from torch import Tensor
from torch.testing import assert_close

from rearview import attention, models
from rearview.attention import Site, caps
from rearview.attention.caps.paths import EPS, PATHS, Signals, released_path, score_path, stable_path
from rearview.attention.caps.recurrence import mix_chunks, score_pairs
from rearview.attention.shared.rotary import Rotary
from rearview.core.errors import SettingsError
from rearview.testing.places import EXACT, operated

LENGTHS = [1, 2, 13, 42, 65, 193]


def turned(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    site = Site(groups=1, tokens=q.shape[-2], width=1, heads=1, head_width=q.shape[-1])
    return Rotary(site).double()(q, k)


def fast(q: Tensor, k: Tensor, v: Tensor, p: Tensor, g: Tensor, clock: Tensor) -> Tensor:
    return caps.fast(*turned(q, k), v, signals(p, g, clock))


def slow(q: Tensor, k: Tensor, v: Tensor, p: Tensor, g: Tensor, clock: Tensor) -> Tensor:
    delta = signals(p, g, clock).delta[..., 0]
    rows = zip(*(part.flatten(0, 2) for part in (q, k, v, p, g, delta)), strict=True)
    return torch.stack([caps.reference(*row) for row in rows]).view(v.shape)


def with_gradients(y: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    return [y, *torch.autograd.grad((y * torch.linspace(-1, 1, y.shape[-1])).sum(), inputs)]


@pytest.mark.parametrize("tokens", LENGTHS)
def test_fast_form_is_the_reference_with_gradients(tokens: int) -> None:
    parts = head(tokens)
    assert_close(with_gradients(fast(*parts), parts), with_gradients(slow(*parts), parts), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("tokens", [1, 13, 65])
@pytest.mark.parametrize("held", [1, 65 * 5 * 4])
def test_long_form_is_the_short_one_with_gradients(tokens: int, held: int, monkeypatch) -> None:
    """Row by row and path by path, everything computed again in backward."""
    parts = head(tokens, batch=3)
    short = with_gradients(fast(*parts), parts)
    monkeypatch.setattr(caps.layer, "LONG", 1)
    monkeypatch.setattr(caps.layer, "HELD", held)
    assert_close(with_gradients(fast(*parts), parts), short, rtol=EXACT, atol=EXACT)
    with torch.no_grad():
        assert_close(fast(*parts), short[0], rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("settings", [each for each in SETTINGS if each.get("numerics") != "released"], ids=str)
def test_layer_is_the_reference(settings: dict[str, Any]) -> None:
    layer = layer_of(**settings)
    x = tokens_of()
    assert_close(layer(x), by_reference(layer, x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("tokens", [1, 15, 16, 17, 256, 257, 300])
def test_chunks_are_the_recurrence(tokens: int) -> None:
    draw = torch.Generator().manual_seed(tokens)
    q, k, v = (torch.randn(2, 3, tokens, n, generator=draw, dtype=torch.float64) for n in (5, 5, 7))
    log_gate = -torch.rand(2, 3, tokens, 5, generator=draw, dtype=torch.float64)
    expected = mix_sequentially(q, k, v, log_gate)
    assert_close(mix_chunks(q, k, v, log_gate), expected, rtol=EXACT, atol=EXACT)
    assert_close(score_pairs(q, k, log_gate) @ v, expected, rtol=EXACT, atol=EXACT)


def test_gradients_are_those_of_the_function(monkeypatch) -> None:
    parts = head(19, heads=1, width=2, values=3)
    assert torch.autograd.gradcheck(fast, parts)
    monkeypatch.setattr(caps.layer, "LONG", 1)
    assert torch.autograd.gradcheck(fast, parts, fast_mode=True)


@pytest.mark.parametrize("settings", [{"normaliser": "softmax"}, {"rotation": "learned"}, {"numerics": "released"}])
def test_gradients_of_the_layer_are_those_of_the_function(settings: dict[str, Any]) -> None:
    layer = layer_of(5, **settings) if "numerics" not in settings else layer_of(5, site={"head_width": 2}, **settings)
    x = tokens_of(5).requires_grad_()
    named = dict(layer.named_parameters())

    def run(tokens: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(layer, dict(zip(named, values, strict=True)), (tokens,))

    assert torch.autograd.gradcheck(run, (x, *named.values()), fast_mode=True)


def test_numbers_by_hand() -> None:
    """exp(p) = 1, 3 and clocks 1, 2: masses 1 and 6. A decay of 1/2 a unit of time: exp(-1). Values 3 and 6."""
    p = torch.tensor([[0.0], [math.log(3)]], dtype=torch.float64)
    g = torch.full((2, 1), math.log(math.expm1(0.5)), dtype=torch.float64)
    delta = torch.tensor([1.0, 2.0], dtype=torch.float64)
    found = {name: weights[1, :, 0].tolist() for name, weights in caps.path_weights(p, g, delta).items()}
    assert found["riemann"] == pytest.approx([1 / 7, 6 / 7])
    assert found["prefix"] == pytest.approx([math.exp(-1), 1])
    assert found["clock"] == pytest.approx([1 / 3, 2 / 3])
    one, v = torch.ones_like(p), torch.tensor([[3.0], [6.0]], dtype=torch.float64)
    expected = [3 * 3, 3 * (1 / 7 + math.exp(-1) + 1 / 3) + 6 * (6 / 7 + 1 + 2 / 3)]
    assert caps.reference(one, one, v, p, g, delta).flatten().tolist() == pytest.approx(expected)
    wide = [part[None, None, None] for part in (one, one, v)]
    ours = caps.fast(*wide, Signals(delta[None, None, None, :, None], p[None, None, None], g[None, None, None], None))
    assert ours.flatten().tolist() == pytest.approx(expected)


def path_weights(tokens: int = 23, change: Tensor | None = None) -> dict[str, Tensor]:
    """G, A and B of the fast form for one channel, with queries and keys of 1; `change` is added to p, g and clock."""
    p, g, clock = (part.detach()[:, :, :1, :, :1] for part in head(tokens)[3:])
    if change is not None:
        p, g, clock = p + change, g + change, clock + change
    return {
        path: score_path(stable_path(path, ones(tokens), ones(tokens), signals(p, g, clock)))[0, 0, 0] for path in PATHS
    }


def test_weights_of_the_paths_are_those_of_the_paper() -> None:
    tokens = 23
    p, g, clock = (part.detach()[0, 0, 0, :, :1] for part in head(tokens)[3:])
    expected = caps.path_weights(p, g, signals(p, g, clock).delta[:, 0])
    for path, weights in path_weights(tokens).items():
        assert_close(weights, expected[path][..., 0], rtol=EXACT, atol=EXACT)
        assert torch.equal(weights.triu(1), torch.zeros_like(weights))
        if path == "prefix":
            assert torch.equal(weights.diag(), torch.ones(tokens, dtype=torch.float64))
        else:
            assert_close(weights.sum(-1), torch.ones(tokens, dtype=torch.float64), rtol=EXACT, atol=EXACT)


def test_softmax_couples_all_tokens() -> None:
    """Proposition 3.2: the derivative of a weight by another score is -alpha alpha, never 0."""
    s = torch.randn(11, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    alpha = s.softmax(-1)
    coupling = torch.func.jacrev(lambda s: s.softmax(-1))(s)
    apart = ~torch.eye(11, dtype=torch.bool)
    assert_close(coupling[apart], (-alpha[:, None] * alpha)[apart])
    assert (coupling[apart] < 0).all()
    layer = layer_of(5, normaliser="softmax", paths=("prefix",))
    x = tokens_of(5)
    other = x.clone()
    other[:, :, 0] += 1
    moved = (layer.weights(other) - layer.weights(x))[..., 4, 2]
    assert moved.abs().min() > EXACT, "the first token moves what the last one gives to the third"


def test_riemann_selects_by_content_not_by_distance() -> None:
    """Proposition 3.3 (i): G[t,i] / G[t,j] is the same for every t that sees both."""
    weights = path_weights()["riemann"]
    ratio = weights[7:, 2] / weights[7:, 7]
    assert_close(ratio, ratio[:1].expand_as(ratio), rtol=EXACT, atol=EXACT)


def test_prefix_fades_by_what_lies_between_alone() -> None:
    """Proposition 3.3 (ii): A[t,i] moves with the gates in (i, t], and with no others."""
    still = path_weights()["prefix"]
    for j in (0, 5, 22):
        change = torch.zeros(23, 1, dtype=torch.float64)
        change[j] = 1
        moved = (path_weights(change=change)["prefix"] - still).abs() > EXACT * still
        t, i = torch.meshgrid(torch.arange(23), torch.arange(23), indexing="ij")
        assert torch.equal(moved, (i < j) & (j <= t))


def test_alignment_depends_on_the_offset_alone() -> None:
    """Proposition 3.3 (iii): the same two tokens, both a step later, have the same product."""
    q, k = (torch.randn(1, 1, 1, 1, 6, dtype=torch.float64).expand(1, 1, 1, 23, 6) for _ in range(2))
    q, k = turned(q, k)
    found = (q @ k.transpose(-1, -2))[0, 0, 0]
    assert_close(found[1:, 1:], found[:-1, :-1], rtol=EXACT, atol=EXACT)
    assert (found[1:, 0] - found[0, 0]).abs().min() > 1e-6


def test_a_constant_in_p_changes_nothing() -> None:
    q, k, v, p, g, clock = head(42)
    assert_close(fast(q, k, v, p + 7.0, g, clock), fast(q, k, v, p, g, clock), rtol=1e-10, atol=1e-10)


def test_without_decay_the_prefix_path_is_plain_linear_attention() -> None:
    q, k, v, p, _, clock = head(42)
    q, k = turned(q, k)
    found = caps.fast(q, k, v, signals(p, torch.full_like(p, -800.0), clock), paths=("prefix",))
    assert_close(found, (q @ k.transpose(-1, -2)).tril() @ v, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_operator_reproduces_the_output(settings: dict[str, Any]) -> None:
    even = {"head_width": 6} if settings.get("numerics") == "released" else {}
    layer = layer_of(site=even, **settings)
    x = tokens_of()
    weights = layer.weights(x)
    assert_close(operated(layer, weights, x), layer(x), rtol=EXACT, atol=EXACT)
    if settings.get("normaliser") == "softmax":
        assert isinstance(weights, Tensor)
        assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    else:
        assert isinstance(weights, dict)
        assert tuple(weights) == layer.settings.paths
    future = x.clone()
    future[:, :, 9:] += 1
    moved = (layer(future) - layer(x))[:, :, :9].abs().max()
    assert bool(moved <= EXACT) == layer.claims.causal
    assert layer.claims.linear_in_tokens == ("normaliser" not in settings)


def test_the_released_riemann_path_lets_a_late_token_in() -> None:
    """One maximum over the whole sequence, and 1e-8 beside it: what should cancel does not."""
    p, g, clock = (torch.zeros_like(part) for part in head(5)[3:])
    late = p.clone()
    late[..., 4, :] = 30.0
    for form, least, most in ((released_path, 0.9, 1.0), (stable_path, 0.0, 0.0)):
        paths = [form("riemann", torch.ones_like(p), torch.ones_like(p), signals(each, g, clock)) for each in (p, late)]
        first, second = (score_path(path)[..., 2, 2] / p.shape[-1] for path in paths)
        assert least <= ((first - second) / first).abs().max() <= most
    assert not layer_of(numerics="released", rotation="none").claims.causal
    assert layer_of(numerics="released", rotation="none", paths=("prefix", "clock")).claims.causal


@pytest.mark.parametrize("paths", SUBSETS, ids="-".join)
def test_a_path_left_out_brings_no_parameters(paths: tuple[str, ...]) -> None:
    layer = layer_of(paths=paths)
    rows = HEADS + HEADS * HEAD_WIDTH * (("riemann" in paths) + ("prefix" in paths))
    assert layer.signals.weight.shape == (rows, WIDTH)
    layer(tokens_of()).square().sum().backward()
    for parameter in layer.parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().amax(-1).min() > 0, "every row of every map learns"


def test_maps_start_as_the_paper_says() -> None:
    torch.manual_seed(0)
    layer = attention.create("caps", Site(groups=1, tokens=3, width=128, heads=4, layer=2, layers=3))
    assert [name for name, _ in layer.named_parameters()] == ["qkv.weight", "out.weight", "signals.weight"]
    for parameter, spread in ((layer.qkv, 0.02), (layer.signals, 0.02), (layer.out, 0.02 / math.sqrt(6))):
        assert parameter.weight.std().item() == pytest.approx(spread, rel=0.05)
        assert parameter.bias is None


def test_a_clock_never_stands_still() -> None:
    layer = layer_of()
    with torch.no_grad():
        layer.signals.weight[-HEADS:] = 0
    assert layer._signals(caps.layer.Inputs(tokens_of())).delta.unique().tolist() == pytest.approx([math.log(2) + EPS])


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_it_stands_in_patchtst(settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = models.create(
        "patchtst",
        channels=GROUPS,
        lookback=53,
        steps=7,
        attention={"name": "caps", **settings},
        width=20,
        heads=5,
        depth=2,
        feed_forward=11,
        dropout=0.1,
    )
    y = model(torch.randn(BATCH, GROUPS, 53))
    assert y.shape == (BATCH, GROUPS, 7)
    y.square().sum().backward()
    for parameter in model.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
    assert not model.stack.residual_scores, "alpha is no logit that could be handed on"


def test_values_may_have_a_width_of_their_own() -> None:
    layer = layer_of()
    assert layer.values(tokens_of()).shape[-1] == VALUE_WIDTH
    assert layer(tokens_of()).shape == (BATCH, GROUPS, 17, WIDTH)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"paths": ("riemann", "prefx")}, "each one of 'riemann', 'prefix', 'clock'"),
        ({"paths": "clok"}, r"paths is \('clok',\); it must be a list, each one of"),
        ({"paths": 5}, "paths is 5; it must be a list, each one of 'riemann'"),
        ({"paths": ()}, "at least one path"),
        ({"paths": ("clock", "clock")}, "each of them once"),
        ({"normaliser": "none"}, "normaliser is 'none'; it must be one of 'linear', 'softmax'"),
        ({"rotation": "free"}, "rotation is 'free'; it must be one of 'fixed', 'learned', 'released' or 'none'"),
        ({"numerics": "exact"}, "numerics is 'exact'; it must be one of 'stable', 'released'"),
        ({"rotation": "released"}, "two equal halves, and heads of width 7 have none"),
    ],
)
def test_what_is_no_setting_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        layer_of(**settings)


@pytest.mark.usefixtures("unchecked")
def test_paths_may_come_from_a_file() -> None:
    assert layer_of(paths=["clock", "prefix"]).settings.paths == ("clock", "prefix")
    assert layer_of(paths="prefix").settings.paths == ("prefix",)


def test_unfit_places_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"caps sums over earlier tokens, but iTransformer's .* use prime or toa"):
        layer_of(site={"time_ordered": False, "host": "iTransformer"})
    with pytest.raises(SettingsError, match="several of Timer-XL's tokens share a moment; use rbca, toa or prime"):
        layer_of(6, site={"times": (0, 1, 2, 0, 1, 2), "host": "Timer-XL"})
    with pytest.raises(
        SettingsError, match=r"lets later tokens in, .* Decoder's tokens may not look ahead; use numerics"
    ):
        layer_of(site={"causal": True, "host": "Decoder"}, rotation="none", numerics="released")
    with pytest.raises(SettingsError, match="no scores to add a bias to; use normaliser='softmax', or rbca"):
        layer_of()(tokens_of(), bias=torch.zeros(17, 17))
    irregular = layer_of(3, site={"times": (0, 2, 7)})
    assert irregular(tokens_of(3)).isfinite().all()
