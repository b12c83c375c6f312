"""Channel heads: an output layer for each channel instead of one that all channels share.

    yhat_c = W_c r_c + b_c          r_c: what the network knows of channel c, flattened

This is the multivariate output layer of the MICA paper: separate projections for each channel, the network below them
unchanged. The paper does not say how they start; here each is a copy of the shared layer, so that at first the forecast
is that of the network alone. It multiplies the parameters of the output layer by the number of channels.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import nn

from rearview.core.errors import SettingsError
from rearview.models.adapters.contract import AdapterBase, refuse_unsuitable
from rearview.models.attention_free.dlinear import ChannelLinear
from rearview.models.contract import Marks, Model, Past, Real, Steps


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the channel heads: they have none."""


class Adapter(AdapterBase):
    """A network whose output layers belong to one channel each."""

    def __init__(self, network: Model, settings: Settings, within: str) -> None:
        super().__init__(network, replace(network.claims, equivariant_to_channels=False))
        does = "gives each channel an output layer of its own"
        because = "replaces an output layer that reads each channel by itself"
        refuse_unsuitable(network, "channel_heads", within, does, because)
        shared = list(_shared_layers(network))
        if not shared:
            raise SettingsError(
                f"channel_heads replaces the output layer that all channels share, and {within} has none that gives "
                f"all {network.shape.steps} steps at once; use patchtst, moment, mlp or dlinear."
            )
        for owner, name, layer in shared:
            setattr(owner, name, _copy_to_channels(layer, network.shape.channels))

    def forward(self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None) -> Steps:
        return self.network(past, past_marks, future_marks, mask=mask)


def _shared_layers(network: Model) -> Iterator[tuple[nn.Module, str, nn.Linear | ChannelLinear]]:
    """Owner, attribute name and layer of each output layer that all channels share."""
    if isinstance(network, AdapterBase):
        yield from _shared_layers(network.network)
        return
    for name, layer in network.named_children():
        if name == "head" and isinstance(layer, nn.Linear) and layer.out_features == network.shape.steps:
            yield network, name, layer
        if isinstance(layer, ChannelLinear) and len(layer.weight) == 1:
            yield network, name, layer


@torch.no_grad()
def _copy_to_channels(shared: nn.Linear | ChannelLinear, channels: int) -> ChannelLinear:
    """A layer that does in every channel what the shared one does."""
    steps, features = shared.weight.shape[-2:]
    layer = ChannelLinear(channels, features, steps, device=shared.weight.device, dtype=shared.weight.dtype)
    layer.weight.copy_(shared.weight)
    bias = getattr(shared, "bias", None)
    layer.bias.copy_(shared.weight.new_zeros(()) if bias is None else bias)
    return layer
