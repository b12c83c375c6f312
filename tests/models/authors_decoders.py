"""The authors' names of parameters: the encoder-decoder Transformer, Timer-XL and Crossformer."""

from authors import ITRANSFORMER_LAYER, Find, Views, _linear

PROJECTIONS = ("query_projection", "key_projection", "value_projection")
BLOCK = {theirs: ours for theirs, ours in ITRANSFORMER_LAYER.items() if "." not in theirs}
TIME_STAGE = {"MLP1.0": "feed_forward.0", "MLP1.2": "feed_forward.3", "norm1": "norm_attended", "norm2": "norm_fed"}
CHANNEL_STAGE = {"MLP2.0": "feed_forward.0", "MLP2.2": "feed_forward.3", "norm3": "norm_crossed", "norm4": "norm_fed"}
LOOK = {"MLP1.0": "feed_forward.0", "MLP1.2": "feed_forward.3", "norm1": "norm_crossed", "norm2": "norm_fed"}


def transformer_encoder(find: Find, depth: int, marks: bool) -> Views:
    """Embedding and encoder, all that a reconstruction or a classifier has besides its head."""
    yield from _embedding(find, "enc_embedding", "embed", marks)
    for layer in range(depth):
        theirs, ours = f"encoder.attn_layers.{layer}", f"stack.blocks.{layer}"
        yield from _own(find, f"{theirs}.attention", f"{ours}.attend")
        yield from _all(find, theirs, ours, BLOCK)
    yield from _linear(find, "encoder.norm", "stack.final")


def transformer_decoder(find: Find, depth: int) -> Views:
    """The decoder's embedding, its blocks and the head."""
    yield from _embedding(find, "dec_embedding", "embed_start", marks=True)
    for layer in range(depth):
        theirs, ours = f"decoder.layers.{layer}", f"decoder.blocks.{layer}"
        yield from _own(find, f"{theirs}.self_attention", f"{ours}.attend")
        yield from _cross(find, f"{theirs}.cross_attention", f"{ours}.cross")
        yield from _all(find, theirs, ours, {**BLOCK, "norm2": "norm_crossed", "norm3": "norm_fed"})
    yield from _linear(find, "decoder.norm", "decoder.final")
    yield from _linear(find, "decoder.projection", "head")


def timer_xl(find: Find, depth: int) -> Views:
    """Timer-XL, its head included."""
    yield from _linear(find, "embedding", "patches.project")
    for layer in range(depth):
        theirs, ours = f"blocks.attn_layers.{layer}", f"stack.blocks.{layer}"
        yield f"{theirs}.attention.inner_attention.attn_bias.emb.weight", find("variable_bias")[layer]
        yield from _own(find, f"{theirs}.attention", f"{ours}.attend")
        yield from _all(find, theirs, ours, BLOCK)
    yield from _linear(find, "blocks.norm", "stack.final")
    yield from _linear(find, "head", "head")


def crossformer(find: Find, depth: int) -> Views:
    """Crossformer with its decoder, which has a layer for each scale and one for the segments themselves."""
    yield "enc_pos_embedding", find("places")
    yield "dec_pos_embedding", find("places_ahead")
    yield "enc_value_embedding.value_embedding.weight", find("patches.project.weight")
    yield from _linear(find, "pre_norm", "norm")
    for layer in range(depth):
        block = f"encoder.encode_blocks.{layer}"
        if layer:
            merged = {"linear_trans": "project", "norm": "norm"}
            yield from _all(find, f"{block}.merge_layer", f"merges.{layer - 1}", merged)
        yield from _two_stage(find, f"{block}.encode_layers.0", f"stages.{layer}")
    for layer in range(depth + 1):
        theirs = f"decoder.decode_layers.{layer}"
        yield from _two_stage(find, f"{theirs}.self_attention", f"stages_ahead.{layer}")
        yield from _cross(find, f"{theirs}.cross_attention", f"looks.{layer}.cross")
        yield from _all(find, theirs, f"looks.{layer}", LOOK)
        yield from _linear(find, f"{theirs}.linear_pred", f"head.{layer}")


def _embedding(find: Find, theirs: str, ours: str, marks: bool) -> Views:
    yield f"{theirs}.value_embedding.tokenConv.weight", find(f"{ours}.points.convolve.weight")
    if marks:
        yield f"{theirs}.temporal_embedding.embed.weight", find(f"{ours}.points.project_marks.weight")


def _two_stage(find: Find, theirs: str, ours: str) -> Views:
    yield f"{theirs}.router", find(f"{ours}.channels.routers")
    yield from _own(find, f"{theirs}.time_attention", f"{ours}.time.attend")
    yield from _cross(find, f"{theirs}.dim_sender", f"{ours}.channels.gather")
    yield from _cross(find, f"{theirs}.dim_receiver", f"{ours}.channels.cross")
    yield from _all(find, theirs, f"{ours}.time", TIME_STAGE)
    yield from _all(find, theirs, f"{ours}.channels", CHANNEL_STAGE)


def _own(find: Find, theirs: str, ours: str) -> Views:
    for kind in ("weight", "bias"):
        parts = find(f"{ours}.qkv.{kind}").chunk(3)
        yield from ((f"{theirs}.{name}.{kind}", part) for name, part in zip(PROJECTIONS, parts, strict=True))
    yield from _linear(find, f"{theirs}.out_projection", f"{ours}.out")


def _cross(find: Find, theirs: str, ours: str) -> Views:
    yield from _linear(find, f"{theirs}.query_projection", f"{ours}.query")
    for kind in ("weight", "bias"):
        parts = find(f"{ours}.key_value.{kind}").chunk(2)
        yield from ((f"{theirs}.{name}.{kind}", part) for name, part in zip(PROJECTIONS[1:], parts, strict=True))
    yield from _linear(find, f"{theirs}.out_projection", f"{ours}.out")


def _all(find: Find, theirs: str, ours: str, names: dict[str, str]) -> Views:
    for name, other in names.items():
        yield from _linear(find, f"{theirs}.{name}", f"{ours}.{other}")
