"""What networks cost: counted by hand, counted on a real network, and told without one."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from rearview import models
from rearview.core.errors import SettingsError
from rearview.models import adapters
from rearview.models.costs import Cost, cost

CHANNELS, LOOKBACK, STEPS = 3, 48, 13
SIZES = {"channels": CHANNELS, "lookback": LOOKBACK, "steps": STEPS}


def test_two_linear_maps_counted_by_hand() -> None:
    maps = 2
    flops = maps * 2 * CHANNELS * LOOKBACK * STEPS
    assert cost("dlinear", **SIZES) == Cost(maps * (LOOKBACK * STEPS + STEPS), flops, flops, None)


def test_products_of_queries_with_keys_are_no_maps() -> None:
    width, depth = 24, 2
    counted = cost("itransformer", **SIZES, width=width, depth=depth, heads=3)
    scores_and_values = 2 * 2 * CHANNELS * CHANNELS * width
    assert counted.flops - counted.map_flops == depth * scores_and_values


@pytest.mark.parametrize(
    ("name", "settings", "tokens"),
    [
        ("patchtst", {"patch": 16, "stride": 8}, CHANNELS * 6),
        ("itransformer", {}, CHANNELS),
        ("timer_xl", {"patch": 12}, CHANNELS * 4),
        ("transformer", {}, LOOKBACK),
        ("mlp", {}, None),
    ],
)
def test_the_cost_counts_the_tokens_of_a_window(name: str, settings: dict[str, int], tokens: int | None) -> None:
    assert cost(name, **SIZES, **settings).tokens == tokens


@pytest.mark.parametrize(("name", "attention"), [("itransformer", None), ("patchtst", "mica"), ("gat", None)])
def test_counted_flops_are_those_of_a_real_network(name: str, attention: str | None) -> None:
    model = models.create(name, **SIZES, attention=attention).eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(torch.randn(1, CHANNELS, LOOKBACK))
    told = cost(name, **SIZES, attention=attention)
    assert told.flops == counter.get_total_flops() > 0
    assert told.parameters == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("adapter", adapters.names())
@pytest.mark.parametrize("name", ["patchtst", "dlinear"])
def test_adapters_count_towards_the_cost(name: str, adapter: str) -> None:
    model = models.create(name, **SIZES, adapters=adapter).eval()
    model.prepare(torch.randn(7, CHANNELS, LOOKBACK))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(torch.randn(1, CHANNELS, LOOKBACK))
    told, plain = cost(name, **SIZES, adapters=adapter), cost(name, **SIZES)
    assert told.parameters == sum(parameter.numel() for parameter in model.parameters()) >= plain.parameters
    assert told.flops == counter.get_total_flops() >= plain.flops
    assert told.tokens == plain.tokens


def test_channel_heads_multiply_the_output_layer() -> None:
    maps = 2 * (LOOKBACK * STEPS + STEPS)
    assert cost("dlinear", **SIZES, adapters="channel_heads").parameters == CHANNELS * maps


def test_counting_takes_neither_memory_nor_random_numbers() -> None:
    before = torch.get_rng_state()
    many = cost("patchtst", channels=100_000, lookback=LOOKBACK, steps=STEPS, attention="mica")
    few = cost("patchtst", channels=100, lookback=LOOKBACK, steps=STEPS, attention="mica")
    assert many.flops == pytest.approx(1000 * few.flops, rel=1e-3)
    assert many.parameters == few.parameters
    assert torch.equal(torch.get_rng_state(), before)


def test_a_pair_that_does_not_fit_is_refused_as_ever() -> None:
    with pytest.raises(SettingsError, match="rbca"):
        cost("itransformer", **SIZES, attention="rbca")


def test_a_cost_prints_as_lines() -> None:
    assert Cost(1_234_567, 41_326_000_000, 40_000_000_000, 7200).lines() == [
        "tokens per window: 7,200",
        "parameters: 1,234,567",
        "FLOPs of a forward pass, one window: 41.3 G",
    ]
    assert Cost(0, 12, 12, None).lines() == ["parameters: 0", "FLOPs of a forward pass, one window: 12"]
