"""Paths through forecast quantiles, from which a forecast goes on, and the quantiles of what follows from all of them.

Quantiles say how far each step may be off, not how steps hang together. That is read from the past: the mean squared
difference of values `lag` steps apart, less that of the median forecast (its season, its trend), is twice the variance
that has changed after `lag` steps. A path is a normal score for each step, a sum of processes that forget their state
after 1, 4, 16, ... steps, with variances that change so, the slowest's cut short where the quantiles have less.
White noise forgets at once, a random walk hardly, a level under noise keeps its level; and each looks as rough as its
past does, where a quantile by itself is smooth.

The paths' last scores are spread evenly over the normal distribution, and from the second pass on moved so that paths
end where the mixture of all of them does: what follows begins as wide as what came before ends. The random numbers
between are the same for every series, so that a forecast depends on nothing but its own past.
"""

import math
from functools import lru_cache
from itertools import combinations
from statistics import NormalDist

import torch
from jaxtyping import Bool, Float
from torch import Tensor

COUNT = 13
"""Paths of a roll-out."""
SCALES = (1, 4, 16, 64, 256, 1024)
"""Steps after which the processes forget; the first ones are also the lags at which a past is measured."""
FORGETTING = 1.5
"""Time constants in a scale."""
ROUNDS = 300
"""Of the fit of variances to a past."""


@lru_cache(maxsize=64)
def spread_scores(index: int) -> Float[Tensor, " path"]:
    """Last scores of all paths in the pass of this number: means of equally probable parts of the normal distribution.

    From the second pass on they are in such an order that their sum over passes is as normal as they are: spreads of
    passes add up as those of independent steps do. The order is found by swaps of two at a time.
    """
    normal = NormalDist()
    heights = [0.0, *(normal.pdf(normal.inv_cdf(edge / COUNT)) for edge in range(1, COUNT)), 0.0]
    scores = -COUNT * torch.tensor(heights, dtype=torch.float64).diff()
    if not index:
        return scores
    before = torch.stack([spread_scores(earlier) for earlier in range(index)]).sum(0)
    swaps = torch.arange(COUNT).repeat(COUNT * (COUNT - 1) // 2 + 1, 1)  # the first stays as it is
    for row, (one, other) in zip(swaps[1:], combinations(range(COUNT), 2), strict=True):
        row[[one, other]] = row[[other, one]]
    best, order = -1, scores.flip(0)
    while best:
        off = (before + order[swaps]).sort(-1).values - (index + 1) ** 0.5 * scores
        best = int(off.square().sum(-1).argmin())
        order = order[swaps[best]]
    return order


@lru_cache(maxsize=8)
def draw_processes(index: int, steps: int) -> Float[Tensor, "path scale step"]:
    """Unit normal processes for the pass of this number.

    Few paths are many enough since at every step what is drawn for them has mean 0 and variance 1, and is correlated
    neither with their last scores nor between processes.
    """
    drawn = torch.randn(steps, COUNT, len(SCALES), generator=torch.Generator().manual_seed(index), dtype=torch.float64)
    given = torch.stack([torch.ones(COUNT, dtype=torch.float64), spread_scores(index)], -1)
    basis, factor = torch.linalg.qr(torch.cat([given.expand(steps, -1, -1), drawn], -1))
    noise = (COUNT**0.5 * basis * factor.diagonal(dim1=-2, dim2=-1).sign()[:, None])[..., 2:]
    keeps = _keep_states()
    states = [noise[0]]
    for step in noise[1:]:
        states.append(keeps * states[-1] + (1 - keeps.square()).sqrt() * step)
    return torch.stack(states, -1)


def measure_variances(
    past: Float[Tensor, "batch channel time"],
    observed: Bool[Tensor, "batch channel time"] | None,
    median: Float[Tensor, "batch channel step"],
) -> Float[Tensor, "batch channel scale"]:
    """Variances of the processes whose sum changes over all lags as the past does beyond what the median explains."""
    lags = [max(1, min(scale, past.shape[-1] // 4, median.shape[-1] // 2)) for scale in SCALES[:-1]]
    own = torch.stack([measure_change(past, observed, lag) - measure_change(median, None, lag) for lag in lags], -1)
    changes = own.cummax(-1).values.clamp(min=0)
    most = changes[..., -1:]
    wanted = (changes / most.clamp(min=1e-300)).clamp(min=1e-9)
    rates = 1 - _keep_states() ** torch.tensor(lags, dtype=torch.float64)[:, None]
    relative = rates.to(past.device) / wanted[..., None]
    factors = torch.ones_like(relative[..., 0, :])
    for _ in range(ROUNDS):  # expectation and maximisation: variances stay above 0
        fitted = torch.einsum("...ls,...s->...l", relative, factors).clamp(min=1e-300)
        factors = factors * torch.einsum("...ls,...l->...s", relative, 1 / fitted) / relative.sum(-2)
    return factors * most


def share_variance(
    variances: Float[Tensor, "batch channel scale"],
    quantiles: Float[Tensor, "batch channel step quantile"],
    levels: tuple[float, ...],
) -> Float[Tensor, "batch channel scale step"]:
    """The share of each process in the variance of each step: the quickest have theirs first.

    What the quantiles have beyond the variance of all is shared out as theirs are.
    """
    ones = quantiles.new_ones(quantiles.shape[:-1])
    deviation = (read_scores(quantiles, ones, levels) - read_scores(quantiles, -ones, levels)).double() / 2
    whole = variances.sum(-1)[..., None]
    variance = torch.where(whole > 0, torch.minimum(deviation.square(), whole), 1.0).clamp(min=1e-300)
    quick = variances[..., :-1].cumsum(-1)[..., None] / variance[:, :, None]
    ends = torch.ones_like(quick[:, :, :1])
    return torch.cat([0 * ends, quick.clamp(max=1), ends], 2).diff(dim=2)


def measure_change(
    values: Float[Tensor, "batch channel time"], observed: Bool[Tensor, "batch channel time"] | None, lag: int
) -> Float[Tensor, "batch channel"]:
    """Half the mean squared difference of observed values so many steps apart; 0 where there is no such pair."""
    there = torch.ones_like(values, dtype=torch.bool) if observed is None else observed
    pairs = there[..., lag:] & there[..., :-lag]
    moves = torch.where(pairs, values[..., lag:].double() - values[..., :-lag].double(), 0)
    return moves.square().sum(-1) / (2 * pairs.sum(-1).clamp(min=1))


def draw_path(
    quantiles: Float[Tensor, "batch channel step quantile"],
    shares: Float[Tensor, "batch channel scale step"],
    levels: tuple[float, ...],
    index: int,
    path: int,
    score: Float[Tensor, "batch channel"],
) -> Float[Tensor, "batch channel step"]:
    """One path through the quantiles of the pass of this number, which ends at a score."""
    steps = quantiles.shape[2]
    drawn = draw_processes(index, steps)[path].to(shares.device)
    back = torch.arange(steps - 1, -1, -1, device=shares.device, dtype=torch.float64)
    keeps = _keep_states().to(shares.device)
    roots = shares.sqrt()
    # Given their weighted sum at the last step, the processes are those drawn and a part of what the sum lacks, which
    # they forget backwards in time as they do forwards.
    last = roots[..., -1]
    lacking = score - (last * drawn[:, -1]).sum(-1)
    processes = drawn + keeps[:, None] ** back * (last * lacking[..., None])[..., None]
    return read_scores(quantiles, (roots * processes).sum(2).to(quantiles.dtype), levels)


def spread_ends(
    last: Float[Tensor, "batch channel path quantile"], levels: tuple[float, ...], index: int
) -> Float[Tensor, "batch channel path"]:
    """Last scores of all paths, by the quantiles of each at the last step of the pass of this number.

    Few draws from paths of different widths may end far from their mixture. So these say only in which order the paths
    end, and the evenly spread quantiles of the mixture say where.
    """
    even, scores = (spread_scores(one).to(last).expand(last.shape[:-1]) for one in (0, index))
    if not index:
        return even.double()
    order = read_scores(last, scores, levels).argsort(-1).argsort(-1)
    mixture = pool_quantiles(last, levels)[..., None, :].expand_as(last)
    return find_scores(last, read_scores(mixture, even, levels).gather(-1, order), levels).double()


def find_scores(
    quantiles: Float[Tensor, "*_ step quantile"], values: Float[Tensor, "*_ step"], levels: tuple[float, ...]
) -> Float[Tensor, "*_ step"]:
    """The normal scores that values stand for; those of the outermost quantiles beyond them."""
    marks = quantiles.new_tensor([NormalDist().inv_cdf(level) for level in levels])
    above = torch.searchsorted(quantiles.contiguous(), values[..., None].contiguous()).clamp(1, len(levels) - 1)
    low, high = (quantiles.gather(-1, one)[..., 0] for one in (above - 1, above))
    place = torch.where(high > low, (values - low) / (high - low), 0.5).clamp(0, 1)
    return torch.lerp(marks[above[..., 0] - 1], marks[above[..., 0]], place)


def read_scores(
    quantiles: Float[Tensor, "*_ step quantile"], scores: Float[Tensor, "*_ step"], levels: tuple[float, ...]
) -> Float[Tensor, "*_ step"]:
    """Values at normal scores, by lines between the quantiles and not beyond them."""
    marks = quantiles.new_tensor([NormalDist().inv_cdf(level) for level in levels])
    above = torch.searchsorted(marks, scores.contiguous()).clamp(1, len(levels) - 1)
    place = ((scores - marks[above - 1]) / (marks[above] - marks[above - 1])).clamp(0, 1)
    low, high = (quantiles.gather(-1, one[..., None])[..., 0] for one in (above - 1, above))
    return torch.lerp(low, high, place)


def pool_quantiles(
    values: Float[Tensor, "*_ path quantile"], levels: tuple[float, ...]
) -> Float[Tensor, "*_ quantile"]:
    """The quantiles of a mixture of equally probable paths, each given by its quantiles.

    A quantile stands for the probability that lies nearer to it than to its neighbours.
    """
    marks = torch.tensor(levels, dtype=values.dtype, device=values.device)
    edges = torch.cat([marks.new_zeros(1), (marks[1:] + marks[:-1]) / 2, marks.new_ones(1)])
    ordered, order = values.flatten(-2).sort(-1)
    share = (edges.diff() / values.shape[-2]).repeat(values.shape[-2])[order]
    centre = share.cumsum(-1) - share / 2
    above = torch.searchsorted(centre, marks.expand(*centre.shape[:-1], -1).contiguous()).clamp(1, centre.shape[-1] - 1)
    low, high = centre.gather(-1, above - 1), centre.gather(-1, above)
    place = ((marks - low) / (high - low)).clamp(0, 1)
    return torch.lerp(ordered.gather(-1, above - 1), ordered.gather(-1, above), place)


def _keep_states() -> Float[Tensor, " scale"]:
    """What each process keeps of its state from one step to the next."""
    return torch.tensor([math.exp(-FORGETTING / scale) if scale > 1 else 0.0 for scale in SCALES], dtype=torch.float64)
