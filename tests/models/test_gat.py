"""The graph attention network: what a graph lets through, primed edges, other mechanisms on the same graph."""

from typing import Any

import pytest
import torch
from torch import Tensor

from rearview import models
from rearview.attention.shared.graph import expander_pairs
from rearview.core.errors import SettingsError
from rearview.testing.small_models import BATCH, MARKS, STEPS, past_for, small

CHANNELS = 5
CHAIN = [(i, i + 1) for i in range(CHANNELS - 1)]


def moves(model: models.Model) -> Tensor:
    """[output, input]: which channel moves which forecast."""
    past = past_for(model)
    still = model(past)
    found = []
    for channel in range(past.shape[1]):
        changed = past.clone()
        changed[:, channel] += 100 * torch.randn_like(changed[:, channel])
        found.append((model(changed) - still).abs().amax((0, 2)) > 1e-9)
    return torch.stack(found, dim=1)


def chained(reach: int) -> Tensor:
    """A channel is moved by itself and the next ones, as far as there are blocks."""
    apart = torch.arange(CHANNELS) - torch.arange(CHANNELS)[:, None]
    return (apart >= 0) & (apart <= reach)


@pytest.mark.parametrize("primed", [False, True])
@pytest.mark.parametrize("depth", [1, 3])
def test_a_block_carries_news_along_one_edge(primed: bool, depth: int) -> None:
    model = small("gat", channels=CHANNELS, edges=CHAIN, primed=primed, depth=depth)
    assert torch.equal(moves(model), chained(depth))


@pytest.mark.parametrize("attention", ["softmax", "prime", "differential"])
def test_another_mechanism_keeps_to_the_graph(attention: str) -> None:
    model = small("gat", channels=CHANNELS, edges=CHAIN, attention=attention, depth=1)
    weights = model.weights(past_for(model))
    assert torch.equal(moves(model), chained(1))
    assert torch.equal(weights[0][0, 0, 0] != 0, chained(1))
    complete = small("gat", channels=CHANNELS, attention=attention, depth=1)
    assert moves(complete).all()


@pytest.mark.parametrize("attention", ["toa", {"name": "toa", "kind": "softmax"}, "hyperglu"], ids=str)
def test_who_mixes_values_across_pairs_is_for_the_complete_graph_only(attention: Any) -> None:
    with pytest.raises(SettingsError, match="mixes values across it; use gat's own attention, softmax or prime, or"):
        small("gat", channels=CHANNELS, edges=CHAIN, attention=attention)
    every = [(query, key) for query in range(CHANNELS) for key in range(CHANNELS)]
    for edges in (None, every):
        assert moves(small("gat", channels=CHANNELS, edges=edges, attention=attention, depth=1)).all()


def test_on_the_complete_graph_softmax_is_itransformer() -> None:
    ours, theirs = small("gat", attention="softmax"), small("itransformer")
    theirs.load_state_dict(ours.state_dict())
    past = past_for(ours)
    assert torch.equal(ours(past), theirs(past))


def test_a_drawn_graph_is_saved_with_the_weights() -> None:
    for attention in (None, "softmax"):
        settings = {"channels": 11, "density": 0.3, "attention": attention}
        model, other = small("gat", **settings), small("gat", seed=5, **settings)
        past = past_for(model)
        assert not torch.equal(moves(model), moves(other))
        other.load_state_dict(model.state_dict())
        assert torch.equal(model(past), other(past))
    every = {tuple(block.attend.edges.flatten().tolist()) for block in small("gat", density=0.5).stack.blocks}
    assert len(every) == 1, "all blocks share one graph"


def test_without_edges_channels_stay_apart() -> None:
    assert torch.equal(moves(small("gat", channels=CHANNELS, density=0.0)), torch.eye(CHANNELS, dtype=torch.bool))


def test_calendar_tokens_are_linked_with_every_channel() -> None:
    model = small("gat", channels=CHANNELS, marks=MARKS, density=0.0)
    marks = torch.randn(BATCH, MARKS, model.shape.lookback, dtype=torch.float64)
    weights = model.weights(past_for(model), marks)[0]
    linked = weights[0, 0, 0] > 0
    assert linked[:, CHANNELS:].all()
    assert linked[CHANNELS:].all()
    assert torch.equal(linked[:CHANNELS, :CHANNELS], torch.eye(CHANNELS, dtype=torch.bool))


def test_primers_are_those_of_the_training_windows() -> None:
    model = models.create("gat", channels=CHANNELS, lookback=16, steps=4, primed=True, width=8, heads=2)
    for block in model.stack.blocks:
        assert not block.attend.primer.features.any()
    model.prepare(torch.randn(23, CHANNELS, 16))
    for block in model.stack.blocks:
        assert block.attend.primer.features.abs().max() > 0.1
    past = torch.randn(BATCH, CHANNELS, 16)
    model.eval()
    standard = models.create("gat", channels=CHANNELS, lookback=16, steps=4, width=8, heads=2).eval()
    standard.load_state_dict({name: value for name, value in model.state_dict().items() if "primer" not in name})
    torch.testing.assert_close(model(past), standard(past), rtol=1e-5, atol=1e-5)
    assert _features("lead_lag") == 16
    assert _features("instantaneous") == 3


def _features(kind: str) -> int:
    model = models.create("gat", channels=3, lookback=16, steps=4, width=8, heads=2, primed=True, features=kind)
    return model.stack.blocks[0].attend.primer.features.shape[1]


def test_own_attention_takes_its_settings_from_either_place() -> None:
    here = small("gat", primed=True, edges=[(0, 1)])
    there = small("gat", attention={"name": "gat", "primed": True, "edges": [(0, 1)]})
    past = past_for(here)
    assert torch.equal(here(past), there(past))


def test_gat_refuses_settings_that_do_not_fit() -> None:
    with pytest.raises(SettingsError, match=r"edges and density=0\.5 both say"):
        small("gat", edges=CHAIN, density=0.5)
    with pytest.raises(SettingsError, match="primed=True primes gat's own scores, not softmax's"):
        small("gat", primed=True, attention="softmax")
    with pytest.raises(SettingsError, match=r"gat hides pairs without an edge .* linear has none; use gat's own"):
        small("gat", edges=[(0, 1)], attention="linear")
    with pytest.raises(SettingsError, match="there are tokens 0 to 2 only"):
        small("gat", edges=[(0, 7)])


def test_gat_reconstructs_windows_and_classifies() -> None:
    model = small("gat", asks="window", steps=None)
    assert model(past_for(model)).shape == (BATCH, 3, model.shape.lookback)
    model = small("gat", asks="classes", classes=STEPS, steps=None)
    assert model(past_for(model)).shape == (BATCH, STEPS)


def reached(pairs: Tensor, count: int) -> int:
    """Steps from the first token to the one furthest away."""
    linked = torch.eye(count, dtype=torch.bool)
    linked[pairs[:, 0], pairs[:, 1]] = True
    near, steps = linked[0], 0
    while not near.all():
        near, steps = linked[near].any(0), steps + 1
    return steps


@pytest.mark.parametrize(("count", "furthest"), [(2, 1), (6, 3), (7, 3), (24, 5), (321, 8)])
def test_an_expander_has_few_edges_and_reaches_everywhere(count: int, furthest: int) -> None:
    pairs = expander_pairs(count)
    assert torch.equal(pairs, expander_pairs(count))
    assert {tuple(pair) for pair in pairs.tolist()} == {tuple(pair[::-1]) for pair in pairs.tolist()}
    assert torch.bincount(pairs[:, 0]).max() <= 4
    assert reached(pairs, count) <= furthest


def test_a_whole_group_links_every_token_alike() -> None:
    """SL(2, Z_3) has 24 elements."""
    assert torch.equal(torch.bincount(expander_pairs(24)[:, 0]), torch.full((24,), 4))
    assert expander_pairs(1).shape == (0, 2)


def test_the_network_runs_on_an_expander_graph() -> None:
    model = small("gat", channels=24, expander=True, depth=1)
    linked = moves(model)
    assert torch.equal(linked.sum(1), torch.full((24,), 5))
    with pytest.raises(SettingsError, match=r"density=0.5 and expander=True both say what the graph is"):
        small("gat", expander=True, density=0.5)
