"""What comes later never moves what came before, wherever the attention of a network says that it is causal.

Hosts of one stack are given windows that differ at their end, and tokens of the time before are compared; networks that
are told of the time ahead are given marks that differ from some step on, and forecasts of the steps before it.
Instance normalisation is off, since its statistics are of the whole window.
"""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from rearview import attention, models
from rearview.core.errors import SettingsError
from rearview.models import Model
from rearview.models.patch_hosts._host import PatchHost
from rearview.testing.small_models import LOOKBACK, MARKS, STEPS, marks_for, past_for, small

PATCHED = [name for name in models.names() if issubclass(type(small(name)), PatchHost)]
"""The other hosts with attention mix channels, have no order in time, or see a window as a whole (Crossformer)."""
BY_NATURE = ("caps", "linear_rope", "rbca")
KRONECKER = ("differential", "gat", "prime", "rbca", "softmax", "toa")
WINDOWS = [*product(PATCHED, BY_NATURE), *product(["timer_xl", "gpt4ts"], KRONECKER)]
AHEAD = [
    *((name, {}) for name in ("softmax", *BY_NATURE)),
    *((name, {"causal_decoder": True}) for name in ("differential", "gat", "hyperglu", "linear", "prime", "toa")),
]
LATER, SEEN = 9, 4
"""Steps at the end of a window, and steps ahead that nobody changes."""


def built(host: str, mechanism: str | None, **changes: Any) -> Model:
    sizes = {"lookback": 28, "width": 40, "heads": 5} if host == "timer_xl" else {}
    return small(host, attention=mechanism, normalise="none", **sizes, **changes)


def moved(model: Model) -> tuple[Tensor, Tensor]:
    """Which tokens lie before the end of the window, and which move with it."""
    past = past_for(model)
    later = past.clone()
    later[..., -LATER:] += 50
    given, other = (model.read(window, None, None, None) for window in (past, later))
    mixed = [model.stack(one.tokens, one.mask, one.bias, one.windows) for one in (given, other)]
    before = torch.tensor([token.steps[1] <= -LATER for token in model.token_axes().tokens])
    assert before.any()
    assert not before.all()
    return before, (mixed[1] - mixed[0]).abs().amax((0, 1, 3)) > 1e-9


def ahead(model: Model) -> Tensor:
    """Which steps of the forecast move with the marks of the steps from `SEEN` on."""
    past, before, marks = past_for(model), marks_for(model, LOOKBACK), marks_for(model, STEPS)
    later = marks.clone()
    later[..., SEEN:] += 3
    return (model(past, before, later) - model(past, before, marks)).abs().amax((0, 1)) > 1e-9


@pytest.mark.parametrize(("host", "mechanism"), WINDOWS)
def test_the_end_of_a_window_moves_no_token_before_it(host: str, mechanism: str) -> None:
    model = built(host, mechanism)
    assert all(block.attend.claims.causal for block in model.stack.blocks)
    before, found = moved(model)
    assert torch.equal(found, ~before)


@pytest.mark.parametrize("host", PATCHED)
def test_attention_both_ways_moves_every_token(host: str) -> None:
    causal = {"causal": False} if host == "gpt4ts" else {}
    assert moved(built(host, "softmax", **causal))[1].all()


@pytest.mark.parametrize(("mechanism", "settings"), AHEAD)
def test_a_step_ahead_moves_no_step_before_it_in_the_transformer(mechanism: str, settings: dict[str, Any]) -> None:
    model = built("transformer", mechanism, marks=MARKS, future=STEPS, label=7, **settings)
    assert all(block.attend.claims.causal for block in model.decoder.blocks)
    assert torch.equal(ahead(model), torch.arange(STEPS) >= SEEN)


def test_a_decoder_that_may_look_ahead_moves_every_step() -> None:
    assert ahead(built("transformer", "softmax", marks=MARKS, future=STEPS, causal_decoder=False)).all()


@pytest.mark.parametrize("mechanism", [name for name in attention.names() if name != "mica"])
def test_a_step_ahead_moves_no_step_before_it_in_the_caps_network(mechanism: str) -> None:
    model = built("caps_net", mechanism, marks=MARKS, future=STEPS)
    assert torch.equal(ahead(model), torch.arange(STEPS) >= SEEN)


@pytest.mark.filterwarnings("ignore:toa tends to:rearview.core.errors.RearviewWarning")
def test_no_pair_that_claims_to_be_causal_is_left_out() -> None:
    for host, mechanism in product(("patchtst", "timer_xl", "gpt4ts"), attention.names()):
        try:
            model = built(host, mechanism)
        except SettingsError:
            assert (host, mechanism) not in WINDOWS
            continue
        causal = model.stack.blocks[0].attend.claims.causal
        assert causal or (host, mechanism) not in WINDOWS
        before, found = moved(model)
        assert torch.equal(found, ~before) == causal
