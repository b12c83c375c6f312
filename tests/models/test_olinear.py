"""OLinear: bases that take correlation out of time, NormLin between channels, sizes."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview import models
from rearview.models.channel_hosts.olinear import blocks, correlate_steps, cosines, eigenvectors
from rearview.testing.small_models import BATCH, CHANNELS, LOOKBACK, STEPS, past_for, small


def walks(count: int, steps: int) -> Tensor:
    """Random walks, whose steps correlate the more the nearer they are."""
    draw = torch.Generator().manual_seed(71)
    return torch.randn(count, CHANNELS, steps, generator=draw, dtype=torch.float64).cumsum(-1)


def test_correlation_is_that_of_steps_averaged_over_channels() -> None:
    windows = walks(29, 7)
    expected = torch.stack([torch.corrcoef(windows[:, channel].T) for channel in range(CHANNELS)]).mean(0)
    assert_close(correlate_steps(windows), expected)
    windows[:, 0, 3] = 5.0
    found = correlate_steps(windows)
    assert found.isfinite().all()
    assert_close(found.diagonal(), torch.ones(7, dtype=torch.float64))


def test_steps_do_not_correlate_in_the_basis_of_the_training_windows() -> None:
    windows = walks(997, LOOKBACK)
    model = models.create("olinear", channels=CHANNELS, lookback=LOOKBACK, steps=STEPS, width=26).double()
    before = model.past_basis.clone()
    model.prepare(windows)
    basis, correlation = model.past_basis, correlate_steps(windows)
    assert_close(basis.T @ basis, torch.eye(LOOKBACK, dtype=torch.float64))
    turned = basis.T @ correlation @ basis
    assert_close(turned, torch.diag(turned.diagonal()))
    assert (turned.diagonal().diff() <= 1e-12).all(), "the largest eigenvalue comes first"
    assert (basis - before).abs().max() > 0.01
    ahead = model.future_basis
    assert_close(
        ahead.T @ correlation[:STEPS, :STEPS] @ ahead,
        torch.diag((ahead.T @ correlation[:STEPS, :STEPS] @ ahead).diagonal()),
    )


def test_a_sign_is_chosen_once_for_all_solvers() -> None:
    correlation = correlate_steps(walks(29, 7))
    vectors = eigenvectors(correlation)
    falling = torch.arange(7, 0, -1, dtype=torch.float64)
    assert (falling @ vectors >= 0).all()


@pytest.mark.parametrize(("steps", "sizes"), [(5, [5]), (7, [7]), (17, [7, 7, 3])])
def test_more_steps_than_a_window_has_are_taken_in_blocks(steps: int, sizes: list[int]) -> None:
    found = blocks(cosines, steps, 7)
    assert_close(found, torch.block_diag(*map(cosines, sizes)))
    assert_close(found.T @ found, torch.eye(steps))


def test_a_forecast_is_the_formula_written_out() -> None:
    model = small("olinear")
    past = past_for(model)
    x, denormalise = model.normalise(past)
    extended = torch.einsum("bct,e->bcet", x, model.extension)
    z = torch.einsum("bcet,tu->bceu", extended, model.past_basis) + model.past_shift
    tokens = model.stack(model.embed(z.flatten(2))[:, None])[:, 0]
    ahead = model.unfold(tokens).view(BATCH, CHANNELS, -1, STEPS)
    ahead = torch.einsum("bceu,su->bces", ahead, model.future_basis) + model.future_shift
    first, last = model.head[0], model.head[2]
    hidden = torch.nn.functional.gelu(first(ahead.transpose(2, 3).reshape(BATCH, CHANNELS, -1)))
    assert_close(model(past), denormalise(last(hidden)), rtol=1e-9, atol=1e-7)


def test_normlin_mixes_channels_by_positive_shares_that_no_window_moves() -> None:
    model = small("olinear", heads=1)
    weights = model.weights(past_for(model))
    matrix = model.stack.layers[0].matrix
    shares = torch.log1p(matrix.exp())
    assert_close(weights[0][0, 0], shares / shares.sum(-1, keepdim=True))
    assert torch.equal(weights[0], model.weights(past_for(model, seed=5))[0])


def test_olinear_has_as_many_parameters_as_its_parts() -> None:
    """Of ETTm1 at horizon 96, with the authors' settings: two blocks of width 512, 16 numbers a step."""
    model = models.create("olinear", channels=7, lookback=96, steps=96)
    width, numbers = 512, 16 * 96
    block = 2 * (width * width + width) + 7 * 7 + 2 * (width * width + width) + 4 * width
    ends = (numbers + 1) * width + (width + 1) * numbers + (numbers + 1) * width + (width + 1) * 96
    expected = 2 * block + 2 * width + ends + 16 + 2 * 7 * 96 + 2 * 7
    assert sum(one.numel() for one in model.parameters()) == expected == 4_518_944
