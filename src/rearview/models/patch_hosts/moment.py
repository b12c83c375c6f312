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

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from torch import Tensor, nn

from rearview.attention import Spec
from rearview.attention.contract import Projected, Tokens
from rearview.core.errors import SettingsError
from rearview.embed import Normalise, RelativeBias
from rearview.models.blocks import setting
from rearview.models.blocks.checkpoint import ParameterPlace, PublishedWeights, write_checkpoint
from rearview.models.blocks.stack import Block, GatedMap, t5_stack
from rearview.models.contract import Shape, Steps
from rearview.models.patch_hosts._host import PatchHost

Form = Literal["mica", "moment-1"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of MOMENT; the defaults are those of the MICA paper."""

    width: setting.TokenWidth = 256
    heads: setting.HeadCount = 4
    head_width: setting.HeadWidth = None
    depth: setting.Depth = 4
    feed_forward: setting.FeedForwardWidth = 1024
    dropout: setting.HeadDropout = 0.0
    patch: setting.PatchSteps = 8
    stride: setting.StrideSteps = 8
    form: Form = "mica"
    """Whose details: mica, the network of the MICA paper, or moment-1, that of the published checkpoints."""
    normalise: setting.Normalisation = "revin"

    def __post_init__(self) -> None:
        if self.form not in get_args(Form):
            raise SettingsError(f"moment's form is {self.form!r}; it can be one of {', '.join(get_args(Form))}.")


def _checkpoint_settings(width: int, heads: int, depth: int, feed_forward: int) -> dict[str, Any]:
    sizes = {"width": width, "heads": heads, "head_width": 64, "depth": depth, "feed_forward": feed_forward}
    return {**sizes, "patch": 8, "stride": 8, "dropout": 0.1, "form": "moment-1"}


PUBLISHED = {
    "MOMENT-1-small": _checkpoint_settings(512, 6, 8, 1024),
    "MOMENT-1-base": _checkpoint_settings(768, 12, 12, 2048),
    "MOMENT-1-large": _checkpoint_settings(1024, 16, 24, 2816),
}
"""Settings of the published checkpoints, which were trained on look-backs of 512 steps."""


class Network(PatchHost):
    """MOMENT with any attention that mixes patches."""

    name = "moment"
    host = "MOMENT"

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        published = settings.form == "moment-1"
        patches = self.cut(
            shape, settings.patch, settings.stride, settings.width, pad_end=not published, bias=not published
        )
        by_patch = published and shape.asks == "window"
        left = (shape.lookback - patches.patch) % patches.stride
        if published and left:
            # Without padding at the end, patches that don't fill the look-back would leave out its newest steps.
            raise SettingsError(
                f"moment with form='moment-1' cuts the look-back into whole patches, and one of {shape.lookback} steps "
                f"leaves {left} newest ones out; use a look-back of {shape.lookback - left} steps, or form='mica'."
            )
        if by_patch and patches.stride != patches.patch:
            raise SettingsError(
                f"moment with form='moment-1' gives a window back patch by patch, but patches of {patches.patch} steps "
                f"at a stride of {patches.stride} overlap; use stride={patches.patch}, or form='mica'."
            )
        positions: Literal["sinusoidal", "standardised"] = "sinusoidal" if published else "standardised"
        super().__init__(shape, Normalise(settings.normalise), patches, positions, settings.dropout)
        site = self.site(settings.heads, settings.head_width, settings.dropout, projection_bias=False)
        self.stack = t5_stack(site, settings.depth, settings.feed_forward, settings.dropout, attention, gated=published)
        biased = self.stack.layers[0].claims.takes_bias
        self.relative = RelativeBias(patches.tokens, settings.heads) if biased else None
        self.by_patch = by_patch
        self.head = nn.Linear(settings.width, patches.patch) if by_patch else self.readout()

    def score_bias(self, tokens: Tokens) -> Tensor | None:
        return None if self.relative is None else self.relative(tokens.shape[2])

    def detokenise(self, tokens: Tokens) -> Steps:
        tokens = self.drop(tokens)
        return self.head(tokens).flatten(2) if self.by_patch else super().detokenise(tokens)


UNUSED = ("encoder.embed_tokens.weight", "patch_embedding.position_embedding.pe", "patch_embedding.mask_embedding")
"""T5's vocabulary, a table that is computed here, and the token of masked patches."""
HEAD = ("head.linear.weight", "head.linear.bias")
RELATIVE = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"


def load_published(model: nn.Module, path: str | Path) -> list[str]:
    """Write a published MOMENT checkpoint, a safetensors file, into a `moment` network of form moment-1.

    Returns the names of the parameters that the file has nothing for and that keep their values: the head of another
    task, and what a mechanism other than softmax attention adds. An array that is missing, of another shape or unknown
    is refused by its name.
    """
    if getattr(model, "name", None) != "moment" or not isinstance(model, PatchHost):
        raise SettingsError(
            "Published MOMENT weights fit the network 'moment' alone; build it with models.create('moment', "
            "form='moment-1', ...)."
        )
    unused = {*UNUSED, *HEAD, RELATIVE}
    source = PublishedWeights("MOMENT-1", "moment.PUBLISHED", unused.__contains__)
    return write_checkpoint(model, path, list(_places(model)), source)


def _places(model: PatchHost) -> Iterator[ParameterPlace]:
    """The place of each array of a checkpoint.

    T5's scores are not scaled and ours are, so the queries are multiplied by sqrt(d_h): 8, which costs no digit. Where
    toa has a `score_scale` of its own they are divided by that.
    """
    yield ParameterPlace("patch_embedding.value_embedding.weight", model.patches.project.weight)
    for index, block in enumerate(model.stack.blocks):
        yield from _block(f"encoder.block.{index}.layer", block)
    relative = getattr(model, "relative", None)
    if relative is not None:
        yield ParameterPlace(RELATIVE, relative.table)
    assert model.stack.final is not None
    yield ParameterPlace("encoder.final_layer_norm.weight", model.stack.final.get_parameter("weight"))
    if getattr(model, "by_patch", False):
        yield from (ParameterPlace(name, model.head.get_parameter(name.rpartition(".")[2])) for name in HEAD)


def _block(theirs: str, block: Block) -> Iterator[ParameterPlace]:
    # mica has a mechanism within each channel, whose maps these are; what it adds to them is its own.
    attend = getattr(block.attend, "local", block.attend)
    widen, narrow = block.feed_forward[0], block.feed_forward[2]
    # Others map a whole head's query and key first (linear), add them (gat), or cut them in two (differential, toa's
    # gated kind), where T5's scores are their products.
    products = attend.claims.reduces_to_softmax_at is not None and getattr(attend, "branches", 1) == 1
    if not isinstance(attend, Projected) or not products or not isinstance(widen, GatedMap):
        raise SettingsError(
            "Published MOMENT weights have queries and keys whose products are scores, values and a gated feed-forward "
            "part, and this network has not; build it with form='moment-1' and softmax, rbca, prime, "
            "toa (kind relu or softmax), or mica over one of these."
        )
    queries, keys, values = attend.qkv.weight.split(attend.widths)
    scale = getattr(attend, "scale", attend.site.per_head**-0.5)
    yield ParameterPlace(f"{theirs}.0.SelfAttention.q.weight", queries, 1 / scale)
    yield ParameterPlace(f"{theirs}.0.SelfAttention.k.weight", keys)
    yield ParameterPlace(f"{theirs}.0.SelfAttention.v.weight", values)
    yield ParameterPlace(f"{theirs}.0.SelfAttention.o.weight", attend.out.weight)
    yield ParameterPlace(f"{theirs}.0.layer_norm.weight", block.norm_attended.get_parameter("weight"))
    yield ParameterPlace(f"{theirs}.1.DenseReluDense.wi_0.weight", widen.gate.weight)
    yield ParameterPlace(f"{theirs}.1.DenseReluDense.wi_1.weight", widen.value.weight)
    yield ParameterPlace(f"{theirs}.1.DenseReluDense.wo.weight", narrow.get_parameter("weight"))
    yield ParameterPlace(f"{theirs}.1.layer_norm.weight", block.norm_fed.get_parameter("weight"))
