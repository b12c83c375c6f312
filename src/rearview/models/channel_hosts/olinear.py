"""OLinear (Yue et al., 2025): channels as tokens, made from a look-back whose steps no longer correlate.

    RevIN (affine) -> times a learned vector of `extension` numbers -> Q_i^T along time, + a shift a channel
    -> Linear(extension x lookback -> width) -> depth x [NormLin, LayerNorm; feed-forward, LayerNorm] -> LayerNorm
    -> Linear(width -> extension x steps) -> Q_o along time, + a shift a channel -> Linear, GELU, Linear -> dropout
    -> inverse RevIN

Q_i has the eigenvectors of the correlation matrix of a window's steps, averaged over channels, as columns (largest
eigenvalue first); Q_o is that of the steps ahead. Both come from training windows, before training, are saved with the
weights, and are cosines until then. NormLin is one learned matrix between channels, softplus(C) with rows that add up
to 1 (`rearview describe fixed`); any attention between channels can take its place.

Where we differ: steps ahead correlate as those of a window do, so Q_o is made from the first of them. Where more steps
are asked for than a window has, it is made of blocks as long as the look-back: a window shows no longer correlation.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from rearview.attention import Spec
from rearview.attention.contract import Site, Tokens
from rearview.core.settings import check_least
from rearview.embed import Dropout, Normalise
from rearview.models.blocks import setting
from rearview.models.blocks.encoder import Encoder
from rearview.models.blocks.stack import BlockSettings, Stack
from rearview.models.blocks.tokens import channel_tokens
from rearview.models.contract import Axes, Marks, ModelClaims, Past, Shape, Steps, Token


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of OLinear; the defaults are the authors' for ETTm1 and Weather."""

    width: setting.TokenWidth = 512
    heads: int = 1
    """Attention heads; of NormLin, matrices that each mix a share of the values."""
    depth: setting.Depth = 2
    feed_forward: setting.FeedForwardWidth = 512
    extension: int = 16
    """Numbers that every step is multiplied by, before the look-back is transformed."""
    dropout: float = 0.1
    """Dropout on the weights between channels, what they mix, the feed-forward part and the forecast."""
    activation: setting.GeluOrRelu = "gelu"
    affine: setting.Affine = True

    def __post_init__(self) -> None:
        check_least(self, extension=1)


class Network(Encoder):
    """OLinear; `attention=None` is NormLin."""

    claims = ModelClaims(mixes_channels=True, equivariant_to_channels=False, reconstructs=True)
    own_attention: ClassVar = {"name": "fixed", "kind": "softplus"}

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        super().__init__(shape)
        shape.refuse_marks("olinear", "makes its tokens from channels alone")
        self.normalise = Normalise("revin", shape.channels, settings.affine)
        self.extension = nn.Parameter(torch.randn(settings.extension))
        self.past_basis: Tensor
        self.future_basis: Tensor
        self.register_buffer("past_basis", cosines(shape.lookback))
        self.register_buffer("future_basis", blocks(cosines, shape.steps, shape.lookback))
        self.past_shift = nn.Parameter(torch.zeros(shape.channels, 1, shape.lookback))
        self.future_shift = nn.Parameter(torch.zeros(shape.channels, 1, shape.steps))
        self.embed = nn.Linear(settings.extension * shape.lookback, settings.width)
        site = Site(
            1, shape.channels, settings.width, settings.heads, time_ordered=False, variates=shape.channels,
            lookback=shape.lookback, dropout=settings.dropout, host="OLinear",
        )  # fmt: skip
        block = BlockSettings(settings.feed_forward, activation=settings.activation, dropout=settings.dropout)
        self.stack = Stack(site, settings.depth, block, self.attention_of(settings, attention), final_norm="layer")
        self.unfold = nn.Linear(settings.width, settings.extension * shape.steps)
        self.head = nn.Sequential(
            nn.Linear(settings.extension * shape.steps, settings.feed_forward),
            nn.GELU(),
            nn.Linear(settings.feed_forward, shape.steps),
            Dropout(settings.dropout),
        )

    def tokenise(self, x: Past, past_marks: Marks, future_marks: Marks) -> Tokens:
        extended = (x @ self.past_basis)[:, :, None] * self.extension[:, None] + self.past_shift
        return self.embed(extended.flatten(2))[:, None]

    def detokenise(self, tokens: Tokens) -> Steps:
        features = self.unfold(tokens[:, 0]).unflatten(-1, (len(self.extension), self.shape.steps))
        extended = features @ self.future_basis.T + self.future_shift
        return self.head(extended.transpose(2, 3).flatten(2))

    def token_axes(self) -> Axes:
        return Axes((Token(),), channel_tokens(self.shape))

    def prepare(self, windows: Past) -> None:
        correlation = correlate_steps(windows)

        def basis(steps: int) -> Tensor:
            return eigenvectors(correlation[:steps, :steps])

        with torch.no_grad():
            self.past_basis.copy_(basis(self.shape.lookback))
            self.future_basis.copy_(blocks(basis, self.shape.steps, self.shape.lookback))
        super().prepare(windows)


def correlate_steps(windows: Float[Tensor, "window channel time"]) -> Float[Tensor, "time time"]:
    """The Pearson correlation of every two steps of a window, averaged over channels.

    A step that never varies in a channel correlates with itself alone there.
    """
    wide = windows.to(torch.float64)
    centred = wide - wide.mean(0)
    spread = centred.square().sum(0).sqrt()
    standard = torch.where(spread > 1e-12 * wide.abs().amax(0).clamp(min=1e-30), centred / spread, 0.0)
    correlation = torch.einsum("wct,wcs->ts", standard, standard) / windows.shape[1]
    return correlation.fill_diagonal_(1.0)


def eigenvectors(correlation: Float[Tensor, "time time"]) -> Float[Tensor, "time time"]:
    """Eigenvectors as columns, the largest eigenvalue first, each with a sign that does not depend on the solver."""
    vectors = torch.linalg.eigh(correlation).eigenvectors.flip(-1)
    falling = torch.arange(len(vectors), 0, -1, dtype=vectors.dtype, device=vectors.device)
    return vectors * torch.where(falling @ vectors < 0, -1.0, 1.0)


def cosines(steps: int) -> Float[Tensor, "{steps} {steps}"]:
    """The orthonormal cosine transform as columns, which is nearly the basis of a slowly varying series."""
    at = torch.arange(steps, dtype=torch.float64)
    table = torch.cos(math.pi * (2 * at[:, None] + 1) * at / (2 * steps)) * math.sqrt(2 / steps)
    table[:, 0] *= math.sqrt(0.5)
    return table.float()


def blocks(basis: Callable[[int], Tensor], steps: int, most: int) -> Float[Tensor, "{steps} {steps}"]:
    """An orthogonal matrix of so many steps, in blocks of at most `most`."""
    sizes = [min(most, steps - start) for start in range(0, steps, most)]
    return torch.block_diag(*(basis(size) for size in sizes))
