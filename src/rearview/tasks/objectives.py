"""The tasks: the output that a model must give, and its loss.

Losses are a sum over the observed cells and their number, so that batches pool without a bias.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn
from torch.nn import functional

from rearview.core.errors import SettingsError
from rearview.tasks import losses

if TYPE_CHECKING:
    from rearview.data.cases.padding import CaseBatch
    from rearview.data.windows import Batch

TIE_BREAK = 1e-4
"""Weight of the cross-entropy between epochs with equally many errors; below the share of one case in thousands."""
MOST_SURPRISED = 10.0
"""The most that one case adds to the tie-break, so that a single confident error does not decide it."""
Pooled = tuple[Float[Tensor, ""], Num[Tensor, ""]]


def sum_observed(cells: Tensor, observed: Tensor | None) -> Pooled:
    """The sum and the number of cells where `observed`, which broadcasts over them, is True (None: everywhere)."""
    if observed is None:
        return cells.sum(), cells.new_full((), cells.numel())
    return (cells * observed).sum(), observed.sum().to(torch.float32) * (cells.numel() // observed.numel())


def add_penalty(model: nn.Module, total: Float[Tensor, ""], number: Num[Tensor, ""]) -> Pooled:
    """Add the model's own penalty of the last pass, such as DUET's for idle experts, to a sum of losses.

    The penalty is added to the mean unscaled. In evaluation there is none, so weights are never selected by it.
    """
    compute = getattr(model, "penalty", None)
    penalty = compute() if callable(compute) else None
    return (total, number) if penalty is None else (total + penalty * number, number)


def window_spread(batch: "Batch") -> Float[Tensor, "batch target 1"]:
    """The standard deviation of each target over its look-back plus 1e-6, 1 where it is 0, as MICA's release has it."""
    past = batch.past[:, : batch.future.shape[1]].float()
    real = torch.ones_like(past[:, :1]) if batch.mask is None else batch.mask[:, None].float()
    count = real.sum(-1, keepdim=True).clamp(min=1)
    mean = (past * real).sum(-1, keepdim=True) / count
    spread = (((past - mean) * real).square().sum(-1, keepdim=True) / count).sqrt()
    return torch.where(spread == 0, 1.0, spread) + 1e-6


class Forecast:
    """Losses of point or quantile forecasts over the observed cells of the future.

    A point forecast asks for the horizon. A quantile forecast asks for the horizon times the quantiles and reads the
    steps as [ahead, quantile], so any model can give quantiles without knowing of them. Missing cells of the future do
    not count. `fredf` needs a whole horizon for its spectrum, so there a missing cell counts as met.
    """

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

    def loss(self, model: nn.Module, batch: "Batch") -> Pooled:
        """Sum of losses over the observed cells, and their number; in training with the model's own penalty."""
        yhat = self.forecasts(model, batch).float()
        if not isinstance(self.settings, losses.Fredf):
            observed = None if batch.observed is None else batch.observed[..., None]
            errors = self._errors(yhat, batch.future[..., None])
            if self.name == "window_mae":
                errors = errors / window_spread(batch)[..., None]
            return add_penalty(model, *sum_observed(errors, observed))
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


class Detect:
    """Squared errors over the observed cells: of a window's reconstruction, or of a row's forecast.

    A batch holds what should come out (`future`: the window itself, or the row after it).
    """

    def errors(self, model: nn.Module, batch: "Batch") -> Float[Tensor, "batch channel time"]:
        """The squared error of every cell, whether it was observed or not."""
        output = model(batch.past, batch.past_marks, batch.future_marks, mask=batch.mask)
        return (output.float() - batch.future).square()

    def loss(self, model: nn.Module, batch: "Batch") -> Pooled:
        """Sum of the errors over the observed cells, and their number."""
        return add_penalty(model, *sum_observed(self.errors(model, batch), batch.observed))


class Classify:
    """Cross-entropy; selected by the share of errors, and between equals by the cross-entropy.

    A network that overfits few cases becomes ever more confident in its errors: its cross-entropy on others rises long
    before its accuracy falls. So the best weights are selected by the share of errors.
    """

    def __init__(self, tie_break: float = TIE_BREAK) -> None:
        self.tie_break = tie_break

    def logits(self, model: nn.Module, batch: "CaseBatch") -> Float[Tensor, "batch classes"]:
        """The logits of a batch."""
        return model(batch.past, mask=batch.mask).float()

    def loss(self, model: nn.Module, batch: "CaseBatch") -> Pooled:
        """Sum of cross-entropies, and the number of cases."""
        logits = self.logits(model, batch)
        total = functional.cross_entropy(logits, batch.labels, reduction="sum")
        return add_penalty(model, total, logits.new_full((), len(logits)))

    def validation(self, model: nn.Module, batch: "CaseBatch") -> Pooled:
        """Number of errors with the tie-break, and the number of cases."""
        logits = self.logits(model, batch)
        wrong = (logits.argmax(-1) != batch.labels).float()
        surprise = functional.cross_entropy(logits, batch.labels, reduction="none").clamp(max=MOST_SURPRISED)
        return (wrong + self.tie_break * surprise).sum(), logits.new_full((), len(logits))
