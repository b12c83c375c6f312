"""DUET (Qiu et al., 2025): windows shared out to linear experts, then attention among channels that are alike.

    RevIN (affine) -> experts, by gates of a router that reads the window as it comes -> one token a channel
    -> depth x [attention under a gate between channels, LayerNorm; feed-forward, LayerNorm] (post-norm) -> LayerNorm
    -> Linear(width -> steps) -> dropout -> inverse RevIN

The gate (`_duet_clusters` has the formulas) is 1 between channels whose spectra are alike and 0 elsewhere; it is drawn
for each window and shared by heads and layers. A score is multiplied by it, and where it is 0 becomes -ln(10^10) before
the scale: a mask that lets a little through. What another mechanism makes of it: toa's softmax kind and prime do the
same with their scores (toa after S1), toa's relu and gated kinds multiply the activated weights (toa before S2).

Where we differ:
- The authors draw the gate in evaluation too, so that a forecast depends on chance. Here it is drawn in training and is
  the likelier of its two values afterwards; `sample="always"` is theirs.
- With one channel the authors leave out the blocks; here they run on the one token, without a gate.
- Router and gate read the window as it comes, not normalised, as theirs do; padding is 0 there.

`penalty` hands training the term that keeps experts busy, which the authors add to the loss.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor, nn

from rearview.attention import Spec, split
from rearview.attention.contract import Site, Tokens
from rearview.core.errors import SettingsError
from rearview.embed import Dropout, Normalise
from rearview.embed.normalise import Kind
from rearview.models._duet_clusters import ChannelGate, Experts, Router
from rearview.models._tokens import channel_tokens
from rearview.models.contract import Axes, Marks, ModelClaims, Past, Real, Shape, Steps, Token, refuse_marks
from rearview.models.encoder import Read, Stacked
from rearview.models.heads import Classes
from rearview.models.stack import Block, BlockSettings, Stack

Sample = Literal["training", "always", "never"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of DUET; the defaults are those of the authors' code, with two experts used as in most of its runs."""

    width: int = 512
    """Width of a token."""
    heads: int = 8
    """Attention heads."""
    depth: int = 2
    """Blocks."""
    feed_forward: int = 2048
    """Width inside the feed-forward part."""
    dropout: float = 0.2
    """Dropout on attention's weights and output and the feed-forward part."""
    head_dropout: float | None = None
    """Dropout on the forecast, before the way back; None: as `dropout`."""
    activation: Literal["gelu", "relu"] = "gelu"
    """Activation of the feed-forward part."""
    experts: int = 4
    """Pairs of linear maps that windows are shared out to."""
    used: int = 2
    """How many experts a window is sent to."""
    router: int = 256
    """Width inside the router."""
    kernel: int = 25
    """Steps of the moving average that parts trend and rest; odd."""
    noisy: bool = True
    """Whether the router adds noise in training, and learns how much."""
    balance: float = 1.0
    """Weight of the penalty on idle experts."""
    sample: Sample = "training"
    """When the gate between channels is drawn: training, always (the original) or never; else it is the likelier."""
    normalise: Kind = "revin"
    """Instance normalisation: revin, last or none."""
    affine: bool = True
    """Whether RevIN learns a scale and a shift per channel."""

    def __post_init__(self) -> None:
        if self.sample not in get_args(Sample):
            raise SettingsError(f"sample is {self.sample!r}; it can be one of {', '.join(get_args(Sample))}.")


class Network(Stacked):
    """DUET with any attention whose scores a gate can act on."""

    claims = ModelClaims(
        mixes_channels=True, scale_free=False, equivariant_to_channels=False, reconstructs=True, classifies=True
    )

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        super().__init__(shape)
        refuse_marks(shape, "duet", because="clusters channels by their spectra")
        self.sample = settings.sample
        self.balance = settings.balance
        self._penalty: Tensor | None = None
        self.normalise = Normalise(settings.normalise, shape.channels, settings.affine)
        self.router = Router(shape.lookback, settings.router, settings.experts, settings.used, settings.noisy)
        self.experts = Experts(shape.lookback, settings.width, settings.experts, settings.kernel)
        self.gate = ChannelGate(shape.lookback) if shape.channels > 1 else None
        site = Site(
            groups=1,
            tokens=shape.channels,
            width=settings.width,
            heads=settings.heads,
            time_ordered=False,
            variates=shape.channels,
            lookback=shape.lookback,
            dropout=settings.dropout,
            host="DUET",
        )
        block = BlockSettings(settings.feed_forward, activation=settings.activation, dropout=settings.dropout)
        self.stack = Stack(site, settings.depth, block, attention, final_norm="layer")
        _refuse_ungated(self.stack, split(attention)[0])
        self.drop = Dropout(settings.dropout if settings.head_dropout is None else settings.head_dropout)
        self.head: nn.Module
        if shape.asks == "classes":
            self.head = Classes(shape.channels * settings.width, shape.classes, activate=True, dropout=self.drop.rate)
        else:
            self.head = nn.Linear(settings.width, shape.steps)

    def read(self, past: Past, past_marks: Marks | None, future_marks: Marks | None, mask: Real | None) -> Read:
        x, denormalise = self.normalise(past, mask)
        # Filled, not multiplied: whatever stands there, a NaN too, must not reach router and gate.
        as_it_comes = past if mask is None else past.masked_fill(~mask[:, None], 0)
        gates, uneven = self.router(as_it_comes)
        self._penalty = self.balance * uneven if self.training else None
        drawn = self.sample == "always" or (self.sample == "training" and self.training)
        return Read(
            tokens=self.experts(x, gates)[:, None],
            mask=None,
            bias=None,
            windows=x,
            denormalise=denormalise,
            gate=None if self.gate is None else self.gate(as_it_comes, drawn),
        )

    def token_axes(self) -> Axes:
        return Axes((Token(),), channel_tokens(self.shape))

    def detokenise(self, tokens: Tokens) -> Steps:
        return self.drop(self.head(tokens[:, 0]))

    def penalty(self) -> Tensor | None:
        handed_over, self._penalty = self._penalty, None
        return handed_over


def _refuse_ungated(stack: Stack, name: str) -> None:
    for block in stack.blocks:
        assert isinstance(block, Block)
        if not block.attend.claims.takes_gate:
            raise SettingsError(
                f"duet keeps unlike channels apart by a gate on the scores of each pair, and {name} takes none; "
                "use softmax, toa or prime."
            )
