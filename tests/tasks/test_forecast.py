"""Losses of point and quantile forecasts over the observed cells of the future."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from rearview.core.errors import SettingsError
from rearview.data.windows import Batch
from rearview.tasks.objectives import Forecast

BATCH, CHANNELS, TARGETS, AHEAD, PAST = 3, 5, 2, 7, 11


class Fixed(nn.Module):
    """A model that answers what it was given."""

    def __init__(self, steps: Tensor) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, past: Tensor, past_marks: None, future_marks: None, *, mask: None) -> Tensor:
        return self.steps


def batch_of(observed: Tensor | None = None) -> Batch:
    generator = torch.Generator().manual_seed(2)
    future = torch.randn(BATCH, TARGETS, AHEAD, generator=generator)
    past = torch.randn(BATCH, CHANNELS, PAST, generator=generator)
    return Batch(past, future, None, observed, None, None, torch.zeros(BATCH, dtype=torch.long))


def answers(steps: int) -> Tensor:
    return torch.randn(BATCH, CHANNELS, steps, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("name", ["mse", "mae", "huber"])
@pytest.mark.parametrize("gaps", [False, True])
def test_point_losses_are_sums_over_observed_cells(name: str, gaps: bool) -> None:
    observed = torch.rand(BATCH, TARGETS, AHEAD, generator=torch.Generator().manual_seed(9)) > 0.4
    batch = batch_of(observed if gaps else None)
    yhat = answers(AHEAD)
    total, count = Forecast(AHEAD, name).loss(Fixed(yhat), batch)
    losses = {
        "mse": functional.mse_loss,
        "mae": functional.l1_loss,
        "huber": functional.huber_loss,
    }
    cells = losses[name](yhat[:, :TARGETS], batch.future, reduction="none")
    kept = cells[observed] if gaps else cells.flatten()
    assert count.item() == len(kept)
    torch.testing.assert_close(total, kept.sum())


def test_what_is_missing_has_no_gradient() -> None:
    observed = torch.ones(BATCH, TARGETS, AHEAD, dtype=torch.bool)
    observed[0, 0] = False
    yhat = answers(AHEAD).requires_grad_()
    total, _ = Forecast(AHEAD).loss(Fixed(yhat), batch_of(observed))
    total.backward()
    assert yhat.grad is not None
    assert (yhat.grad[0, 0] == 0).all()
    assert (yhat.grad[0, 1] != 0).all()
    assert (yhat.grad[:, TARGETS:] == 0).all()


def test_quantile_loss_against_a_loop() -> None:
    quantiles = (0.1, 0.5, 0.9)
    task = Forecast(AHEAD, quantiles=(0.9, 0.1, 0.5))
    assert task.quantiles == quantiles
    assert task.steps == AHEAD * 3
    batch, steps = batch_of(), answers(AHEAD * 3)
    forecasts = task.forecasts(Fixed(steps), batch)
    assert forecasts.shape == (BATCH, TARGETS, AHEAD, 3)
    expected = 0.0
    for b in range(BATCH):
        for c in range(TARGETS):
            for t in range(AHEAD):
                for k, q in enumerate(quantiles):
                    error = batch.future[b, c, t] - steps[b, c, t * 3 + k]
                    expected += max(q * error, (q - 1) * error).item()
    total, count = task.loss(Fixed(steps), batch)
    assert total.item() == pytest.approx(expected, rel=1e-5)
    assert count.item() == BATCH * TARGETS * AHEAD * 3


def test_the_best_constant_of_a_quantile_loss_is_the_quantile() -> None:
    task = Forecast(1, quantiles=(0.8,))
    future = torch.arange(1.0, 101.0).reshape(-1, 1, 1)
    batch = Batch(future, future, None, None, None, None, torch.zeros(100, dtype=torch.long))
    losses = {
        constant: task.loss(Fixed(torch.full((100, 1, 1), float(constant))), batch)[0].item()
        for constant in range(1, 101)
    }
    assert min(losses, key=lambda constant: losses[constant]) in (80, 81)


def test_refusals() -> None:
    with pytest.raises(SettingsError, match="mse, mae, huber"):
        Forecast(3, "rmse")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="between 0 and 1"):
        Forecast(3, quantiles=(0.1, 1.0))


GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "losses_and_schedules.npz", allow_pickle=False)


@pytest.mark.parametrize("length", ["oddH", "evenH"])
@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_fredf_is_the_authors_loss_with_its_gradient(length: str, share: float) -> None:
    steps = 13 if length == "oddH" else 12
    pred, true = (
        torch.from_numpy(GOLDEN[f"input_fredf_{name}"])[:, :steps].transpose(1, 2) for name in ("pred", "true")
    )
    # Their numbers are float64, a loss here is float32.
    yhat = pred.float().contiguous().requires_grad_()
    batch = Batch(true.float(), true.float(), None, None, None, None, torch.zeros(len(true), dtype=torch.long))
    total, number = Forecast(steps, {"name": "fredf", "time_share": share}).loss(Fixed(yhat), batch)
    (total / number).backward()
    theirs = f"output_fredf/{length}/rfft_complex_MAE_l{share}"
    assert (total / number).item() == pytest.approx(float(GOLDEN[f"{theirs}/loss"]), rel=1e-5)
    assert yhat.grad is not None
    grad = torch.from_numpy(GOLDEN[f"{theirs}/grad_pred"]).transpose(1, 2).float()
    torch.testing.assert_close(yhat.grad, grad, rtol=1e-4, atol=1e-6)


def test_fredf_counts_a_missing_cell_as_met() -> None:
    observed = torch.ones(BATCH, TARGETS, AHEAD, dtype=torch.bool)
    observed[0, 0, 3] = False
    batch = batch_of(observed)
    yhat = answers(AHEAD)
    met = yhat.clone()
    met[0, 0, 3] = batch.future[0, 0, 3]
    task = Forecast(AHEAD, "fredf")
    assert task.loss(Fixed(yhat), batch)[0] == task.loss(Fixed(met), batch)[0]


def test_fredf_has_no_quantiles() -> None:
    with pytest.raises(SettingsError, match="leave out quantiles"):
        Forecast(AHEAD, "fredf", quantiles=(0.5,))


def test_window_mae_is_the_error_of_values_standardised_by_their_window() -> None:
    past = torch.tensor([[[1.0, 3.0, 5.0, 7.0], [2.0, 2.0, 2.0, 2.0]]])
    future = torch.tensor([[[10.0, 0.0], [3.0, 1.0]]])
    batch = Batch(past, future, None, None, None, None, torch.zeros(1, dtype=torch.long))
    model = Fixed(torch.zeros(1, 2, 2))
    total, number = Forecast(2, "window_mae").loss(model, batch)
    spread = 5**0.5 + 1e-6  # of 1, 3, 5, 7; a constant channel's is 1
    assert total.item() == pytest.approx(10 / spread + (3 + 1) / (1 + 1e-6))
    assert number.item() == 4
    seen = torch.tensor([[False, False, True, True]])
    total, _ = Forecast(2, "window_mae").loss(model, replace(batch, mask=seen))
    assert total.item() == pytest.approx(10 / (1 + 1e-6) + 4 / (1 + 1e-6))
