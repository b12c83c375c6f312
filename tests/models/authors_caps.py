"""The parameter names of CAPS's authors: each stands for a view of one of our tensors."""

from authors import Find, Views

MAPS = ("W_q", "W_k", "W_v")
SIGNALS = ("p_proj", "gate_proj")


def caps_network(find: Find, depth: int, signals: bool) -> Views:
    """Their whole network; `signals`: whether attention is CAPS, with its gates and clock."""
    yield "value_token_mixer", find("dual.values")
    yield "channel_emb_2", find("dual.channels")
    yield "channel_token_mixer_seq.weight", find("dual.context.weight")
    yield "pos_emb.weight", find("dual.positions")
    yield "out_fill.weight", find("dual.extend.weight")
    for layer in range(depth):
        yield from _layer(find, layer, signals)


def _layer(find: Find, layer: int, signals: bool) -> Views:
    theirs, ours = "temporal_processor.0", f"stack.blocks.{layer}"
    maps = find(f"{ours}.attend.qkv.weight").chunk(3)
    yield from ((f"{theirs}.attn.{layer}.{name}.weight", part) for name, part in zip(MAPS, maps, strict=True))
    yield f"{theirs}.attn.{layer}.c_proj.weight", find(f"{ours}.attend.out.weight")
    if signals:
        width = len(maps[0])
        made = find(f"{ours}.attend.signals.weight")
        parts = (*made[: 2 * width].chunk(2), made[2 * width :])
        names = (*SIGNALS, "clock")
        yield from ((f"{theirs}.attn.{layer}.{name}.weight", part) for name, part in zip(names, parts, strict=True))
    yield f"{theirs}.pns.{layer}.weight", find(f"{ours}.norm_attended.weight")
    yield f"{theirs}.lns.{layer}.weight", find(f"{ours}.norm_fed.weight")
    yield f"{theirs}.mlps.{layer}.c_fc.weight", find(f"{ours}.feed_forward.0.weight")
    yield f"{theirs}.mlps.{layer}.c_proj.weight", find(f"{ours}.feed_forward.3.weight")
