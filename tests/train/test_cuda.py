"""On a GPU: the step never waits for the device, and a crashed run goes on."""

from pathlib import Path

import pytest
import torch
from toys import TRAIN, VALIDATION, Squares, Table, network, without_seconds

from rearview import train
from rearview.train import optimisation
from rearview.train.updates import Update

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_step_never_waits_for_the_device(accumulate: int, precision: str) -> None:
    settings = train.Settings(batch=5, accumulate=accumulate, clip=1.0, precision=precision)
    model = network().to("cuda")
    step = Update(model, Squares(), Unwatched().to("cuda"), optimisation.build(model, settings), settings)
    index = torch.arange(settings.windows_per_update, device="cuda")
    step(index)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        step(index)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert step.pool.mean() > 0


class Unwatched(Table):
    """A table that keeps no note of its gathers, which would wait for the device."""

    def batch(self, index: torch.Tensor, /) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.inputs[index], self.targets[index], self.observed[index]


def test_a_crashed_run_goes_on(tmp_path: Path) -> None:
    def crash(gathers: int) -> None:
        if gathers == 17:
            raise RuntimeError("crash")

    settings = train.Settings(epochs=3, batch=8, checkpoint_every=2, capture=False)
    path = tmp_path / "run.safetensors"
    outside = torch.cuda.get_rng_state()
    whole = train.fit(network().cuda(), Squares(), Table().to("cuda"), TRAIN, VALIDATION, settings)
    source = Table(crash).to("cuda")
    with pytest.raises(RuntimeError, match="crash"):
        train.fit(network().cuda(), Squares(), source, TRAIN, VALIDATION, settings, checkpoint=path)
    source = Table().to("cuda")
    history = train.fit(network().cuda(), Squares(), source, TRAIN, VALIDATION, settings, checkpoint=path, resume=True)
    assert source.gathers < 21
    losses = [[epoch.validation_loss for epoch in each.epochs] for each in (whole, history)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert without_seconds(history)["windows"] == 3 * 47
    assert torch.equal(torch.cuda.get_rng_state(), outside)
