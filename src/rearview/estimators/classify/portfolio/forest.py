"""A forest of randomised trees: splits at random places, the best of a few, in trees of resampled cases.

After extremely randomised trees (Geurts, Ernst and Wehenkel, 2006), each grown on cases drawn with repetition, so that
the trees that did not draw a case answer for it. All trees of a portion grow together, level by level, as arithmetic
on whole arrays.
"""

from collections.abc import Mapping
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
    """The trees, each as arrays over its nodes; the root is node 0. Only classes that a leaf has are held for it."""

    features: Tensor
    """[tree, node]: the feature that is compared; 0 at a leaf."""
    thresholds: Tensor
    """[tree, node]: a case with more goes right."""
    children: Tensor
    """[tree, node]: the left child, the right one follows it; 0 at a leaf."""
    first: Tensor
    """[trees x nodes + 1]: the first entry of each node, tree after tree."""
    entry_classes: Tensor
    """[entry]: a class among the training cases at a leaf."""
    entry_shares: Tensor
    """[entry]: its share of them."""
    classes: Tensor
    """The number of classes."""

    def vote(self, features: Float[Tensor, "case feature"]) -> Float[Tensor, "case class"]:
        """Shares of the classes, averaged over all trees."""
        return self.add_up(features) / len(self.features)

    def add_up(self, features: Float[Tensor, "case feature"], by: Tensor | None = None) -> Float[Tensor, "case class"]:
        """Shares of the classes, added up over all trees, or over those that are true for a case in [case, tree]."""
        together = portion(features, len(self.features) + int(self.classes))
        parts = features.split(together)
        which = [None] * len(parts) if by is None else by.split(together)
        return torch.cat([self._add_up(*each) for each in zip(parts, which, strict=True)])

    def _add_up(self, features: Tensor, by: Tensor | None) -> Tensor:
        leaf = self._leaves(features)
        row = torch.arange(len(leaf), device=leaf.device)[:, None].expand_as(leaf)
        leaf, row = (leaf.flatten(), row.flatten()) if by is None else (leaf[by], row[by])
        begin, count = self.first[leaf], self.first[leaf + 1] - self.first[leaf]
        before = (count.cumsum(0) - count).repeat_interleave(count)
        entry = begin.repeat_interleave(count) + torch.arange(len(before), device=leaf.device) - before
        total = features.new_zeros(len(features), int(self.classes))
        place = row.repeat_interleave(count), self.entry_classes[entry]
        return total.index_put_(place, self.entry_shares[entry], accumulate=True)

    def _leaves(self, features: Tensor) -> Int[Tensor, "case tree"]:
        """The leaf of each case in each tree, numbered through all trees."""
        trees = torch.arange(len(self.features), device=features.device)
        at = torch.zeros(len(features), len(trees), dtype=torch.int64, device=features.device)
        for _ in range(DEEPEST):
            child = self.children[trees, at]
            if not child.any():
                break
            right = features.gather(1, self.features[trees, at]) > self.thresholds[trees, at]
            at = torch.where(child > 0, child + right, at)
        return at + trees * self.features.shape[1]


def load_forest(tensors: Mapping[str, Tensor]) -> Forest:
    """The forest that its tensors describe, or those of one saved with the shares of all classes at all nodes."""
    if "shares" not in tensors:
        return Forest.from_tensors(tensors)
    shares = tensors["shares"].flatten(0, 1)
    node, label = shares.nonzero(as_tuple=True)
    entries = {"first": _count_up(node, len(shares)), "entry_classes": label, "entry_shares": shares[node, label]}
    return Forest.from_tensors({**tensors, **entries, "classes": label.new_tensor(shares.shape[1])})


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
    levels = [
        {**level, "tree": level["tree"] + begin, "entry_tree": level["entry_tree"] + begin}
        for begin in range(0, trees, together)
        for level in _grow(features, codes, classes, drawn[begin : begin + together], tried, random)
    ]
    forest = _assemble(levels, trees, classes)
    unseen = torch.ones(trees, cases, dtype=torch.bool, device=features.device).scatter_(1, drawn, False)
    left_out = forest.add_up(features, unseen.T) / unseen.sum(0)[:, None].clamp(min=1)
    return forest, torch.where(unseen.any(0)[:, None], left_out, torch.nan)


def _grow(
    features: Tensor, codes: Tensor, classes: int, drawn: Tensor, tried: int, random: np.random.Generator
) -> list[dict[str, Tensor]]:
    """Grow a tree for each row of drawn cases; nodes of all trees on a level are numbered through.

    Classes are counted where they occur: places times classes would be far more numbers than cases where both are many.
    """
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
        found, entry, count = torch.unique(at * classes + label, return_inverse=True, return_counts=True)
        held, held_class, count = found // classes, found % classes, count.to(features.dtype)
        size = torch.zeros(places, device=device).index_add_(0, held, count)
        most = torch.zeros(places, device=device).scatter_reduce(0, held, count, "amax")
        order = torch.arange(places, device=device)
        begin = torch.zeros(trees, dtype=torch.int64, device=device).scatter_reduce(
            0, tree, order, "amin", include_self=False
        )
        node = first[tree] + order - begin[tree]
        open_ = (most < size) & (depth < DEEPEST - 1)
        feature = torch.zeros(places, dtype=torch.int64, device=device)
        threshold = torch.zeros(places, device=device)
        split = torch.zeros(places, dtype=torch.bool, device=device)
        inside = open_[at]
        case, label, at, entry = case[inside], label[inside], at[inside], entry[inside]
        if len(case):
            choice = torch.randint(features.shape[1], (places, tried), generator=generator).to(device)
            shares = torch.rand(places, tried, generator=generator).to(device)
            values = features[case[:, None], choice[at]]
            where = at[:, None].expand_as(values)
            low = torch.full((places, tried), torch.inf, device=device).scatter_reduce(0, where, values, "amin")
            high = torch.full((places, tried), -torch.inf, device=device).scatter_reduce(0, where, values, "amax")
            cut = low + shares * (high - low)
            right = (values > cut[at]).to(values.dtype)
            still = open_[held]
            row = (still.long().cumsum(0) - 1)[entry]
            on_right = torch.zeros(int(still.sum()), tried, device=device).index_add_(0, row, right)
            on_left = count[still][:, None] - on_right
            loss = sum(_disorder(on_side, held[still], places) for on_side in (on_right, on_left))
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
                **{name: part[~split[held]] for name, part in {
                    "entry_tree": tree[held], "entry_node": node[held], "entry_classes": held_class,
                    "entry_shares": count / size[held],
                }.items()},
            }
        )  # fmt: skip
        first = first + nodes
        if not split.any():
            break
        tree = tree[split].repeat_interleave(2)
        stays = split[at]
        case, label = case[stays], label[stays]
        at = 2 * rank[at[stays]] + side[stays]
    return levels


def _disorder(
    counts: Float[Tensor, "entry tried"], held: Int[Tensor, " entry"], places: int
) -> Float[Tensor, "place tried"]:
    """Cases of each place times the entropy of their classes, an entry for each place and class."""
    total, apart = (
        counts.new_zeros(places, counts.shape[1]).index_add_(0, held, part)
        for part in (counts, torch.xlogy(counts, counts))
    )
    return torch.xlogy(total, total) - apart


def _assemble(levels: list[dict[str, Tensor]], trees: int, classes: int) -> Forest:
    arrays = {name: torch.cat([level[name] for level in levels]) for name in levels[0]}
    nodes = int(arrays["node"].max()) + 1
    laid = {}
    for name in ("features", "thresholds", "children"):
        laid[name] = arrays[name].new_zeros(trees, nodes)
        laid[name][arrays["tree"], arrays["node"]] = arrays[name]
    place, order = (arrays["entry_tree"] * nodes + arrays["entry_node"]).sort()
    return Forest(
        **laid,
        first=_count_up(place, trees * nodes),
        entry_classes=arrays["entry_classes"][order],
        entry_shares=arrays["entry_shares"][order],
        classes=place.new_tensor(classes),
    )


def _count_up(place: Int[Tensor, " entry"], places: int) -> Int[Tensor, " place"]:
    """Entries before each place, and all of them at the end."""
    return torch.cat([place.new_zeros(1), torch.bincount(place, minlength=places).cumsum(0)])
