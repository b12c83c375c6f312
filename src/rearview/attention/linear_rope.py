"""Linear attention with rotary positions, the baseline of CAPS: o_t = sum_(i<=t) (R_t q_t . R_i k_i) v_i.

The sum of CAPS's equation (17) with all three path weights left out (LinAttn+RoPE in its tables): no feature map, no
scale, no normaliser, always causal, maps without biases that start as those of CAPS do. Rows of weights therefore do
not sum to 1, and outputs grow with the number of tokens.

The authors call it linear attention (Katharopoulos et al.); their code has neither the feature map nor the normaliser
of that paper, and this is their code. `linear` is the paper's. Their rotation is none (see `rotation`); a true one is
the default here.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from rearview.attention.caps.maps import Bare, need_one_time_axis
from rearview.attention.contract import Claims, Inputs, Mixture, Site, zero_padding
from rearview.attention.linear import attend_chunks
from rearview.attention.shared.execution import in_float32, through_float32
from rearview.attention.shared.rotary import Layout, Rotary
from rearview.core.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of linear attention with rotary positions."""

    rotation: Layout = "fixed"
    """fixed: a rotation by base 10000; learned: its frequencies are parameters; released: the authors' layout, which
    is no rotation."""


def reference(
    q: Float[Tensor, "token d"], k: Float[Tensor, "token d"], v: Float[Tensor, "token e"]
) -> Float[Tensor, "token e"]:
    """The sum over the past, one query at a time; q and k are turned already."""
    return torch.stack([(k[: t + 1] @ q[t]) @ v[: t + 1] for t in range(len(q))])


class Layer(Bare):
    """Multi-head linear attention with rotary positions."""

    def __init__(self, site: Site, settings: Settings) -> None:
        need_one_time_axis("linear_rope", site)
        super().__init__(site)
        self.settings = settings
        self.rotary = Rotary(site, settings.rotation)
        self.claims = Claims(causal=True, needs_time_order=True, linear_in_tokens=True, takes_bias=False)

    @in_float32
    def mix(self, q: Tensor, k: Tensor, v: Tensor, inputs: Inputs) -> Mixture:
        q, k = self._turn(q, k, inputs)
        return attend_chunks(q, k, v)[0], inputs.carry

    @through_float32
    def operator(self, q: Tensor, k: Tensor, inputs: Inputs) -> Float[Tensor, "batch group head query key"]:
        q, k = self._turn(q, k, inputs)
        return (q @ k.transpose(-1, -2)).tril()

    def _turn(self, q: Tensor, k: Tensor, inputs: Inputs) -> tuple[Tensor, Tensor]:
        if inputs.bias is not None:
            raise SettingsError("linear_rope has no scores to add a bias to; use softmax with rotary=True, or rbca.")
        q, k = self.rotary(q, k, inputs.ages)
        return q, zero_padding(k, inputs.mask)
