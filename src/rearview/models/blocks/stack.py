"""The one block and the one stack: every Transformer here is these, with another tokeniser, norm, order or default.

post-norm: x = norm(x + drop(attend(x)));   x = norm(x + drop(feed_forward(x)))
pre-norm:  x = x + drop(attend(norm(x)));   x = x + drop(feed_forward(norm(x)))
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from rearview import attention
from rearview.attention.contract import Attention, Carry, Inputs, Mask, Site, Tokens, Weights
from rearview.attention.shared.execution import has_hooks
from rearview.core.errors import RearviewWarning, SettingsError
from rearview.embed import Dropout
from rearview.models.blocks import residual
from rearview.models.blocks.recomputation import in_parts
from rearview.models.contract import layer_weights

Bias = Tensor | list[Tensor] | None
"""A bias on the scores: the same in every layer, or one for each."""
Norm = Literal["batch", "layer", "rms"]
Activation = Literal["gelu", "relu", "gelu_tanh", "silu"]
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "gelu": nn.GELU, "relu": nn.ReLU, "gelu_tanh": partial(nn.GELU, approximate="tanh"), "silu": nn.SiLU,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class BlockSettings:
    """Settings of a block."""

    feed_forward: int
    """Width between the two maps of the feed-forward part."""
    norm: Norm = "layer"
    norm_eps: float = 1e-5
    """Added to the variance under the root."""
    bias: bool = True
    """Whether the feed-forward maps have a bias."""
    order: Literal["post", "pre"] = "post"
    activation: Activation = "gelu"
    gated: bool = False
    """Whether the activated map is multiplied by a second one: W2 (activation(W1 x) * V x)."""
    dropout: float = 0.0
    attended_dropout: float | None = None
    """Dropout on what attention returns, before it is added; None: as `dropout`."""
    hidden_dropout: float | None = None
    """Dropout between the two feed-forward maps; None: as `dropout`."""

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise SettingsError(f"activation is {self.activation!r}; it can be one of {', '.join(ACTIVATIONS)}.")
        if not 0 <= self.dropout < 1:
            raise SettingsError(f"dropout is {self.dropout}; it must lie in [0, 1).")


class TokenBatchNorm(nn.BatchNorm1d):
    """Batch normalisation of each feature over all real tokens of the batch.

    Padding comes out as 0, in training and in evaluation alike: what follows must not see it in two forms.
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            return super().forward(x.reshape(-1, x.shape[-1])).view(x.shape)
        real = mask.expand(x.shape[:-1]).unsqueeze(-1)
        if not self.training:
            return super().forward(x.reshape(-1, x.shape[-1])).view(x.shape) * real
        # Weighted sums, not a choice of rows: shapes are the same in every batch, and nothing waits for a count.
        tokens = tuple(range(x.dim() - 1))
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        count = real.sum().clamp(min=1)
        mean = (wide * real).sum(tokens) / count
        centred = (wide - mean) * real
        var = centred.square().sum(tokens) / count
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        seen = var.detach() * count / (count - 1).clamp(min=1)
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            for running, batch in ((self.running_mean, mean.detach()), (self.running_var, seen)):
                assert running is not None
                # By way of data, unseen by autograd, as torch's own norm does it: that one keeps them for its way back,
                # where they are not used, and a pass without padding may still be on it.
                running.data.lerp_(batch.to(running.dtype), self.momentum)
        return ((centred * (var + self.eps).rsqrt() * self.weight + self.bias) * real).to(x.dtype)


class TokenLayerNorm(nn.LayerNorm):
    """Layer normalisation; a token needs no other, so padding does not matter."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return residual.layer_norm(x, self)


class TokenRMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight, the mean taken in float32 at least; nothing is subtracted."""

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return (wide * (wide.square().mean(-1, keepdim=True) + self.eps).rsqrt()).to(x.dtype) * self.weight


NORMS: dict[str, Callable[..., nn.Module]] = {"batch": TokenBatchNorm, "layer": TokenLayerNorm, "rms": TokenRMSNorm}


def norm(kind: Norm, width: int, eps: float = 1e-5) -> nn.Module:
    """The norm of a block by name."""
    if kind not in NORMS:
        raise SettingsError(f"norm is {kind!r}; it can be one of {', '.join(NORMS)}.")
    return NORMS[kind](width, eps=eps)


class GatedMap(nn.Module):
    """activation(W x) * V x."""

    def __init__(self, width: int, settings: BlockSettings) -> None:
        super().__init__()
        self.gate = nn.Linear(width, settings.feed_forward, bias=settings.bias)
        self.value = nn.Linear(width, settings.feed_forward, bias=settings.bias)
        self.activate = ACTIVATIONS[settings.activation]()

    def forward(self, x: Tokens) -> Tensor:
        return self.activate(self.gate(x)) * self.value(x)


class FeedForward(nn.Sequential):
    """drop(W2 drop(activation(W1 x)))."""

    def __init__(self, width: int, settings: BlockSettings) -> None:
        hidden = settings.dropout if settings.hidden_dropout is None else settings.hidden_dropout
        widen: list[nn.Module]
        if settings.gated:
            widen = [GatedMap(width, settings)]
        else:
            widen = [nn.Linear(width, settings.feed_forward, bias=settings.bias), ACTIVATIONS[settings.activation]()]
        super().__init__(
            *widen,
            Dropout(hidden),
            nn.Linear(settings.feed_forward, width, bias=settings.bias),
            Dropout(settings.dropout),
        )

    def add_to(self, x: Tokens, seen: Tokens, norm: nn.Module | None = None, mask: Mask | None = None) -> Tokens:
        """norm(x + self(seen)), without the norm if there is none."""
        if has_hooks(self):
            summed = x + self(seen)
            return summed if norm is None else norm(summed, mask)
        *widen, dropout, narrow, last = self
        assert isinstance(dropout, Dropout)
        assert isinstance(last, Dropout)
        if isinstance(widen[0], GatedMap):
            hidden = dropout(widen[0](seen))
        else:
            hidden = residual.widen(seen, widen[0], widen[1], dropout)
        return residual.add(x, hidden, last, norm, mask, narrow=narrow)


class FeedBlock(nn.Module):
    """The second half of every block: feed forward, added to its input."""

    part: int | None = None
    """Windows at work at once, whose work is done again in the backward pass instead of kept; None: all, and kept."""

    def __init__(self, width: int, settings: BlockSettings) -> None:
        super().__init__()
        self.pre = settings.order == "pre"
        self.feed_forward = FeedForward(width, settings)
        self.norm_fed = norm(settings.norm, width, settings.norm_eps)

    def feed(self, x: Tokens, mask: Mask | None = None) -> Tokens:
        """The tokens after the feed-forward part."""
        seen, last = (self.norm_fed(x, mask), None) if self.pre else (x, self.norm_fed)
        if self.part is None:
            return self.feed_forward.add_to(x, seen, last, mask)
        summed = in_parts(self.feed_forward.add_to, self.part, (x, seen))
        return summed if last is None else last(summed, mask)


class Block(FeedBlock):
    """Attend, then feed forward, each added to its input."""

    def __init__(self, attend: Attention, width: int, settings: BlockSettings) -> None:
        super().__init__(width, settings)
        dropout = settings.dropout if settings.attended_dropout is None else settings.attended_dropout
        self.attend = attend
        self.drop_attended = Dropout(dropout)
        self.norm_attended = norm(settings.norm, width, settings.norm_eps)

    def forward(self, inputs: Inputs) -> tuple[Tokens, Carry | None]:
        x, carry = self.mix(inputs)
        return self.feed(x, inputs.mask), carry

    def mix(self, inputs: Inputs) -> tuple[Tokens, Carry | None]:
        """The tokens after attention, the first half of the block, and what the next layer needs."""
        x, mask = inputs.x, inputs.mask
        seen, last = (self.norm_attended(x, mask), None) if self.pre else (x, self.norm_attended)
        by_window, beside = (x, seen, mask, inputs.windows), (inputs.bias, inputs.carry, inputs.gate)
        if self.part is None:
            return self._add(*by_window, *beside, last)
        x, carry = in_parts(self._add, self.part, by_window, beside)
        return x if last is None else last(x, mask), carry

    def _add(
        self, x: Tokens, seen: Tokens, mask: Mask | None, windows: Tensor | None, bias: Tensor | None,
        carry: Carry | None, gate: Tensor | None, norm: nn.Module | None = None,
    ) -> tuple[Tokens, Carry | None]:  # fmt: skip
        # A third party's layer need not know the arguments that only some mechanisms take.
        special = {"windows": windows} if self.attend.claims.reads_windows else {}
        special = special if gate is None else {**special, "gate": gate}
        mixed = self.attend(seen, mask=mask, bias=bias, carry=carry, **special)
        if carry is not None:
            mixed, carry = mixed
        return residual.add(x, mixed, self.drop_attended, norm, mask), carry


class BlockRow(nn.Module):
    """Blocks in a row, all with the same mechanism, and an optional norm at the end.

    A part that all layers have in common (MICA's shared gate) is owned here, under one name. Of a mechanism that does
    not go well with batch norm it warns.
    """

    block: ClassVar[type[Block]] = Block

    def __init__(
        self, site: Site, depth: int, settings: BlockSettings, spec: attention.Spec, final_norm: Norm | None
    ) -> None:
        super().__init__()
        if depth < 1:
            raise SettingsError(f"depth is {depth}; a stack needs at least one block.")
        name, chosen = attention.split(spec)
        layers = [attention.create(name, replace(site, layer=i, layers=depth), **chosen) for i in range(depth)]
        self.shared = layers[0].common_part()
        if self.shared is not None:
            for layer in layers:
                layer.use(self.shared)
        needed = layers[0].claims.batch_norm_needs
        if settings.norm == "batch" and needed is not None:
            warnings.warn(
                f"{name} tends to learn no more than a mean in {site.host}: nothing bounds its weights, and a batch "
                f"norm goes by the largest. Give {needed}, or take a network with layer norms, such as patchtst_tslib.",
                RearviewWarning,
                stacklevel=5,
            )
        # As a list to whoever reads the types: what a ModuleList holds, they can't say.
        self.blocks = cast(list[Block], nn.ModuleList(self.block(layer, site.width, settings) for layer in layers))
        self.final = norm(final_norm, site.width, settings.norm_eps) if final_norm else None

    @property
    def layers(self) -> list[Attention]:
        """The attention layer of each block."""
        return [block.attend for block in self.blocks]

    def prepare(self, windows: Tensor) -> None:
        """Hand training windows to every layer."""
        for layer in self.layers:
            layer.prepare(windows)


class Stack(BlockRow):
    """Blocks in a row. `residual_scores` lets each layer add its attention scores to those of the layers before, for
    mechanisms that can."""

    def __init__(
        self,
        site: Site,
        depth: int,
        settings: BlockSettings,
        spec: attention.Spec = None,
        *,
        residual_scores: bool = False,
        final_norm: Norm | None = None,
    ) -> None:
        super().__init__(site, depth, settings, spec, final_norm)
        self.residual_scores = residual_scores and all(layer.claims.carries_scores for layer in self.layers)

    def forward(
        self, x: Tokens, mask: Mask | None = None, bias: Bias = None, windows: Tensor | None = None,
        gate: Tensor | None = None,
    ) -> Tokens:  # fmt: skip
        carry: Carry | None = () if self.residual_scores else None
        biases = bias if isinstance(bias, list) else [bias] * len(self.blocks)
        for block, added in zip(self.blocks, biases, strict=True):
            x, carry = block(Inputs(x, mask, added, None, carry, windows, gate))
        return x if self.final is None else self.final(x, mask)

    def weights(self, x: Tokens, *arguments: object, **named: object) -> list[Weights]:
        """The effective operator of every layer on the way of a call with these arguments."""
        return layer_weights(self, x, *arguments, **named)


def t5_stack(
    site: Site, depth: int, feed_forward: int, dropout: float, spec: attention.Spec, *, gated: bool = False
) -> Stack:
    """The encoder of T5 (Raffel et al., 2020) with any attention: pre-norm, RMS norms, no biases.

        x = x + drop(attend(rms(x)));   x = x + drop(W2 drop(relu(W1 rms(x))));   at the end rms(x)
        gated (T5 1.1, flan-T5):   W2 drop(gelu(W1 rms(x)) * V rms(x)), with the tanh form of gelu

    Feed-forward maps start at variance 1 / inputs, as T5's do. T5 does not scale its scores. Ours are always scaled:
    queries sqrt(d_h) times as large are the same function, and weights trained without the scale are written so.
    """
    settings = BlockSettings(
        feed_forward, norm="rms", norm_eps=1e-6, bias=False, order="pre",
        activation="gelu_tanh" if gated else "relu", gated=gated, dropout=dropout,
    )  # fmt: skip
    stack = Stack(site, depth, settings, spec, final_norm="rms")
    for block in stack.blocks:
        for part in block.feed_forward.modules():
            if isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, std=part.in_features**-0.5)
    return stack
