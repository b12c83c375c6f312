"""A MICA layer written out: its reference, head by head, with gates and channel weights in the paper's own words."""

import torch
from torch import Tensor

from rearview.attention import mica


def by_definition(layer: mica.Layer, x: Tensor, scores: Tensor | None = None, renormalise: bool = True) -> Tensor:
    """What the layer should give; `scores` [batch, channel, head, query, key] are those of earlier layers."""
    q, k, v = layer.local.heads(x)
    rows = []
    for b in range(len(x)):
        heads = []
        for h in range(layer.site.heads):
            handed_on = None if scores is None else scores[b, :, h]
            given = (gate_of(layer, h), weights_of(layer, q[b, :, h], h), layer.settings.exclude_self, renormalise)
            heads.append(mica.reference(q[b, :, h], k[b, :, h], v[b, :, h], *given, handed_on))
        rows.append(torch.stack(heads, dim=1))
    return layer.project(torch.stack(rows))


def weights_of(layer: mica.Layer, q: Tensor, head: int) -> Tensor | None:
    """w of one head [channel]."""
    given, kind = layer.settings.channel_weights, layer.settings.weighting
    if given is not None:
        return torch.tensor(given, dtype=q.dtype) / sum(given)
    if kind == "uniform":
        return None
    if kind == "static":
        return layer.weighting.scores[:, head].softmax(0)
    return (q.mean(1) @ layer.weighting.direction).softmax(0)


def gate_of(layer: mica.Layer, head: int) -> mica.Gate:
    """The gate of one head, as the reference takes it: called for one channel after the other."""
    channels = iter(range(layer.site.groups))

    def beta(across: Tensor, local: Tensor, q: Tensor) -> Tensor:
        share = layer.gate.beta.expand(layer.site.groups, -1)[next(channels), head].sigmoid()
        return share * across + (1 - share) * local

    def perceptron(across: Tensor, local: Tensor, q: Tensor) -> Tensor:
        hidden = torch.cat([across, local, q] if layer.settings.gate == "mlp_query" else [across, local], dim=-1)
        *inner, last = [part for part in layer.gate.layers if isinstance(part, torch.nn.Linear)]
        for part in inner:
            hidden = torch.relu(hidden @ part.weight.T + part.bias)
        return hidden @ last.weight.T + last.bias

    def added(across: Tensor, local: Tensor, q: Tensor) -> Tensor:
        return local + across @ layer.gate.weight[head]

    if layer.settings.gate == "added":
        return added
    return beta if hasattr(layer.gate, "beta") else perceptron
