"""TimeMixer++ (Wang et al., 2025): a window at several scales, each folded into images of its periods.

    RevIN -> x_0 .. x_M, each half as long as the one before (strided convolution of each channel)
    -> softmax attention between channels at the coarsest scale -> every scale to `width` features a step
    depth x, of every scale m and period p_k:
        image z = x_m folded: a column a period, p_k rows; a 3 x 3 convolution, shared by all images
        season s = attention within columns, trend t = attention across columns
        s_m = s_m + down(s_(m-1)) from fine to coarse, t_m = t_m + up(t_(m+1)) from coarse to fine
        x_m = LayerNorm(x_m + sum_k softmax_k(A_k) unfolded (s + t)), A_k the amplitude of the coarsest scale at p_k
    -> for each scale Linear(its length -> steps), mean -> Linear(width -> channels) -> inverse RevIN

Equations 1 to 11 of the paper. The chosen attention stands within and across columns, one layer each for all images of
a block. Its authors released no complete code; what the text leaves open is chosen here: the width, depthwise
convolutions between scales, GELU between the two convolutions of `down` and of `up`.

Where we differ: the `periods` strongest frequencies are found once, in training windows before training, and are saved
with the weights. The paper takes those of the batch at hand, by which windows of a batch would see one another.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from rearview import attention as mechanisms
from rearview.attention import Spec
from rearview.attention.contract import Attention, Site
from rearview.attention.shared.spectrum import rfft
from rearview.core.errors import SettingsError
from rearview.core.settings import check_least
from rearview.embed import Dropout, Normalise, Points
from rearview.models.blocks import setting
from rearview.models.blocks.tokens import channel_tokens
from rearview.models.contract import Axes, Marks, Model, ModelClaims, Past, Real, Shape, Steps, Token

Scale = Float[Tensor, "batch _ width"]
Image = Float[Tensor, "batch _ _ width"]
"""[batch, column, row, width], a column a period."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of TimeMixer++; scales, periods and depth lie in the paper's ranges for long horizons."""

    width: setting.TokenWidth = 32
    heads: setting.HeadCount = 4
    depth: setting.Depth = 2
    scales: int = 3
    """How many times the window is halved; fewer where it is short."""
    periods: int = 3
    """The number of periods that each scale is folded by."""
    dropout: float = 0.1
    """Dropout on the attention weights and on what a block adds."""
    normalise: setting.Normalisation = "revin"

    def __post_init__(self) -> None:
        check_least(self, depth=1, scales=0, periods=1)


class Network(Model):
    """TimeMixer++ with any attention along time that keeps groups apart."""

    claims = ModelClaims(mixes_channels=True, equivariant_to_channels=False, reconstructs=True)

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        super().__init__(shape)
        shape.refuse_marks("timemixer_pp", "folds the channels of a window")
        self.normalise = Normalise(settings.normalise)
        self.lengths = [shape.lookback]
        while len(self.lengths) <= settings.scales and self.lengths[-1] >= 4:
            self.lengths.append(self.lengths[-1] // 2)
        self.fastest = max(1, self.lengths[-1] // 2)
        self.frequencies: Tensor
        self.periods: list[int]
        self.register_buffer("frequencies", torch.arange(1, 1 + min(settings.periods, self.fastest)))
        self.register_load_state_dict_post_hook(_fold_anew)  # type: ignore[no-untyped-call]
        channels, coarsest = shape.channels, self.lengths[-1]
        self.halve = nn.ModuleList(
            nn.Conv1d(channels, channels, 3, stride=2, padding=1, groups=channels) for _ in self.lengths[1:]
        )
        site = Site(
            1, channels, coarsest, settings.heads, head_width=max(1, coarsest // settings.heads), time_ordered=False,
            variates=channels, lookback=shape.lookback, dropout=settings.dropout, host="TimeMixer++",
        )  # fmt: skip
        self.mix_channels = mechanisms.create("softmax", site)
        self.embed = Points(channels, settings.width)
        columns = -(-shape.lookback // -(-shape.lookback // self.fastest))
        self.blocks = nn.ModuleList(
            Block(shape, settings, attention, (columns, shape.lookback), len(self.lengths), at)
            for at in range(settings.depth)
        )
        self.ahead = nn.ModuleList(nn.Linear(length, shape.steps) for length in self.lengths)
        self.head = nn.Linear(settings.width, channels)
        _fold_anew(self)

    def forward(self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None) -> Steps:
        x, denormalise = self.normalise(past, mask)
        scales = [x]
        for halve, length in zip(self.halve, self.lengths[1:], strict=True):
            scales.append(halve(scales[-1])[..., :length])
        scales[-1] = self.mix_channels(scales[-1][:, None])[:, 0]
        features = [self.embed(scale)[:, 0] for scale in scales]
        for block in self.blocks:
            features = block(features, self.frequencies, self.periods)
        ahead = [read(one.transpose(1, 2)) for read, one in zip(self.ahead, features, strict=True)]
        mean = torch.stack(ahead).mean(0)
        return denormalise(self.head(mean.transpose(1, 2)).transpose(1, 2))

    def prepare(self, windows: Past) -> None:
        """Find the strongest frequencies of the coarsest scale, and hand the windows to every layer."""
        x, _ = self.normalise(windows)
        coarsest = self.lengths[-1]
        halved = functional.adaptive_avg_pool1d(x, coarsest)
        strength = torch.fft.rfft(halved.to(torch.float64), dim=-1).abs().mean((0, 1))[1 : self.fastest + 1]
        if len(strength):
            self.frequencies.copy_(1 + strength.topk(len(self.frequencies)).indices.sort().values)
        _fold_anew(self)
        for block in self.blocks:
            assert isinstance(block, Block)
            block.within.prepare(windows)
            block.across.prepare(windows)

    def axes(self) -> list[Axes]:
        columns = sum(-(-length // period) for length in self.lengths for period in self.periods)
        rows = sum(self.periods) * len(self.lengths)
        longest = max(self.periods)
        folds = -(-self.lengths[0] // min(self.periods))
        within = Axes(
            _parts(columns), tuple(Token(steps=(at - longest, at - longest + 1)) for at in range(longest)), "within"
        )
        across = Axes(_parts(rows), (Token(),) * folds, "across")
        return [Axes((Token(),), channel_tokens(self.shape), "channels"), *[within, across] * len(self.blocks)]


def _parts(count: int) -> tuple[Token, ...]:
    return tuple(Token("component", index) for index in range(count))


def _fold_anew(network: nn.Module, _: object = None) -> None:
    """Read the periods off the frequencies: whole numbers, known before a step is taken."""
    assert isinstance(network, Network)
    network.periods = [-(-network.lengths[0] // frequency) for frequency in network.frequencies.tolist()]


class Block(nn.Module):
    """Season and trend of every image, mixed between scales, then between periods."""

    def __init__(
        self, shape: Shape, settings: Settings, spec: Spec, image: tuple[int, int], scales: int, layer: int
    ) -> None:
        super().__init__()
        width, (columns, rows) = settings.width, image
        name, chosen = mechanisms.split(spec)

        def axis(tokens: int) -> Attention:
            site = Site(
                1, tokens, width, settings.heads, lookback=shape.lookback, dropout=settings.dropout, layer=layer,
                layers=settings.depth, host="TimeMixer++",
            )  # fmt: skip
            return mechanisms.create(name, site, **chosen)

        self.spread = nn.Conv2d(width, width, 3, padding=1)
        self.within, self.across = axis(rows), axis(columns)
        if self.within.claims.mixes_groups:
            raise SettingsError(
                f"{name} mixes groups, but in TimeMixer++ these are the columns of images, whose number follows the "
                "data; use softmax, rbca, caps, toa or prime."
            )
        self.down = nn.ModuleList(Resize(width, double=False) for _ in range(scales - 1))
        self.up = nn.ModuleList(Resize(width, double=True) for _ in range(scales - 1))
        self.drop = Dropout(settings.dropout)
        self.norm = nn.LayerNorm(width)

    def forward(self, scales: list[Scale], frequencies: Tensor, periods: list[int]) -> list[Scale]:
        images = [[self.fold(scale, period) for scale in scales] for period in periods]
        listed = [image for row in images for image in row]
        seasons = _split(self.within, listed)
        trends = [image.transpose(1, 2) for image in _split(self.across, [one.transpose(1, 2) for one in listed])]
        shares = self.weigh_periods(scales[-1], frequencies)
        added = [torch.zeros_like(scale) for scale in scales]
        for at, share in enumerate(shares.unbind(-1)):
            span = slice(at * len(scales), (at + 1) * len(scales))
            for m, image in enumerate(self.mix_scales(seasons[span], trends[span])):
                added[m] = added[m] + share[:, None, None] * image.flatten(1, 2)[:, : added[m].shape[1]]
        # Shares are in float32 at least, and what they weigh with them.
        sums = [scale + self.drop(more) for scale, more in zip(scales, added, strict=True)]
        return [self.norm(one.to(self.norm.weight.dtype)) for one in sums]

    def fold(self, scale: Scale, period: int) -> Image:
        """The image of a scale: a column a period, zeros after the end, spread by the convolution."""
        image = functional.pad(scale, (0, 0, 0, -scale.shape[1] % period)).unflatten(1, (-1, period))
        return self.spread(image.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)

    def mix_scales(self, seasons: list[Image], trends: list[Image]) -> list[Image]:
        """Seasons from fine to coarse, trends from coarse to fine, and their sums."""
        seasons, trends = list(seasons), list(trends)
        for m, down in enumerate(self.down, start=1):
            seasons[m] = seasons[m] + down(seasons[m - 1], seasons[m].shape[1])
        for m, up in reversed(list(enumerate(self.up))):
            trends[m] = trends[m] + up(trends[m + 1], trends[m].shape[1])
        return [season + trend for season, trend in zip(seasons, trends, strict=True)]

    def weigh_periods(self, coarsest: Scale, frequencies: Tensor) -> Float[Tensor, "batch period"]:
        """The share of each period in each window, by its amplitude."""
        amplitudes = rfft(coarsest, dim=1).abs().mean(-1)
        return amplitudes[:, frequencies.clamp(max=amplitudes.shape[1] - 1)].softmax(-1)


class Resize(nn.Module):
    """Two convolutions of an image, the first of which halves or doubles its columns."""

    def __init__(self, width: int, *, double: bool) -> None:
        super().__init__()
        self.first: nn.Module = nn.Conv2d(width, width, 3, stride=(2, 1), padding=1)
        self.second: nn.Module = nn.Conv2d(width, width, 3, padding=1)
        if double:
            self.first = nn.ConvTranspose2d(width, width, 3, stride=(2, 1), padding=1, output_padding=(1, 0))
            self.second = nn.ConvTranspose2d(width, width, 3, padding=1)

    def forward(self, image: Image, columns: int) -> Image:
        resized = self.second(functional.gelu(self.first(image.permute(0, 3, 1, 2)))).permute(0, 2, 3, 1)
        return functional.pad(resized, (0, 0, 0, 0, 0, columns - resized.shape[1]))


def _split(layer: Attention, images: list[Image]) -> list[Image]:
    """Each image after attention along its rows; all images go through the layer at once, padded to the longest."""
    longest = max(image.shape[2] for image in images)
    groups = torch.cat([functional.pad(image, (0, 0, 0, longest - image.shape[2])) for image in images], dim=1)
    sizes = [image.shape[1] for image in images]
    real = torch.cat(
        [
            torch.arange(longest, device=groups.device) < image.shape[2]
            for image in images
            for _ in range(image.shape[1])
        ]
    ).view(1, -1, longest)
    alike = all(image.shape[2] == longest for image in images)
    mixed = layer(groups, mask=None if alike else real.expand(groups.shape[0], -1, -1))
    return [part[:, :, : image.shape[2]] for part, image in zip(mixed.split(sizes, dim=1), images, strict=True)]
