"""TSMixer (Chen et al., 2023) as in the Time-Series-Library: perceptrons along time and across channels in turn.

    x = x + drop(W2 relu(W1 x)) along time;   x = x + drop(W4 relu(W3 x)) across channels;   `depth` times
    y = W x along time

The library's form has neither the normalisation nor the covariates of the paper; `normalise` brings the first back. Its
maps across channels belong to the channels in their order, so permuting them gives another network.

`square=True` is the form of neuralforecast, with which MICA is compared (4 blocks, width 256 and RevIN fit its counts):

    x = x + drop(relu(W norm(x))) along time, W square;   x = x + drop(W4 drop(relu(W3 norm(x)))) across channels

with a batch norm of every channel and step (eps 0.001, momentum 0.01) before each.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from rearview.core.settings import check_least
from rearview.embed import Dropout
from rearview.embed.normalisation import Kind
from rearview.models.attention_free._mixer import Mixer
from rearview.models.blocks import setting
from rearview.models.contract import ModelClaims, Past, Shape


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of TSMixer; the defaults are the library's."""

    width: int = 512
    """Width inside the perceptrons, along time and across channels; of the square form across channels alone."""
    depth: setting.Depth = 2
    dropout: float = 0.1
    """Dropout on what a perceptron returns, before it is added."""
    normalise: Kind = "none"
    """Instance normalisation: none (the library's form), last or revin."""
    square: bool = False
    """One square map along time and batch norms, as neuralforecast has it."""


class Network(Mixer):
    """Mixing by perceptrons, without attention."""

    claims = ModelClaims(
        attention=False, mixes_channels=True, scale_free=False, equivariant_to_channels=False, reconstructs=True,
        classifies=True,
    )  # fmt: skip

    def __init__(self, shape: Shape, settings: Settings) -> None:
        shape.refuse_marks("tsmixer", "mixes the channels of a window")
        check_least(settings, depth=1)
        block = SquareBlock if settings.square else Block
        blocks = (block(shape, settings) for _ in range(settings.depth))
        super().__init__(shape, settings.normalise, nn.Sequential(*blocks), settings.dropout)


class Block(nn.Module):
    """Along time, then across channels."""

    def __init__(self, shape: Shape, settings: Settings) -> None:
        super().__init__()
        self.along = perceptron(shape.lookback, settings)
        self.across = perceptron(shape.channels, settings)

    def forward(self, x: Past) -> Past:
        x = x + self.along(x)
        across: Tensor = self.across(x.transpose(1, 2))
        return x + across.transpose(1, 2)


class SquareBlock(nn.Module):
    """A square map along time, then a perceptron across channels, each behind a batch norm of all cells."""

    def __init__(self, shape: Shape, settings: Settings) -> None:
        super().__init__()
        cells = shape.channels * shape.lookback
        self.norm_along = nn.BatchNorm1d(cells, eps=1e-3, momentum=0.01)
        self.along = nn.Sequential(nn.Linear(shape.lookback, shape.lookback), nn.ReLU(), Dropout(settings.dropout))
        self.norm_across = nn.BatchNorm1d(cells, eps=1e-3, momentum=0.01)
        self.across = nn.Sequential(
            nn.Linear(shape.channels, settings.width),
            nn.ReLU(),
            Dropout(settings.dropout),
            nn.Linear(settings.width, shape.channels),
            Dropout(settings.dropout),
        )

    def forward(self, x: Past) -> Past:
        x = x + self.along(self.norm_along(x.flatten(1)).view(x.shape))
        across: Tensor = self.across(self.norm_across(x.flatten(1)).view(x.shape).transpose(1, 2))
        return x + across.transpose(1, 2)


def perceptron(size: int, settings: Settings) -> nn.Sequential:
    """Two linear maps of the last axis with a relu between."""
    return nn.Sequential(
        nn.Linear(size, settings.width), nn.ReLU(), nn.Linear(settings.width, size), Dropout(settings.dropout)
    )
