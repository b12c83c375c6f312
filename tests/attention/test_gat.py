"""Graph attention: the formula for one token at a time, graphs, primers of edges, cost."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview import attention
from rearview.attention import Site, gat
from rearview.attention.prime import features as pairs
from rearview.attention.shared import execution
from rearview.attention.shared.graph import draw_pairs, list_edges
from rearview.core.errors import SettingsError
from rearview.testing.places import EXACT, Elements, influence, tokens_for

TOKENS, LOOKBACK = 5, 11
SITE = Site(groups=2, tokens=TOKENS, width=6, heads=2, time_ordered=False, lookback=LOOKBACK)
RING = [(i, (i + 1) % TOKENS) for i in range(TOKENS)]


def layer_for(site: Site = SITE, moved: bool = True, **settings: Any) -> gat.Layer:
    """A layer in float64, its parameters moved off their initial values."""
    torch.manual_seed(7)
    layer = attention.create("gat", site, **settings)
    layer.prepare(torch.randn(13, site.variates or site.tokens, LOOKBACK))
    with torch.no_grad():
        for parameter in layer.parameters() if moved else ():
            parameter.add_(0.3 * torch.randn_like(parameter))
    assert isinstance(layer, gat.Layer)
    return layer.double().eval()


def same(ours: Tensor, theirs: Tensor, exact: float = EXACT) -> None:
    assert_close(ours, theirs, rtol=exact, atol=exact)


def by_reference(layer: gat.Layer, x: Tensor) -> Tensor:
    """The formula without biases, token by token and head by head."""
    neighbours = [layer.edges[1, layer.edges[0] == i].tolist() for i in range(x.shape[2])]
    made = layer.modulators()
    maps = [part.unflatten(0, (layer.site.heads, -1)) for part in layer.qkv.weight.split(layer.widths)]
    heads = [
        torch.stack([gat.reference(tokens, a, W_q, W_k, W, neighbours, made) for tokens in x.flatten(0, 1)])
        for a, W_q, W_k, W in zip(layer.score, *maps, strict=True)
    ]
    return layer.out(torch.cat(heads, dim=-1)).view(x.shape)


@pytest.mark.parametrize("primed", [False, True])
@pytest.mark.parametrize("edges", [None, RING, [(0, 3)]], ids=["complete", "ring", "one edge"])
def test_the_layer_is_the_formula(primed: bool, edges: Any) -> None:
    site = Site(groups=2, tokens=TOKENS, width=6, heads=2, time_ordered=False, lookback=LOOKBACK, projection_bias=False)
    layer = layer_for(site, primed=primed, edges=edges)
    x = tokens_for(layer).requires_grad_()
    ours, theirs = layer(x), by_reference(layer, x)
    same(ours, theirs)
    wanted = [x, *layer.parameters()]
    cotangent = torch.randn_like(ours)
    for mine, reference in zip(
        torch.autograd.grad(ours, wanted, cotangent), torch.autograd.grad(theirs, wanted, cotangent), strict=True
    ):
        same(mine, reference)


def test_blocks_of_edges_are_one_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    for primed in (False, True):
        layer = layer_for(primed=primed)
        x = tokens_for(layer).requires_grad_()
        whole = layer(x)
        expected = torch.autograd.grad(whole.square().sum(), [x, *layer.parameters()])
        with monkeypatch.context() as patch:
            patch.setattr(execution, "budget", lambda device: 400)
            assert len(layer._spans(x.flatten(0, 1), layer.edges)) > 3
            parts = layer(x)
            found = torch.autograd.grad(parts.square().sum(), [x, *layer.parameters()])
        same(parts, whole)
        for mine, theirs in zip(found, expected, strict=True):
            same(mine, theirs)


def test_a_primed_layer_starts_as_the_standard_one() -> None:
    primed, standard = layer_for(moved=False, primed=True), layer_for(moved=False)
    standard.load_state_dict({name: value for name, value in primed.state_dict().items() if "primer" not in name})
    x = tokens_for(primed)
    same(primed(x), standard(x))
    assert torch.equal(primed.modulators(), torch.ones(TOKENS, TOKENS, SITE.width, dtype=x.dtype))


def test_a_primed_layer_has_the_functions_gradients() -> None:
    layer = layer_for(primed=True, edges=RING)
    x = tokens_for(layer, batch=1).requires_grad_()
    named = dict(layer.named_parameters())

    def run(tokens: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(layer, dict(zip(named, values, strict=True)), (tokens,))

    assert torch.autograd.gradcheck(run, (x, *named.values()), fast_mode=True)


@pytest.mark.parametrize("primed", [False, True])
def test_fewer_tokens_use_their_own_edges(primed: bool) -> None:
    layer = layer_for(primed=primed, edges=RING)
    x = tokens_for(layer)
    mask = (torch.arange(TOKENS) < 3).expand(*x.shape[:3])
    same(layer(x[:, :, :3]), layer(x, mask=mask)[:, :, :3])


@pytest.mark.parametrize("primed", [False, True])
def test_a_token_sees_its_neighbours_and_itself(primed: bool) -> None:
    layer = layer_for(primed=primed, edges=RING)
    moves = influence(layer, tokens_for(layer), axis=2) > EXACT
    linked = torch.eye(TOKENS, dtype=torch.bool)
    for query, key in RING:
        linked[query, key] = True
    assert torch.equal(moves, linked)
    weights = layer.weights(tokens_for(layer))
    assert torch.equal(weights[0, 0, 0] > 0, linked)
    same(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_primers_come_from_the_features_of_training_windows() -> None:
    torch.manual_seed(7)
    windows = torch.randn(13, TOKENS, LOOKBACK)
    layer = attention.create("gat", SITE, primed=True, edges=RING, features="full")
    layer.prepare(windows)
    found = pairs.average_features(windows, "full")
    same(layer.primer.features, found[layer.edges[0], layer.edges[1]], 1e-6)
    assert layer.primer.features.shape[1] == LOOKBACK + 3
    assert attention.create("gat", SITE).primer is None


def test_edges_of_calendar_tokens_are_not_primed() -> None:
    site = Site(groups=1, tokens=TOKENS, width=6, heads=2, time_ordered=False, variates=3, lookback=LOOKBACK)
    layer = layer_for(site, primed=True, edges=[(0, 1)])
    made = layer.modulators()
    ones = torch.ones(site.width, dtype=made.dtype)
    calendar = [(i, j) for i in range(TOKENS) for j in range(TOKENS) if max(i, j) >= 3]
    linked = set(map(tuple, layer.edges.T.tolist()))
    assert linked == {(0, 1), (0, 0), (1, 1), (2, 2), *calendar}
    assert all(torch.equal(made[i, j], ones) for i, j in calendar)
    assert not torch.equal(made[0, 1], ones)


def test_cost_grows_with_the_edges() -> None:
    def written(**settings: Any) -> int:
        site = Site(groups=1, tokens=64, width=8, heads=2, time_ordered=False, lookback=LOOKBACK)
        layer = layer_for(site, features="random", primed=True, **settings)
        x = tokens_for(layer, batch=1)
        with torch.no_grad(), Elements() as held:
            layer(x)
        return held.total

    assert written(edges=[]) < written(edges=draw_pairs(64, 0.1)) < 0.2 * written()


def test_a_random_graph_has_the_density_asked_for() -> None:
    torch.manual_seed(0)
    found = draw_pairs(21, 0.3)
    assert len(found) == 2 * round(0.3 * 21 * 20 / 2)
    linked = torch.zeros(21, 21, dtype=torch.bool)
    linked[found[:, 0], found[:, 1]] = True
    assert torch.equal(linked, linked.T)
    assert not linked.diagonal().any()
    assert len(draw_pairs(21, 1.0)) == 21 * 20
    assert len(draw_pairs(1, 0.5)) == 0


def test_a_graph_is_pairs_or_a_matrix() -> None:
    matrix = torch.zeros(TOKENS, TOKENS, dtype=torch.int64)
    for query, key in RING:
        matrix[query, key] = 1
    assert torch.equal(list_edges("gat", matrix, TOKENS, TOKENS), list_edges("gat", RING, TOKENS, TOKENS))
    assert torch.equal(list_edges("gat", [[0, 1], [1, 0]], 2, 2), list_edges("gat", None, 2, 2))
    with pytest.raises(SettingsError, match=r"gat: edges has shape \(1, 3\); give pairs .* or a 5 x 5 matrix"):
        list_edges("gat", [[0, 1, 2]], TOKENS, TOKENS)
    with pytest.raises(SettingsError, match="names token 5, but there are tokens 0 to 4"):
        list_edges("gat", [(0, 5)], TOKENS, TOKENS)
    with pytest.raises(SettingsError, match="names token -1"):
        list_edges("gat", [(-1, 0)], TOKENS, TOKENS)
    with pytest.raises(SettingsError, match=r"density is 1\.5"):
        draw_pairs(TOKENS, 1.5)
