"""Seasonal naive: the last period again and again. Nothing to train, and the least a model has to beat."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rearview.core.errors import SettingsError
from rearview.models.contract import Marks, Model, ModelClaims, Past, Real, Shape, Steps


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of seasonal naive."""

    period: int = 1
    """Steps of a season; 1 repeats the last value."""


class Network(Model):
    """yhat[h] = the value one season before, or as many seasons before as it takes to be known.

    Where a window is padded and its series does not reach back a season, the last value stands in.
    """

    claims = ModelClaims(attention=False, trains=False)

    def __init__(self, shape: Shape, settings: Settings) -> None:
        super().__init__(shape)
        shape.refuse_marks("seasonal_naive")
        if not 1 <= settings.period <= shape.lookback:
            raise SettingsError(
                f"period is {settings.period}; it must lie between 1 and the look-back of {shape.lookback} steps."
            )
        self.source: Tensor
        ahead = torch.arange(shape.steps) % settings.period
        self.register_buffer("source", shape.lookback - settings.period + ahead, persistent=False)

    def forward(self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None) -> Steps:
        repeated = past[..., self.source]
        return repeated if mask is None else torch.where(mask[:, None, self.source], repeated, past[..., -1:])
