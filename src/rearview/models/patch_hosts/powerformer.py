"""Powerformer (Hegazy et al., 2025): PatchTST whose attention looks back only and fades keys by a power law of age.

    `patchtst` with the attention {"name": "rbca", "bias": "power_law", "alpha": 0.5, "residual_mask": "accumulate"}

Another attention can be given all the same, for example {"name": "rbca", "bias": "butterworth"}. As released, the masks
of earlier layers are handed on with their scores, so that layer l fades by l times the mask; the paper's text has each
layer's mask once, which is `residual_mask="once"`.
"""

from rearview.attention import Spec
from rearview.models.contract import Shape
from rearview.models.patch_hosts import patchtst
from rearview.models.patch_hosts.patchtst import Settings as Settings

POWER_LAW = {"name": "rbca", "bias": "power_law", "alpha": 0.5, "residual_mask": "accumulate"}
"""The attention of Powerformer's main results."""


class Network(patchtst.Network):
    """PatchTST with recency-biased attention unless told otherwise."""

    name = "powerformer"
    host = "Powerformer"

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        super().__init__(shape, settings, self.attention_of(settings, attention))

    @classmethod
    def attention_of(cls, settings: object, attention: Spec = None) -> Spec:
        return POWER_LAW if attention is None else attention
