"""One perceptron of all channels together: every value of a window to every value of the forecast.

    RevIN -> [channel x lookback] -> depth x [relu(W x)] -> Linear(width -> channel x steps) -> inverse RevIN

This is the multivariate MLP that MICA is compared with; its size fits the paper's counts at width 256 and depth 4. Its
maps belong to the channels in their order, so permuting them gives another network.
"""

from dataclasses import dataclass

from torch import nn

from rearview.core.settings import check_least
from rearview.embed import Dropout, Normalise
from rearview.models.blocks import setting
from rearview.models.contract import Marks, Model, ModelClaims, Past, Real, Shape, Steps


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the joint perceptron."""

    width: int = 256
    """Width of the layers inside."""
    depth: int = 4
    """Layers inside, each with a relu."""
    dropout: float = 0.0
    """Dropout behind each relu."""
    normalise: setting.Normalisation = "revin"


class Network(Model):
    """A perceptron of whole windows."""

    claims = ModelClaims(attention=False, mixes_channels=True, equivariant_to_channels=False, reconstructs=True)

    def __init__(self, shape: Shape, settings: Settings) -> None:
        shape.refuse_marks("mlp_joint", "maps the channels of a window")
        check_least(settings, depth=1)
        super().__init__(shape)
        self.normalise = Normalise(settings.normalise)
        layers: list[nn.Module] = []
        inputs = shape.channels * shape.lookback
        for _ in range(settings.depth):
            layers += [nn.Linear(inputs, settings.width), nn.ReLU(), Dropout(settings.dropout)]
            inputs = settings.width
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(settings.width, shape.channels * shape.steps)

    def forward(self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None) -> Steps:
        x, denormalise = self.normalise(past, mask)
        return denormalise(self.head(self.layers(x.flatten(1))).unflatten(1, (self.shape.channels, -1)))
