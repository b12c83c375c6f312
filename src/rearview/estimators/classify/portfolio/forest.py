"""A forest of randomised trees: splits at random places, the best of a few, in trees of resampled cases.

After extremely randomised trees (Geurts, Ernst and Wehenkel, 2006), each grown on cases drawn with repetition, so that
the trees that did not draw a case answer for it. All trees of a portion grow together, level by level, as arithmetic
on whole arrays.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rearview.models.features.contract import TensorRecord, portion

TREES = 150
TRIED = 0.1
"""Share of the features among which a split is chosen."""
MOST_CASES = 4_000
"""Cases that a tree is grown on, at most."""
DEEPEST = 24


@dataclass(frozen=True, slots=True, eq=False)
class Forest(TensorRecord):
    """The trees, each as arrays over its nodes; the root is node 0."""

    features: Tensor
    """[tree, node]: the feature that is compared; 0 at a leaf."""
    thresholds: Tensor
    """[tree, node]: a case with more goes right."""
    children: Tensor
    """[tree, node]: the left child, the right one follows it; 0 at a leaf."""
    shares: Tensor
    """[tree, node, class]: classes of the training cases at the node."""

    def vote(self, features: Float[Tensor, "case feature"]) -> Float[Tensor, "case class"]:
        """Shares of the classes, averaged over all trees."""
        together = portion(features, len(self.features) * self.shares.shape[-1])
        return torch.cat([self._by_tree(part).mean(1) for part in features.split(together)])

    def _by_tree(self, features: Tensor) -> Float[Tensor, "case tree class"]:
        trees = torch.arange(len(self.features), device=features.device)
        at = torch.zeros(len(features), len(trees), dtype=torch.int64, device=features.device)
        for _ in range(DEEPEST):
            child = self.children[trees, at]
            if not child.any():
                break
            right = features.gather(1, self.features[trees, at]) > self.thresholds[trees, at]
            at = torch.where(child > 0, child + right, at)
        return self.shares[trees, at]


def grow_forest(
    features: Float[Tensor, "case feature"],
    codes: Int[Tensor, " case"],
    classes: int,
    random: np.random.Generator,
    trees: int = TREES,
) -> tuple[Forest, Float[Tensor, "case class"]]:
    """(the forest, for each training case the shares by the trees that did not draw it)."""
    cases = len(features)
    drawn = torch.from_numpy(random.integers(cases, size=(trees, min(cases, MOST_CASES)))).to(features.device)
    tried = max(1, round(TRIED * features.shape[1]))
    together = portion(features, drawn.shape[1] * tried)
    parts = [_grow(features, codes, classes, some, tried, random) for some in drawn.split(together)]
    widest = max(part.features.shape[1] for part in parts)
    forest = Forest(
        **{
            name: torch.cat([_widen(getattr(part, name), widest) for part in parts])
            for name in ("features", "thresholds", "children", "shares")
        }
    )
    unseen = torch.ones(trees, cases, dtype=torch.bool, device=features.device).scatter_(1, drawn, False)
    left_out = torch.cat(
        [
            (forest._by_tree(part) * seen.T[..., None]).sum(1) / seen.sum(0)[:, None].clamp(min=1)
            for part, seen in zip(features.split(256), unseen.split(256, dim=1), strict=True)
        ]
    )
    return forest, torch.where(unseen.any(0)[:, None], left_out, torch.nan)


def _widen(array: Tensor, nodes: int) -> Tensor:
    more = array.new_zeros(len(array), nodes - array.shape[1], *array.shape[2:])
    return torch.cat([array, more], dim=1)


def _grow(
    features: Tensor, codes: Tensor, classes: int, drawn: Tensor, tried: int, random: np.random.Generator
) -> Forest:
    """Grow a tree for each row of drawn cases; nodes of all trees on a level are numbered through."""
    device, trees = features.device, len(drawn)
    generator = torch.Generator().manual_seed(int(random.integers(2**62)))
    case = drawn.flatten()
    label = codes[case]
    at = torch.arange(trees, device=device).repeat_interleave(drawn.shape[1])  # the place of each case on its level
    tree = torch.arange(trees, device=device)  # of each place on the level
    first = torch.zeros(trees, dtype=torch.int64, device=device)  # nodes of each tree on the levels above
    levels: list[dict[str, Tensor]] = []
    for depth in range(DEEPEST):
        places = len(tree)
        count = torch.zeros(places * classes, device=device)
        count.index_add_(0, at * classes + label, torch.ones_like(label, dtype=count.dtype))
        count = count.view(places, classes)
        size = count.sum(1)
        order = torch.arange(places, device=device)
        begin = torch.zeros(trees, dtype=torch.int64, device=device).scatter_reduce(
            0, tree, order, "amin", include_self=False
        )
        node = first[tree] + order - begin[tree]
        open_ = (count.amax(1) < size) & (depth < DEEPEST - 1)
        feature = torch.zeros(places, dtype=torch.int64, device=device)
        threshold = torch.zeros(places, device=device)
        split = torch.zeros(places, dtype=torch.bool, device=device)
        inside = open_[at]
        case, label, at = case[inside], label[inside], at[inside]
        if len(case):
            choice = torch.randint(features.shape[1], (places, tried), generator=generator).to(device)
            shares = torch.rand(places, tried, generator=generator).to(device)
            values = features[case[:, None], choice[at]]
            where = at[:, None].expand_as(values)
            low = torch.full((places, tried), torch.inf, device=device).scatter_reduce(0, where, values, "amin")
            high = torch.full((places, tried), -torch.inf, device=device).scatter_reduce(0, where, values, "amax")
            cut = low + shares * (high - low)
            right = (values > cut[at]).to(values.dtype)
            on_right = torch.zeros(places * classes, tried, device=device).index_add_(0, at * classes + label, right)
            on_right = on_right.view(places, classes, tried)
            loss = _disorder(on_right) + _disorder(count[..., None] - on_right)
            loss = torch.where(high > low, loss, torch.inf)
            best = loss.argmin(1)
            split = open_ & loss.gather(1, best[:, None])[:, 0].isfinite()
            feature = choice.gather(1, best[:, None])[:, 0] * split
            threshold = torch.where(split, cut.gather(1, best[:, None])[:, 0], 0.0)
            side = right.gather(1, best[at][:, None])[:, 0].long()
        nodes = torch.bincount(tree, minlength=trees)
        rank = split.long().cumsum(0) - 1  # among the places that split
        earlier = torch.bincount(tree[split], minlength=trees).cumsum(0)
        before = torch.cat([earlier.new_zeros(1), earlier[:-1]])
        child = torch.where(split, (first + nodes)[tree] + 2 * (rank - before[tree]), 0)
        levels.append(
            {
                "tree": tree, "node": node, "features": feature, "thresholds": threshold, "children": child,
                "shares": count / size[:, None].clamp(min=1),
            }
        )  # fmt: skip
        first = first + nodes
        if not split.any():
            break
        tree = tree[split].repeat_interleave(2)
        stays = split[at]
        case, label = case[stays], label[stays]
        at = 2 * rank[at[stays]] + side[stays]
    return _assemble(levels, trees, int(first.max()), classes)


def _disorder(counts: Float[Tensor, "place class tried"]) -> Float[Tensor, "place tried"]:
    """Cases times the entropy of their classes."""
    total = counts.sum(1)
    return torch.xlogy(total, total) - torch.xlogy(counts, counts).sum(1)


def _assemble(levels: list[dict[str, Tensor]], trees: int, nodes: int, classes: int) -> Forest:
    tree = torch.cat([level["tree"] for level in levels])
    node = torch.cat([level["node"] for level in levels])

    def lay_out(name: str) -> Tensor:
        values = torch.cat([level[name] for level in levels])
        laid = values.new_zeros(trees, nodes, *values.shape[1:])
        laid[tree, node] = values
        return laid

    return Forest(*(lay_out(name) for name in ("features", "thresholds", "children", "shares")))
