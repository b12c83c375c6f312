"""Every pair of a network and a mechanism, as `rearview list pairs` prints them: it works in full, or says why not."""

from itertools import product

import pytest
import torch
from safetensors.torch import load, save

from rearview import attention, models
from rearview.models import pairs
from rearview.testing.small_models import BATCH, losses, past_for, small

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:toa tends to:rearview.core.errors.RearviewWarning"),
]

HOSTS = [name for name in models.names() if models.claims(name).attention]
UNORDERED = ("caps", "linear_rope", "mica", "rbca")
REFUSED = {
    "caps_net": ("mica",),
    "crossformer": ("mica",),
    "duet": (*UNORDERED, "gat", "hyperglu", "linear"),
    "gat": UNORDERED,
    "gpt4ts": ("mica",),
    "itransformer": UNORDERED,
    "itransformer_t5": UNORDERED,
    "olinear": UNORDERED,
    "prime_net": UNORDERED,
    "timemixer_pp": ("mica",),
    "timer_xl": ("caps", "hyperglu", "linear", "linear_rope", "mica"),
}
KEPT = {"timemixer_pp": 1}
"""Layers at the start that are softmax whatever attention is chosen: TimeMixer++'s between channels."""
CONTROLS = ("fixed", "identity", "positional", "uniform", "zero")
KNOWN = (*UNORDERED, *CONTROLS, "differential", "gat", "hyperglu", "linear", "prime", "softmax", "toa")


def works(host: str, mechanism: str) -> bool:
    """Whether a pair must work: as listed for the mechanisms known here, as it says itself for another."""
    return mechanism not in REFUSED.get(host, ()) if mechanism in KNOWN else not pairs.try_pair(host, mechanism).reason


WORKING = [pair for pair in product(HOSTS, attention.names()) if works(*pair)]

PATCHED, TIMED = ("patchtst", "patchtst_tslib", "powerformer", "moment"), ("transformer", "caps_net")
FIVE = ("rbca", "caps", "toa", "prime", "mica")
MUST_WORK = {
    *product(HOSTS, CONTROLS),
    *((host, mechanism) for host in PATCHED for mechanism in ("softmax", *FIVE)),
    *((host, mechanism) for host in TIMED for mechanism in ("softmax", "rbca", "caps", "toa", "prime")),
    *(("timer_xl", mechanism) for mechanism in ("softmax", "rbca", "toa", "prime")),
    *((host, name) for host in ("itransformer", "itransformer_t5", "duet") for name in ("softmax", "toa", "prime")),
    *(("crossformer", mechanism) for mechanism in ("softmax", "rbca", "caps", "toa", "prime")),
    *(("gat", mechanism) for mechanism in ("softmax", "gat", "prime")),
}

QUIET = {"toa": {"sor": False}, "mica": {"mlp_dropout": 0.0}}
"""Chance in training, which a test that compares two passes has to do without."""

working = pytest.mark.parametrize(("name", "mechanism"), WORKING, ids=[f"{one}-{other}" for one, other in WORKING])


def test_the_matrix_holds_every_pair_and_those_that_must_work() -> None:
    matrix = pairs.matrix()
    assert [(pair.model, pair.attention) for pair in matrix] == list(product(HOSTS, attention.names()))
    assert [(pair.model, pair.attention) for pair in matrix if not pair.reason] == WORKING
    assert set(WORKING) >= MUST_WORK
    assert all(pair.attention in pair.reason and "; use " in pair.reason for pair in matrix if pair.reason)
    cautions = {(pair.model, pair.attention): pair.caution for pair in matrix if pair.caution}
    assert list(cautions) == [("patchtst", "toa"), ("powerformer", "toa")]
    assert all('Give score_norm="l2"' in caution for caution in cautions.values())


@pytest.mark.parametrize(
    ("channels", "lookback", "steps"),
    [(1, 37, 11), (23, 37, 11), (3, 37, 101)],
    ids=["one channel", "23 channels", "steps beyond the look-back"],
)
@working
def test_a_pair_goes_forward_and_backward_in_any_shape(
    name: str, mechanism: str, channels: int, lookback: int, steps: int
) -> None:
    model = small(name, attention=mechanism, channels=channels, lookback=lookback, steps=steps).train()
    past = past_for(model).requires_grad_()
    out = model(past)
    assert out.shape == (BATCH, channels, steps)
    assert out.isfinite().all()
    out.sub(500).square().mean().backward()
    assert past.grad is not None
    assert past.grad.isfinite().all()
    reached = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert all(gradient.isfinite().all() for gradient in reached)
    assert any(gradient.abs().max() > 0 for gradient in reached)


@working
def test_one_step_of_training_lowers_a_pairs_loss(name: str, mechanism: str) -> None:
    before, after = losses(small(name, attention={"name": mechanism, **QUIET.get(mechanism, {})}))
    assert after < before


@working
def test_a_saved_pair_is_the_same_pair(name: str, mechanism: str) -> None:
    model, other = small(name, attention=mechanism), small(name, attention=mechanism, seed=53)
    past = past_for(model)
    assert not torch.equal(model(past), other(past))
    other.load_state_dict(load(save(model.state_dict())), strict=True)
    assert torch.equal(model(past), other(past))


@working
def test_a_pair_gives_weights_for_every_layer(name: str, mechanism: str) -> None:
    model = small(name, attention=mechanism)
    found = model.weights(past_for(model))
    layers = [part for part in model.modules() if isinstance(part, attention.Attention)]
    inner = [part for layer in layers for part in layer.modules() if isinstance(part, attention.Attention)]
    assert len(found) == len(layers) - (len(inner) - len(layers))
    for operator in found[KEPT.get(name, 0) :]:
        for part in operator.values() if isinstance(operator, dict) else [operator]:
            assert len(part) == BATCH
            assert part.isfinite().all()
            assert bool(part.abs().max() > 0) == (mechanism != "zero")
