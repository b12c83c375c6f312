"""TOA as a layer: settings, the reference form in the paper's symbols, and the form that runs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from rearview.attention.contract import Claims, Inputs, Mixture, Projected, Site, apply_gate, pad_bias, zero_padding
from rearview.attention.rbca import lend_decay
from rearview.attention.shared.execution import in_float32, through_float32
from rearview.attention.shared.fused import own_kernels_run
from rearview.attention.shared.rectifier import ScoreNorm, rectify, visible_pairs, weigh_by_kernel
from rearview.attention.softmax import attend_heads, join_carried
from rearview.core.errors import SettingsError
from rearview.embed.dropout import dropout

Kind = Literal["gated", "relu", "softmax"]
OFFSET_SCALE = 1e-3


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of temporal operator attention."""

    kind: Kind = "gated"
    """The activation: gated (softplus times relu of two scores), relu or softmax."""
    sor: bool = True
    """Whether entries of M1 and M2 are dropped in training (stochastic operator regularisation)."""
    sor_rate: float | None = None
    """The drop rate p; None: drawn from U[0, 1)."""
    sor_share: Literal["call", "matrix"] = "call"
    """The matrices that share a drawn rate: every one of a call, or no two (M1, M2 and heads each draw their own)."""
    score_scale: float | None = None
    """The factor of the scores; None: 1 / sqrt(width of a head's queries). 1 is the formula as printed."""
    score_norm: ScoreNorm = "none"
    """Norm of the relu and gated kinds: none, l2 (relu's scores over their length), mean (weights over the keys). A
    network with batch norm, such as patchtst, needs l2 or mean."""
    bias: str | Mapping[str, Any] | None = None
    """A recency bias for the softmax kind: "rbca", or {"name": "rbca", ...} with its settings."""
    causal: bool = False
    """Whether a token sees earlier ones only, by M1 upper and M2 lower triangular; a causal place implies it."""
    carry_scores: bool = False
    """Whether scores before S1 are added to those of the layers before, where the model carries scores."""
    half_width: bool = False
    """For the gated kind: L and R get queries and keys of half the width each, as HyperMLP has them."""

    def __post_init__(self) -> None:
        if self.sor_rate is not None and not 0 <= self.sor_rate < 1:
            raise SettingsError(f"toa's sor_rate is {self.sor_rate}; it must lie in [0, 1), or be None to draw it.")
        if self.score_scale is not None and not 0 < self.score_scale < float("inf"):
            raise SettingsError(f"toa's score_scale is {self.score_scale}; it must be a positive number, or None.")
        if self.kind == "softmax" and self.score_norm != "none":
            raise SettingsError(
                f"toa's score_norm is {self.score_norm!r}, but softmax weights sum to 1 already; "
                "use kind relu or gated, or leave it out."
            )
        if self.kind != "softmax" and self.bias is not None:
            raise SettingsError(
                f"toa's bias fades weights by being added to logits, and {self.kind} scores are none; use kind softmax."
            )
        if self.kind != "gated" and self.half_width:
            raise SettingsError(f"toa's half_width splits a head in two, and kind {self.kind} has no second half.")


def reference(
    kind: Kind,
    Q: Float[Tensor, "branch token d"],
    K: Float[Tensor, "branch token d"],
    V: Float[Tensor, "token e"],
    S1: Float[Tensor, "branch token token"],
    S2: Float[Tensor, "token token"],
    scale: float | None = None,
    M: Float[Tensor, "token token"] | None = None,
) -> Float[Tensor, "token e"]:
    """Section 3.4 for one head, products in the order they are printed; `gated` has the branches L and R."""
    scale = Q.shape[-1] ** -0.5 if scale is None else scale
    mixed = [q @ k.T * scale @ s for q, k, s in zip(Q, K, S1, strict=True)]
    if M is not None:
        mixed[0] = mixed[0] + M
    if kind == "softmax":
        W = torch.exp(mixed[0] - mixed[0].amax(-1, keepdim=True))
        W = W / W.sum(-1, keepdim=True)
    elif kind == "relu":
        W = mixed[0].clamp(min=0)
    else:
        L, R = mixed
        W = functional.softplus(R) * L.clamp(min=0)
    return (W @ S2) @ V


def drop_entries(offset: Tensor, rate: Tensor | float) -> Tensor:
    """M~ = M * B / (1 - p): each entry dropped with probability p, the others scaled up (section 3.4)."""
    kept = torch.rand_like(offset) >= rate
    return offset * kept / (1 - rate)


def apply_operator(
    offset: Float[Tensor, "*branch head token token"], part: Float[Tensor, "*branch batch group head token d"]
) -> Float[Tensor, "*branch batch group head token d"]:
    """(I + offset) part, as part + offset part: one product a head, whatever the number of batches and groups.

    Over fewer tokens than a head has channels the products are so small that turning the axes would cost more than it
    saves, and there is one for each batch and group.
    """
    tokens, width = part.shape[-2:]
    if own_kernels_run(part, part, offset):
        from rearview.attention.kernels.mixture import add_mixture, fits

        if fits(part):
            rows = part.view(-1, *part.shape[-5:]).flatten(1, 2)
            return add_mixture(offset.view(-1, *offset.shape[-3:]), rows).view(part.shape)
    if tokens <= width:
        each = part.reshape(-1, tokens, width)
        offsets = offset[..., None, None, :, :, :].expand(*part.shape[:-1], tokens).reshape(-1, tokens, tokens)
        return torch.baddbmm(each, offsets, each).view(part.shape)
    columns = part.movedim((-5, -4), (-3, -2))
    flat = columns.flatten(-3).flatten(0, -3)
    out = torch.baddbmm(flat, offset.flatten(0, -3), flat).view(columns.shape).movedim((-3, -2), (-5, -4))
    # A CPU's kernels walk from token to token and want them side by side; on a GPU the copy is one more pass.
    return out.contiguous() if out.device.type == "cpu" else out


class Layer(Projected):
    """Multi-head temporal operator attention."""

    score_offset: Tensor
    """M1 [branch, head, token, token]; the branches of the gated kind are L and R."""
    value_offset: Tensor
    """M2 [head, token, token]."""
    earlier: Tensor | None
    """[query, key], True where the key is no later than the query; None unless causal."""

    def __init__(self, site: Site, settings: Settings) -> None:
        branches = 2 if settings.kind == "gated" else 1
        width = -(-site.per_head // 2) if settings.half_width else site.per_head
        super().__init__(replace(site, head_width=branches * width, value_width=site.per_value))
        self.site = site
        self.settings = settings
        self.branches = branches
        self.scale = width**-0.5 if settings.score_scale is None else settings.score_scale
        self.causal = settings.causal or site.causal
        if settings.causal and not site.time_ordered:
            raise SettingsError(
                f"toa with causal=True hides later tokens, but {site.host}'s tokens are not ordered in time; "
                "leave causal out."
            )
        square = (site.heads, site.tokens, site.tokens)
        self.score_offset = nn.Parameter(torch.empty(branches, *square).normal_(std=OFFSET_SCALE))
        self.value_offset = nn.Parameter(torch.empty(square).normal_(std=OFFSET_SCALE))
        times = torch.arange(site.tokens) if site.times is None else torch.tensor(site.times)
        self.register_buffer("earlier", times <= times[:, None] if self.causal else None, persistent=False)
        # Where token order is time order the fused kernel knows the causal mask; elsewhere it is part of the bias.
        self.place = replace(site, causal=self.causal and site.times is None)
        self.decay = lend_decay("toa", site, settings.bias)
        self.claims = Claims(
            causal=self.causal,
            needs_time_order=self.decay is not None or settings.causal,
            carries_scores=settings.carry_scores,
            takes_gate=True,
            hides_pairs=False,
            tokens_alike=False,
            batch_norm_needs=None if settings.kind == "softmax" or settings.score_norm != "none" else 'score_norm="l2"',
            reduces_to_softmax_at="kind softmax, M1 = M2 = 0",
        )

    def mix(self, q: Tensor, k: Tensor, v: Tensor, inputs: Inputs) -> Mixture:
        q, k, handed_on = self._branches(q, k, inputs)
        before, after = self.offsets(v.shape[-2], v, self.settings.sor and self.training)
        k, v = zero_padding(k, inputs.mask), zero_padding(v, inputs.mask)
        k, v = apply_operator(before.transpose(-1, -2), k), apply_operator(after, v)
        if self.settings.kind == "softmax" and inputs.gate is None:
            # The fused kernel divides by sqrt(d_h) whatever the scale is here.
            queries = q[0] if self.settings.score_scale is None else q[0] * (self.scale * self.site.per_head**0.5)
            return attend_heads(queries, k[0], v, self._bias(inputs, q), self.place, self.training), handed_on
        return self._mix_rectified(q, k, v, inputs), handed_on

    @in_float32
    def _mix_rectified(self, q: Tensor, k: Tensor, v: Tensor, inputs: Inputs) -> Tensor:
        """The values mixed by weights that no fused kernel of softmax makes; keys and values have met M1 and M2."""
        rate = self.site.dropout if self.training else 0.0
        whole = inputs.gate is None and inputs.bias is None and self.causal == self.place.causal
        if whole and self.settings.score_norm == "none" and self.settings.kind != "softmax":
            mixed = weigh_by_kernel(q, k, v, inputs.mask, self.scale, self.causal, self.settings.kind, rate)
            if mixed is not None:
                return mixed
        weights = self._weights(q @ k.transpose(-1, -2), inputs)
        return dropout(weights, rate, self.training) @ v

    @through_float32
    def operator(self, q: Tensor, k: Tensor, inputs: Inputs) -> Float[Tensor, "batch group head query key"]:
        q, k, _ = self._branches(q, k, inputs)
        before, after = self.offsets(q.shape[-2], q, regularise=False)
        k = zero_padding(k, inputs.mask)
        scores = q @ apply_operator(before.transpose(-1, -2), k).transpose(-1, -2)
        weights = self._weights(scores, inputs)
        weights = weights + weights @ after
        return weights if inputs.mask is None else weights * inputs.mask[:, :, None, None, :]

    def offsets(self, tokens: int, like: Tensor, regularise: bool) -> tuple[Tensor, Tensor]:
        """M1 [branch, head, token, token] and M2 [head, token, token] as they are used for this many tokens."""
        wide = torch.promote_types(self.value_offset.dtype, torch.float32)
        before = self.score_offset[..., :tokens, :tokens].to(wide)
        after = self.value_offset[..., :tokens, :tokens].to(wide)
        if regularise:
            draw = partial(torch.rand, device=self.value_offset.device)
            rates: tuple[Tensor | float, Tensor | float]
            if self.settings.sor_rate is not None or self.settings.sor_share == "call":
                rates = (draw(()) if self.settings.sor_rate is None else self.settings.sor_rate,) * 2
            else:
                rates = draw(self.branches, self.site.heads, 1, 1), draw(self.site.heads, 1, 1)
            before, after = drop_entries(before, rates[0]), drop_entries(after, rates[1])
        if self.earlier is not None:
            earlier = self.earlier[:tokens, :tokens]
            before, after = before * earlier.T, after * earlier
        return before.to(like.dtype), after.to(like.dtype)

    def _branches(self, q: Tensor, k: Tensor, inputs: Inputs) -> tuple[Tensor, Tensor, tuple[Tensor, ...] | None]:
        """Queries and keys [branch, batch, group, head, token, width], and what the next layer gets."""
        # Behind batch and group: what is handed on has its windows first, and of each branch both flatten as they lie.
        q, k = (part.unflatten(-1, (self.branches, -1)).movedim(-2, 2) for part in (q, k))
        handed_on = inputs.carry
        if self.settings.carry_scores and inputs.carry is not None:
            q, k = handed_on = join_carried(q, k, inputs)
        return q.movedim(2, 0), k.movedim(2, 0), handed_on

    def _weights(self, scores: Float[Tensor, "branch batch group head query key"], inputs: Inputs) -> Tensor:
        """The weights before S2; a gate acts on the softmax kind's scores, after S1, and on the others' weights."""
        scores = scores * self.scale
        earlier = None if self.earlier is None else self.earlier[: scores.shape[-2], : scores.shape[-1]]
        if self.settings.kind == "softmax":
            logits = scores[0] if inputs.gate is None else apply_gate(scores[0], inputs.gate, self.scale)
            bias = self._bias(inputs, logits)
            logits = logits if bias is None else logits + bias
            return (logits if earlier is None else logits.masked_fill(~earlier, -torch.inf)).softmax(-1)
        pairs = visible_pairs(inputs.mask, inputs.bias, earlier)
        weights = rectify(scores[0], inputs.bias, pairs, self.settings.score_norm)
        weights = weights if self.branches == 1 else weights * functional.softplus(scores[1])
        return weights if inputs.gate is None else weights * inputs.gate

    def _bias(self, inputs: Inputs, like: Tensor) -> Tensor | None:
        """All that is added to the softmax kind's scores, bar the causal mask that the fused kernel knows."""
        tokens = inputs.x.shape[2]
        parts = [] if inputs.bias is None else [inputs.bias.to(like.dtype)]
        if inputs.mask is not None:
            parts.append(pad_bias(inputs.mask, like.dtype))
        if self.decay is not None:
            parts.append(self.decay(tokens, like, inputs.ages))
        if self.earlier is not None and not self.place.causal:
            later = ~self.earlier[:tokens, :tokens]
            parts.append(torch.zeros_like(later, dtype=like.dtype).masked_fill_(later, -torch.inf))
        return sum(parts[1:], parts[0]) if parts else None
