"""RAdam in the loop: torch's own updates, and a run that was cut off goes on bit for bit."""

import pytest
import torch
from torch import nn

from rearview import train
from rearview.train import optimisation
from rearview.train.settings import Settings


class Points:
    """A source of rows of a table."""

    def __init__(self) -> None:
        draw = torch.Generator().manual_seed(0)
        self.x = torch.randn(16, 3, generator=draw)

    def batch(self, index):
        return self.x[index]


class Square:
    """Squares of a linear map."""

    def loss(self, model, batch):
        out = model(batch).square()
        return out.sum(), torch.tensor(float(out.numel()))


def network():
    torch.manual_seed(1)
    return nn.Linear(3, 2)


SETTINGS = Settings(optimiser="radam", learning_rate=0.1, batch=16, epochs=12, patience=None, weight_decay=0.01)


def test_radams_updates_are_torchs():
    model, other = network(), network()
    history = train.fit(model, Square(), Points(), torch.arange(16), None, SETTINGS, progress=train.Silent())
    optimiser = torch.optim.RAdam(other.parameters(), lr=0.1, weight_decay=0.01)
    source = Points()
    for _ in range(12):
        optimiser.zero_grad()
        other(source.x).square().mean().backward()
        optimiser.step()
    torch.testing.assert_close(model.weight, other.weight, rtol=1e-5, atol=1e-6)
    assert history.epochs[-1].train_loss < history.epochs[0].train_loss


def test_radams_state_goes_through_a_checkpoint():
    model = network()
    optimiser = optimisation.build(model, SETTINGS)
    model(Points().x).square().mean().backward()
    optimiser.step()
    state = {name: tensor.clone() for name, tensor in optimisation.moments(model, optimiser).items()}
    assert state["weight/step"] == 1
    fresh = optimisation.build(model, SETTINGS)
    optimisation.restore_moments(model, fresh, state)
    for name, tensor in optimisation.moments(model, fresh).items():
        assert torch.equal(tensor, state[name])


@pytest.mark.parametrize("stop", [3, 7])
def test_a_radam_run_that_was_cut_off_ends_where_the_whole_one_does(tmp_path, stop):
    class Stop(train.Silent):
        def epoch(self, epoch):
            if epoch.number == stop:
                raise KeyboardInterrupt

    whole, cut = network(), network()
    given = (Square(), Points(), torch.arange(16), None, SETTINGS)
    train.fit(whole, *given, progress=train.Silent())
    path = tmp_path / "run.safetensors"
    assert train.fit(cut, *given, checkpoint=path, progress=Stop()).ended == "interrupted"
    resumed = network()
    train.fit(resumed, *given, checkpoint=path, resume=True, progress=train.Silent())
    assert torch.equal(resumed.weight, whole.weight)
