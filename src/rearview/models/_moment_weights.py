"""Published MOMENT checkpoints: which of their arrays goes where in our network.

    patch_embedding.value_embedding.weight                              patches.project
    encoder.block.i.layer.0.SelfAttention.{q, k, v}.weight              stack.blocks.i.attend.qkv, one below the other
    encoder.block.i.layer.0.SelfAttention.o.weight                      stack.blocks.i.attend.out
    encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight            relative
    encoder.block.i.layer.{0, 1}.layer_norm.weight                      stack.blocks.i.norm_attended, norm_fed
    encoder.block.i.layer.1.DenseReluDense.{wi_0, wi_1, wo}.weight      stack.blocks.i.feed_forward
    encoder.final_layer_norm.weight                                     stack.final
    head.linear.{weight, bias}                                          head, where a window is asked for

T5's scores are not scaled and ours are, so the queries are multiplied by sqrt(d_h): 8, which costs no digit. Where
toa has a `score_scale` of its own they are divided by that.

Loading is tested on a made-up checkpoint of these names and, in small, of these shapes, as no real one was at hand. An
array that is missing, of another shape or unknown is refused by its name.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rearview.attention.contract import Projected
from rearview.core.errors import InputError, SettingsError
from rearview.models._patched import Patched
from rearview.models.stack import Block, Gated

UNUSED = ("encoder.embed_tokens.weight", "patch_embedding.position_embedding.pe", "patch_embedding.mask_embedding")
"""T5's vocabulary, a table that is computed here, and the token of masked patches."""
HEAD = ("head.linear.weight", "head.linear.bias")
RELATIVE = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"


class Place(NamedTuple):
    """Where an array of a checkpoint goes, and what it is multiplied by on the way."""

    name: str
    tensor: Tensor
    factor: float = 1.0


def load_published(model: nn.Module, path: str | Path) -> list[str]:
    """Write a published MOMENT checkpoint, a safetensors file, into a `moment` network of form moment-1.

    Returns the names of the parameters that the file has nothing for and that keep their values: the head of another
    task, and what a mechanism other than softmax attention adds.
    """
    from safetensors import SafetensorError, safe_open

    if getattr(model, "name", None) != "moment" or not isinstance(model, Patched):
        raise SettingsError(
            "Published MOMENT weights fit the network 'moment' alone; build it with models.create('moment', "
            "form='moment-1', ...)."
        )
    places = list(_places(model))
    path = Path(path)
    if not path.is_file():
        raise InputError(f"There is no file {path}; a MOMENT checkpoint is called model.safetensors as a rule.")
    try:
        with safe_open(path, framework="pt") as stored, torch.no_grad():
            shapes = {name: tuple(stored.get_slice(name).get_shape()) for name in stored.keys()}  # noqa: SIM118
            _check(path, shapes, places)
            for place in places:
                place.tensor.copy_(stored.get_tensor(place.name).to(place.tensor.device) * place.factor)
    except SafetensorError as error:
        raise InputError(f"{path} can't be read as a safetensors file: {error}.") from error
    written = {place.tensor.untyped_storage().data_ptr() for place in places}
    return [name for name, own in model.named_parameters() if own.untyped_storage().data_ptr() not in written]


def _places(model: Patched) -> Iterator[Place]:
    yield Place("patch_embedding.value_embedding.weight", model.patches.project.weight)
    for index, block in enumerate(model.stack.blocks):
        assert isinstance(block, Block)
        yield from _block(f"encoder.block.{index}.layer", block)
    relative = getattr(model, "relative", None)
    if relative is not None:
        yield Place(RELATIVE, relative.table)
    assert model.stack.final is not None
    yield Place("encoder.final_layer_norm.weight", model.stack.final.get_parameter("weight"))
    if getattr(model, "by_patch", False):
        yield from (Place(name, model.head.get_parameter(name.rpartition(".")[2])) for name in HEAD)


def _block(theirs: str, block: Block) -> Iterator[Place]:
    # mica has a mechanism within each channel, whose maps these are; what it adds to them is its own.
    attend = getattr(block.attend, "local", block.attend)
    widen, narrow = block.feed_forward[0], block.feed_forward[2]
    if not isinstance(attend, Projected) or not _scores_by_products(attend) or not isinstance(widen, Gated):
        raise SettingsError(
            "Published MOMENT weights have queries and keys whose products are scores, values and a gated feed-forward "
            "part, and this network has not; build it with form='moment-1' and softmax, rbca, prime, "
            "toa (kind relu or softmax), or mica over one of these."
        )
    queries, keys, values = attend.qkv.weight.split(attend.widths)
    scale = getattr(attend, "scale", attend.site.per_head**-0.5)
    yield Place(f"{theirs}.0.SelfAttention.q.weight", queries, 1 / scale)
    yield Place(f"{theirs}.0.SelfAttention.k.weight", keys)
    yield Place(f"{theirs}.0.SelfAttention.v.weight", values)
    yield Place(f"{theirs}.0.SelfAttention.o.weight", attend.out.weight)
    yield Place(f"{theirs}.0.layer_norm.weight", block.norm_attended.get_parameter("weight"))
    yield Place(f"{theirs}.1.DenseReluDense.wi_0.weight", widen.gate.weight)
    yield Place(f"{theirs}.1.DenseReluDense.wi_1.weight", widen.value.weight)
    yield Place(f"{theirs}.1.DenseReluDense.wo.weight", narrow.get_parameter("weight"))
    yield Place(f"{theirs}.1.layer_norm.weight", block.norm_fed.get_parameter("weight"))


def _scores_by_products(attend: Projected) -> bool:
    """Whether a whole head's query times a key is the score of a pair, as T5's is.

    Others map them first (linear), add them (gat), or cut a head's in two (differential, toa's gated kind).
    """
    return attend.claims.reduces_to_softmax_at is not None and getattr(attend, "branches", 1) == 1


def _check(path: Path, shapes: dict[str, tuple[int, ...]], places: list[Place]) -> None:
    """Refuse before anything is written: a network half loaded looks like a loaded one."""
    wanted = {place.name: tuple(place.tensor.shape) for place in places}
    for name, shape in wanted.items():
        if name not in shapes:
            raise InputError(
                f"{path} has no array {name!r}, which this network needs; it is not a MOMENT-1 checkpoint, or one of "
                f"fewer blocks. moment.PUBLISHED has the settings of each."
            )
        if shapes[name] != shape:
            raise InputError(
                f"{name!r} is {_by(shapes[name])} in {path}, but {_by(shape)} in this network; "
                "build it with the settings in moment.PUBLISHED."
            )
    spare = sorted(set(shapes) - set(wanted) - {*UNUSED, *HEAD, RELATIVE})
    if spare:
        raise InputError(
            f"{path} has {len(spare)} arrays that this network has no place for, {spare[0]!r} the first of them; "
            "it may be deeper than the network. moment.PUBLISHED has the settings of each checkpoint."
        )


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in shape)
