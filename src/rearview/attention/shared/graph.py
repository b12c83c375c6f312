"""Graphs among tokens: which pairs are linked, a softmax over the neighbours of each query, weights as a matrix.

Edges are [2, edge], query above key, sorted by query; every token has a loop, so that no query is without neighbours.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rearview.core.errors import SettingsError

Edges = Int[Tensor, "2 edge"]
EdgeWeights = Float[Tensor, "row head edge"]


def list_edges(owner: str, edges: Any, count: int, tokens: int) -> Edges:
    """The given pairs (query, key), or those of an adjacency matrix, a loop at every token, and all pairs with a token
    beyond the first `count` (a calendar token); None: all pairs."""
    # Which pairs are linked decides on shapes, so it is known on the CPU even where nothing else has values.
    linked = torch.eye(tokens, dtype=torch.bool, device="cpu")
    linked[count:], linked[:, count:] = True, True
    if edges is None:
        linked[:] = True
    else:
        pairs = _pairs(owner, edges, count)
        linked[pairs[:, 0], pairs[:, 1]] = True
    return torch.nonzero(linked).T.contiguous()


def draw_pairs(count: int, density: float) -> Int[Tensor, "edge 2"]:
    """A share of all pairs of different tokens, drawn at random and linked in both directions."""
    if not 0 <= density <= 1:
        raise SettingsError(f"density is {density}; it is the share of pairs that are linked, from 0 to 1.")
    pairs = torch.combinations(torch.arange(count, device="cpu")).view(-1, 2)
    kept = pairs[torch.randperm(len(pairs), device="cpu")[: round(density * len(pairs))]]
    return torch.cat([kept, kept.flip(1)])


def expander_pairs(count: int) -> Int[Tensor, "edge 2"]:
    """A sparse graph in which every token is few steps from every other, linked in both directions.

    It is the Cayley graph of SL(2, Z_n) with the generators (1 1; 0 1) and (1 0; 1 1), four neighbours a token, of the
    least n that has as many elements as there are tokens (Deac et al., 2022); of more, those that a walk from the unit
    outwards meets first.
    """
    order = 2
    while _group_size(order) < count:
        order += 1
    unit = (1, 0, 0, 1)
    place, edges = {unit: 0}, set[tuple[int, int]]()
    for element in (walk := [unit]):
        a, b, c, d = element
        for other in ((a, a + b, c, c + d), (a, b - a, c, d - c), (a + b, b, c + d, d), (a - b, b, c - d, d)):
            met: tuple[int, int, int, int] = tuple(entry % order for entry in other)  # type: ignore[assignment]
            if met not in place and len(place) < count:
                place[met] = len(place)
                walk.append(met)
            if met in place and met != element:
                edges |= {(place[element], place[met]), (place[met], place[element])}
    return torch.tensor(sorted(edges), dtype=torch.long).view(-1, 2)


def _group_size(order: int) -> int:
    """The number of elements of SL(2, Z_n): n^3 times the product of 1 - 1/p^2 over the primes p of n."""
    size, rest = order**3, order
    for prime in range(2, order + 1):
        if rest % prime == 0:
            size -= size // prime**2
            while rest % prime == 0:
                rest //= prime
    return size


def softmax_by_query(logits: EdgeWeights, query: Int[Tensor, " edge"], tokens: int) -> EdgeWeights:
    """softmax over the edges of each query."""
    place = query.expand_as(logits)
    top = torch.full((*logits.shape[:2], tokens), -torch.inf, dtype=logits.dtype, device=logits.device)
    top = top.scatter_reduce(2, place, logits.detach(), "amax")
    mass = torch.exp(logits - top.gather(2, place))
    total = torch.zeros_like(top, dtype=mass.dtype).scatter_add(2, place, mass)
    return mass / total.gather(2, place)


def scatter_weights(along: EdgeWeights, edges: Edges, tokens: int) -> Float[Tensor, "row head token token"]:
    """Weights along edges as a matrix, 0 elsewhere."""
    dense = torch.zeros(*along.shape[:2], tokens * tokens, dtype=along.dtype, device=along.device)
    return dense.index_copy(2, edges[0] * tokens + edges[1], along).view(*along.shape[:2], tokens, tokens)


def _pairs(owner: str, edges: Any, count: int) -> Int[Tensor, "edge 2"]:
    try:
        given = torch.as_tensor(edges, device="cpu")
    except (TypeError, ValueError, RuntimeError) as problem:
        raise SettingsError(
            f"{owner}: edges is {edges!r}; give pairs (query, key) or a {count} x {count} matrix."
        ) from problem
    if given.shape == (count, count) and not (count == 2 and given.max() > 1):
        return torch.nonzero(given)
    if given.numel() == 0:
        return torch.empty(0, 2, dtype=torch.long, device="cpu")
    if given.dim() != 2 or given.shape[1] != 2:
        raise SettingsError(
            f"{owner}: edges has shape {tuple(given.shape)}; give pairs (query, key) or a {count} x {count} matrix."
        )
    if given.min() < 0 or given.max() >= count:
        named = int(given.min() if given.min() < 0 else given.max())
        raise SettingsError(f"{owner}: an edge names token {named}, but there are tokens 0 to {count - 1} only.")
    if given.is_floating_point() and (given != given.round()).any():
        raise SettingsError(f"{owner}: an edge names a token by a fraction; tokens are whole numbers, counted from 0.")
    return given.long()
