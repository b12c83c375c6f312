"""Linear attention (Katharopoulos et al., 2020): softmax's exponential replaced by a product of positive features.

    phi(x) = elu(x) + 1
    o_t = sum_j phi(q_t) . phi(k_j) v_j / ( sum_j phi(q_t) . phi(k_j) + eps )

The keys are summed before the queries see them, so cost grows with the number of tokens, not with its square. In a
causal place the sum runs over j <= t: within chunks as a masked product, between chunks as a running state, because a
cumulative sum of d_h x d_h states at every token is many times slower than the square at the lengths that occur.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from rearview.attention.contract import Claims, Heads, Inputs, Mixture, Projected, Site, zero_padding
from rearview.attention.shared.execution import cut, in_float32, through_float32
from rearview.core.errors import SettingsError
from rearview.core.settings import check_least

CHUNK = 64

Values = Float[Tensor, "batch group head token value_width"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of linear attention."""

    eps: float = 1e-6
    """Added to the normaliser, so that a row whose tokens are all padding gives 0."""

    def __post_init__(self) -> None:
        check_least(self, "linear's ", eps=0)


def positive_features(x: Tensor) -> Tensor:
    """phi(x) = elu(x) + 1 > 0."""
    return functional.elu(x) + 1


def reference(
    q: Float[Tensor, "token d"],
    k: Float[Tensor, "token d"],
    v: Float[Tensor, "token e"],
    causal: bool = False,
    eps: float = 1e-6,
) -> Float[Tensor, "token e"]:
    """The definition, one query at a time."""
    out = []
    for t in range(len(q)):
        seen = t + 1 if causal else len(k)
        w = positive_features(k[:seen]) @ positive_features(q[t])
        out.append(w @ v[:seen] / (w.sum() + eps))
    return torch.stack(out)


def attend_all(q: Heads, k: Heads, v: Values) -> tuple[Tensor, Tensor]:
    """Numerator and normaliser when every token sees every other."""
    return q @ (k.transpose(-1, -2) @ v), q @ k.sum(-2).unsqueeze(-1)


def attend_chunks(q: Heads, k: Heads, v: Values, chunk: int = CHUNK) -> tuple[Tensor, Tensor]:
    """Numerator and normaliser when a token sees itself and earlier ones."""
    tokens = q.shape[-2]
    q, k, v = (cut(part, -2, chunk) for part in (q, k, v))
    v = functional.pad(v, (0, 1), value=1.0)  # the last column sums the weights: the normaliser comes for free
    state = k.transpose(-1, -2) @ v
    before = functional.pad(state.cumsum(-3)[..., :-1, :, :], (0, 0, 0, 0, 1, 0))
    out = q @ before + (q @ k.transpose(-1, -2)).tril() @ v
    out = out.flatten(-3, -2)[..., :tokens, :]
    return out[..., :-1], out[..., -1:]


class Layer(Projected):
    """Multi-head linear attention."""

    def __init__(self, site: Site, settings: Settings) -> None:
        super().__init__(site)
        self.settings = settings
        self.claims = Claims(causal=site.causal, linear_in_tokens=True, takes_bias=False)

    @in_float32
    def mix(self, q: Tensor, k: Tensor, v: Tensor, inputs: Inputs) -> Mixture:
        q, k = self._features(q, k, inputs)
        top, bottom = attend_chunks(q, k, v) if self.site.causal else attend_all(q, k, v)
        return top / (bottom + self.settings.eps), inputs.carry

    @through_float32
    def operator(self, q: Tensor, k: Tensor, inputs: Inputs) -> Float[Tensor, "batch group head query key"]:
        q, k = self._features(q, k, inputs)
        w = q @ k.transpose(-1, -2)
        if self.site.causal:
            w = w.tril()
        return w / (w.sum(-1, keepdim=True) + self.settings.eps)

    def _features(self, q: Tensor, k: Tensor, inputs: Inputs) -> tuple[Tensor, Tensor]:
        if inputs.bias is not None:
            raise SettingsError("linear attention has no scores to add a bias to; use softmax or rbca.")
        q, k = positive_features(q), positive_features(k)
        return q, zero_padding(k, inputs.mask)
