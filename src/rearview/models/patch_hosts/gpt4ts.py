"""One Fits All, also GPT4TS (Zhou et al., 2023): patches of each channel through the first blocks of GPT-2.

    RevIN -> replicate the last value `stride` times -> patches -> Linear -> + learned positions -> dropout
    -> depth x [LayerNorm, causal attention; LayerNorm, feed-forward] (pre-norm, the tanh form of gelu) -> LayerNorm
    -> flatten -> one Linear shared by all channels -> inverse RevIN

The paper takes GPT-2's own weights and trains only layer norms, positions, the map of patches and the head.
`load_published` writes a checkpoint of GPT-2 (safetensors) into the network and freezes the rest, as the paper does;
`PUBLISHED` has the settings of each size. It is tested on a made-up checkpoint of the same names and, in small, the
same shapes: no real one was at hand. Without one the network starts as GPT-2 did, from N(0, 0.02^2), and trains whole.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from rearview.attention import Spec
from rearview.attention.caps.maps import SPREAD, start
from rearview.attention.contract import Projected, Site
from rearview.core.errors import SettingsError
from rearview.embed import Learned, Normalise
from rearview.models.blocks import setting
from rearview.models.blocks.checkpoint import ParameterPlace, PublishedWeights, write_checkpoint
from rearview.models.blocks.stack import BlockSettings, Stack
from rearview.models.contract import Shape
from rearview.models.patch_hosts._host import PatchHost


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of One Fits All; the defaults are the paper's: six blocks of the smallest GPT-2."""

    width: setting.TokenWidth = 768
    heads: setting.HeadCount = 12
    depth: setting.Depth = 6
    feed_forward: setting.FeedForwardWidth = 3072
    dropout: setting.WeightDropout = 0.1
    patch: setting.PatchSteps = 16
    stride: setting.StrideSteps = 8
    causal: bool = True
    """Whether a patch sees earlier ones only, as in GPT-2."""
    normalise: setting.Normalisation = "revin"


def _checkpoint_settings(width: int, heads: int) -> dict[str, Any]:
    return {"width": width, "heads": heads, "feed_forward": 4 * width}


PUBLISHED = {
    "gpt2": _checkpoint_settings(768, 12),
    "gpt2-medium": _checkpoint_settings(1024, 16),
    "gpt2-large": _checkpoint_settings(1280, 20),
    "gpt2-xl": _checkpoint_settings(1600, 25),
}
"""Settings of GPT-2's checkpoints; `depth` may be anything up to their 12, 24, 36 and 48 blocks."""


class Network(PatchHost):
    """One Fits All with any attention that mixes patches."""

    name = "gpt4ts"
    host = "One Fits All"

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        patches = self.cut(shape, settings.patch, settings.stride, settings.width)
        super().__init__(shape, Normalise(settings.normalise), patches, "learned", settings.dropout)
        site = Site(
            shape.channels, patches.tokens, settings.width, settings.heads, causal=settings.causal,
            causal_unless="causal=False", lookback=shape.lookback, dropout=settings.dropout, host=self.host,
        )  # fmt: skip
        block = BlockSettings(
            settings.feed_forward, order="pre", activation="gelu_tanh", dropout=settings.dropout, hidden_dropout=0.0
        )
        self.stack = Stack(site, settings.depth, block, attention, final_norm="layer")
        assert isinstance(self.positions, Learned)
        nn.init.normal_(self.positions.table, std=SPREAD)
        for each in self.stack.blocks:
            maps = [part for part in each.feed_forward if isinstance(part, nn.Linear)]
            if isinstance(each.attend, Projected):
                maps[:0] = [each.attend.qkv, each.attend.out]
            for index, one in enumerate(maps):
                start(one, SPREAD / math.sqrt(2 * settings.depth) if index % 2 else SPREAD)
                if one.bias is not None:
                    nn.init.zeros_(one.bias)
        self.head = self.readout()


def load_published(model: nn.Module, path: str | Path, *, freeze: bool = True) -> list[str]:
    """Write a checkpoint of GPT-2, a safetensors file, into a `gpt4ts` network; blocks beyond its depth are left out.

    Returns the names of the parameters that the file has nothing for and that keep their values: the map of patches,
    the head, and what a mechanism other than softmax attention adds. With `freeze` these, the norms and the positions
    are all that trains.
    """
    if getattr(model, "name", None) != "gpt4ts" or not isinstance(model, PatchHost):
        raise SettingsError(
            "GPT-2's weights fit the network 'gpt4ts' alone; build it with models.create('gpt4ts', ...)."
        )
    places = list(_places(model))
    source = PublishedWeights("GPT-2", "gpt4ts.PUBLISHED", _is_unused, ("", "transformer."))
    own = write_checkpoint(model, path, places, source)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not freeze or name in own or "norm" in name or "final" in name or "positions" in name)
    return own


def _is_unused(name: str) -> bool:
    """The vocabulary, the map to words, masks that are computed here, and further blocks."""
    return name in ("wte.weight", "lm_head.weight") or name.startswith("h.")


def _places(model: PatchHost) -> Iterator[ParameterPlace]:
    """The place of each array of a checkpoint; GPT-2 writes maps as inputs x outputs."""
    assert isinstance(model.positions, Learned)
    yield ParameterPlace("wpe.weight", model.positions.table, first_rows=True)
    for index, block in enumerate(model.stack.blocks):
        attend = block.attend
        products = attend.claims.reduces_to_softmax_at is not None and getattr(attend, "branches", 1) == 1
        if not isinstance(attend, Projected) or not products:
            raise SettingsError(
                "GPT-2's weights are the queries, keys and values of dot-product attention, which this network's "
                "attention does not have; build it with softmax, rbca, prime or toa (kind relu or softmax)."
            )
        first, last = (part for part in block.feed_forward if isinstance(part, nn.Linear))
        maps = {"attn.c_attn": attend.qkv, "attn.c_proj": attend.out, "mlp.c_fc": first, "mlp.c_proj": last}
        for name, own in maps.items():
            yield ParameterPlace(f"h.{index}.{name}.weight", own.weight, transposed=True)
            yield ParameterPlace(f"h.{index}.{name}.bias", own.get_parameter("bias"))
        for name, norm in {"ln_1": block.norm_attended, "ln_2": block.norm_fed}.items():
            yield from (
                ParameterPlace(f"h.{index}.{name}.{part}", norm.get_parameter(part)) for part in ("weight", "bias")
            )
    assert model.stack.final is not None
    yield from (ParameterPlace(f"ln_f.{part}", model.stack.final.get_parameter(part)) for part in ("weight", "bias"))
