"""Forecasting as a task: what is asked of a model, and how wrong its answer is.

A point forecast asks for the horizon. A quantile forecast asks for the horizon times the quantiles and reads the steps
as [ahead, quantile], so any model can give quantiles without knowing of them. Missing cells of the future do not count.
`fredf` needs a whole horizon for its spectrum, so there a missing cell counts as met.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from rearview.core.errors import SettingsError
from rearview.tasks import losses
from rearview.tasks.pooling import add_penalty, sum_observed

if TYPE_CHECKING:
    from rearview.data.windows import Batch


class Forecast:
    """Losses of point or quantile forecasts over the observed cells of the future."""

    def __init__(self, horizon: int, loss: losses.Spec = "mse", quantiles: Sequence[float] = ()) -> None:
        self.name, self.settings = losses.resolve(loss)
        if isinstance(self.settings, losses.Fredf) and quantiles:
            raise SettingsError("fredf compares the spectra of point forecasts; leave out quantiles, or use mse.")
        if any(not 0 < q < 1 for q in quantiles):
            raise SettingsError(f"quantiles are {list(quantiles)}; each must lie between 0 and 1.")
        self.horizon = horizon
        self.quantiles = tuple(sorted(quantiles))
        self._levels: Tensor | None = None

    @property
    def steps(self) -> int:
        """Steps that a model must output."""
        return self.horizon * max(1, len(self.quantiles))

    def forecasts(self, model: nn.Module, batch: "Batch") -> Float[Tensor, "batch target ahead quantile"]:
        """Forecasts of a batch, one per quantile (one in all for a point forecast)."""
        steps = model(batch.past, batch.past_marks, batch.future_marks, mask=batch.mask)
        targets = steps[:, : batch.future.shape[1]]
        return targets.reshape(*targets.shape[:2], self.horizon, -1)

    def loss(self, model: nn.Module, batch: "Batch") -> tuple[Tensor, Tensor]:
        """Sum of losses over the observed cells, and their number; in training with the model's own penalty."""
        yhat = self.forecasts(model, batch).float()
        if not isinstance(self.settings, losses.Fredf):
            observed = None if batch.observed is None else batch.observed[..., None]
            return add_penalty(model, *sum_observed(self._errors(yhat, batch.future[..., None]), observed))
        error = yhat[..., 0] - batch.future
        squares, number = sum_observed(error.square(), batch.observed)
        # The transform is linear: the spectrum of the error is the difference of the spectra.
        spectrum = torch.fft.rfft(error if batch.observed is None else error * batch.observed, dim=-1).abs().mean()
        share = self.settings.time_share
        return add_penalty(model, share * squares + (1 - share) * spectrum * number, number)

    def _errors(self, yhat: Tensor, y: Tensor) -> Tensor:
        if self.quantiles:
            if self._levels is None or self._levels.device != yhat.device:
                # Made once: a copy to the device would stop a captured step.
                self._levels = torch.tensor(self.quantiles, dtype=yhat.dtype, device=yhat.device)
            error = y - yhat
            return torch.maximum(self._levels * error, (self._levels - 1) * error)
        if isinstance(self.settings, losses.Huber):
            return functional.huber_loss(yhat, y, reduction="none", delta=self.settings.delta)
        return (yhat - y).square() if self.name == "mse" else (yhat - y).abs()
