"""Compiled and exported networks give what the plain ones do, in one graph without breaks."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from rearview import models
from rearview.models import adapters
from rearview.testing.small_models import BATCH, LOOKBACK, MARKS, marks_for, past_for, small

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unchecked")]
NAMES = ["patchtst", "itransformer", "transformer", "timer_xl", "crossformer", "duet", "gat"]
BUILT = ("patchtst", "timer_xl", "duet")
"""Networks whose code is built too: batch statistics and patches, rotary positions and masks, spectra and gates. The
others are made of the same operations: their graphs are traced, differentiated and run, which takes a tenth of the
time."""
TOLERANCE = 1e-9


def same(ours: Tensor, theirs: Tensor) -> None:
    assert_close(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE)


def compiled(model: nn.Module, backend: str = "aot_eager") -> nn.Module:
    torch.compiler.reset()
    return torch.compile(model, fullgraph=True, backend=backend)


def padding() -> Tensor:
    return torch.arange(LOOKBACK) >= torch.tensor([[0], [23]])


@pytest.mark.parametrize("name", NAMES)
def test_compiled_is_eager_in_evaluation(name: str) -> None:
    model = small(name)
    past = past_for(model)
    with torch.no_grad():
        same(compiled(model)(past), model(past))


@pytest.mark.parametrize("name", NAMES)
def test_compiled_is_eager_in_training_with_padding(name: str) -> None:
    """Gradients and running statistics too; a mask must not break the graph."""
    eager, model = (small(name, depth=1, normalise="revin").train() for _ in range(2))
    runner = compiled(model, "inductor" if name in BUILT else "aot_eager")
    past, mask = past_for(model), padding()
    for run in (eager, runner):
        run(past, mask=mask).sub(500).square().mean().backward()
    same_gradients = zip(model.parameters(), eager.parameters(), strict=True)
    assert all(ours.grad is not None for ours in model.parameters())
    for ours, theirs in same_gradients:
        same(ours.grad, theirs.grad)
    assert_close(model.state_dict(), eager.state_dict(), rtol=TOLERANCE, atol=TOLERANCE)


def test_compiled_dropout_drops() -> None:
    model = small("itransformer", dropout=0.5).train()
    runner, past = compiled(model), past_for(model)
    first, second = runner(past), runner(past)
    assert first.isfinite().all()
    assert not torch.equal(first, second)


@pytest.mark.parametrize("name", models.names())
def test_an_exported_network_takes_any_batch(name: str) -> None:
    model = small(name)
    program = torch.export.export(model, (past_for(model),), dynamic_shapes={"past": {0: torch.export.Dim("batch")}})
    for batch in (BATCH, 7):
        past = past_for(model, batch)
        same(program.module()(past), model(past))


@pytest.mark.parametrize("adapter", adapters.names())
def test_an_exported_adapter_takes_any_batch(adapter: str) -> None:
    model = small("dlinear", adapters=[adapter])
    program = torch.export.export(model, (past_for(model),), dynamic_shapes={"past": {0: torch.export.Dim("batch")}})
    for batch in (BATCH, 7):
        past = past_for(model, batch)
        same(program.module()(past), model(past))


def test_an_exported_network_takes_marks_and_a_mask() -> None:
    model = small("itransformer", marks=MARKS)
    given = {"past_marks": marks_for(model, LOOKBACK), "mask": padding()}
    program = torch.export.export(model, (past_for(model),), given)
    same(program.module()(past_for(model, seed=43), **given), model(past_for(model, seed=43), **given))
