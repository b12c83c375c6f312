"""The authors' parameter names of MICA: where each of their arrays goes in our layer and our PatchTST."""

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

Places = Iterator[tuple[str, Tensor]]

BLOCK = {"norm_attn.1": "norm_attended", "ff.0": "feed_forward.0", "ff.3": "feed_forward.3", "norm_ffn.1": "norm_fed"}
NORM = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
MAP = ("weight", "bias")


def layer(state: Mapping[str, Tensor], widths: list[int], ours: str = "", theirs: str = "") -> Places:
    """One layer; a gate that the stack owns is not among its names."""
    for kind in MAP:
        parts = state[f"{ours}local.qkv.{kind}"].split(widths)
        yield from ((f"{theirs}W_{name}.{kind}", part) for name, part in zip("QKV", parts, strict=True))
        yield f"{theirs}to_out.0.{kind}", state[f"{ours}local.out.{kind}"]
    inside = f"{theirs}sdp_attn."
    renamed = {
        "gate.beta": "beta",
        "weighting.scores": "channel_weights",
        "weighting.direction": "channel_attn.weight",
        **{f"gate.layers.{step}.{kind}": f"mlp.layers.{step}.{kind}" for step in (0, 3, 6) for kind in MAP},
    }
    yield from ((inside + their, state[ours + our]) for our, their in renamed.items() if ours + our in state)


def patchtst(state: Mapping[str, Tensor], widths: list[int], depth: int) -> Places:
    """The whole network. Its fixed table of positions goes where ours has a learned one; both heads are patch-major."""
    yield "W_pos.W_pos", state["positions.table"]
    for kind in MAP:
        yield f"W_P.{kind}", state[f"patches.project.{kind}"]
        yield f"head.linear.{kind}", state[f"head.{kind}"]
    if "stack.shared.gate.beta" in state:
        yield "encoder.layers.0.self_attn.sdp_attn.beta", state["stack.shared.gate.beta"]
    for index in range(depth):
        ours, theirs = f"stack.blocks.{index}.", f"encoder.layers.{index}."
        yield from layer(state, widths, f"{ours}attend.", f"{theirs}self_attn.")
        for their, our in BLOCK.items():
            kinds = NORM if "norm" in their else MAP
            yield from ((f"{theirs}{their}.{kind}", state[f"{ours}{our}.{kind}"]) for kind in kinds)


def load(places: Places, stored: Mapping[str, np.ndarray]) -> set[str]:
    """Write the authors' arrays to their places; returns the names that were used."""
    used = set()
    for name, place in places:
        place.copy_(torch.from_numpy(stored[name]).reshape(place.shape))
        used.add(name)
    return used
