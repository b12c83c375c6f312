"""MOMENT (Goswami et al., 2024): patches of each channel through the encoder of T5, with a bias by relative position.

    RevIN -> patches -> Linear -> + sines and cosines -> dropout
    -> depth x [RMS norm, attention + bias by relative position; RMS norm, feed-forward] (pre-norm, no biases)
    -> RMS norm -> dropout -> flatten -> one Linear shared by all channels -> inverse RevIN

The bias by relative position is one table for all layers (32 buckets, up to 128 patches apart, both directions), added
to the scores of whatever attention is chosen; with `mica` these are its local ones, and the network is MOMENT-MICA.
Mechanisms without scores (`linear`, `linear_rope`, `caps` unless its normaliser is softmax) run without the bias.

Two releases, `form`:

| | mica: trained from scratch in the MICA paper | moment-1: the published checkpoints |
|---|---|---|
| end of the window | last value repeated `stride` times | as it is, in whole patches |
| patch to token | Linear with bias | Linear without bias |
| positions | standardised table | plain table |
| feed-forward | relu | gated, gelu |
| asked for the window | one Linear of all patches | each patch from its own token |

`load_published` fills a network of form moment-1 from a checkpoint; `PUBLISHED` has the settings of each. It is tested
on a made-up checkpoint of the same names and, in small, the same shapes: no real one was at hand.

Where we differ: T5's scores are not scaled, those of MICA's release are and so are ours; published queries are scaled
up to match. Initial values are those of MICA's release in both forms: torch's for attention, T5's for the feed-forward
part, N(0, 1) for the table of the bias. That release runs with a dropout of 0.1 whatever is asked for; ours is as set.
A padded patch is hidden from attention and embedded as zeros, where MOMENT-1 has a token for masked patches.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch import Tensor, nn

from rearview.attention import Spec
from rearview.attention.contract import Tokens
from rearview.core.errors import SettingsError
from rearview.embed import Normalise, Patches, RelativeBias
from rearview.embed.normalise import Kind
from rearview.models._moment_weights import load_published as load_published
from rearview.models._patched import Patched
from rearview.models._t5 import t5_stack
from rearview.models.contract import Shape, Steps
from rearview.models.stack import Block

Form = Literal["mica", "moment-1"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of MOMENT; the defaults are those of the MICA paper."""

    width: int = 256
    """Width of a token."""
    heads: int = 4
    """Attention heads."""
    head_width: int | None = None
    """Width of a head; None: width / heads."""
    depth: int = 4
    """Blocks."""
    feed_forward: int = 1024
    """Width inside the feed-forward part."""
    dropout: float = 0.0
    """Dropout on tokens, attention's weights and output, the feed-forward part and what the head is given."""
    patch: int = 8
    """Time steps of a patch."""
    stride: int = 8
    """Time steps from one patch to the next; at most a patch."""
    form: Form = "mica"
    """Whose details: mica, the network of the MICA paper, or moment-1, that of the published checkpoints."""
    normalise: Kind = "revin"
    """Instance normalisation: revin, last or none."""

    def __post_init__(self) -> None:
        if self.form not in get_args(Form):
            raise SettingsError(f"moment's form is {self.form!r}; it can be one of {', '.join(get_args(Form))}.")


def _published(width: int, heads: int, depth: int, feed_forward: int) -> dict[str, Any]:
    sizes = {"width": width, "heads": heads, "head_width": 64, "depth": depth, "feed_forward": feed_forward}
    return {**sizes, "patch": 8, "stride": 8, "dropout": 0.1, "form": "moment-1"}


PUBLISHED = {
    "MOMENT-1-small": _published(512, 6, 8, 1024),
    "MOMENT-1-base": _published(768, 12, 12, 2048),
    "MOMENT-1-large": _published(1024, 16, 24, 2816),
}
"""Settings of the published checkpoints, which were trained on look-backs of 512 steps."""


class Network(Patched):
    """MOMENT with any attention that mixes patches."""

    name = "moment"
    host = "MOMENT"

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        published = settings.form == "moment-1"
        patches = self.cut(
            shape, settings.patch, settings.stride, settings.width, pad_end=not published, bias=not published
        )
        by_patch = published and shape.asks == "window"
        if published:
            _refuse_remainders(shape, patches, by_patch)
        positions: Literal["sinusoidal", "standardised"] = "sinusoidal" if published else "standardised"
        super().__init__(shape, Normalise(settings.normalise), patches, positions, settings.dropout)
        site = self.site(settings.heads, settings.head_width, settings.dropout, projection_bias=False)
        self.stack = t5_stack(site, settings.depth, settings.feed_forward, settings.dropout, attention, gated=published)
        first = self.stack.blocks[0]
        assert isinstance(first, Block)
        self.relative = RelativeBias(patches.tokens, settings.heads) if first.attend.claims.takes_bias else None
        self.by_patch = by_patch
        self.head = nn.Linear(settings.width, patches.patch) if by_patch else self.readout()

    def score_bias(self, tokens: Tokens) -> Tensor | None:
        return None if self.relative is None else self.relative(tokens.shape[2])

    def detokenise(self, tokens: Tokens) -> Steps:
        tokens = self.drop(tokens)
        return self.head(tokens).flatten(2) if self.by_patch else super().detokenise(tokens)


def _refuse_remainders(shape: Shape, patches: Patches, by_patch: bool) -> None:
    """Without padding at the end, patches that don't fill the look-back would leave out its newest steps."""
    left = (shape.lookback - patches.patch) % patches.stride
    if left:
        raise SettingsError(
            f"moment with form='moment-1' cuts the look-back into whole patches, and one of {shape.lookback} steps "
            f"leaves {left} newest ones out; use a look-back of {shape.lookback - left} steps, or form='mica'."
        )
    if by_patch and patches.stride != patches.patch:
        raise SettingsError(
            f"moment with form='moment-1' gives a window back patch by patch, but patches of {patches.patch} steps at "
            f"a stride of {patches.stride} overlap; use stride={patches.patch}, or form='mica'."
        )
