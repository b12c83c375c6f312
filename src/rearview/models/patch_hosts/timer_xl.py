"""Timer-XL (Liu et al., 2025): the patches of all channels are one sequence, each seeing all channels up to its time.

    RevIN -> patches without overlap -> Linear -> [channel 0's patches, channel 1's patches, ..]
    -> depth x [attention, LayerNorm; feed-forward, LayerNorm] (post-norm) -> LayerNorm
    -> Linear(width -> output_patch) of each channel's last token -> inverse RevIN -> again with these steps appended

    softmax((R_i q_i . R_j k_j + b) / sqrt(d_h)), hidden where key j is later than query i

R turns the first half of each head (in pairs of channels, rounded up) by a token's place in the sequence, which is
channel-major: the channel counts too, and permuting channels changes the forecast. b is one of two numbers a head and
layer, for keys of the same channel and of another. Rotation, mask and bias are the network's own: every mechanism that
stands in it has them.

Where we differ: the authors train every token to forecast what follows it and use the last one; here the last one is
also what is trained. A look-back that is no multiple of the patch is filled up in front with its first value (the
released code drops the newest steps). A roll-out keeps the newest `lookback` steps, also where a token forecasts more
or fewer steps than it holds. It reads forecasts as further steps: what is no forecast of the next step (quantiles) has
to fit in one token, so raise `output_patch` for it. The released fused form, which adds b after the scale and does not
transpose heads back, is another network and not here.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from rearview.attention import Spec, split
from rearview.attention.contract import Mask, Site, Tokens, Weights
from rearview.core.errors import SettingsError
from rearview.embed import Normalise, Patches
from rearview.models.blocks import setting
from rearview.models.blocks.encoder import Encoder
from rearview.models.blocks.heads import Classes
from rearview.models.blocks.stack import BlockSettings, Stack
from rearview.models.blocks.tokens import patch_tokens
from rearview.models.contract import Axes, Marks, ModelClaims, Output, Past, Real, RealSteps, Shape, Steps, Token


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of Timer-XL; the defaults are those of its code, and the patch of prime attention's experiments."""

    width: setting.TokenWidth = 512
    heads: setting.HeadCount = 8
    depth: setting.Depth = 1
    feed_forward: setting.FeedForwardWidth = 2048
    dropout: setting.BlockDropout = 0.1
    attention_dropout: setting.AttentionDropout = None
    activation: setting.GeluOrRelu = "relu"
    patch: int = 96
    """Time steps of a token."""
    output_patch: int | None = None
    """Time steps that a token forecasts; None: as `patch`. More are rolled out, so many at a time."""
    target: int | None = None
    """A channel that the others inform: it sees them at all times, and they see themselves only; None: all see all."""
    normalise: setting.Normalisation = "revin"


class Network(Encoder):
    """Timer-XL with any attention whose pairs of tokens can be hidden and biased."""

    claims = ModelClaims(mixes_channels=True, equivariant_to_channels=False, reconstructs=True, classifies=True)
    same: Tensor
    """[query, key], True where both are of the same channel."""
    hidden: Tensor | None
    """[query, key], True where `target` hides the key; None: time alone decides."""

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        super().__init__(shape)
        shape.refuse_marks("timer_xl", "makes its tokens from channels alone")
        ahead = settings.patch if settings.output_patch is None else settings.output_patch
        if ahead < 1:
            raise SettingsError(f"output_patch is {ahead}; a token forecasts at least 1 step.")
        if settings.target is not None and not 0 <= settings.target < shape.channels:
            raise SettingsError(f"target is {settings.target}; channels count from 0 to {shape.channels - 1}.")
        self.normalise = Normalise(settings.normalise)
        patch = settings.patch
        self.patches = Patches(shape.lookback, patch, patch, settings.width, pad_end=False, fill="front")
        channels, tokens, head_width = shape.channels, self.patches.tokens, settings.width // settings.heads
        site = Site(
            1, channels * tokens, settings.width, settings.heads, causal=settings.target is None,
            lookback=shape.lookback, variates=channels if tokens == 1 else None, times=tuple(range(tokens)) * channels,
            # Half the channels of a head in whole pairs, rounded up as far as the head has them.
            turned=min(2 * -(-head_width // 4), head_width // 2 * 2),
            dropout=settings.dropout if settings.attention_dropout is None else settings.attention_dropout,
            host="Timer-XL",
        )  # fmt: skip
        block = BlockSettings(settings.feed_forward, activation=settings.activation, dropout=settings.dropout)
        self.stack = Stack(site, settings.depth, block, attention, final_norm="layer")
        claims, name = self.stack.layers[0].claims, split(attention)[0]
        if claims.mixes_groups or not claims.takes_bias:
            raise SettingsError(
                f"{name} does not work pair by pair, but Timer-XL hides some pairs of tokens and adds a bias to the "
                "others; use softmax, rbca, toa or prime."
            )
        if settings.target is not None and not claims.hides_pairs:
            raise SettingsError(
                f"{name} mixes keys and values across tokens, so what target={settings.target} hides from the other "
                "channels would reach them; use softmax, rbca or prime, or leave target out."
            )
        self.variable_bias = nn.Parameter(torch.randn(settings.depth, 2, settings.heads))
        self.scale = site.per_head**-0.5
        channel, times = torch.arange(channels).repeat_interleave(tokens), torch.arange(tokens).repeat(channels)
        same, hidden = channel[:, None] == channel, None
        if settings.target is not None:
            informs = (channel == settings.target)[:, None] & (channel != settings.target)
            hidden = ~(same & (times <= times[:, None]) | informs)
        self.register_buffer("same", same, persistent=False)
        self.register_buffer("hidden", hidden, persistent=False)
        self.ahead = min(ahead, shape.steps)
        self.head: nn.Module
        if shape.asks == "classes":
            self.head = Classes(site.tokens * settings.width, shape.classes, dropout=settings.dropout)
        else:
            self.head = nn.Linear(settings.width, self.patches.patch if shape.asks == "window" else self.ahead)

    def tokenise(self, x: Past, past_marks: Marks, future_marks: Marks) -> Tokens:
        return self.patches(x).flatten(1, 2)[:, None]

    def token_axes(self) -> Axes:
        """Channel-major, as the sequence is; of a roll-out the first round is what `weights` shows."""
        patches = patch_tokens(self.patches, self.shape.lookback)
        by_channel = (Token("channel", index, each.steps) for index in range(self.shape.channels) for each in patches)
        return Axes((Token(),), tuple(by_channel))

    def token_mask(self, mask: RealSteps) -> Mask:
        return self.patches.mask(mask).repeat(1, self.shape.channels)[:, None]

    def score_bias(self, tokens: Tokens) -> list[Tensor]:
        """The bias of each layer [head, token, token]; the authors add it before scores are scaled."""
        other, own = (self.variable_bias * self.scale)[..., None, None].unbind(1)
        biases = torch.where(self.same, own, other)
        if self.hidden is not None:
            biases = biases.masked_fill(self.hidden, -torch.inf)
        return list(biases.unbind(0))

    def detokenise(self, tokens: Tokens) -> Steps:
        by_channel = tokens[:, 0].unflatten(1, (self.shape.channels, -1))
        if self.shape.asks == "window":
            return self.head(by_channel).flatten(2)[..., -self.shape.lookback :]
        return self.head(by_channel[:, :, -1])

    def forward(self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None) -> Output:
        out = super().forward(past, mask=mask)
        if self.shape.asks != "steps":
            return out
        rounds = [out]
        for _ in range(self.ahead, self.shape.steps, self.ahead):
            past = torch.cat([past, rounds[-1]], dim=-1)[..., -self.shape.lookback :]
            if mask is not None:
                mask = functional.pad(mask, (0, self.ahead), value=True)[..., -self.shape.lookback :]
            rounds.append(super().forward(past, mask=mask))
        return torch.cat(rounds, dim=-1)[..., : self.shape.steps]

    def weights(
        self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None
    ) -> list[Weights]:
        """The operators of the first round."""
        return super().weights(past, mask=mask)[: len(self.stack.blocks)]
