"""A multi-layer perceptron along time: each channel by itself, small and quick.

    RevIN -> depth x [x = x + W2 drop(gelu(W1 x))] along time -> Linear(lookback -> steps) -> inverse RevIN

All maps are shared by all channels. At W2 = 0 it is a linear model of the normalised look-back, so what the perceptrons
add is what the series has beyond that.
"""

from dataclasses import dataclass

from torch import nn

from rearview.core.settings import check_least
from rearview.embed import Dropout
from rearview.models.attention_free._mixer import Mixer
from rearview.models.blocks import setting
from rearview.models.contract import ModelClaims, Past, Shape


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the perceptron."""

    width: int = 256
    """Width inside a perceptron."""
    depth: int = 2
    """Perceptrons in a row."""
    dropout: float = 0.1
    """Dropout inside a perceptron."""
    normalise: setting.Normalisation = "revin"


class Network(Mixer):
    """Perceptrons along time, each added to what it was given."""

    claims = ModelClaims(attention=False, reconstructs=True, classifies=True)

    def __init__(self, shape: Shape, settings: Settings) -> None:
        shape.refuse_marks("mlp")
        check_least(settings, depth=1)
        blocks = (ResidualPerceptron(shape.lookback, settings) for _ in range(settings.depth))
        super().__init__(shape, settings.normalise, nn.Sequential(*blocks), settings.dropout)


class ResidualPerceptron(nn.Module):
    """x + W2 drop(gelu(W1 x)) of the last axis."""

    def __init__(self, size: int, settings: Settings) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(size, settings.width), nn.GELU(), Dropout(settings.dropout), nn.Linear(settings.width, size)
        )

    def forward(self, x: Past) -> Past:
        return x + self.layers(x)
