"""What adapters that refine a channel's forecast by other channels have in common."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from rearview.core.errors import SettingsError
from rearview.embed import Normalise
from rearview.models.adapters.contract import AdapterBase, refuse_one_channel
from rearview.models.contract import Marks, Model, Past, Real, Steps

_EPS = 1e-8


class LeaderAdapter(AdapterBase):
    """yhat -> yhat + refinement, on each window's standard scale; a subclass says what the refinement is."""

    def __init__(self, network: Model, name: str) -> None:
        claims = replace(
            network.claims, mixes_channels=True, equivariant_to_channels=False, reconstructs=False, classifies=False
        )
        super().__init__(network, claims)
        self.name = name
        refuse_one_channel(network, name, "looks for channels that lead others")
        asks, lookback = network.shape.asks, network.shape.lookback
        if asks != "steps":
            raise SettingsError(f"{name} refines forecasts, and {asks} are asked for; leave it out.")
        if lookback < 3:
            raise SettingsError(f"{name} compares a lag with its neighbours; a look-back of {lookback} has none.")
        self.normalise = Normalise("revin", eps=_EPS)

    def forward(self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None) -> Steps:
        given = self.network(past, past_marks, future_marks, mask=mask)
        if given.shape[1] != past.shape[1]:
            raise SettingsError(
                f"{self.name} refines forecasts of all {past.shape[1]} channels by one another, but the network "
                f"forecasts {given.shape[1]}; let it forecast all of them."
            )
        if mask is not None:
            past = past.masked_fill(~mask[:, None], 0)
        mean, std = self.normalise.statistics(past, mask)
        if mask is not None:
            past = torch.where(mask[:, None], past, mean)  # padding at the mean correlates with nothing
        z, ahead = (past - mean) / std, (given.to(past.dtype) - mean) / std
        return (ahead + self.refine(z, ahead)) * std + mean

    def refine(self, z: Past, ahead: Steps) -> Float[Tensor, "batch channel steps"]:
        """What is added to the network's forecast `ahead` of the window `z`."""
        raise NotImplementedError
