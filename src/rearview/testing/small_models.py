"""Networks small enough to be tried in every way, whatever their settings are called."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from rearview import models
from rearview.core.registry import split_spec
from rearview.models.contract import Model

Spec = str | Mapping[str, Any]
"""A network by name, or a mapping with a name and what else `models.create` takes: settings, attention."""
BATCH, CHANNELS, STEPS, MARKS, AHEAD, LOOKBACK = 2, 3, 11, 5, 17, 37
SETTINGS: dict[str, Any] = {
    "width": 26,
    "heads": 13,
    "depth": 2,
    "feed_forward": 19,
    "dropout": 0.0,
    "patch": 7,
    "stride": 3,
    "kernel": 5,
    "period": 3,
    "router": 29,
    # Chance in training, which a test that compares two passes has to do without.
    "noisy": False,
    "sample": "never",
    "channel_dropout": False,
    "jitter": 0.0,
}

MANY_CHANNELS = {"timer_xl": {"patch": LOOKBACK}, "prime_net": {"depth": 1}}
"""What keeps a thousand channels affordable: one token a channel where all tokens of all channels see one another, one
layer where every pair of channels has parameters of its own."""


def small(spec: Spec, seed: int = 23, **changes: Any) -> Model:
    """A network in evaluation mode and float64 whose every parameter has left its initial value."""
    torch.manual_seed(seed)
    name, given = split_spec("A network", "patchtst", spec)
    kind = models.settings_of(name)
    # Another package's network has its own defaults: what goes with what is known of ours alone.
    fields = {field.name for field in dataclasses.fields(kind)} if kind.__module__.startswith("rearview.") else set()
    settings = {key: value for key, value in SETTINGS.items() if key in fields}
    shape = {"channels": CHANNELS, "lookback": LOOKBACK, "steps": STEPS}
    model: Model = models.create(name, **{**shape, **settings, **given, **changes})
    model.prepare(torch.randn(13, model.shape.channels, model.shape.lookback))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.double().eval()


def past_for(model: Model, batch: int = BATCH, seed: int = 31) -> Tensor:
    """Windows far from zero and from unit size, so that no small constant inside a model matters."""
    draw = torch.Generator().manual_seed(seed)
    shape = (batch, model.shape.channels, model.shape.lookback)
    return 500 + 100 * torch.randn(shape, generator=draw, dtype=torch.float64)


def losses(model: Model) -> tuple[Tensor, Tensor]:
    """The loss before and after one small step of training towards windows of noise."""
    past = past_for(model.train())
    future = 500 + 100 * torch.randn(BATCH, CHANNELS, STEPS, dtype=torch.float64)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)

    def loss() -> Tensor:
        return (model(past) - future).square().mean()

    before = loss()
    before.backward()
    optimiser.step()
    return before, loss()


def marks_for(model: Model, steps: int, seed: int = 41) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, model.shape.marks, steps, generator=draw, dtype=torch.float64)
