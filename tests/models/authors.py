"""The authors' parameter names: each stands for a view of one of our tensors.

Writing their arrays into the views loads a model, and the same views of gradients and buffers are compared with theirs.
Shapes may differ by axes of length 1 and by an unflattened axis; `reshape` bridges both.
"""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn

Views = Iterator[tuple[str, Tensor]]
Find = Callable[[str], Tensor]

PATCHTST_LAYER = {
    "self_attn.to_out.0": "attend.out",
    "norm_attn.1": "norm_attended",
    "ff.0": "feed_forward.0",
    "ff.3": "feed_forward.3",
    "norm_ffn.1": "norm_fed",
}
PATCHTST_QKV = ("self_attn.W_Q", "self_attn.W_K", "self_attn.W_V")
ITRANSFORMER_LAYER = {
    "attention.out_projection": "attend.out",
    "conv1": "feed_forward.0",
    "conv2": "feed_forward.3",
    "norm1": "norm_attended",
    "norm2": "norm_fed",
}
ITRANSFORMER_QKV = ("attention.query_projection", "attention.key_projection", "attention.value_projection")
BUFFERS = ("running_mean", "running_var", "num_batches_tracked")


def patchtst(find: Find, depth: int, buffers: bool = False) -> Views:
    """Official PatchTST and Powerformer; their head flattens width-major, ours patch-major."""
    if buffers:
        for layer in range(depth):
            for theirs in ("norm_attn.1", "norm_ffn.1"):
                for kind in BUFFERS:
                    ours = f"stack.blocks.{layer}.{PATCHTST_LAYER[theirs]}.{kind}"
                    yield f"model.backbone.encoder.layers.{layer}.{theirs}.{kind}", find(ours)
        return
    table, head = find("positions.table"), find("head.weight")
    yield "model.backbone.W_pos", table
    yield from _linear(find, "model.backbone.W_P", "patches.project")
    for layer in range(depth):
        yield from _layer(find, f"model.backbone.encoder.layers.{layer}", layer, PATCHTST_LAYER, PATCHTST_QKV)
    yield "model.head.linear.weight", head.view(len(head), *table.shape).transpose(1, 2)
    yield "model.head.linear.bias", find("head.bias")


def itransformer(find: Find, depth: int) -> Views:
    """Official iTransformer, whose feed-forward maps are convolutions of length 1."""
    yield from _linear(find, "enc_embedding.value_embedding", "variates.project")
    for layer in range(depth):
        yield from _layer(find, f"encoder.attn_layers.{layer}", layer, ITRANSFORMER_LAYER, ITRANSFORMER_QKV)
    yield from _linear(find, "encoder.norm", "stack.final")
    yield from _linear(find, "projector", "head")


def dlinear(find: Find, copies: int, individual: bool) -> Views:
    """DLinear, one pair of maps for all channels or one per channel."""
    for theirs, ours in (("Linear_Seasonal", "rest"), ("Linear_Trend", "trend")):
        for copy in range(copies):
            name = f"{theirs}.{copy}" if individual else theirs
            for kind in ("weight", "bias"):
                yield f"{name}.{kind}", find(f"{ours}.{kind}")[copy]


def data(model: nn.Module) -> Find:
    """Parameters and buffers of a model by name."""
    state = model.state_dict()
    return lambda name: state[name]


def gradients(model: nn.Module) -> Find:
    """Gradients of a model's parameters by name."""

    def find(name: str) -> Tensor:
        gradient = model.get_parameter(name).grad
        assert gradient is not None
        return gradient

    return find


def load(views: Views, stored: dict[str, np.ndarray]) -> set[str]:
    """Write the authors' arrays into a model; returns the names that were written."""
    written = set()
    for name, view in views:
        view.copy_(torch.from_numpy(stored[name]).reshape(view.shape))
        written.add(name)
    return written


def _layer(find: Find, prefix: str, layer: int, names: dict[str, str], qkv: tuple[str, str, str]) -> Views:
    for kind in ("weight", "bias"):
        parts = find(f"stack.blocks.{layer}.attend.qkv.{kind}").chunk(3)
        yield from ((f"{prefix}.{theirs}.{kind}", part) for theirs, part in zip(qkv, parts, strict=True))
    for theirs, ours in names.items():
        yield from _linear(find, f"{prefix}.{theirs}", f"stack.blocks.{layer}.{ours}")


def _linear(find: Find, theirs: str, ours: str) -> Views:
    for kind in ("weight", "bias"):
        yield f"{theirs}.{kind}", find(f"{ours}.{kind}")
