"""Crossformer (Zhang and Yan, 2023): segments of each channel, mixed along time, then across channels, at every scale.

    segments without overlap -> Linear + sines and cosines + a learned place of each segment -> LayerNorm = scale 0
    -> depth x [merge neighbours (not in the first); two-stage attention] = scales 1 .. depth
    a learned place of each segment ahead
    -> for each scale [two-stage attention; attention to the scale; feed-forward] -> Linear(width -> patch)
    -> the sum of these forecasts, the last `steps` of it

This is the form of Time-Series-Library. The chosen attention is that of the time stage, in encoder and decoder; the
attention of routers and that to a scale stay softmax (`TwoStage` has the formulas). A mechanism that mixes channels
has no place in the time stage, since the other stage does that.

Asked for its window or for classes, the network is the encoder alone, and a linear map of the last scale's tokens: of
each channel's, or of all.

As released: the look-back is filled up at the end with its last value, and forecasts are the last steps of whole
segments, so that with steps that are no multiple of the patch the first of them are made in vain. Where we differ: of
more than two segments to merge the last one is repeated, not the last few; padding is hidden from attention; instance
normalisation is there to be asked for.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from rearview import attention as shelf
from rearview.attention import Spec
from rearview.attention.contract import Attention, Inputs, Mask, Site, Tokens
from rearview.core.errors import SettingsError
from rearview.core.settings import check_least
from rearview.embed import Dropout, Normalise, Patches, Sinusoidal
from rearview.models.blocks import residual, setting
from rearview.models.blocks.decoder import Cross, Memory, Remembered
from rearview.models.blocks.encoder import Encoder, ReadWindow
from rearview.models.blocks.heads import Classes
from rearview.models.blocks.stack import Block, BlockSettings, FeedBlock, norm
from rearview.models.blocks.tokens import channel_groups, merged_tokens, patch_tokens, segment_tokens
from rearview.models.contract import Axes, Marks, ModelClaims, Output, Past, Real, RealSteps, Shape, Steps

Scale = tuple[Tensor, Tensor | None]
"""Tokens [batch, channel, segment, width] and which of them are real; from scale to scale there are fewer segments."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of Crossformer; the defaults are its authors' for ETTh1, segments as in Time-Series-Library."""

    width: setting.TokenWidth = 256
    heads: setting.HeadCount = 4
    depth: int = 3
    """Scales of the encoder; the decoder has one layer more."""
    feed_forward: int = 512
    """Width inside the feed-forward part of a stage."""
    dropout: float = 0.2
    """Dropout on attention's weights and output and on what feed-forward parts add."""
    patch: int = 12
    """Time steps of a segment."""
    merge: int = 2
    """Segments that are joined into one from a scale to the next."""
    routers: int = 10
    """Routers of a segment, through which channels see one another."""
    normalise: setting.Normalisation = "none"


class Network(Encoder):
    """Crossformer with any attention that mixes segments of a channel."""

    claims = ModelClaims(
        mixes_channels=True, scale_free=False, equivariant_to_channels=False, reconstructs=True, classifies=True
    )

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        super().__init__(shape)
        shape.refuse_marks("crossformer", "makes its tokens from channels alone")
        check_least(settings, depth=1, merge=2, routers=1)
        patch, width = settings.patch, settings.width
        self.segment = patch
        self.normalise = Normalise(settings.normalise)
        self.patches = Patches(shape.lookback, patch, patch, width, pad_end=False, fill="end", bias=False)
        self.positions = Sinusoidal(self.patches.tokens, width)
        self.places = nn.Parameter(torch.randn(shape.channels, self.patches.tokens, width))
        self.norm = norm("layer", width)
        segments = [self.patches.tokens]
        for _ in range(settings.depth - 1):
            segments.append(-(-segments[-1] // settings.merge))
        ahead = -(-shape.steps // patch) if shape.asks == "steps" else 0
        counts = segments + [ahead] * (settings.depth + 1 if ahead else 0)
        place = Site(
            shape.channels, 1, width, settings.heads, lookback=shape.lookback, layers=len(counts),
            dropout=settings.dropout, host="Crossformer",
        )  # fmt: skip
        block = BlockSettings(settings.feed_forward, dropout=settings.dropout, hidden_dropout=0.0)
        name, chosen = shelf.split(attention)
        stages = []
        for layer, tokens in enumerate(counts):
            attend = shelf.create(name, replace(place, tokens=tokens, layer=layer), **chosen)
            if attend.claims.mixes_groups:
                raise SettingsError(
                    f"{name} mixes channels, but Crossformer's time stage keeps them apart and leaves that to its "
                    "routers; use softmax, rbca, caps, toa or prime."
                )
            stages.append(TwoStage(attend, settings.routers, block))
        self.merges = nn.ModuleList(Merge(width, settings.merge) for _ in segments[1:])
        self.stages = nn.ModuleList(stages[: settings.depth])
        self.stages_ahead = nn.ModuleList(stages[settings.depth :])
        self.head: nn.Module
        if shape.asks == "classes":
            features = shape.channels * segments[-1] * width
            self.head = Classes(features, shape.classes, dropout=settings.dropout)
        elif shape.asks == "window":
            self.head = nn.Linear(segments[-1] * width, shape.lookback)
        else:
            plain = BlockSettings(feed_forward=width)
            self.places_ahead = nn.Parameter(torch.randn(shape.channels, ahead, width))
            self.looks = nn.ModuleList(
                LookBlock(width, settings.heads, settings.dropout, plain) for _ in self.stages_ahead
            )
            self.head = nn.ModuleList(nn.Linear(width, patch) for _ in self.stages_ahead)

    def tokenise(self, x: Past, past_marks: Marks, future_marks: Marks) -> Tokens:
        return self.norm(self.positions(self.patches(x)) + self.places)

    def token_axes(self) -> Axes:
        """Those of the first scale."""
        return Axes(channel_groups(self.shape), patch_tokens(self.patches, self.shape.lookback), "encoder")

    def token_mask(self, mask: RealSteps) -> Mask:
        return self.patches.mask(mask)[:, None].expand(-1, self.shape.channels, -1)

    def detokenise(self, tokens: Tokens) -> Steps:
        return self.head(tokens.flatten(2))

    def forward(self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None) -> Output:
        window = self.read(past, past_marks, future_marks, mask)
        scales = self._scales(window)
        if isinstance(self.head, Classes):
            return self.head(*scales[-1])
        if self.shape.asks == "window":
            return window.denormalise(self.detokenise(scales[-1][0]))
        return window.denormalise(self.decode(scales)[..., -self.shape.steps :])

    def axes(self) -> list[Axes]:
        """Those of the encoder's scales, then those of the decoder's segments."""
        scales = [self.token_axes()]
        for merge in self.merges:
            assert isinstance(merge, Merge)
            scales.append(replace(scales[0], tokens=merged_tokens(scales[-1].tokens, merge.size)))
        ahead = Axes(scales[0].groups, segment_tokens(self.shape.steps, self.segment), "decoder")
        return [*scales, *[ahead] * len(self.stages_ahead)]

    def prepare(self, windows: Past) -> None:
        for stage in (*self.stages, *self.stages_ahead):
            assert isinstance(stage, TwoStage)
            stage.time.attend.prepare(windows)

    def decode(self, scales: list[Scale]) -> Float[Tensor, "batch channel ahead"]:
        """The forecast of whole segments, on the normalised scale."""
        x: Tensor = self.places_ahead.expand(scales[0][0].shape[0], -1, -1, -1)
        assert isinstance(self.head, nn.ModuleList)
        forecasts = []
        for stage, look, head, (memory, real) in zip(self.stages_ahead, self.looks, self.head, scales, strict=True):
            x = look(stage(x), memory, real)
            forecasts.append(head(x))
        return torch.stack(forecasts).sum(0).flatten(2)

    def _scales(self, window: ReadWindow) -> list[Scale]:
        """Tokens and their mask, before the first scale and after each."""
        x, mask = window.tokens, window.mask
        scales = [(x, mask)]
        for merge, stage in zip([None, *self.merges], self.stages, strict=True):
            if merge is not None:
                assert isinstance(merge, Merge)
                x, mask = merge(x), None if mask is None else merge.mask(mask)
            x = stage(x, mask)
            scales.append((x, mask))
        return scales


class LookBlock(FeedBlock):
    """Look at other tokens, then feed forward, each added to what came in."""

    def __init__(self, width: int, heads: int, dropout: float, settings: BlockSettings) -> None:
        super().__init__(width, settings)
        self.cross = Cross(width, heads, dropout)
        self.drop_crossed = Dropout(dropout)
        self.norm_crossed = norm("layer", width)

    def forward(self, x: Tokens, memory: Memory, mask: Remembered | None = None) -> Tokens:
        return self.feed(residual.add(x, self.cross(x, memory, mask), self.drop_crossed, self.norm_crossed))


class RouterBlock(LookBlock):
    """The channel stage: the tokens of a segment, one a channel, look at what its routers gathered from them."""

    def __init__(
        self, segments: int, routers: int, width: int, heads: int, dropout: float, settings: BlockSettings
    ) -> None:
        super().__init__(width, heads, dropout, settings)
        self.routers = nn.Parameter(torch.randn(segments, routers, width))
        self.gather = Cross(width, heads, dropout)

    def across(self, x: Tokens) -> Tokens:
        """[batch, segment, channel, width], channels mixed."""
        return self(x, self.gather(self.routers.expand(x.shape[0], -1, -1, -1), x))


class TwoStage(nn.Module):
    """Attention along time within each channel, then across channels through a few routers.

        time:      x = norm(x + drop(attend(x)));        x = norm(x + drop(W2 gelu(W1 x)))      within each channel
        channels:  x = norm(x + drop(receive(x, r')));   x = norm(x + drop(W2 gelu(W1 x)))      within each segment
                   r' = send(r, x)

    Tokens are [batch, channel, segment, width]. r are `routers` learned tokens of a segment. They gather from all
    channels and hand on what they have, so that cost grows linearly with the channels. The chosen mechanism is that of
    the time stage; send and receive are softmax.
    """

    def __init__(self, attend: Attention, routers: int, settings: BlockSettings) -> None:
        super().__init__()
        site = attend.site
        self.time = Block(attend, site.width, settings)
        self.channels = RouterBlock(site.tokens, routers, site.width, site.heads, site.dropout, settings)

    def forward(self, x: Tokens, mask: Mask | None = None) -> Tokens:
        x, _ = self.time(Inputs(x, mask))
        return self.channels.across(x.transpose(1, 2)).transpose(1, 2)


class Merge(nn.Module):
    """Neighbouring segments joined into one; the last is repeated until they come out even."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.norm = norm("layer", size * width)
        self.project = nn.Linear(size * width, width)

    def forward(self, x: Tokens) -> Float[Tensor, "batch group joined width"]:
        missing = -x.shape[2] % self.size
        x = torch.cat([x, x[:, :, -1:].expand(-1, -1, missing, -1)], dim=2)
        return self.project(self.norm(x.unflatten(2, (-1, self.size)).flatten(3)))

    def mask(self, mask: Mask) -> Bool[Tensor, "batch group joined"]:
        """A joined segment is real when any of its parts is."""
        missing = -mask.shape[2] % self.size
        return functional.pad(mask, (0, missing), value=False).unflatten(2, (-1, self.size)).any(-1)
