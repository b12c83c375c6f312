"""Temporal operator attention: the fast form is the paper's, in every kind, place and combination of arguments."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview import attention, models
from rearview.attention import toa
from rearview.attention.contract import Site
from rearview.core.errors import SettingsError
from rearview.testing.places import EXACT, SITE, operated, ragged_mask, scores_bias, tokens_for

KINDS = ["softmax", "relu", "gated"]
VARIANTS: list[dict[str, Any]] = [
    {"kind": "softmax"},
    {"kind": "softmax", "score_scale": 0.7, "carry_scores": True},
    {"kind": "softmax", "causal": True},
    {"kind": "relu"},
    {"kind": "relu", "score_norm": "l2", "causal": True},
    {"kind": "relu", "score_norm": "mean", "carry_scores": True},
    {"kind": "gated"},
    {"kind": "gated", "score_norm": "l2", "half_width": True},
    {"kind": "gated", "score_norm": "mean", "causal": True, "carry_scores": True},
]


def same(ours: Tensor, theirs: Tensor) -> None:
    assert_close(ours, theirs, rtol=EXACT, atol=EXACT)


def built(site: Site = SITE, dtype: torch.dtype = torch.float64, seed: int = 17, **settings: Any) -> toa.Layer:
    """A layer whose parameters have all left their initial values, in evaluation mode."""
    torch.manual_seed(seed)
    layer = attention.create("toa", site, **settings)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return layer.to(dtype).eval()


def literal(layer: toa.Layer, x: Tensor, keep: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """The layer by its reference, head by head; `keep` picks the tokens that are there at all."""
    keep = torch.arange(x.shape[2]) if keep is None else keep
    q, k, v = layer.heads(x)
    earlier = torch.ones(len(keep), len(keep)).tril() if layer.causal else torch.ones(len(keep), len(keep))
    block = torch.eye(layer.site.tokens, dtype=x.dtype)
    S1 = (block + layer.score_offset)[..., keep[:, None], keep] * earlier.T
    S2 = (block + layer.value_offset)[..., keep[:, None], keep] * earlier
    M = torch.zeros_like(earlier).masked_fill(earlier == 0, -torch.inf)
    out = torch.zeros_like(v)
    for b, g, h in torch.cartesian_prod(*map(torch.arange, v.shape[:3])).tolist():
        Q, K = (part[b, g, h, keep].view(len(keep), layer.branches, -1).movedim(1, 0) for part in (q, k))
        added = M if bias is None else M + bias[b, g, h]
        head = toa.reference(
            layer.settings.kind, Q, K, v[b, g, h, keep], S1[:, h], S2[h], layer.scale, added.to(x.dtype)
        )
        out[b, g, h, keep] = head
    return layer.project(out)


def gradients(layer: toa.Layer, x: Tensor, y: Tensor) -> list[Tensor]:
    cotangent = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    return list(torch.autograd.grad(y, [x, *layer.parameters()], cotangent))


@pytest.mark.parametrize("tokens", [1, 2, 13, 42, 65, 193])
@pytest.mark.parametrize("kind", KINDS)
def test_mixed_keys_and_values_are_the_printed_order(kind, tokens):
    site = replace(SITE, groups=2, tokens=tokens, width=5, heads=3, head_width=7, value_width=11)
    layer = built(site, kind=kind)
    x = tokens_for(layer, batch=1).requires_grad_()
    ours, theirs = layer(x), literal(layer, x)
    for one, other in zip([ours, *gradients(layer, x, ours)], [theirs, *gradients(layer, x, theirs)], strict=True):
        assert_close(one, other, rtol=EXACT, atol=EXACT * max(1.0, other.abs().max().item()))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_bias_joins_the_scores_after_the_first_operator(kind, causal):
    layer = built(kind=kind, causal=causal)
    x, bias = tokens_for(layer), scores_bias(layer)
    bias[..., 3] = -torch.inf
    bias[..., 3, 3] = 0.0
    same(layer(x, bias=bias), literal(layer, x, bias=bias))


@pytest.mark.parametrize("kind", KINDS)
def test_padding_leaves_the_real_tokens_alone(kind):
    for causal in (False, True):
        layer = built(kind=kind, causal=causal)
        x = tokens_for(layer)
        real = torch.tensor([0, 1, 3, 6])
        mask = torch.zeros(SITE.tokens, dtype=torch.bool).index_fill(0, real, True).expand(x.shape[:3])
        same(layer(x, mask=mask)[mask], literal(layer, x, keep=real)[mask])


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_the_operator_is_what_the_layer_does(settings):
    layer = built(**settings)
    x, mask, bias = tokens_for(layer), ragged_mask(layer), scores_bias(layer)
    mask[0, 0] = False
    _, carry = layer(tokens_for(layer, seed=41), carry=())
    for given in ({}, {"mask": mask}, {"bias": bias, "mask": mask}, {"carry": carry}, {"carry": carry, "mask": mask}):
        y = layer(x, **given)
        y = y[0] if "carry" in given else y
        assert_close(operated(layer, layer.weights(x, **given), x), y, rtol=1e-10, atol=1e-10)
        assert y.isfinite().all()


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_a_claim_of_causality_is_true(settings):
    layer = built(**settings)
    x = tokens_for(layer)
    later = x.clone()
    later[:, :, 4:] += 1
    moved = (layer(later) - layer(x))[:, :, :4].abs().max()
    assert bool(moved <= EXACT) == layer.claims.causal == settings.get("causal", False)


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_a_padded_end_is_a_shorter_sequence(settings):
    layer = built(**settings)
    x = tokens_for(layer)
    for real in (1, 5):
        mask = (torch.arange(SITE.tokens) < real).expand(x.shape[:3])
        same(layer(x, mask=mask)[:, :, :real], layer(x[:, :, :real]))


def test_tokens_that_share_a_time_see_one_another_but_no_later_ones():
    times = (0, 1, 2, 0, 1, 2, 3)
    for kind in KINDS:
        layer = built(replace(SITE, causal=True, times=times), kind=kind)
        x = tokens_for(layer)
        for i, time in enumerate(times):
            moved = x.clone()
            moved[:, :, i] += 1
            reached = (layer(moved) - layer(x)).abs().amax((0, 1, 3)) > EXACT
            assert reached.tolist() == [other >= time for other in times]
        same(operated(layer, layer.weights(x), x), layer(x))


def test_without_offsets_the_softmax_kind_is_softmax_bit_for_bit():
    for causal in (False, True):
        layer = built(replace(SITE, causal=causal), kind="softmax", dtype=torch.float32)
        torch.nn.init.zeros_(layer.score_offset)
        torch.nn.init.zeros_(layer.value_offset)
        plain = attention.create("softmax", layer.site)
        plain.load_state_dict({name: value for name, value in layer.state_dict().items() if "offset" not in name})
        x = tokens_for(layer)
        assert torch.equal(layer(x), plain(x))


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_tokens_use_the_first_rows_and_columns(kind):
    layer = built(kind=kind)
    short = built(replace(SITE, tokens=5), kind=kind)
    state = layer.state_dict()
    short.load_state_dict({n: v[..., :5, :5] if "offset" in n else v for n, v in state.items()})
    x = tokens_for(short)
    same(layer(x), short(x))


@pytest.mark.parametrize("kind", KINDS)
def test_carried_scores_are_those_before_the_first_operator(kind):
    first, second = built(kind=kind, carry_scores=True), built(kind=kind, carry_scores=True, seed=43)
    x, z = tokens_for(first), tokens_for(first, seed=41)
    _, carry = first(z, carry=())
    q, k, v = second.heads(x)
    q0, k0, _ = first.heads(z)
    split = (*q.shape[:-1], second.branches, -1)
    A = sum(torch.einsum("bghnsd,bghmsd->sbghnm", *(p.view(split) for p in pair)) for pair in ((q, k), (q0, k0)))
    eye = torch.eye(SITE.tokens, dtype=x.dtype)
    mixed = torch.einsum("sbghnk,shkm->sbghnm", A * second.scale, eye + second.score_offset)
    if kind == "softmax":
        W = mixed[0].softmax(-1)
    else:
        W = mixed[0].relu() if kind == "relu" else mixed[0].relu() * torch.nn.functional.softplus(mixed[1])
    y, further = second(x, carry=carry)
    same(y, second.project(W @ (eye + second.value_offset) @ v))
    assert further[0].shape[-1] == 2 * carry[0].shape[-1]


def test_by_hand():
    """Two tokens 1 and 2, queries, keys and values equal to them: A = [[1, 2], [2, 4]]."""
    token = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    S1 = torch.tensor([[1.0, 0.0], [-1.0, 1.0]], dtype=torch.float64)  # A S1 = [[-1, 2], [-2, 4]]
    S2 = torch.tensor([[1.0, 0.0], [-3.0, 1.0]], dtype=torch.float64)  # S2 V = [1, -1]
    relu = toa.reference("relu", token[None], token[None], token, S1[None], S2)
    assert relu.flatten().tolist() == [-2.0, -4.0]
    soft = toa.reference("softmax", token[None], token[None], token, S1[None], S2)
    e3, e6 = torch.tensor([3.0, 6.0], dtype=torch.float64).exp()
    same(soft.flatten(), torch.stack([(1 - e3) / (1 + e3), (1 - e6) / (1 + e6)]))
    two = torch.stack([token, 0 * token])  # R = 0: softplus(0) = ln 2
    gated = toa.reference("gated", two, two, token, torch.stack([S1, S1]), S2)
    same(gated, torch.tensor(2.0, dtype=torch.float64).log() * relu)


def test_score_norms_by_hand():
    scores = torch.tensor([3.0, -4.0, 12.0], dtype=torch.float64)
    shown = torch.tensor([True, True, False])
    none, l2, mean = (toa.layer.rectify(scores, None, shown, norm) for norm in ("none", "l2", "mean"))
    assert none.tolist() == [3.0, 0.0, 0.0]
    assert l2.tolist() == pytest.approx([0.6, 0.0, 0.0])
    assert mean.tolist() == [1.5, 0.0, 0.0]
    assert toa.layer.rectify(scores, None, None, "mean").tolist() == [1.0, 0.0, 4.0]
    assert toa.layer.rectify(scores, None, None, "l2").tolist() == pytest.approx([3 / 13, 0.0, 12 / 13])


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_gradients_are_those_of_the_function(settings):
    layer = built(replace(SITE, groups=2, tokens=3, width=5, heads=1, head_width=7), **settings)
    x = tokens_for(layer, batch=1).requires_grad_()
    named = dict(layer.named_parameters())

    def run(tokens: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(layer, dict(zip(named, values, strict=True)), (tokens,))

    assert torch.autograd.gradcheck(run, (x, *named.values()), fast_mode=True)


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_extremes_stay_finite(settings):
    small = [replace(SITE, tokens=1), replace(SITE, groups=1), replace(SITE, heads=13, head_width=None)]
    for site in (SITE, *small):
        for dtype, scales in ((torch.float32, (1e6, 1e-6, 0.0)), (torch.bfloat16, (1.0, 0.0))):
            layer = built(site, dtype=dtype, **settings).train()
            mask = torch.ones(2, site.groups, site.tokens, dtype=torch.bool)
            mask[0, 0] = False
            tokens = tokens_for(layer)
            for x in (*(scale * tokens for scale in scales), torch.ones_like(tokens)):
                x = x.detach().requires_grad_()
                y = layer(x, mask=mask)
                assert y.isfinite().all()
                # Gated outputs grow with the cube of the tokens: a loss of their own size keeps gradients in range.
                loss = (y / y.detach().abs().max().clamp(min=1)).square().mean()
                found = torch.autograd.grad(loss, [x, *layer.parameters()])
                assert all(gradient.isfinite().all() for gradient in found)


@pytest.mark.parametrize("kind", KINDS)
def test_autocast_and_export_change_little(kind):
    layer = built(kind=kind, dtype=torch.float32)
    x = tokens_for(layer)
    exact = layer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = layer(x)
    assert low.dtype == torch.bfloat16
    assert (low - exact).abs().max() < 0.05 * exact.abs().max()
    program = torch.export.export(layer, (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}})
    more = tokens_for(layer, batch=11)
    assert_close(program.module()(more), layer(more), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("kind", "backend"), [("softmax", "inductor"), ("relu", "aot_eager"), ("gated", "inductor")])
def test_compiled_is_eager(kind, backend):
    """Of relu the graph is traced and differentiated only: gated builds the same operations."""
    layer = built(kind=kind, sor_rate=0.3)
    x, mask = tokens_for(layer).requires_grad_(), ragged_mask(layer)
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    ours, theirs = compiled(x, mask=mask), layer(x, mask=mask)
    same(ours, theirs)
    for one, other in zip(gradients(layer, x, ours), gradients(layer, x, theirs), strict=True):
        assert_close(one, other, rtol=1e-9, atol=1e-9)
    layer.train()
    assert not torch.equal(compiled(x), compiled(x)), "operators are dropped afresh in every call"


@pytest.mark.parametrize(
    ("tokens", "heads", "layers", "single", "gated"),
    [(42, 16, 3, 169_344, 254_016), (11, 8, 2, 3_872, 5_808), (325, 8, 3, 5_070_000, 7_605_000)],
)
def test_operators_have_the_papers_size(tokens, heads, layers, single, gated):
    """PatchTST at 336 steps; iTransformer on ETT and ECL, calendar tokens counted (notes, 4.3)."""
    for kind, size in (("softmax", single), ("relu", single), ("gated", gated)):
        with torch.device("meta"):
            layer = attention.create("toa", Site(groups=1, tokens=tokens, width=2 * heads, heads=heads), kind=kind)
        assert layers * (layer.score_offset.numel() + layer.value_offset.numel()) == size


@pytest.mark.filterwarnings("ignore:toa tends to:rearview.core.errors.RearviewWarning")
@pytest.mark.parametrize("host", ["patchtst", "itransformer"])
@pytest.mark.parametrize("settings", [{"kind": kind, "carry_scores": kind != "relu"} for kind in KINDS], ids=str)
def test_networks_train_with_it(host, settings):
    torch.manual_seed(3)
    small = {"channels": 3, "lookback": 47, "steps": 5, "width": 14, "heads": 7, "depth": 2, "feed_forward": 11}
    network = models.create(host, attention={"name": "toa", **settings}, **small)
    past = torch.randn(2, 3, 47)
    network(past).square().sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())
    assert len(network.eval().weights(past)) == 2
    if host == "patchtst":
        assert network.stack.residual_scores == settings["carry_scores"]


def test_a_recency_bias_fades_the_softmax_kind():
    layer = built(kind="softmax", bias={"name": "rbca", "alpha": 0.5})
    x = tokens_for(layer)
    decay = (
        -0.5 * (1 + torch.arange(SITE.tokens, dtype=x.dtype)[:, None] - torch.arange(SITE.tokens)).clamp(min=1).log()
    )
    decay = decay.masked_fill(torch.ones_like(decay).triu(1).bool(), -torch.inf)
    same(layer(x), literal(layer, x, bias=decay.expand(*x.shape[:2], SITE.heads, -1, -1)))
    same(operated(layer, layer.weights(x), x), layer(x))
    assert not layer.claims.causal
    assert built(kind="softmax", bias="rbca", causal=True).claims.causal
    ages = 3.0 * (torch.arange(SITE.tokens)[:, None] - torch.arange(SITE.tokens)).clamp(min=0).to(x.dtype)
    assert (layer(x, ages=ages) - layer(x)).abs().max() > EXACT


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"kind": "tanh"}, "toa: kind is 'tanh'; it must be one of 'gated', 'relu', 'softmax'"),
        ({"sor_rate": 1.0}, r"sor_rate is 1.0; it must lie in \[0, 1\)"),
        ({"sor_share": "head"}, "sor_share is 'head'; it must be one of 'call', 'matrix'"),
        ({"score_norm": "max"}, "score_norm is 'max'"),
        ({"score_scale": 0.0}, "score_scale is 0.0; it must be a positive number"),
        ({"kind": "softmax", "score_norm": "l2"}, "softmax weights sum to 1 already; use kind relu or gated"),
        ({"kind": "relu", "bias": "rbca"}, "relu scores are none; use kind softmax"),
        ({"kind": "softmax", "bias": "alibi"}, "toa's bias is 'alibi'"),
        ({"kind": "relu", "half_width": True}, "kind relu has no second half"),
        ({"rnak": 3}, "toa has no setting 'rnak'"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_settings_that_mean_nothing_are_refused(settings, sentence):
    with pytest.raises(SettingsError, match=sentence):
        attention.create("toa", SITE, **settings)


@pytest.mark.parametrize("settings", [{"causal": True}, {"kind": "softmax", "bias": "rbca"}], ids=str)
def test_places_without_time_order_are_refused_what_needs_it(settings):
    site = replace(SITE, time_ordered=False, host="iTransformer")
    with pytest.raises(SettingsError, match=r"iTransformer's tokens .* not ordered in time"):
        attention.create("toa", site, **settings)
    assert attention.create("toa", site).claims.needs_time_order is False
