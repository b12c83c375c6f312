"""The parameter names of DUET's authors: each stands for a view of one of our tensors."""

from authors import ITRANSFORMER_LAYER, ITRANSFORMER_QKV, Find, Views, _layer, _linear


def duet(find: Find, depth: int, experts: int) -> Views:
    """Official DUET, whose channel blocks are those of iTransformer."""
    yield from clusters(find, experts)
    for layer in range(depth):
        yield from _layer(find, f"Channel_transformer.attn_layers.{layer}", layer, ITRANSFORMER_LAYER, ITRANSFORMER_QKV)
    yield from _linear(find, "Channel_transformer.norm", "stack.final")
    yield from _linear(find, "linear_head.0", "head")


def clusters(find: Find, experts: int) -> Views:
    """Everything before the blocks."""
    for theirs, ours in (("Linear_Seasonal", "rest"), ("Linear_Trend", "trend")):
        for kind in ("weight", "bias"):
            whole = find(f"experts.{ours}.{kind}")
            yield from ((f"cluster.experts.{i}.{theirs}.{kind}", whole[i]) for i in range(experts))
    for theirs, ours in (("gate", "score"), ("noise", "noise")):
        for place in (0, 2):
            yield f"cluster.{theirs}.distribution_fit.{place}.weight", find(f"router.{ours}.{place}.weight")
    yield "cluster.W_h", find("router.mix")
    yield "cluster.revin.affine_weight", find("normalise.weight")
    yield "cluster.revin.affine_bias", find("normalise.bias")
    yield "mask_generator.A", find("gate.metric")
