"""Glance: a forecaster of series it was never trained on. One look back, quantiles of what comes next.

    z-scores over the observed steps -> asinh -> patches (values, which of them are there) -> MLP
    -> [tokens of the past, one empty token for each patch ahead]
    -> depth x [attention, RMS norm; gated feed-forward, RMS norm] (pre-norm), queries and keys turned by position
    -> tokens ahead -> Linear(width -> patch x quantiles) -> sinh -> back to the series' own scale, quantiles sorted

Forecasts are equivariant to scale and shift. Missing values are marked step by step; the time before a series began has
no tokens, or masked ones. With several lengths of patch, a series is read at the finest whose context holds all that
was observed, so that short series are not read too coarsely; where the horizon asks for a coarser one, its first steps
are those of the finer. So are those of a long series whose steps are too small to be seen beside all that it went
through: its newest part is read at the finest grain. Where a series rests on its lowest value time and again (zeros of
demand, nights of solar power), no quantile lies below it, and where it does so on its highest (100 % of a share, what a
machine can do at most), none above. Series that only ever rise, such as meter readings, are read as what they add at
each step (`_counters`). Horizons beyond one pass are rolled out along paths through the quantiles that are as rough as
the past (`_paths`): each is read as if it were observed, and the quantiles that follow from all of them are pooled. So
intervals go on widening, as a random walk does or not at all.

The attention is one setting, as everywhere. Channels stay apart unless it mixes groups (MICA): with gate "added" and
`exclude_self` a channel adds what the others hold to its own attention, and one channel is read as it is by itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from rearview.attention import Spec
from rearview.attention.contract import Site, Tokens, Weights
from rearview.core.errors import SettingsError
from rearview.models.blocks import setting
from rearview.models.blocks.stack import BlockSettings, Stack
from rearview.models.blocks.tokens import channel_groups
from rearview.models.contract import Axes, Marks, Model, ModelClaims, Past, Real, Shape, Steps, Token
from rearview.models.patch_hosts import _paths
from rearview.models.patch_hosts._counters import add_up, find_additions, find_counters

QUANTILES = (0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975)
FARTHEST = 10.0
"""Forecasts are cut off here on the asinh scale: some 11,000 standard deviations."""
SMOOTH = 0.02
"""Mean step, as a share of the deviation of all that is read, below which the newest part is read by itself."""
RESTS = 3
"""Times that a series must have come to its lowest or highest value for that to be a limit."""
RESTING = 0.05
"""Of the values of a past, those that must lie on a limit."""
MISSED = 3.0
"""Values above the highest that would be expected if each one were as much rarer than the next as the highest is."""
ROUNDING = 1e-14
"""Of a level, what may be left of it after it is subtracted: some 50 roundings in float64."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of Glance; the weights that come with the package have a second, finer grain."""

    width: setting.TokenWidth = 320
    heads: setting.HeadCount = 5
    depth: setting.Depth = 6
    feed_forward: int = 768
    """Width inside the gated feed-forward part."""
    patches: tuple[int, ...] = (16,)
    """Steps of a token at each grain, the finest first."""
    context: tuple[int, ...] = (128,)
    """Tokens of the past at each grain; older steps are cut off."""
    ahead: tuple[int, ...] = (48,)
    """Tokens ahead in one pass at each grain; more are rolled out."""
    quantiles: tuple[float, ...] = QUANTILES
    """Quantiles to forecast, the median among them."""
    answer: Literal["median", "quantiles"] = "median"
    """The steps asked for: medians, or for each step all quantiles."""
    dropout: setting.BlockDropout = 0.0

    def __post_init__(self) -> None:
        rising = list(self.patches) == sorted(set(self.patches))
        if not self.patches or not rising or any(patch < 1 for patch in self.patches):
            raise SettingsError(f"patches is {self.patches}; give patch lengths of at least 1, the finest first.")
        for name in ("context", "ahead"):
            counts = getattr(self, name)
            if len(counts) != len(self.patches) or any(count < 1 for count in counts):
                raise SettingsError(f"{name} is {counts}; give a number of at least 1 for each of {self.patches}.")
        ordered = list(self.quantiles) == sorted(set(self.quantiles))
        if not ordered or 0.5 not in self.quantiles or not all(0 < q < 1 for q in self.quantiles):
            raise SettingsError(f"quantiles is {self.quantiles}; give rising numbers between 0 and 1, 0.5 among them.")


class Limits(NamedTuple):
    """Values that series can't pass, [batch, channel]; infinite where none is known."""

    floor: Tensor
    ceiling: Tensor


class Grain(nn.Module):
    """Into tokens and back at one length of patch."""

    def __init__(self, patch: int, context: int, ahead: int, width: int, quantiles: int) -> None:
        super().__init__()
        self.patch = patch
        self.room = context * patch
        """Steps of the past that it reads."""
        self.reach = ahead * patch
        """Steps ahead of one pass."""
        self.quantiles = quantiles
        self.widen = nn.Linear(2 * patch, width)
        self.embed = nn.Linear(width, width)
        self.head = nn.Linear(width, patch * quantiles)

    def count_tokens(self, length: int, horizon: int) -> int:
        """Tokens of one pass over a past of some length, those ahead among them."""
        return -(-length // self.patch) + -(-min(self.reach, horizon) // self.patch)

    def tokens(self, z: Tensor, observed: Tensor) -> Tokens:
        """[batch, group, time] -> [batch, group, token, width]; what is missing is 0 and marked."""
        parts = torch.cat([z.unflatten(-1, (-1, self.patch)), observed.unflatten(-1, (-1, self.patch)).to(z.dtype)], -1)
        return self.embed(functional.silu(self.widen(parts)))

    def steps(self, tokens: Tokens) -> Tensor:
        """[batch, group, token, width] -> [batch, group, step, quantile]."""
        return self.head(tokens).unflatten(-1, (self.patch, self.quantiles)).flatten(2, 3)


class Network(Model):
    """Glance with any attention that mixes patches."""

    claims = ModelClaims()

    def __init__(self, shape: Shape, settings: Settings, attention: Spec = None) -> None:
        super().__init__(shape)
        shape.refuse_marks("glance")
        if shape.asks != "steps":
            raise SettingsError(f"glance forecasts and can't be asked for {shape.asks}; use patchtst.")
        count = len(settings.quantiles) if settings.answer == "quantiles" else 1
        if shape.steps % count:
            raise SettingsError(f"steps is {shape.steps}; of {count} quantiles each, it must be a multiple of {count}.")
        self.settings = settings
        self.horizon = shape.steps // count
        self.median = settings.quantiles.index(0.5)
        sizes = zip(settings.patches, settings.context, settings.ahead, strict=True)
        self.grains = nn.ModuleList(Grain(*size, settings.width, len(settings.quantiles)) for size in sizes)
        self.empty = nn.Parameter(0.02 * torch.randn(settings.width))
        width, heads = settings.width, settings.heads
        tokens = max(map(sum, zip(settings.context, settings.ahead, strict=True)))
        site = Site(shape.channels, tokens, width, heads, turned=width // heads, projection_bias=False, host="glance")
        block = BlockSettings(
            settings.feed_forward, norm="rms", bias=False, order="pre", activation="silu", gated=True,
            dropout=settings.dropout,
        )  # fmt: skip
        self.stack = Stack(site, settings.depth, block, attention, final_norm="rms")

    def forward(self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None) -> Steps:
        observed = None if mask is None else mask[:, None].expand(past.shape)
        quantiles = self.forecast(past, observed, self.horizon)
        return quantiles.flatten(2) if self.settings.answer == "quantiles" else quantiles[..., self.median]

    def forecast(
        self, past: Past, observed: Bool[Tensor, "batch channel time"] | None, horizon: int
    ) -> Float[Tensor, "batch channel {horizon} quantile"]:
        """Quantiles of the steps ahead in the units of the series, never crossing."""
        past, observed = past[..., -self.room :], None if observed is None else observed[..., -self.room :]
        read, there, counters = self.take_additions(past, observed)
        quantiles = self.forecast_values(read, there, horizon)
        if counters is None:
            return quantiles
        newest = past if observed is None else torch.where(observed, past, -torch.inf)
        readings = newest.amax(-1)[..., None, None] + add_up(quantiles, self.settings.quantiles)
        return torch.where(counters[..., None, None], readings, quantiles)

    def take_additions(self, past: Tensor, observed: Tensor | None) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The past with what counters add in their place, what of it is observed, and which are counters; None: no one.

        Training reads all values as they are.
        """
        counters = None if self.training else find_counters(past, observed)
        # A compiler can't ask whether there is one, and takes the way that is right for all.
        if counters is None or not (torch.compiler.is_compiling() or counters.any()):
            return past, observed, None
        additions, known = find_additions(past, observed)
        there = torch.ones_like(known) if observed is None else observed
        which = counters[..., None]
        return torch.where(which, additions, past), torch.where(which, known, there), counters

    def forecast_values(
        self, past: Past, observed: Bool[Tensor, "batch channel time"] | None, horizon: int
    ) -> Float[Tensor, "batch channel {horizon} quantile"]:
        """The same of values as they stand, whether they only rise or not."""
        grain = self.choose_grain(past.shape[-1], horizon)
        reach, room = grain.reach, grain.room
        newest, seen = past[..., -room:], None if observed is None else observed[..., -room:]
        limits = None if self.training else find_limits(newest, seen)
        parts = [self.look(past, observed, min(horizon, reach), grain).sort(-1).values]
        finer = self.find_finer(past.shape[-1], horizon)
        if finer is not None:
            parts[0] = fade(self.look(past, observed, finer.reach, finer).sort(-1).values, parts[0])
        elif not self.training:
            parts[0] = self.refine(parts[0], newest, seen)
        parts[0] = keep_within(parts[0], limits)
        if horizon > reach:
            parts += self.roll_out(newest, seen, parts[0], horizon - reach, grain, limits)
        return torch.cat(parts, 2)

    def roll_out(
        self, past: Tensor, observed: Tensor | None, first: Tensor, steps: int, grain: Grain, limits: Limits | None
    ) -> Iterator[Tensor]:
        """Quantiles of the steps beyond those of a first pass, pass by pass."""
        levels = self.settings.quantiles
        lines, ahead = [past] * _paths.COUNT, [first] * _paths.COUNT
        variances = _paths.measure_variances(past, observed, first[..., self.median])
        seen = observed
        for index, done in enumerate(range(0, steps, grain.reach)):
            ends = _paths.spread_ends(torch.stack([one[:, :, -1] for one in ahead], 2), levels, index)
            for path, (line, quantiles) in enumerate(zip(lines, ahead, strict=True)):
                shares = _paths.share_variance(variances, quantiles, levels)
                drawn = _paths.draw_path(quantiles, shares, levels, index, path, ends[..., path])
                lines[path] = torch.cat([line, drawn], -1)[..., -grain.room :]
            if seen is not None:
                seen = functional.pad(seen, (0, grain.reach), value=True)[..., -grain.room :]
            passes = (self.look(line, seen, min(steps - done, grain.reach), grain) for line in lines)
            ahead = [keep_within(quantiles.sort(-1).values, limits) for quantiles in passes]
            yield _paths.pool_quantiles(torch.stack(ahead, -2), levels)

    @property
    def room(self) -> int:
        """Steps of the past that it reads at most."""
        return max(grain.room for grain in self._grains)

    @property
    def reach(self) -> int:
        """Steps ahead of one pass at most."""
        return max(grain.reach for grain in self._grains)

    @property
    def _grains(self) -> list[Grain]:
        return [cast(Grain, grain) for grain in self.grains]

    def choose_grain(self, length: int, horizon: int) -> Grain:
        """The finest grain whose context holds the whole past and whose pass reaches the horizon; else the coarsest."""
        for grain in self._grains:
            if length <= grain.room and horizon <= grain.reach:
                return grain
        return grain

    def find_finer(self, length: int, horizon: int) -> Grain | None:
        """The finest grain that could read the whole past, if a coarser one was chosen for the horizon alone."""
        chosen = self.choose_grain(length, horizon)
        return next(
            (one for one in self._grains if length <= one.room and one.reach < min(horizon, chosen.reach)), None
        )

    def refine(self, steps: Tensor, past: Tensor, observed: Tensor | None) -> Tensor:
        """The first steps of series that move smoothly, read from the newest part of their past at the finest grain."""
        finest = self._grains[0]
        if past.shape[-1] <= finest.room:
            return steps
        smooth = find_smooth(past, observed, finest.room)
        rows = smooth.any(1)
        if not rows.any():
            return steps
        newest = None if observed is None else observed[rows][..., -finest.room :]
        ahead = min(finest.reach, steps.shape[2])
        near = self.look(past[rows][..., -finest.room :], newest, ahead, finest).sort(-1).values
        if ahead < steps.shape[2]:
            near = fade(near, steps[rows])
        steps = steps.clone()
        steps[rows] = torch.where(smooth[rows][..., None, None], near, steps[rows])
        return steps

    def look(self, past: Tensor, observed: Tensor | None, steps: int, grain: Grain) -> Tensor:
        """One pass: [batch, channel, steps, quantile] in the units of the series, not sorted yet."""
        past, seen = fit_context(past, observed, grain)
        z, centre, scale = standardise(past, seen)
        mask = None if observed is None else find_begun(seen, grain)
        quantiles = self.read(z.to(self.empty.dtype), seen, -(-steps // grain.patch), grain, mask)
        return torch.sinh(quantiles.to(past.dtype).clamp(-FARTHEST, FARTHEST))[..., :steps, :] * scale + centre

    def read(self, z: Tensor, observed: Tensor, ahead: int, grain: Grain, mask: Tensor | None = None) -> Tensor:
        """asinh of z-scores of the past -> quantiles of the same for `ahead` patches: the network proper."""
        tokens = self.stack(*self.tokenise(z, observed, ahead, grain, mask))[:, :, -ahead:]
        return grain.steps(tokens).float()

    def tokenise(
        self, z: Tensor, observed: Tensor, ahead: int, grain: Grain, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Tokens of the past and empty ones ahead, and which of them are there."""
        x = grain.tokens(z, observed)
        empty = self.empty.expand(*x.shape[:2], ahead, -1).to(x.dtype)
        if mask is not None:
            # A channel without a value has no tokens ahead either: others must not read what is not there.
            mask = torch.cat([mask, mask[..., -1:].expand(*mask.shape[:2], ahead)], 2)
        return torch.cat([x, empty], 2), mask

    def weights(
        self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None
    ) -> list[Weights]:
        grain = self.choose_grain(past.shape[-1], self.horizon)
        observed = None if mask is None else mask[:, None].expand(past.shape)
        past, observed = past[..., -self.room :], None if observed is None else observed[..., -self.room :]
        past, observed, _ = self.take_additions(past, observed)
        past, seen = fit_context(past, observed, grain)
        begun = None if observed is None else find_begun(seen, grain)
        z, _, _ = standardise(past, seen)
        return self.stack.weights(*self.tokenise(z, seen, self._tokens_ahead(grain), grain, begun))

    def axes(self) -> list[Axes]:
        grain = self.choose_grain(self.shape.lookback, self.horizon)
        back = -(-min(grain.room, self.shape.lookback) // grain.patch)
        starts = range(-back * grain.patch, self._tokens_ahead(grain) * grain.patch, grain.patch)
        first, last = -self.shape.lookback, self.horizon
        tokens = tuple(Token(steps=(max(first, start), min(last, start + grain.patch))) for start in starts)
        return [Axes(channel_groups(self.shape), tokens)] * len(self.stack.blocks)

    def prepare(self, windows: Past) -> None:
        self.stack.prepare(windows)

    def _tokens_ahead(self, grain: Grain) -> int:
        return -(-min(grain.reach, self.horizon) // grain.patch)


def fit_context(past: Tensor, observed: Tensor | None, grain: Grain) -> tuple[Tensor, Tensor]:
    """The newest steps that fill whole patches, and which are observed; a short past is filled up in front."""
    past = past[..., -grain.room :]
    lacking = -past.shape[-1] % grain.patch
    observed = torch.ones_like(past, dtype=torch.bool) if observed is None else observed[..., -grain.room :]
    return functional.pad(past, (lacking, 0)), functional.pad(observed, (lacking, 0), value=False)


def find_begun(observed: Tensor, grain: Grain) -> Tensor | None:
    """[batch, channel, token] True from the first patch that holds a value; None where that is everywhere.

    Patches without a value in between are read as empty ones.
    """
    begun = observed.unflatten(-1, (-1, grain.patch)).any(-1).cumsum(-1) > 0
    # Without padding attention has no mask to look at, which is faster.
    return None if not torch.compiler.is_compiling() and bool(begun.all()) else begun


def find_smooth(past: Tensor, observed: Tensor | None, newest: int) -> Bool[Tensor, "batch channel"]:
    """Series most of whose newest steps move, and by little beside the deviation of the whole past."""
    there = torch.ones_like(past, dtype=torch.bool) if observed is None else observed
    count = there.sum(-1).clamp(min=1)
    wide = torch.where(there, past, 0).double()
    centred = torch.where(there, wide - (wide.sum(-1) / count)[..., None], 0)
    deviation = (centred.square().sum(-1) / count).sqrt()
    pairs = (there[..., 1:] & there[..., :-1])[..., -newest + 1 :]
    moves = torch.where(pairs, wide.diff(dim=-1)[..., -newest + 1 :].abs(), 0)
    total = pairs.sum(-1)
    return (moves.sum(-1) < SMOOTH * deviation * total) & (2 * (moves > 0).sum(-1) > total)


def find_limits(past: Tensor, observed: Tensor | None) -> Limits:
    """The lowest and the highest value of series that come to it time and again and stay for a while.

    What rises reaches one highest value after another: a ceiling was there in the first half of the past, too. And
    counts become rarer towards their highest: at a ceiling so many lie that more would, had they gone on like that.
    What only ever rises does not fall below its newest value.
    """
    there = torch.ones_like(past, dtype=torch.bool) if observed is None else observed
    lowest = torch.where(there, past, torch.inf).amin(-1)
    highest = torch.where(there, past, -torch.inf).amax(-1)
    half = 2 * there.cumsum(-1) <= there.sum(-1, keepdim=True)
    at_top = there & (past == highest[..., None])
    second = torch.where(there & ~at_top, past, -torch.inf).amax(-1)
    top, below = at_top.sum(-1), (there & (past == second[..., None])).sum(-1).clamp(min=1)
    stopped = (at_top & half).any(-1) & (top * (top / below).clamp(max=1) >= MISSED)
    floor = torch.where(find_rests(past, there, lowest), lowest, -torch.inf)
    return Limits(
        torch.where(find_counters(past, observed), highest, floor),
        torch.where(find_rests(past, there, highest) & stopped, highest, torch.inf),
    )


def find_rests(past: Tensor, there: Tensor, extreme: Tensor) -> Bool[Tensor, "batch channel"]:
    """Whether the observed values come to one of them often enough, and are often enough it, for that to be a limit."""
    resting = there & (past == extreme[..., None])
    arrivals = (resting[..., 1:] & (there & ~resting)[..., :-1]).sum(-1)
    return (arrivals >= RESTS) & (resting.sum(-1) >= RESTING * there.sum(-1))


def keep_within(quantiles: Tensor, limits: Limits | None) -> Tensor:
    """Quantiles [batch, channel, step, quantile] cut off at the limits of their series."""
    if limits is None:
        return quantiles
    return quantiles.clamp(limits.floor[..., None, None], limits.ceiling[..., None, None])


def fade(
    near: Float[Tensor, "*_ near quantile"], far: Float[Tensor, "*_ far quantile"]
) -> Float[Tensor, "*_ far quantile"]:
    """Quantiles of the first steps, which give way to those of all steps over the second half of the first ones."""
    steps = near.shape[-2]
    half = steps // 2
    share = (torch.arange(1 - half, steps + 1 - half, device=near.device).clamp(min=0) / (steps + 1 - half)).to(
        near.dtype
    )
    return torch.cat([torch.lerp(near, far[..., :steps, :], share[:, None]), far[..., steps:, :]], -2)


def standardise(past: Tensor, observed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """asinh of z-scores over the observed steps (0 elsewhere), and each series' centre and scale, 0 for a constant one.

    Sums are taken in float64: a level of 1e12 must not drown what varies around it.
    """
    wide = torch.where(observed, past, 0).double()
    count = observed.sum(-1, keepdim=True).clamp(min=1)
    centre = wide.sum(-1, keepdim=True) / count
    centred = torch.where(observed, wide - centre, 0)
    variance = centred.square().sum(-1, keepdim=True) / count
    scale = torch.where(variance > 0, variance.clamp(min=1e-300).sqrt(), 0.0)  # a root whose gradient at 0 is 0
    # What the rounding of the mean leaves of a constant series is no scale: all of its quantiles are the constant.
    scale = torch.where(scale > ROUNDING * centre.abs(), scale, 0.0)
    z = torch.asinh(centred / torch.where(scale > 0, scale, 1.0)).to(past.dtype)
    return z, centre[..., None].to(past.dtype), scale[..., None].to(past.dtype)
