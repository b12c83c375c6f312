"""Fit simple detectors and a network to ordinary rows, make their scores comparable, and combine them.

Every member gives an error for each cell. Errors are averaged over channels and over a few rows, divided by their mean
on rows that the member's fit did not see, and ranked among those rows (`ranks`): an error counts when it is rare for
its member. Members are averaged, weighted by how well each finds anomalies that are made in those rows
(`trust`), ranked once more, so that series can be compared, and divided by how far a series has moved for good
(`drift`). Members that are cheap to fit are fitted once more to all ordinary rows before they are used.

The rows that a fit does not see are the last ones, or, where these are too few, all rows in turn. Of short series
single cells that stand out among their neighbours are left out of everything that is learned (`spikes`).
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from rearview import train
from rearview.data.panel import Finding, Panel
from rearview.data.scale import Scaler
from rearview.estimators.base import NO_CHECKPOINT, Forwarded, Session
from rearview.estimators.detect import constant_channels
from rearview.estimators.detect import fit as network_fit
from rearview.estimators.detect.calibration import (
    Calibration,
    HeldOut,
    Usual,
    average_channels,
    draw_thresholds,
    find_usual,
)
from rearview.estimators.detect.fit import HELD_OUT, Fitted, Prepared
from rearview.estimators.detect.portfolio import spikes
from rearview.estimators.detect.portfolio.drift import Drift, divide
from rearview.estimators.detect.portfolio.members import Clusters, Components, Member, Neighbours, Shapes, thin
from rearview.estimators.detect.portfolio.patches import average_errors, cut_windows, first_rows, pad
from rearview.estimators.detect.portfolio.ranks import Ranks, usual_quantile
from rearview.estimators.detect.portfolio.trust import Weights, learn_weights
from rearview.estimators.detect.scoring import Scores
from rearview.estimators.detect.spec import NETWORK, DetectSpec
from rearview.tasks.plan import Choice, Plan

WINDOW = 50
"""Rows of a window that simple members look at."""
AVERAGED = 30
"""Rows that errors are averaged over."""
LEAST_NETWORK = 5_000
"""Rows of a usual series with which the network is a member: with fewer it makes the score worse."""
MOST_WIDE = 2_000
"""Cells of a window: with many channels it has fewer rows."""
FURTHEST = 1e3
"""Standard deviations at which cells are clipped."""
LEAST_OWN = 400
"""Rows to learn from with which a series has fits of its own."""
MOST_OWN = 100
"""Series that have fits of their own, at most; where there are more, all share one."""
MOST_LEARNED = 8_000
"""Windows that a fit learns from, evenly spaced: of its series, or of all together for series without one."""
LEAST_SPOILT = 6_400
"""Rows of the longest series with which clusters are found among rows that hold anomalies themselves: with fewer, an
anomaly would be a cluster of its own."""
LEAST_LEVEL = 1e-4
"""The least usual error of a member: a perfect fit must not make tiny errors alarms."""
TRIMMED = 0.05
"""Share of held-out rows, the worst, that do not count for what is usual: anomalies among them must not hide others."""
TURNS = 5
"""Parts of rows that are held out one after the other where the last rows are too few for it."""
LEAST_WINDOWS = 10
"""Windows that fit side by side into the longest series then: they have fewer rows."""
AVERAGES = 5
"""Averages of errors that fit side by side into such a window: over many rows one spike of few would not show."""
USUAL_SCALE = 0.3
"""The scale of the tail of a member that is usual: of ordinary rows that are far off, errors are larger by a third."""
KINDS: Mapping[str, type[Member]] = {
    "clusters": Clusters,
    "neighbours": Neighbours,
    "components": Components,
    "shapes": Shapes,
}
BALANCED = ("neighbours", "components", NETWORK)
"""Members whose errors are divided by what is usual for their channel; others weigh channels by how far they move."""
ROOTED = ("components",)
"""Members that average the roots of errors over channels: one channel that is far off does not drown the others."""
MEANING = {
    "clusters": "distance from the nearest of the clusters that windows fall into (k-means)",
    "neighbours": "distance from the nearest of remembered windows",
    "components": "distance of a cell from what all others of its window imply (principal components)",
    "shapes": "distance from the nearest of remembered windows, each without its level",
    NETWORK: "error of giving a longer window back by attention over channels",
}
"""Members in the order in which they are fitted."""

Errors = NDArray[np.float32]
"""[row, channel]; NaN where a cell was not observed."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A member on the leaderboard."""

    name: str
    meaning: str
    weight: float
    """In the score, on average over series."""
    usual: float
    """Its mean error on held-out rows, which its errors are compared with."""
    agreement: float
    """Rank correlation with the score of all members, on held-out rows."""
    seconds: float
    """That its fits took."""


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """The usual errors of a member, on rows that its fit did not see."""

    usual: Usual
    """By channel."""
    levels: NDArray[np.float64]
    """[series]: of rows."""
    level_elsewhere: float
    """The same for series that were not seen in training."""
    rooted: bool = False
    """Whether the roots of errors are averaged over channels."""
    ranks: Ranks | None = None
    """Of the logarithms of errors over what is usual; None: these are compared as they are."""


@dataclass(frozen=True, slots=True, eq=False)
class RowReader:
    """Scales rows for the simple members."""

    device: torch.device
    shrink: NDArray[np.float32]
    """[series, channel]: standard scores times it; a channel that rarely moves must not drown the others."""
    groups: NDArray[np.int64]
    """[series]: which fit a series has; the first is that of all others."""
    window: int

    def values(self, panel: Panel, scaler: Scaler, place: list[int | None]) -> Iterator[tuple[int, Tensor]]:
        """(fit, scaled rows [row, channel]) of each series."""
        for s, (a, b) in enumerate(panel.bounds()):
            at = place[s]
            scaled = (panel.values[a:b] - scaler.mean[s]) / scaler.std[s]
            scaled = np.clip(scaled, -FURTHEST, FURTHEST) * self.shrink_of(at)
            yield 0 if at is None else int(self.groups[at]), torch.from_numpy(scaled.astype(np.float32)).to(self.device)

    def shrink_of(self, at: int | None) -> NDArray[np.float32]:
        """[channel]: that of a series, by its place among those of training."""
        shrink: NDArray[np.float32] = np.median(self.shrink, axis=0) if at is None else self.shrink[at]
        return shrink


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Portfolio:
    """Fitted members and everything needed to use them on new rows."""

    spec: DetectSpec
    plan: Plan
    network: Fitted
    """The member that is a network; what it knows of series, channels and their scale serves all."""
    members: Mapping[str, tuple[Member, ...]]
    """Simple members, each with a fit for every group of series."""
    shrink: NDArray[np.float32]
    groups: NDArray[np.int64]
    window: int
    averaged: int
    """Rows that errors are averaged over."""
    references: Mapping[str, Reference]
    weights: Weights
    """Of the members, in the order of `references`."""
    ranks: Ranks | None
    """Of the means over members; None: these are the score."""
    drift: Drift
    calibration: Calibration
    standings: tuple[Standing, ...]
    notes: tuple[str, ...]

    name = "auto"

    ids = Forwarded[tuple[str, ...]]("network")
    columns = Forwarded[tuple[str, ...]]("network")
    step = Forwarded[str]("network")
    findings = Forwarded[tuple[Finding, ...]]("network")
    windows = Forwarded[dict[str, int]]("network")
    lookback = Forwarded[int]("network")
    device = Forwarded[torch.device]("network")
    history = Forwarded[train.History | None]("network")
    interrupted = Forwarded[bool]("network")

    @property
    def parameters(self) -> int:
        """How many numbers were learned."""
        tensors = (t for fits in self.members.values() for fit in fits for t in fit.tensors().values())
        own = self.network.parameters if NETWORK in self.references else 0
        return own + sum(tensor.numel() for tensor in tensors)

    def place(self, panel: Panel) -> list[int | None]:
        """[series]: where each series of a panel stands among those of training; None: it was not seen there."""
        return self.network.place(panel)

    def scores(self, panel: Panel) -> Scores:
        """How unusual the rows of a panel are, and the part of each member."""
        scores, place = self.raw_scores(panel), self.place(panel)
        divisors = [self.drift.divisor(scores.rows[a:b], at) for at, (a, b) in zip(place, panel.bounds(), strict=True)]
        return divide(scores, panel, divisors)

    def raw_scores(self, panel: Panel) -> Scores:
        """The scores relative to the training rows, also of series that have moved since."""
        place = self.place(panel)
        combined = combine(self.errors(panel), self.references, self.weights, panel, place, self.averaged)
        return rank_rows(combined, self.ranks, panel, place)

    def errors(self, panel: Panel) -> dict[str, Errors]:
        """The errors of each member."""
        reader = RowReader(self.device, self.shrink, self.groups, self.window)
        place, scaler = self.place(panel), self.network.scaler(panel)
        constant = self.network.constant_in(panel)
        panel = _fill_gaps(self.members["components"], reader, panel, scaler, place)
        errors = {name: _errors(fits, reader, panel, scaler, place, constant) for name, fits in self.members.items()}
        if NETWORK in self.references:
            errors[NETWORK] = self.network.errors(panel)
        return errors


def combine(
    errors: Mapping[str, Errors],
    references: Mapping[str, Reference],
    weights: Weights,
    panel: Panel,
    place: list[int | None],
    averaged: int,
) -> Scores:
    """The scores of rows from the errors of all members."""
    by_row = np.stack([weights.elsewhere if p is None else weights.known[p] for p in place])
    by_row = np.repeat(by_row / by_row.sum(axis=1, keepdims=True), panel.lengths, axis=0)
    parts: dict[str, NDArray[np.float64]] = {}
    channels = np.zeros(panel.values.shape)
    for weight, (name, reference) in zip(by_row.T, references.items(), strict=True):
        own = compare(errors[name], reference, panel, place, averaged)
        parts[name] = weight * own.rows
        channels += own.channels * weight[:, None]
    return Scores(np.sum(list(parts.values()), axis=0), channels.astype(np.float32), parts)


def compare(errors: Errors, reference: Reference, panel: Panel, place: list[int | None], averaged: int) -> Scores:
    """The scores of one member: how rare its errors are, in logarithms."""
    own = _average(reference.usual.weigh(errors, panel, place), panel, averaged, rooted=reference.rooted)
    levels = np.array([reference.level_elsewhere if p is None else reference.levels[p] for p in place])
    rows = np.log1p(own.rows / np.repeat(levels, panel.lengths))
    if reference.ranks is not None:
        rows = reference.ranks.rank(rows, panel, place)
    # Each channel has the share of the score that it has of the error.
    whole = average_channels(own.channels).rows
    with np.errstate(invalid="ignore"):
        return Scores(rows, own.channels * (rows / np.where(whole > 0, whole, 1))[:, None])


def rank_rows(scores: Scores, ranks: Ranks | None, panel: Panel, place: list[int | None]) -> Scores:
    """Scores ranked; channels and members share in the rank of a row as they share in its score."""
    if ranks is None:
        return scores
    rows = ranks.rank(scores.rows, panel, place)
    by = rows / np.where(scores.rows > 0, scores.rows, 1)
    return Scores(
        rows,
        (scores.channels * by[:, None]).astype(np.float32),
        {name: part * by for name, part in scores.members.items()},
    )


def _average(scores: Scores, panel: Panel, averaged: int, *, rooted: bool) -> Scores:
    """Errors averaged over rows and channels; `rooted`: channels are roots, and a row is the square of their mean."""
    means = smooth(scores, panel, averaged)
    if not rooted:
        return means
    roots = average_channels(np.sqrt(means.channels))
    return Scores(np.square(roots.rows), roots.channels)


def smooth(scores: Scores, panel: Panel, averaged: int) -> Scores:
    """Scores averaged over so many rows around each; cells that were not observed stay without one."""
    channels = np.empty_like(scores.channels)
    for a, b in panel.bounds():
        part = scores.channels[a:b].astype(np.float64)
        seen = ~np.isnan(part)
        total = np.concatenate([np.zeros((1, part.shape[1])), np.where(seen, part, 0).cumsum(axis=0)])
        number = np.concatenate([np.zeros((1, part.shape[1])), seen.cumsum(axis=0)])
        at = np.arange(b - a)
        low, high = np.maximum(at - averaged // 2, 0), np.minimum(at + averaged - averaged // 2, b - a)
        means = (total[high] - total[low]) / np.maximum(number[high] - number[low], 1)
        channels[a:b] = np.where(seen, np.maximum(means, 0), np.nan)
    return average_channels(channels)


def _fill_gaps(
    fits: tuple[Member, ...], reader: RowReader, panel: Panel, scaler: Scaler, place: list[int | None]
) -> Panel:
    """Rows to be scored, with what all other cells around them imply (principal components) where cells are missing.

    The last value before a gap would stand still beside channels that move, and these would be blamed for it.
    """
    if panel.observed is None:
        return panel
    filled = panel.values.copy()
    with torch.inference_mode():
        for s, (group, values) in enumerate(reader.values(panel, scaler, place)):
            a, b = panel.offsets[s : s + 2].tolist()
            fit, window, missing = fits[group], min(reader.window, len(values)), ~panel.observed[a:b]
            if not missing.any() or not isinstance(fit, Components):
                continue
            if window < reader.window:
                fit = fit.shorten(window, values.shape[1])
            values[torch.from_numpy(missing).to(values.device)] = torch.nan
            implied = average_errors(values, window, fit.imply).cpu().numpy() / reader.shrink_of(place[s])
            filled[a:b][missing] = (implied * scaler.std[s] + scaler.mean[s])[missing]
    return replace(panel, values=filled)


def _errors(
    fits: tuple[Member, ...],
    reader: RowReader,
    panel: Panel,
    scaler: Scaler,
    place: list[int | None],
    constant: constant_channels.Channels | None,
) -> Errors:
    """[row, channel]: the errors of a simple member."""
    parts = []
    with torch.inference_mode():
        for group, values in reader.values(panel, scaler, place):
            fit, window = fits[group], min(reader.window, len(values))
            if window < reader.window:
                fit = fit.shorten(window, values.shape[1])
            parts.append(average_errors(values, window, fit.errors, centred=fit.centred).cpu().numpy())
    errors: Errors = np.concatenate(parts)
    if panel.observed is not None:
        errors[~panel.observed] = np.nan
    if constant is not None:
        constant_channels.replace_errors(errors, panel, scaler, constant, FURTHEST**2)
    return errors


@dataclass(frozen=True, slots=True, eq=False)
class PreparedPortfolio:
    """Checked and scaled rows to fit a portfolio to."""

    spec: DetectSpec
    prepared: Prepared

    @property
    def plan(self) -> Plan:
        """That of its network."""
        return self.prepared.plan

    def train(self, session: Session = NO_CHECKPOINT) -> Portfolio:
        """Fit every member to the rows before the held-out ones, compare them there, and fit them to all rows."""
        started = time.perf_counter()
        names = choose_members(self.spec, self.prepared.panel)
        prepared = self.prepared if NETWORK in names else replace(self.prepared, training=None)
        network = prepared.train(session)
        seconds = {NETWORK: time.perf_counter() - started}
        panel, border, scaler = self.prepared.panel, self.prepared.border, self.prepared.scaler
        held = HeldOut.of(panel, scaler, border, network.constant)
        place = held.place
        # Rows that hold anomalies are no reference for ranks and weights, so members keep equal ones.
        ordinary = self.spec.threshold != "robust"
        in_turn = ordinary and held.empty
        held = replace(held, empty=held.empty and not in_turn)
        longest = int(panel.lengths.max()) // LEAST_WINDOWS if in_turn else WINDOW
        window = max(1, min(WINDOW, self.spec.lookback, MOST_WIDE // len(panel.columns), longest))
        averaged = max(1, min(AVERAGED, self.spec.lookback, longest // AVERAGES if in_turn else AVERAGED))
        reader = RowReader(network.device, _shrink(panel, scaler, border), _groups(border), window)
        turns = _deal(held.panel, TURNS if in_turn else 1)
        hidden = [turns == turn for turn in range(TURNS)] if in_turn else [None]
        before: list[dict[str, tuple[Member, ...]]] = [{} for _ in hidden]
        members: dict[str, tuple[Member, ...]] = {}
        for number, (name, kind) in enumerate(KINDS.items()):
            if name not in names:
                continue
            started = time.perf_counter()
            for fits, rows, out in (
                *((fits, border, out) for fits, out in zip(before, hidden, strict=True)),
                (members, panel.lengths, None),
            ):
                fits[name] = (
                    find_shapes(fits, window)
                    if kind is Shapes
                    else _fit(kind, reader, panel, scaler, rows, [self.spec.seed, number], out)
                )
            seconds[name] = time.perf_counter() - started
        held = replace(held, panel=_fill_gaps(before[0]["components"], reader, held.panel, held.scaler, held.place))
        part = held.panel

        def measure(some: Panel) -> dict[str, Errors]:
            """The errors of each member on values of the held-out rows, by the fit that did not see them."""
            scaler, constant = held.scaler, held.own_constant
            errors: dict[str, Errors] = {}
            for name in members:
                each = [_errors(fits[name], reader, some, scaler, place, constant) for fits in before]
                errors[name] = np.choose(turns[:, None], each)
            return errors | {NETWORK: network.errors(some)} if NETWORK in names else errors

        errors = measure(part)
        references = {name: _learn_reference(name, errors[name], held, averaged, ordinary=ordinary) for name in names}

        def judge(some: Panel) -> list[NDArray[np.float64]]:
            """[member][row]: scores of other values of the held-out rows."""
            own = measure(some)
            return [compare(own[name], one, some, place, averaged).rows for name, one in references.items()]

        weights = Weights.equal(panel.series, len(names))
        if ordinary and not in_turn:  # with hundreds of short series held out in turns it would take minutes
            varying = ~constant_channels.find(panel, border)[held.series]
            weights = learn_weights(judge, part, held.scaler.std, varying, held.series, held.count, self.spec.seed)
        scores = combine(errors, references, weights, part, place, averaged)
        ranks = _learn_ranks(scores.rows, held, averaged, 1.0) if ordinary else None
        scores = rank_rows(scores, ranks, part, place)
        usual = usual_quantile(self.spec.quantile) if ordinary else None
        limits, pooled, drawn = draw_thresholds(scores.rows, held, self.spec, averaged, usual)
        words = f"all rows, held out in {TURNS} turns" if in_turn else f"the last {HELD_OUT:.0%} of the rows, held out"
        drawn, notes = held.describe(drawn, words)
        return Portfolio(
            spec=self.spec,
            plan=replace(
                network.plan,
                model={
                    name: Choice(weight, MEANING[name])
                    for name, weight in zip(names, weights.known.mean(axis=0).tolist(), strict=True)
                },
            ),
            network=network,
            members=members,
            shrink=reader.shrink,
            groups=reader.groups,
            window=window,
            averaged=averaged,
            references=references,
            weights=weights,
            ranks=ranks,
            drift=Drift.learn(held.split(scores.rows), held.series, held.count),
            calibration=Calibration(Usual.ones(panel.series, len(panel.columns)), limits, pooled, drawn, notes),
            standings=_build_leaderboard(scores, references, weights, seconds),
            notes=(*notes, *(note for note in network.notes if note not in network.calibration.notes)),
        )


def prepare(panel: Panel, spec: DetectSpec) -> PreparedPortfolio:
    """Check, hold out and scale the rows without single spikes; what can't be learned from is refused."""
    panel, found = (panel, ()) if spec.threshold == "robust" else spikes.leave_out(panel)
    prepared = network_fit.prepare(panel, replace(spec, model=NETWORK))
    return PreparedPortfolio(spec, replace(prepared, findings=(*found, *prepared.findings)))


def choose_members(spec: DetectSpec, panel: Panel) -> tuple[str, ...]:
    """The members that suit the rows; members that remember rows are left out where these hold anomalies."""
    if spec.threshold == "robust":
        left_out = {"neighbours", "shapes", *(("clusters",) if panel.lengths.max() < LEAST_SPOILT else ())}
    else:
        left_out = {NETWORK} if np.median(panel.lengths) < LEAST_NETWORK else set()
    return tuple(name for name in MEANING if name not in left_out)


def _shrink(panel: Panel, scaler: Scaler, border: NDArray[np.int64]) -> NDArray[np.float32]:
    """[series, channel]: channels are scaled by the geometric mean of standard deviation and range.

    A channel that is at rest but for a few rows has a small standard deviation, by which those rows would be far off.
    """
    shrink = np.ones(scaler.std.shape, dtype=np.float32)
    for s, ((a, _), rows) in enumerate(zip(panel.bounds(), border.tolist(), strict=True)):
        reach = np.ptp(panel.values[a : a + rows], axis=0) / scaler.std[s]
        shrink[s] = np.where(reach > 0, 1 / np.sqrt(np.maximum(reach, 1e-6)), 1)
    return shrink


def _groups(border: NDArray[np.int64]) -> NDArray[np.int64]:
    """[series]: the fit of each series."""
    own = border >= LEAST_OWN
    if len(border) == 1 or own.sum() > MOST_OWN:
        return np.zeros(len(border), dtype=np.int64)
    return np.where(own, np.cumsum(own), 0)


def _fit(
    kind: type[Member],
    reader: RowReader,
    panel: Panel,
    scaler: Scaler,
    rows: NDArray[np.int64],
    seed: list[int],
    hidden: NDArray[np.bool_] | None = None,
) -> tuple[Member, ...]:
    """A fit for each group, to the first `rows[s]` rows of each series; the first one to windows of all series.

    Windows with one of the `hidden` rows [row] of the panel are left out.
    """
    part = panel.between(panel.offsets[:-1], panel.offsets[:-1] + rows)
    place: list[int | None] = list(range(panel.series))
    each = max(1, MOST_LEARNED // panel.series)
    fits: dict[int, Member] = {}
    some: list[Float[Tensor, "window cell"]] = []
    with torch.inference_mode():
        for s, (group, values) in enumerate(reader.values(part, scaler, place)):
            firsts = thin(first_rows(len(values), reader.window), MOST_LEARNED)
            if hidden is not None:
                out = torch.from_numpy(np.flatnonzero(hidden[panel.offsets[s] : panel.offsets[s] + len(values)]))
                firsts = firsts[torch.searchsorted(out, firsts) == torch.searchsorted(out, firsts + reader.window)]
            windows = cut_windows(pad(values, reader.window), reader.window, firsts, centred=kind.centred)
            some.append(windows if panel.series == 1 else windows[:: max(1, -(-len(windows) // each))])
            if group:
                fits[group] = kind.fit(windows, np.random.default_rng([*seed, group]))
        fits[0] = kind.fit(torch.cat(some), np.random.default_rng([*seed, 0]))
    return tuple(fits[group] for group in range(len(fits)))


def _deal(panel: Panel, turns: int) -> NDArray[np.int64]:
    """[row]: the turn in which a row is held out; each is one stretch of its series."""
    return np.concatenate([np.arange(rows) * turns // rows for rows in panel.lengths.tolist()])


def find_shapes(members: Mapping[str, tuple[Member, ...]], window: int) -> tuple[Shapes, ...]:
    """The shapes of the windows that a portfolio's members remember: they need no fit and no place on disk."""
    return tuple(Shapes.of(fit, window) for fit in members["neighbours"] if isinstance(fit, Neighbours))


def _learn_reference(name: str, errors: Errors, held: HeldOut, averaged: int, *, ordinary: bool) -> Reference:
    """The usual errors of a member on held-out rows; `ordinary`: these hold no anomalies."""
    rooted = ordinary and name in ROOTED
    usual = find_usual(errors, held, balance=name in BALANCED)
    rows = _average(usual.weigh(errors, held.panel, held.place), held.panel, averaged, rooted=rooted).rows
    elsewhere = _level(rows)
    levels = np.full(held.count, elsewhere)
    for s, own in zip(held.series.tolist(), held.split(rows), strict=True):
        levels[s] = _level(own, elsewhere)
    ratios = np.log1p(rows / np.repeat(levels[held.series], held.panel.lengths))
    ranks = _learn_ranks(ratios, held, averaged, USUAL_SCALE) if ordinary else None
    return Reference(usual, levels, elsewhere, rooted, ranks)


def _learn_ranks(rows: NDArray[np.float64], held: HeldOut, averaged: int, usual_scale: float) -> Ranks:
    """Ranks among the scores [row] of held-out rows."""
    return Ranks.learn(held.split(rows), held.series, held.count, averaged=averaged, usual_scale=usual_scale)


def _level(rows: NDArray[np.float64], otherwise: float = 1.0) -> float:
    """The mean of some scores but for the highest of them."""
    known = np.sort(rows[np.isfinite(rows)])
    if not len(known):
        return otherwise
    return max(float(known[: max(1, round((1 - TRIMMED) * len(known)))].mean()), LEAST_LEVEL)


def _build_leaderboard(
    scores: Scores, references: Mapping[str, Reference], weights: Weights, seconds: Mapping[str, float]
) -> tuple[Standing, ...]:
    """The leaderboard: members by their weight, then by how much they agree with all of them on held-out rows."""
    known = np.isfinite(scores.rows)
    places = {name: np.argsort(np.argsort(rows[known])) for name, rows in scores.members.items()}
    whole = np.argsort(np.argsort(scores.rows[known]))

    def agree(name: str) -> float:
        own = places[name]
        return float(np.corrcoef(own, whole)[0, 1]) if len(own) > 1 else float("nan")

    ranked = [
        Standing(name, MEANING[name], weight, one.level_elsewhere, agree(name), round(seconds[name], 2))
        for weight, (name, one) in zip(weights.known.mean(axis=0).tolist(), references.items(), strict=True)
    ]
    return tuple(sorted(ranked, key=lambda one: (-one.weight, -one.agreement)))
