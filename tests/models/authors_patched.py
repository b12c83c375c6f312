"""The authors' names of parameters: the Time-Series-Library's PatchTST and TSMixer, and MICA's MOMENT."""

import authors
from authors import BUFFERS, ITRANSFORMER_LAYER, ITRANSFORMER_QKV, Find, Views

MICA_GATE = [
    (f"mlp.layers.{step}.{kind}", f"gate.layers.{step}.{kind}") for step in (0, 3, 6) for kind in ("weight", "bias")
]


def patchtst_tslib(find: Find, depth: int) -> Views:
    """Everything but the head; the library shares its encoder's names with iTransformer."""
    yield "patch_embedding.value_embedding.weight", find("patches.project.weight")
    for layer in range(depth):
        yield from authors._layer(find, f"encoder.attn_layers.{layer}", layer, ITRANSFORMER_LAYER, ITRANSFORMER_QKV)
    for kind in ("weight", "bias", *BUFFERS):
        yield f"encoder.norm.1.{kind}", find(f"stack.final.{kind}")


def flat_head(find: Find, tokens: int) -> Views:
    """Their head flattens width-major, ours patch-major."""
    head = find("head.weight")
    yield "head.linear.weight", head.view(len(head), tokens, -1).transpose(1, 2)
    yield "head.linear.bias", find("head.bias")


def class_head(find: Find, channels: int, tokens: int) -> Views:
    """The same for classes, of all channels at once."""
    head = find("head.project.weight")
    yield "projection.weight", head.view(len(head), channels, tokens, -1).transpose(2, 3)
    yield "projection.bias", find("head.project.bias")


def moment(find: Find, depth: int, shared_beta: bool) -> Views:
    """MICA's MOMENT; both heads are patch-major. What all layers share is stored under the first."""
    for theirs, ours in (("W_P", "patches.project"), ("head.linear", "head")):
        yield from authors._linear(find, theirs, ours)
    first = "encoder.block.0.layer.0.SelfAttention."
    yield f"{first}relative_attention_bias.weight", find("relative.table")
    if shared_beta:
        yield f"{first}beta", find("stack.shared.gate.beta")
    for layer in range(depth):
        yield from _moment_layer(find, f"encoder.block.{layer}.layer.", f"stack.blocks.{layer}.", shared_beta)
    yield "encoder.final_layer_norm.weight", find("stack.final.weight")


def _moment_layer(find: Find, theirs: str, ours: str, shared_beta: bool) -> Views:
    inside = f"{theirs}0.SelfAttention."
    parts = find(f"{ours}attend.local.qkv.weight").chunk(3)
    yield from ((f"{inside}{name}.weight", part) for name, part in zip("qkv", parts, strict=True))
    yield f"{inside}o.weight", find(f"{ours}attend.local.out.weight")
    if shared_beta:
        yield f"{inside}channel_attn.weight", find(f"{ours}attend.weighting.direction")
    else:
        yield from ((f"{inside}{name}", find(f"{ours}attend.{own}")) for name, own in MICA_GATE)
    yield f"{theirs}0.layer_norm.weight", find(f"{ours}norm_attended.weight")
    yield f"{theirs}1.DenseReluDense.wi.weight", find(f"{ours}feed_forward.0.weight")
    yield f"{theirs}1.DenseReluDense.wo.weight", find(f"{ours}feed_forward.3.weight")
    yield f"{theirs}1.layer_norm.weight", find(f"{ours}norm_fed.weight")


def tsmixer(find: Find, depth: int) -> Views:
    """The library's TSMixer."""
    for block in range(depth):
        for theirs, ours in (("temporal", "along"), ("channel", "across")):
            for step in (0, 2):
                yield from authors._linear(find, f"model.{block}.{theirs}.{step}", f"blocks.{block}.{ours}.{step}")
    yield from authors._linear(find, "projection", "head")
