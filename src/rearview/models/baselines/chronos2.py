"""Chronos-2 (Ansari et al., 2025), chronos-forecasting's: a network trained on other people's series, used as it is.

    models.create("chronos2", channels=7, lookback=512, steps=96, weights="chronos-2/")

Its weights are a folder on disk (config.json, model.safetensors); nothing is downloaded. The forecast is its median.
Nothing is trained here, and padding is missing values to it.
"""

import warnings
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import torch
from torch import nn

from rearview.core.errors import SettingsError
from rearview.models.baselines import require
from rearview.models.contract import Marks, Model, ModelClaims, Past, Real, Shape, Steps


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of Chronos-2."""

    weights: str | None = None
    """The folder with its weights."""
    together: bool = True
    """Whether the channels of a window are read together, or each by itself."""


class Network(Model):
    """chronos-forecasting's Chronos-2 with published weights."""

    claims = ModelClaims(attention=False, mixes_channels=True, trains=False)
    package = "chronos"

    def __init__(self, shape: Shape, settings: Settings) -> None:
        super().__init__(shape)
        shape.refuse_marks("chronos2", "is used on series alone here")
        require(self.package, "chronos2", "chronos-forecasting")
        if settings.weights is None:
            raise SettingsError("chronos2 needs its published weights on disk; say where, with weights='FOLDER'.")
        folder = Path(settings.weights)
        if not (folder / "config.json").is_file():
            raise SettingsError(
                f"There are no weights of chronos2 in {folder}: a folder with config.json and model.safetensors is "
                "needed."
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a package's remarks on its own inside
            kind = import_module("chronos.chronos2").Chronos2Pipeline
            self._pipeline = kind.from_pretrained(str(folder), local_files_only=True)
        self.network: nn.Module = self._pipeline.model.requires_grad_(False)
        self.together = settings.together
        self._median = list(self._pipeline.quantiles).index(0.5)

    @torch.no_grad()
    def forward(self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None) -> Steps:
        windows = past if mask is None else past.masked_fill(~mask[:, None], torch.nan)
        if not self.together:
            windows = windows.flatten(0, 1).unsqueeze(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as above
            forecasts = self._pipeline.predict(
                windows.float().cpu(), prediction_length=self.shape.steps, batch_size=len(windows) * windows.shape[1]
            )
        steps = torch.stack([quantiles[:, self._median] for quantiles in forecasts])
        return steps.reshape(*past.shape[:2], -1).to(past)
