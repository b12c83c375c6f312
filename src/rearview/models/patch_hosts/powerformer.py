"""Powerformer (Hegazy et al., 2025): PatchTST whose attention looks back only and fades keys by a power law of age.

    `patchtst` with the attention {"name": "rbca", "bias": "power_law", "alpha": 0.5, "residual_mask": "accumulate"}

Another attention can be given all the same, for example {"name": "rbca", "bias": "butterworth"}. As released, the masks
of earlier layers are handed on with their scores, so that layer l fades by l times the mask; the paper's text has each
layer's mask once, which is `residual_mask="once"`.
"""

from typing import ClassVar

from rearview.models.patch_hosts import patchtst
from rearview.models.patch_hosts.patchtst import Settings as Settings


class Network(patchtst.Network):
    """PatchTST with recency-biased attention unless told otherwise."""

    name = "powerformer"
    host = "Powerformer"
    own_attention: ClassVar = {"name": "rbca", "bias": "power_law", "alpha": 0.5, "residual_mask": "accumulate"}
