"""MICA as a layer: settings, the reference form in the paper's symbols, and the form that runs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from rearview import attention
from rearview.attention.contract import Attention, Heads, Inputs, Mask, Mixture, Projected, Site, Tokens
from rearview.attention.linear import positive_features
from rearview.attention.mica import gates
from rearview.attention.mica.gates import Added, Beta, LogWeights, Perceptron, Queries, Values
from rearview.attention.mica.gpu import mix_on_gpu
from rearview.attention.mica.memory import (
    EPS,
    Memory,
    append_ones,
    attend_to_all,
    attend_to_others,
    normalise,
    read,
    remember,
    weigh_tokens,
)
from rearview.attention.shared.execution import full_precision
from rearview.core.errors import SettingsError
from rearview.core.settings import check_least

OF_THE_STACK = ("shared", "channelwise")
PER_CHANNEL = ("channelwise", "layerwise_channelwise")
HEADS_AXES = 5
"""Of a tensor with an entry for each channel and head: [batch, group, head, token, width]."""

Gate = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of MICA; the defaults are the paper's main choice."""

    gate: gates.GateName = "mlp_query"
    """The gate that joins the local and the global path: an MLP with or without the query, one of the four betas, or
    added: the global path is added by a map that starts at 0."""
    exclude_self: bool = False
    """Whether a channel's memory leaves out the channel itself, which the local path sees already."""
    weighting: gates.WeightingName = "uniform"
    """The channels' weights in the memory: uniform, static (learned) or dynamic (read from the queries)."""
    channel_weights: Sequence[float] | None = None
    """Weights of your own, one per channel, instead of `weighting`; only their ratios matter."""
    key_width: int | None = None
    """Width of a head's queries and keys; None: as the network has it. The paper's networks have 32."""
    value_width: int | None = None
    """Width of a head's values; None: as its queries and keys."""
    mlp_width: int = 128
    """Width inside an MLP gate."""
    mlp_layers: int = 3
    """Linear maps of an MLP gate, the last included."""
    mlp_dropout: float = 0.1
    """Dropout inside an MLP gate."""
    local: attention.Spec = "softmax"
    """The mechanism within each channel: a name, or a mapping with its settings such as {"name": "rbca"}."""
    channels_at_once: int | None = None
    """Work on so many channels at a time, in two passes (appendix E), and again in the backward pass: less memory, more
    time, the same outcome; None: on all."""

    def __post_init__(self) -> None:
        check_least(self, "mica's ", key_width=1, value_width=1, mlp_width=1, mlp_layers=2)
        if not 0 <= self.mlp_dropout < 1:
            raise SettingsError(f"mica's mlp_dropout is {self.mlp_dropout}; it must lie in [0, 1).")
        attention.split(self.local)
        if self.channels_at_once is not None:
            self._check_channels_at_once()
        if self.channel_weights is None:
            return
        weights = [float(weight) for weight in self.channel_weights]
        if self.weighting != "uniform":
            raise SettingsError(
                f"mica got channel_weights and weighting={self.weighting!r}, which are two answers to one question; "
                "leave one of them out."
            )
        for channel, weight in enumerate(weights):
            if not (math.isfinite(weight) and weight >= 0):
                raise SettingsError(
                    f"mica's channel_weights[{channel}] is {weight}; weights are finite and not below 0."
                )
        needed = 2 if self.exclude_self else 1
        if sum(weight > 0 for weight in weights) < needed:
            raise SettingsError(
                f"mica's channel_weights need at least {needed} above 0"
                f"{', so that something is left when a channel is excluded' if self.exclude_self else ''}; "
                f"got {weights}."
            )

    def _check_channels_at_once(self) -> None:
        check_least(self, "mica's ", channels_at_once=1)
        weighs = self.weighting != "uniform" or self.channel_weights is not None
        kinds = {
            "exclude_self": self.exclude_self,
            "weights of channels": weighs,
            f"gate {self.gate}": self.gate in PER_CHANNEL,
        }
        if wrong := [name for name, given in kinds.items() if given]:
            raise SettingsError(
                f"mica with channels_at_once adds one memory up from all channels alike and has no "
                f"{' or '.join(wrong)}; leave channels_at_once out."
            )


def reference(
    Q: Float[Tensor, "channel patch d_k"],
    K: Float[Tensor, "channel patch d_k"],
    V: Float[Tensor, "channel patch d_v"],
    gate: Gate,
    w: Float[Tensor, " channel"] | None = None,
    exclude_self: bool = False,
    renormalise: bool = True,
    S: Float[Tensor, "channel patch patch"] | None = None,
) -> Float[Tensor, "channel patch d_v"]:
    """One head; `gate` maps A_global, A_local and Q of a channel to A_mixed, `S` are scores of earlier layers.

    `w` sums to 1, or is None for ones. Exclusion with `renormalise=False` is the printed and released form.
    """
    C, d_k = len(Q), Q.shape[-1]
    phi_Q, phi_K = positive_features(Q), positive_features(K)
    ones = torch.ones(C, dtype=Q.dtype) if w is None else w
    M_all = torch.stack([ones[c] * phi_K[c].T @ V[c] for c in range(C)]).sum(0)  # (4), (17), (22)
    z_all = torch.stack([ones[c] * phi_K[c].sum(0) for c in range(C)]).sum(0)  # (5), (19), (23)
    A_mixed = []
    for c in range(C):
        scores = Q[c] @ K[c].T / math.sqrt(d_k)
        A_local = torch.softmax(scores if S is None else scores + S[c], dim=-1) @ V[c]  # (3)
        M, z = M_all, z_all
        if exclude_self:
            M = M_all - ones[c] * phi_K[c].T @ V[c]  # (18)
            z = z_all - ones[c] * phi_K[c].sum(0)  # (20)
            if w is not None and renormalise:
                M, z = M / (1 - w[c]), z / (1 - w[c])
        A_global = phi_Q[c] @ M / (phi_Q[c] @ z + EPS)[:, None]  # (6), (21), (24)
        A_mixed.append(gate(A_global, A_local, Q[c]))  # (7), (9), (10)
    return torch.stack(A_mixed)


def refuse(site: Site, settings: Settings) -> None:
    """Places where the mathematics has nothing to offer, each in a sentence."""
    if site.causal:
        way_out = f", or give the network {site.causal_unless}" if site.causal_unless else ""
        raise SettingsError(
            f"mica's memory holds all tokens of all channels, but in {site.host} a token may only look back; "
            f"use rbca or softmax{way_out}."
        )
    if site.groups == 1 and not site.time_ordered:
        raise SettingsError(
            f"mica mixes channels that stand apart, but {site.host}'s tokens are channels and see one another already; "
            "use softmax, toa or prime."
        )
    if site.groups == 1 and settings.exclude_self and settings.gate != "added":
        raise SettingsError(
            f"mica's exclude_self leaves each channel the memory of the others, but {site.host} has one channel here; "
            "set exclude_self=False, or gate='added', which then adds nothing."
        )
    if settings.channel_weights is not None and len(settings.channel_weights) != site.groups:
        raise SettingsError(
            f"mica got {len(settings.channel_weights)} channel_weights for the {site.groups} channels of {site.host}; "
            "give one per channel."
        )


class Layer(Attention):
    """Multi-head attention within each channel, beside linear attention across all of them."""

    gate: nn.Module | None
    weighting: gates.Static | gates.Dynamic | gates.Fixed | None
    """The channels' weights; None: all are 1."""

    def __init__(self, site: Site, settings: Settings) -> None:
        refuse(site, settings)
        keys = settings.key_width or site.per_head
        site = replace(site, head_width=keys, value_width=settings.value_width or site.value_width or keys)
        super().__init__(site)
        self.settings = settings
        name, chosen = attention.split(settings.local)
        local = attention.create(name, site, **chosen)
        if local.claims.mixes_groups:
            raise SettingsError(
                f"mica's local part must keep channels apart, but {name} mixes them; use softmax or rbca."
            )
        if not isinstance(local, Projected) or not local.compares:
            raise SettingsError(
                f"mica shares queries, keys and values with its local part, and {name} has none to share; "
                "use softmax, rbca, toa or prime."
            )
        if settings.channels_at_once is not None and local.claims.reads_windows:
            raise SettingsError(
                f"mica's local part {name} reads the windows of all channels; leave channels_at_once out, or "
                "use softmax."
            )
        self.local = local
        keys, _, values = (width // site.heads for width in local.widths)
        if settings.gate in ("mlp", "mlp_query"):
            query = keys if settings.gate == "mlp_query" else 0
            self.gate = Perceptron(values, query, settings.mlp_width, settings.mlp_layers, settings.mlp_dropout)
        elif settings.gate == "added":
            self.gate = Added(site.heads, values)
        else:
            self.gate = Beta(site.groups if settings.gate in PER_CHANNEL else 1, site.heads)
        self.lent: tuple[nn.Module, ...] = ()
        self.weighting = None
        if settings.channel_weights is not None:
            self.weighting = gates.Fixed(tuple(float(weight) for weight in settings.channel_weights))
        elif settings.weighting == "static":
            self.weighting = gates.Static(site.groups, site.heads)
        elif settings.weighting == "dynamic":
            self.weighting = gates.Dynamic(keys)
        # As many numbers as the memory of a channel or fewer: then its scores cost less, in time and memory alike.
        self.by_scores = site.tokens**2 <= keys * (values + 1)
        self.bound_to_channels = settings.gate in PER_CHANNEL or isinstance(self.weighting, gates.Static | gates.Fixed)
        inner, closed = self.local.claims, None
        if isinstance(self.gate, Beta | Added) and inner.reduces_to_softmax_at is not None:
            closed = "sigmoid(beta) = 0" if isinstance(self.gate, Beta) else "gate.weight = 0"
            if inner.reduces_to_softmax_at != "always":
                closed += f", local: {inner.reduces_to_softmax_at}"
        self.claims = replace(
            inner,
            causal=False,
            mixes_tokens=True,
            mixes_groups=True,
            equivariant_to_groups=inner.equivariant_to_groups and not self.bound_to_channels,
            takes_gate=False,
            hides_pairs=False,
            batch_norm_needs=inner.batch_norm_needs and f"{inner.batch_norm_needs} for the local part",
            reduces_to_softmax_at=closed,
        )

    def attend(self, inputs: Inputs) -> Mixture:
        self.check(inputs.x)
        if self.settings.channels_at_once is not None and self.settings.channels_at_once < inputs.x.shape[1]:
            return self._attend_in_parts(inputs, self.settings.channels_at_once)
        q, k, v = self.local.heads(inputs.x)
        if self.weighting is None and not self.settings.exclude_self:
            found = mix_on_gpu(q, k, v, self.local, self._gate(), inputs)
            if found is not None:
                return found
        local, handed_on = self._local(q, k, v, inputs)
        if self.settings.exclude_self and q.shape[1] == 1:
            return local, handed_on
        return self._gate()(self._across(q, k, v, inputs.mask), local, q).to(v.dtype), handed_on

    def _attend_in_parts(self, inputs: Inputs, size: int) -> Mixture:
        """Some channels at a time: their parts of the memory are added up, then each of them reads the sum."""
        channels = inputs.x.shape[1]
        parts = [_take_channels(inputs, slice(at, at + size)) for at in range(0, channels, size)]
        remembered, mixed = self._remember_part, self._mix_part
        if torch.is_grad_enabled():
            remembered = partial(checkpoint, self._remember_part, use_reentrant=False)
            mixed = partial(checkpoint, self._mix_part, use_reentrant=False)
        memory = remembered(parts[0])
        for part in parts[1:]:
            memory = memory + remembered(part)
        found, handed_on = zip(*(mixed(part, memory) for part in parts), strict=True)
        if inputs.carry is None:
            return torch.cat(found, 1), None
        columns = zip(*handed_on, strict=True)
        # What has no channels (RBCA's fading) is the same in every part.
        return torch.cat(found, 1), tuple(
            torch.cat(each, 1) if each[0].dim() == HEADS_AXES else each[0] for each in columns
        )

    def _remember_part(self, inputs: Inputs) -> Memory:
        q, k, v = self.local.heads(inputs.x)
        with full_precision(q.device):
            phi_k = self._features(q, k, inputs.mask)[1]
            return remember(phi_k, append_ones(v.to(phi_k.dtype)))

    def _mix_part(self, inputs: Inputs, memory: Memory) -> Mixture:
        q, k, v = self.local.heads(inputs.x)
        local, handed_on = self._local(q, k, v, inputs)
        with full_precision(q.device):
            across = normalise(read(self._features(q, k, inputs.mask)[0], memory))
        return self._gate()(across, local, q).to(v.dtype), handed_on

    def weigh(self, inputs: Inputs) -> dict[str, Tensor]:
        """`local` [batch, group, head, query, key] and `cross` [batch, group, head, query, group, key].

        Under a beta they hold the gate and add up; under an MLP they are what it is given, and `combine` runs it.
        Over prime, `local` goes with `local.primers()`, as prime's own weights do.
        """
        self.check(inputs.x)
        q, k, _ = self.local.heads(inputs.x)
        found = self.local.operator(q, k, inputs)
        local = torch.stack(list(found.values())).sum(0) if isinstance(found, dict) else found
        if self.settings.exclude_self and q.shape[1] == 1:
            return {"local": local, "cross": torch.zeros_like(local).unsqueeze(-2)}
        with full_precision(q.device):
            phi_q, phi_k, logs = self._features(q, k, inputs.mask)
            cross = weigh_tokens(phi_q, phi_k, logs, self.settings.exclude_self)
        gate = self._gate()
        if isinstance(gate, Beta):
            to_cross, to_local = gate.shares(cross)
            local, cross = local * to_local, cross * to_cross[..., None]
        return {"local": local.to(q.dtype), "cross": cross.to(q.dtype)}

    def combine(self, local: Heads, cross: Heads, x: Tokens) -> Heads:
        """The values for `project`, from what the two parts of `weights` make of the layer's values."""
        gate = self._gate()
        return local + cross if isinstance(gate, Beta) else gate(cross, local, self.local.heads(x)[0])

    def values(self, x: Tokens) -> Heads:
        return self.local.values(x)

    def project(self, heads: Heads) -> Tokens:
        return self.local.project(heads)

    def prepare(self, windows: Float[Tensor, "window channel time"]) -> None:
        self.local.prepare(windows)

    def common_part(self) -> nn.Module | None:
        """The beta of all layers, and what the local part shares in turn."""
        gate = self._gate() if self.settings.gate in OF_THE_STACK else None
        parts = {"gate": gate, "local": self.local.common_part()}
        found = {name: part for name, part in parts.items() if part is not None}
        return nn.ModuleDict(found) if found else None

    def use(self, shared: nn.Module) -> None:
        assert isinstance(shared, nn.ModuleDict)
        if "gate" in shared:
            # In a tuple it is no submodule of the layer: the one tensor then has one name, that of the stack.
            self.gate, self.lent = None, (shared["gate"],)
        if "local" in shared:
            self.local.use(shared["local"])

    def check(self, x: Tensor) -> None:
        super().check(x)
        if self.bound_to_channels and x.shape[1] != self.site.groups:
            raise SettingsError(
                f"This mica layer has parameters or weights for each of {self.site.groups} channels and got "
                f"{x.shape[1]}; take another gate, or dynamic weights, for any number of channels."
            )
        if self.settings.exclude_self and x.shape[1] == 1 and self.settings.gate != "added":
            raise SettingsError("mica with exclude_self got one channel, which has no others to look at.")

    def _gate(self) -> nn.Module:
        gate = self.lent[0] if self.lent else self.gate
        assert gate is not None
        return gate

    def _local(self, q: Tensor, k: Tensor, v: Tensor, inputs: Inputs) -> Mixture:
        """What the local part finds within each channel, as wide as the values are."""
        mixed, handed_on = self.local.mix(q, k, v, inputs)
        return mixed.half() if v.dtype == torch.float16 else mixed, handed_on

    def _across(self, q: Queries, k: Queries, v: Values, mask: Mask | None) -> Values:
        with full_precision(q.device):
            phi_q, phi_k, logs = self._features(q, k, mask)
            v = v.to(phi_q.dtype)
            if self.settings.exclude_self:
                return attend_to_others(phi_q, phi_k, v, logs, self.by_scores)
            return attend_to_all(phi_q, phi_k, v, logs)

    def _features(self, q: Queries, k: Queries, mask: Mask | None) -> tuple[Tensor, Tensor, LogWeights | None]:
        wide = torch.promote_types(q.dtype, torch.float32)
        q, k = q.to(wide), k.to(wide)
        logs = None if self.weighting is None else self.weighting(q, mask)
        phi_k = positive_features(k) if mask is None else positive_features(k) * mask[:, :, None, :, None]
        return positive_features(q), phi_k, logs


def _take_channels(inputs: Inputs, part: slice) -> Inputs:
    """The inputs of some channels."""

    def cut(given: Tensor | None, axes: int) -> Tensor | None:
        per_channel = given is not None and given.dim() == axes and given.shape[1] > 1
        return given[:, part] if given is not None and per_channel else given

    carry = inputs.carry and tuple(each[:, part] if each.dim() == HEADS_AXES else each for each in inputs.carry)
    mask = None if inputs.mask is None else inputs.mask[:, part]
    bias, ages = cut(inputs.bias, HEADS_AXES), cut(inputs.ages, HEADS_AXES - 1)
    return inputs._replace(x=inputs.x[:, part], mask=mask, bias=bias, ages=ages, carry=carry)
