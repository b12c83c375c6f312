"""Transformer, the encoder-decoder (Vaswani et al., 2017), as time series use it: every time step is a token.

    window -> three-step convolution of all channels + marks + sines and cosines -> dropout
           -> depth x [attention, LayerNorm; feed-forward, LayerNorm] -> LayerNorm = memory
    the last `label` observed steps, then zeros -> the same kind of embedding
           -> decoder_depth x [attention; attention to the memory; feed-forward, a LayerNorm each] -> LayerNorm
           -> Linear(width -> channels) of the steps asked for

This is the form of Time-Series-Library and of the recency-bias paper (Hegazy, Mahoney and Erichson, 2026): no instance
norm unless asked for. The chosen attention stands in encoder and decoder; attention to the memory stays softmax. With
softmax the decoder is causal. Other mechanisms keep their nature: recency bias or CAPS look back in the encoder too,
TOA or prime see all of the decoder, which tells them nothing, since its future is zeros; `causal_decoder` overrules.

Asked for its window or for classes, the network is the encoder alone, with a linear map of each step, or of all.

Where we differ: marks that aren't known ahead are left out of the steps asked for (the released code always has them),
and padding is hidden from attention, where the released classifier blanks it after the last layer only.
"""

from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn import functional

from rearview.attention import Spec, split
from rearview.attention.contract import Mask, Site, Tokens
from rearview.core.errors import SettingsError
from rearview.embed import Dropout, Normalise, Points, Sinusoidal
from rearview.embed.tokenisers import check_marks
from rearview.models.blocks import setting
from rearview.models.blocks.decoder import Decoder
from rearview.models.blocks.encoder import Encoder
from rearview.models.blocks.heads import Classes
from rearview.models.blocks.stack import BlockSettings, Stack
from rearview.models.blocks.tokens import step_tokens
from rearview.models.contract import Axes, Marks, ModelClaims, Output, Past, Real, RealSteps, Shape, Steps, Token


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the Transformer; the defaults are those of the recency-bias paper's table S3."""

    width: setting.TokenWidth = 512
    heads: setting.HeadCount = 8
    depth: setting.EncoderDepth = 2
    decoder_depth: setting.DecoderDepth = 1
    feed_forward: setting.FeedForwardWidth = 2048
    dropout: setting.TokenDropout = 0.05
    attention_dropout: setting.AttentionDropout = None
    activation: setting.GeluOrRelu = "gelu"
    label: int = 48
    """Observed steps that the decoder starts from, as far as the look-back has them."""
    causal_decoder: bool | None = None
    """Whether decoder tokens see earlier ones only; None: with softmax yes, other mechanisms as they are by nature."""
    normalise: setting.Normalisation = "none"


class Embedding(nn.Module):
    """Tokens of time steps: values, marks and positions added up."""

    def __init__(self, shape: Shape, steps: int, settings: Settings) -> None:
        super().__init__()
        self.points = Points(shape.channels, settings.width, marks=shape.marks)
        self.positions = Sinusoidal(steps, settings.width)
        self.drop = Dropout(settings.dropout)

    def forward(self, x: Past, marks: Marks | None) -> Tokens:
        return self.drop(self.positions(self.points(x, marks)))


class Network(Encoder):
    """The Transformer with any attention that mixes time steps."""

    claims = ModelClaims(
        mixes_channels=True, uses_marks=True, reads_ahead=True, scale_free=False, equivariant_to_channels=False,
        reconstructs=True, classifies=True,
    )  # fmt: skip

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        super().__init__(shape)
        if settings.label < 0:
            raise SettingsError(f"label is {settings.label}; the decoder starts from 0 observed steps or more.")
        self.normalise = Normalise(settings.normalise)
        self.embed = Embedding(shape, shape.lookback, settings)
        dropped = settings.dropout if settings.attention_dropout is None else settings.attention_dropout
        site = Site(
            1, shape.lookback, settings.width, settings.heads, lookback=shape.lookback, dropout=dropped,
            host="Transformer",
        )  # fmt: skip
        block = BlockSettings(settings.feed_forward, activation=settings.activation, dropout=settings.dropout)
        self.stack = Stack(site, settings.depth, block, attention, final_norm="layer")
        self.label = min(settings.label, shape.lookback)
        self.decoder: Decoder | None = None
        self.head: nn.Module
        if shape.asks == "classes":
            features = shape.lookback * settings.width
            self.head = Classes(features, shape.classes, activate=True, dropout=settings.dropout)
            return
        self.head = nn.Linear(settings.width, shape.channels)
        if shape.asks == "steps":
            steps = self.label + shape.steps
            causal = settings.causal_decoder
            causal = split(attention)[0] == "softmax" if causal is None else causal
            self.embed_start = Embedding(shape, steps, settings)
            self.decoder = Decoder(replace(site, tokens=steps, causal=causal), settings.decoder_depth, block, attention)

    def tokenise(self, x: Past, past_marks: Marks, future_marks: Marks) -> Tokens:
        if not self.shape.marks:
            return self.embed(x, None)
        return self.embed(x, check_marks(self.shape.marks, self.shape.future, past_marks, future_marks)[0])

    def token_axes(self) -> Axes:
        return Axes((Token(),), step_tokens(-self.shape.lookback, 0), "encoder")

    def token_mask(self, mask: RealSteps) -> Mask:
        return mask[:, None]

    def detokenise(self, tokens: Tokens) -> Steps:
        return self.head(tokens[:, 0, -self.shape.steps :]).transpose(1, 2)

    def forward(self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None) -> Output:
        if self.decoder is None:
            return super().forward(past, past_marks, future_marks, mask=mask)
        window = self.read(past, past_marks, future_marks, mask)
        memory = self.stack(window.tokens, window.mask, windows=window.windows)
        start = functional.pad(window.windows, (0, self.shape.steps))[..., -self.label - self.shape.steps :]
        tokens = self.embed_start(start, self._marks_ahead(past_marks, future_marks))
        real = window.mask
        if real is not None:
            real = functional.pad(real, (0, self.shape.steps), value=True)[..., -tokens.shape[2] :]
        return window.denormalise(self.detokenise(self.decoder(tokens, memory, real, window.mask, window.windows)))

    def axes(self) -> list[Axes]:
        """Those of the encoder's layers, then those of the decoder's."""
        if self.decoder is None:
            return super().axes()
        started = Axes((Token(),), step_tokens(-self.label, self.shape.steps), "decoder")
        return [*super().axes(), *[started] * len(self.decoder.blocks)]

    def prepare(self, windows: Past) -> None:
        super().prepare(windows)
        if self.decoder is not None:
            self.decoder.prepare(windows)

    def _marks_ahead(self, past_marks: Marks, future_marks: Marks) -> Marks:
        """Marks of the decoder's steps: those observed, those known ahead, and 0 for what nobody knows.

        Where steps are asked for several times over (quantiles), each moment's marks stand at all of its steps.
        """
        if past_marks is None or not self.shape.marks:
            return None
        steps, future = self.shape.steps, self.shape.future
        ahead = past_marks[..., :0] if future_marks is None or not future else future_marks
        if future and steps % future == 0:
            ahead = ahead.repeat_interleave(steps // future, dim=-1)
        ahead = functional.pad(ahead, (0, max(0, steps - ahead.shape[-1])))[..., :steps]
        return torch.cat([past_marks[..., past_marks.shape[-1] - self.label :], ahead], dim=-1)
