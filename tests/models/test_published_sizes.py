"""Parameters and FLOPs of networks as the papers of MICA (tables 5 to 9) and CAPS (table 4) print them.

MICA, at 96 steps of look-back (8,192 in table 9) and 48 ahead: it counts T5's vocabulary (32,128 tokens of width 256,
never used) among the parameters of MOMENT and of iTransformer-T5, and runs both with heads 64 wide, although its table
of settings says 32; PatchTST and iTransformer have 32. Its MLP gates have two layers.

CAPS, on ETTm1 at 96 steps of look-back: its PatchTST is the Time-Series-Library's, and its FLOPs are those of 11
channels or tokens, that is with the 4 calendar features beside the 7 channels, and without the products of queries and
keys and of weights and values, half a per cent.

FLOPs are those of matrix products in one forward pass of one window.
"""

from typing import Any

import pytest

from rearview.models.costs import cost

SHAPE = {"lookback": 96, "steps": 48}
SIZES = {"width": 256, "heads": 4, "depth": 4, "feed_forward": 1024, "dropout": 0.0}
PATCHES = {"patch": 8, "stride": 8}
NETWORKS: dict[str, dict[str, Any]] = {
    "patchtst": {**SIZES, **PATCHES, "head_width": 32, "positions": "standardised", "residual_scores": False},
    "moment": {**SIZES, **PATCHES},
    "itransformer": {**SIZES, "head_width": 32},
    "itransformer_t5": SIZES,
}
VOCABULARY = {"moment": 32128 * 256, "itransformer_t5": 32128 * 256}
GATES = (None, "shared", "channelwise", "layerwise", "layerwise_channelwise", "mlp", "mlp_query")
PUBLISHED = [
    # network, channels, millions of parameters and GFLOPs without mica and with each of its gates
    ("patchtst", 7, (2.795, 2.795, 2.795, 2.795, 2.795, 2.845, 2.861), (0.482, *[0.488] * 4, 0.524, 0.536)),
    ("patchtst", 600, (2.795, 2.795, 2.798, 2.795, 2.805, 2.845, 2.861), (41.326, *[41.845] * 4, 44.912, 45.934)),
    ("moment", 7, (11.535, 11.535, 11.535, 11.535, 11.535, 11.634, 11.667), (0.580, *[0.604] * 4, 0.676, 0.699)),
    ("moment", 600, (11.535, 11.535, 11.537, 11.535, 11.545, 11.634, 11.667), (49.712, *[51.773] * 4, 57.907, 59.952)),
    ("itransformer", 7, (2.671,), (0.037,)),
    ("itransformer", 600, (2.671,), (3.927,)),
    ("itransformer_t5", 7, (11.410,), (0.045,)),
    ("itransformer_t5", 600, (11.410,), (5.294,)),
]
ROWS = [
    pytest.param(name, channels, gate, parameters, flops, id=f"{name}-{channels}-{gate}")
    for name, channels, all_parameters, all_flops in PUBLISHED
    for gate, parameters, flops in zip(GATES, all_parameters, all_flops, strict=False)
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("name", "channels", "gate", "parameters", "flops"), ROWS)
def test_sizes_are_the_published_ones(
    name: str, channels: int, gate: str | None, parameters: float, flops: float
) -> None:
    attention = None if gate is None else {"name": "mica", "gate": gate, "mlp_layers": 2}
    counted = cost(name, channels=channels, attention=attention, **SHAPE, **NETWORKS[name])
    assert (counted.parameters + VOCABULARY.get(name, 0)) / 1e6 == pytest.approx(parameters, abs=6e-4)
    assert counted.flops / 1e9 == pytest.approx(flops, abs=6e-4, rel=1e-3)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("name", "gate", "parameters", "flops"),
    [
        ("patchtst", "mlp_query", 15.297, 57.124),
        ("moment", "mlp_query", 24.102, 84.890),
        ("itransformer", None, 4.743, 0.066),
        ("itransformer_t5", None, 13.483, 0.074),
    ],
)
def test_sizes_at_8192_steps_are_those_of_table_9(name: str, gate: str | None, parameters: float, flops: float) -> None:
    attention = None if gate is None else {"name": "mica", "gate": gate, "mlp_layers": 2}
    counted = cost(name, channels=7, lookback=8192, steps=48, attention=attention, **NETWORKS[name])
    assert (counted.parameters + VOCABULARY.get(name, 0)) / 1e6 == pytest.approx(parameters, abs=1.1e-3)
    assert counted.flops / 1e9 == pytest.approx(flops, abs=6e-4, rel=3e-4)


LIBRARY = {"width": 512, "heads": 8, "depth": 3, "feed_forward": 2048}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("steps", "patchtst", "itransformer", "dlinear"),
    [
        (96, (10.1e6, 2.51e9), (9.56e6, 210e6), 18.6e3),
        (192, (10.6e6, 2.52e9), (9.61e6, 211e6), 37.2e3),
        (336, (11.5e6, 2.54e9), (9.68e6, 213e6), 65.2e3),
        (720, (13.9e6, 2.59e9), (9.88e6, 217e6), 140e3),
    ],
)
def test_sizes_are_those_in_the_paper_of_caps(
    steps: int, patchtst: tuple[float, float], itransformer: tuple[float, float], dlinear: float
) -> None:
    for name, published in (("patchtst_tslib", patchtst), ("itransformer", itransformer)):
        counted = cost(name, channels=11, lookback=96, steps=steps, **LIBRARY)
        assert counted.parameters == pytest.approx(published[0], rel=6e-3)
        assert counted.flops == pytest.approx(published[1], rel=6e-3)
    small = cost("dlinear", channels=7, lookback=96, steps=steps)
    assert small.parameters == pytest.approx(dlinear, rel=3e-3)
