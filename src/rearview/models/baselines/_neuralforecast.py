"""neuralforecast's networks as ours: its modules without its trainer, its windows made from ours.

A network there reads a dictionary of tensors with time before channels. Those that read one series at a time get every
channel as a window of its own; the others get all channels. Instance normalisation is ours where the original has it
outside or in the plain form, so that padding never counts.
"""

import logging
import os
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from torch import nn

from rearview.core.errors import SettingsError
from rearview.embed import Normalise
from rearview.embed.normalisation import Kind
from rearview.embed.tokenisers import check_marks
from rearview.models.baselines import require
from rearview.models.blocks import setting
from rearview.models.contract import Marks, Model, Past, Real, Shape, Steps

_SEEDED = ("PL_GLOBAL_SEED", "PL_SEED_WORKERS")
"""Environment variables that Lightning's seeding leaves behind."""
_SAYS_SEEDS = "lightning_fabric.utilities.seed"
"""The logger that prints every seed."""


@dataclass(frozen=True, slots=True)
class DecoderSettings:
    """Settings that neuralforecast's encoder-decoders have in common; the defaults are its own."""

    width: setting.TokenWidth = 128
    depth: setting.EncoderDepth = 2
    decoder_depth: setting.DecoderDepth = 1
    feed_forward: setting.FeedForwardWidth = 32
    dropout: setting.DropoutThroughout = 0.05
    activation: setting.GeluOrRelu = "gelu"
    label_share: float = 0.5
    """Share of the look-back that the decoder starts from; between 0 and 1."""
    normalise: setting.PlainNormalisation = "none"

    def __post_init__(self) -> None:
        if not 0 < self.label_share < 1:
            raise SettingsError(f"label_share is {self.label_share}; it must lie between 0 and 1.")


DECODER_ARGUMENTS = {
    "width": "hidden_size", "depth": "encoder_layers", "decoder_depth": "decoder_layers",
    "feed_forward": "conv_hidden_size", "dropout": "dropout", "activation": "activation",
    "label_share": "decoder_input_size_multiplier",
}  # fmt: skip
"""neuralforecast's names of these settings."""


@runtime_checkable
class NormalisedSettings(Protocol):
    """Settings that say how windows are normalised: a kind of ours, or whether the network does it by itself."""

    @property
    def normalise(self) -> Kind | bool: ...


class NeuralforecastNetwork(Model):
    """A network of neuralforecast; a subclass names its class there and says what it can be given."""

    package = "neuralforecast"
    kind: ClassVar[str]
    """The name of the class in neuralforecast; in lower case, that of its module and of the network on the shelf."""
    all_channels: ClassVar[bool] = False
    """Whether it reads all channels at once."""
    arguments: ClassVar[dict[str, str]]
    """neuralforecast's name of each setting that is an argument of the class."""
    fixed: ClassVar[dict[str, object]] = {}
    """Further arguments of the class."""

    def __init__(self, shape: Shape, settings: NormalisedSettings) -> None:
        super().__init__(shape)
        name = self.kind.lower()
        if not self.claims.uses_marks:
            shape.refuse_marks(name, "has no place for them in neuralforecast's form")
        if shape.marks and self.claims.reads_ahead and (not shape.future or shape.steps % shape.future):
            raise SettingsError(
                f"{name}'s decoder reads the {shape.marks} calendar features or inputs of all {shape.steps} steps "
                f"ahead, and they are known for {shape.future}; leave them out, or use itransformer."
            )
        require(self.package, name)
        # A network that normalises by itself has a switch for it instead of a kind.
        self.normalise = Normalise("none" if isinstance(settings.normalise, bool) else settings.normalise)
        arguments: dict[str, object] = {theirs: getattr(settings, ours) for ours, theirs in self.arguments.items()}
        if self.all_channels:
            arguments["n_series"] = shape.channels
        if shape.marks:
            arguments["futr_exog_list"] = [f"mark_{number}" for number in range(shape.marks)]
        with _contain_seeding() as seed, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a package's remarks on its own inside
            arguments |= {**self.fixed, "h": shape.steps, "input_size": shape.lookback, "random_seed": seed}
            kind = getattr(import_module(f"neuralforecast.models.{name}"), self.kind)
            # Never asked: it says that one number a step is wanted.
            loss = import_module("neuralforecast.losses.pytorch").MAE()
            try:
                self.network: nn.Module = kind(loss=loss, **arguments)
            except Exception as problem:  # neuralforecast raises bare ones
                raise SettingsError(f"neuralforecast can't build {name} with these settings: {problem}") from problem

    def forward(self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None) -> Steps:
        x, denormalise = self.normalise(past, mask)
        windows = x.transpose(1, 2) if self.all_channels else x.flatten(0, 1).unsqueeze(-1)
        marks = None
        if self.shape.marks:
            # As neuralforecast has them: [batch, time, mark], the steps ahead after those of the look-back.
            marks, ahead = check_marks(self.shape.marks, self.shape.future, past_marks, future_marks)
            if ahead is not None and self.claims.reads_ahead:
                each = self.shape.steps // self.shape.future
                marks = torch.cat([marks, ahead.repeat_interleave(each, dim=-1)], dim=-1)
            marks = marks.transpose(1, 2)
            if not self.all_channels:
                marks = marks.repeat_interleave(past.shape[1], dim=0)
        steps = self.network({"insample_y": windows, "futr_exog": marks, "hist_exog": None, "stat_exog": None})
        return denormalise(
            steps.transpose(1, 2) if self.all_channels else steps.squeeze(-1).unflatten(0, past.shape[:2])
        )


@contextmanager
def _contain_seeding() -> Iterator[int]:
    """A seed drawn from torch's own, for a class that seeds everything; what that leaves behind is undone."""
    seed = int(torch.randint(2**31, ()))
    states = random.getstate(), np.random.get_state()  # noqa: NPY002 - the state that is seeded is the global one
    environment = {name: os.environ.get(name) for name in _SEEDED}
    logger = logging.getLogger(_SAYS_SEEDS)
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with torch.random.fork_rng(devices=[]):
            yield seed
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        logger.setLevel(level)
        for name in _SEEDED:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in environment.items() if value is not None})
