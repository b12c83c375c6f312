"""Attention by place alone: o_t = sum_j softmax_j((W_Q p_t) . (W_K p_j) / sqrt(d_h)) v_j, p learned for every place.

Symbols: p [token, width], a learned vector for each place; q, k, v [token, d_h] of one head. All windows and groups
have the same weights, so that what softmax attention does better is due to weights that follow the data.

`fixed` has the same weights as numbers of their own. They start at the mean of all tokens and are moved by a learning
rate that suits matrices: by an optimiser of Adam's kind a thousandth a step, where the scores of attention move a
hundred times as far. So in a short training `fixed` stays near `uniform`. Here scores are products of learned vectors
and matrices, of the sizes that they have in softmax attention, and learn at its pace.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from rearview.attention import softmax
from rearview.attention.contract import Claims, Inputs, Mixture, Projected, Site
from rearview.attention.shared.places import Places


@dataclass(frozen=True, slots=True)
class Settings:
    """Attention by place has no settings."""


def reference(
    p: Float[Tensor, "token width"],
    w_q: Float[Tensor, "d width"],
    w_k: Float[Tensor, "d width"],
    v: Float[Tensor, "token e"],
) -> Float[Tensor, "token e"]:
    """The definition for one head: softmax attention whose queries and keys are maps of places."""
    return softmax.reference(p @ w_q.T, p @ w_k.T, v)


class Layer(Projected):
    """Multi-head softmax attention that compares places instead of contents."""

    compares = False

    def __init__(self, site: Site, settings: Settings) -> None:
        super().__init__(site)
        self.settings = settings
        self.places = Places(site)
        self.claims = Claims(causal=site.causal, takes_gate=True, tokens_alike=False)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, inputs: Inputs) -> Mixture:
        return softmax.mix_heads(*self._compare(v), v, inputs, self.site, self.training), inputs.carry

    def operator(self, q: Tensor, k: Tensor, inputs: Inputs) -> Float[Tensor, "batch group head query key"]:
        return softmax.weigh_heads(*self._compare(q), inputs, self.site)

    def _compare(self, heads: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys of the places, for every batch and group of heads [batch, group, head, token, width]."""
        batch, groups, _, tokens, _ = heads.shape
        q, k = self.places(tokens)
        return q.expand(batch, groups, -1, -1, -1), k.expand(batch, groups, -1, -1, -1)
