"""The contract of an adapter: a model around a model, asked like any other.

What an adapter does not change it hands on: attention's weights and what their axes are, the penalty of a forward
pass, remarks on forecasts, the windows that mechanisms learn from before training.
"""

from jaxtyping import Float
from torch import Tensor

from rearview.attention.contract import Attention, Weights
from rearview.core.errors import SettingsError
from rearview.models.contract import Axes, Marks, Model, ModelClaims, Past, Real


class AdapterBase(Model):
    """Base of every adapter; a subclass says what is done before and after the network."""

    def __init__(self, network: Model, claims: ModelClaims) -> None:
        super().__init__(network.shape)
        self.network = network
        self.claims = claims

    def weights(
        self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None
    ) -> list[Weights]:
        return self.network.weights(past, past_marks, future_marks, mask=mask)

    def axes(self) -> list[Axes]:
        return self.network.axes()

    def penalty(self) -> Float[Tensor, ""] | None:
        return self.network.penalty()

    def remark(self) -> str:
        return self.network.remark()

    def prepare(self, windows: Past) -> None:
        self.network.prepare(windows)


def refuse_one_channel(network: Model, name: str, does: str) -> None:
    """For adapters that bring channels together."""
    if network.shape.channels == 1:
        raise SettingsError(f"{name} {does}, and there is 1 channel alone; leave it out.")


def refuse_unsuitable(network: Model, name: str, within: str, does: str, because: str) -> None:
    """For adapters that change the forecasts of several channels, each of which the network reads by itself."""
    if network.shape.asks == "classes":
        raise SettingsError(f"{name} changes the steps that a network gives, and classes are none; leave it out.")
    refuse_one_channel(network, name, does)
    layers = (part for part in network.modules() if isinstance(part, Attention))
    if network.claims.mixes_channels or any(layer.claims.mixes_groups for layer in layers):
        raise SettingsError(
            f"{name} {because}, but {within} mixes channels; put it around a network that reads each channel by "
            "itself, such as patchtst with softmax, moment, mlp or dlinear."
        )
