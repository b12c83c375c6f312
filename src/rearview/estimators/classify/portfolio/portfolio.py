"""Fit a portfolio of simple classifiers to cases, weigh them by cross-validation, and let them vote.

Up to `MOST_EXACT` cases, every member answers for every training case by a fit that did not see it. With more cases the
features are fewer and come in portions, a part of the cases is held out once for all members, and memory and time grow
with the cases and no faster.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from rearview import train
from rearview.data.cases.case_set import Cases, Labels
from rearview.data.cases.padding import ChannelScaler, stretch_cases
from rearview.data.panel import Finding
from rearview.estimators import base
from rearview.estimators.base import NO_CHECKPOINT, Session
from rearview.estimators.classify import fit as network_fit
from rearview.estimators.classify.fit import (
    Likelihoods,
    check_channels,
    choose_lookback,
    code_classes,
    find_oddities,
    note_limits,
)
from rearview.estimators.classify.portfolio.blocks import (
    KINDS,
    LARGE,
    SMALL,
    BlockName,
    FeatureBlock,
    FeatureCounts,
    draw_block,
)
from rearview.estimators.classify.portfolio.forest import MOST_CASES, grow_forest
from rearview.estimators.classify.portfolio.members import (
    CaseSample,
    Linear,
    Member,
    Networks,
    Trees,
    draw_folds,
    fit_neighbours,
    log_shares,
    shorten,
)
from rearview.estimators.classify.portfolio.ridge import PENALTIES, Ridge, Streamed, fit_ridge, signed_targets
from rearview.estimators.classify.portfolio.vote import Vote, fit_vote
from rearview.estimators.classify.spec import NETWORK, ClassifySpec
from rearview.models.features.rocket import SHORTEST
from rearview.tasks.plan import Choice, Plan

MOST_EXACT = 3_000
"""Cases whose features are all held in memory."""
FOLDS = 10
MOST_HELD = 2_000
"""Cases that are held out, at most, where not every case is left out of a fit."""
NETWORK_FOLDS = 3
NETWORK_SETTINGS: Mapping[str, object] = {"depth": 1}
NETWORK_TRAINING: Mapping[str, object] = {"epochs": 40, "learning_rate": 2e-3}
"""Smaller networks and fewer epochs than one alone has, as several are trained."""
MOST_NETWORK_SERIES = 2_500
"""Cases times channels that networks are trained on, at most: with more it would take minutes on a CPU."""
OWN_FEATURES = 600
"""Cases up to which the shapelets cut from a left-out case are left out, too; with more cases they matter little."""
MOST_WARPED = 3e9
"""Cells of the tables of costs that training cases are compared by, at most; beyond, there is no nearest neighbour."""
WARPED_STEPS = 200
"""Steps of a case that are warped, at most; longer cases are thinned."""
MOST_SCALING = 1_000
"""Cases that the scale of features is taken from where not all of them are held in memory."""
AT_ONCE = 256
"""Cases that are read together in prediction and where memory is short."""
SUMMED_AT_ONCE = 1_024
"""Cases whose products are added to sums together: with fewer, adding up takes longer than multiplying."""
LEAST_WEIGHT = 0.01
"""Weight below which a member is left out of the vote: it would cost time and change next to nothing."""
CONVOLUTIONS: tuple[BlockName, ...] = ("series", "differences", "hydra")
SHAPELETS: tuple[BlockName, ...] = ("shapelets",)
MEANING = {
    "convolutions": "MultiRocket's and Hydra's random convolutions, linear classifier",
    "shapelets": "pieces of training cases at several dilations, linear classifier",
    "convolutions and shapelets": "both kinds of features, linear classifier",
    "quantiles": "quantiles over intervals, randomised trees",
    "nearest neighbour": "dynamic time warping to training cases",
    NETWORK: "attention over patches, trained without one fold each",
}
"""Members in the order in which they are fitted."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A member on the leaderboard."""

    name: str
    meaning: str
    weight: float
    """In the vote; 0: left out."""
    accuracy: float
    """Share of training cases classified correctly by fits that did not see them."""
    log_loss: float
    """Mean of minus the logarithm of the true class's probability, over the same cases."""
    seconds: float
    """That its fit and cross-validation took; features that members share count for the first of them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Portfolio:
    """Fitted members, their vote, and everything needed to use them on other cases."""

    spec: ClassifySpec
    plan: Plan
    classes: Labels
    """Sorted; members' numbers are in this order."""
    scaler: ChannelScaler
    cases: dict[str, int]
    """Cases that trained, and that the members were weighed by."""
    columns: tuple[str, ...] = ()
    findings: tuple[Finding, ...]
    steps: int
    """Length that cases are stretched to."""
    blocks: Mapping[BlockName, FeatureBlock]
    members: Mapping[str, Member]
    """Those with a weight, in the order of the vote."""
    vote: Vote
    standings: tuple[Standing, ...]
    """Every member that was fitted, the best first, and last the vote itself."""
    interrupted: bool = False
    """Whether Ctrl-C ended the training of networks, which are left out then."""
    left_out: NDArray[np.float64] | None = None
    """[case, class]: the vote on training cases by fits that did not see them, NaN where there is none; not saved."""

    @property
    def channels(self) -> int:
        return len(self.scaler.mean)

    @property
    def lookback(self) -> int:
        """Steps of a case that count, the last ones."""
        return self.plan.lookback.value

    @property
    def device(self) -> torch.device:
        return torch.device(base.resolve_device(self.spec.device))

    @property
    def histories(self) -> dict[str, train.History]:
        """How networks among the members were trained."""
        networks = [member for member in self.members.values() if isinstance(member, Networks)]
        return {
            f"{one.spec.model} without fold {number}": one.history
            for member in networks
            for number, one in enumerate(member.fitted, start=1)
        }

    @property
    def parameters(self) -> int:
        """How many numbers were learned: weights of linear classifiers, nodes of trees, weights of networks."""
        counted = 0
        for member in self.members.values():
            if isinstance(member, Linear):
                counted += member.ridge.weights.numel()
            elif isinstance(member, Trees):
                counted += int((member.forest.children > 0).sum())
            elif isinstance(member, Networks):
                counted += sum(one.parameters for one in member.fitted)
        return counted

    def predict(self, cases: Cases) -> Likelihoods:
        """How likely each class is for each case; memory is that of a portion of the cases."""
        check_channels(cases, self.channels)
        likely = []
        with torch.inference_mode():
            for begin in range(0, len(cases), AT_ONCE):
                some = cases.take(np.arange(begin, min(begin + AT_ONCE, len(cases))))
                sample = CaseSample(some, self._read(some), self.blocks)
                decisions = torch.stack([member.decide(sample).cpu() for member in self.members.values()])
                likely.append(self.vote.combine(decisions))
        return Likelihoods(torch.cat(likely).numpy(), tuple(note_limits(cases, self.scaler, self.lookback)))

    def _read(self, cases: Cases) -> Tensor:
        return stretch_cases(
            cases, self.scaler, self.steps, longest=self.lookback, fill=self.spec.fill, device=self.device
        )


@dataclass(slots=True, eq=False)
class FittedMember:
    """A fitted member before the vote."""

    name: str
    member: Member
    left_out: Float[Tensor, "case class"]
    """Its answers to training cases that its fits did not see, on the CPU; NaN where there is none."""
    reason: str
    """Its size and how it was chosen, in words."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class PreparedPortfolio:
    """Checked and scaled cases to fit a portfolio to."""

    spec: ClassifySpec
    cases: Cases
    classes: Labels
    codes: NDArray[np.int64]
    scaler: ChannelScaler
    lookback: Choice[int]

    def train(self, session: Session = NO_CHECKPOINT) -> Portfolio:
        """Fit every member that suits the cases, and weigh them."""
        fits = self.fit_members(session)
        entries = fits.entries
        left_out = torch.stack([entry.left_out for entry in entries])
        codes = torch.from_numpy(self.codes)
        vote = fit_vote(left_out, codes)
        used = [place for place, weight in enumerate(vote.weights.tolist()) if weight >= LEAST_WEIGHT]
        used = used or [int(vote.weights.argmax())]
        members = {entries[place].name: entries[place].member for place in used}
        needed = {name for one in members.values() if isinstance(one, Linear | Trees) for name in one.blocks}
        heaviest = sorted(zip(vote.weights.tolist(), entries, strict=True), key=lambda pair: -pair[0])
        unchecked = replace(self.spec, validation=0)  # a portfolio holds out folds, not a share of each class
        return Portfolio(
            spec=self.spec,
            plan=Plan(
                lookback=self.lookback,
                model={entry.name: Choice(round(weight, 3), entry.reason) for weight, entry in heaviest},
                training={"folds": Choice(*fits.folding)},
            ),
            classes=self.classes,
            scaler=self.scaler,
            cases={"train": len(self.cases), "validation": int(left_out.isfinite().all(-1).all(0).sum())},
            columns=self.cases.columns,
            findings=tuple(
                find_oddities(self.cases, self.codes, self.classes, unchecked, np.arange(0), "stretched to that length")
            ),
            steps=fits.steps,
            blocks={name: block for name, block in fits.blocks.items() if name in needed},
            members=members,
            vote=vote.pick(used),
            standings=_build_leaderboard(entries, vote, left_out, codes),
            interrupted=fits.interrupted,
            left_out=_vote_unseen(vote, left_out).numpy(),
        )

    def fit_members(self, session: Session = NO_CHECKPOINT) -> "MemberFits":
        """Fit every member that suits the cases, each with its answers to cases that its fits did not see."""
        with torch.no_grad():
            return MemberFits(self, session)


def prepare(cases: Cases, spec: ClassifySpec) -> PreparedPortfolio:
    """Check and scale the cases; a set that no classifier can learn from is refused."""
    classes, codes = code_classes(cases)
    base.resolve_device(spec.device)
    return PreparedPortfolio(spec, cases, classes, codes, ChannelScaler.fit(cases), choose_lookback(cases, spec))


def _build_leaderboard(
    entries: list[FittedMember], vote: Vote, left_out: Tensor, codes: Tensor
) -> tuple[Standing, ...]:
    """The leaderboard: members by their log loss, and the vote."""

    def judge(likely: Tensor) -> tuple[float, float]:
        known = likely.isfinite().all(-1)
        right = likely[known].argmax(-1) == codes[known]
        true = likely[known].gather(1, codes[known, None])
        return float(right.double().mean()), float(-true.clamp(min=1e-12).log().mean())

    ranked = []
    for place, entry in enumerate(entries):
        alone = replace(vote.pick([place]), weights=torch.ones(1, dtype=torch.float64))
        likely = alone.combine(left_out[place : place + 1])
        likely[~left_out[place].isfinite().all(-1)] = torch.nan
        weight = float(vote.weights[place])
        weight = weight if weight >= LEAST_WEIGHT else 0.0
        ranked.append(Standing(entry.name, MEANING[entry.name], weight, *judge(likely), round(entry.seconds, 2)))
    likely = _vote_unseen(vote, left_out)
    total = round(sum(entry.seconds for entry in entries), 2)
    whole = Standing("vote", "the weighted vote of all", float(vote.weights.sum()), *judge(likely), total)
    return (*sorted(ranked, key=lambda one: one.log_loss), whole)


def _vote_unseen(vote: Vote, left_out: Float[Tensor, "member case class"]) -> Float[Tensor, "case class"]:
    """The vote on training cases by answers of fits that did not see them; NaN where a member has none."""
    likely = vote.combine(left_out)
    likely[~left_out.isfinite().all(-1).all(0)] = torch.nan
    return likely


class MemberFits:
    """The members of a portfolio, fitted one after another to the same values and folds."""

    def __init__(self, prepared: PreparedPortfolio, session: Session) -> None:
        self.spec, self.cases, self.codes = prepared.spec, prepared.cases, prepared.codes
        self.classes = len(prepared.classes)
        self.device = torch.device(base.resolve_device(prepared.spec.device))
        self.steps = max(min(prepared.lookback.value, int(prepared.cases.lengths.max())), SHORTEST)
        self.values = stretch_cases(
            prepared.cases,
            prepared.scaler,
            self.steps,
            longest=prepared.lookback.value,
            fill=prepared.spec.fill,
            device=self.device,
        )
        self.labels = torch.from_numpy(self.codes).to(self.device)
        self.exact = len(self.cases) <= MOST_EXACT
        number = min(FOLDS, len(self.cases)) if self.exact else max(FOLDS, -(-len(self.cases) // MOST_HELD))
        self.folds = draw_folds(self.codes, number, self._random(0))
        self.held = np.flatnonzero(self.folds == 0)
        self.blocks: dict[BlockName, FeatureBlock] = {}
        self.sample = CaseSample(self.cases, self.values, self.blocks)
        self.interrupted = False
        self.entries = self._fit(session)

    @property
    def folding(self) -> tuple[int, str]:
        """(the number of folds, their purpose)."""
        number = int(self.folds.max()) + 1
        if self.exact:
            return number, "each case is classified by fits without its fold"
        return number, f"one of them, {len(self.held):,} cases, is held out to weigh the members by"

    def _fit(self, session: Session) -> list[FittedMember]:
        steps: list[Callable[[], FittedMember | None]] = (
            [
                lambda: self._linear("convolutions", CONVOLUTIONS),
                lambda: self._linear("shapelets", SHAPELETS),
                lambda: self._linear("convolutions and shapelets", CONVOLUTIONS + SHAPELETS),
                self._trees,
                self._neighbours,
                lambda: self._networks(session),
            ]
            if self.exact
            else [self._fit_streamed, self._trees, lambda: self._networks(session)]
        )
        entries = []
        for step in steps:
            started = time.perf_counter()
            entry = step()
            if entry is not None:
                entry.seconds, entry.left_out = time.perf_counter() - started, entry.left_out.cpu()
                entries.append(entry)
        return entries

    def _linear(self, name: str, blocks: tuple[BlockName, ...]) -> FittedMember:
        for block in blocks:
            self._draw(block, LARGE)
        sources = None
        if len(self.cases) <= OWN_FEATURES and "shapelets" in blocks:
            cut_from = [
                torch.full((self.blocks[block].centre.numel(),), -1, device=self.device)
                if (own := self.blocks[block].transform.sources()) is None
                else own
                for block in blocks
            ]
            sources = torch.cat(cut_from)
        fit = fit_ridge(self.sample.features(blocks), self.labels, self.classes, self.folds, sources)
        count = sum(self.blocks[block].centre.numel() for block in blocks)
        reason = f"{count:,} features, penalty {fit.penalty:g} by cross-validation"
        return FittedMember(name, Linear(blocks, fit.ridge), fit.left_out, reason)

    def _fit_streamed(self) -> FittedMember:
        blocks = CONVOLUTIONS + SHAPELETS
        for block in blocks:
            self._draw(block, SMALL)
        held = torch.from_numpy(self.held)
        others = torch.from_numpy(np.flatnonzero(self.folds != 0))
        held_features = torch.cat([self._features(blocks, some) for some in held.split(AT_ONCE)])
        sums = Streamed(held_features.shape[1], self.classes)
        for some in others.split(SUMMED_AT_ONCE):
            sums.add(self._features(blocks, some), self.labels[some.to(self.device)])
        truth = self.labels[held.to(self.device)]
        targets = signed_targets(truth, self.classes)
        decided = {one: sums.solve(one).to(self.device).decide(held_features) for one in PENALTIES[5::2]}
        penalty = min(decided, key=lambda one: float((decided[one] - targets).square().mean()))
        sums.add(held_features, truth)
        ridge: Ridge = sums.solve(penalty).to(self.device)
        reason = f"{held_features.shape[1]:,} features, penalty {penalty:g} by held-out cases"
        return FittedMember(
            "convolutions and shapelets", Linear(blocks, ridge), self._only_held(decided[penalty]), reason
        )

    def _trees(self) -> FittedMember:
        self._draw("quantiles", LARGE)
        random = self._random(6)
        if self.exact:
            features = self.sample.features(("quantiles",))
            forest, shares = grow_forest(features, self.labels, self.classes, random)
            usual = torch.bincount(self.labels, minlength=self.classes) / len(self.labels)
            left_out = log_shares(torch.where(shares.isfinite(), shares, usual.to(shares)))
        else:
            others = np.flatnonzero(self.folds != 0)
            some = torch.from_numpy(random.permutation(others)[: 2 * MOST_CASES])
            features = torch.cat([self._features(("quantiles",), part) for part in some.split(AT_ONCE)])
            forest, _ = grow_forest(features, self.labels[some.to(self.device)], self.classes, random)
            held = torch.from_numpy(self.held).split(AT_ONCE)
            shares = torch.cat([forest.vote(self._features(("quantiles",), part)) for part in held])
            left_out = self._only_held(log_shares(shares))
        reason = f"{len(forest.features)} trees over {features.shape[1]:,} features"
        return FittedMember("quantiles", Trees(("quantiles",), forest), left_out, reason)

    def _neighbours(self) -> FittedMember | None:
        steps = min(self.steps, WARPED_STEPS)
        if len(self.cases) ** 2 * steps**2 > MOST_WARPED:
            return None
        member, left_out, share = fit_neighbours(shorten(self.values, steps), self.labels, self.classes)
        reason = f"paths within {100 * share:g} % of the diagonal, by the share of correct answers"
        return FittedMember("nearest neighbour", member, left_out, reason)

    def _networks(self, session: Session) -> FittedMember | None:
        """Networks that are each trained without one fold, which they then classify."""
        if not self.exact:
            return None
        if self.device.type == "cpu" and len(self.cases) * self.cases.channels > MOST_NETWORK_SERIES:
            return None
        folds = self.folds % min(NETWORK_FOLDS, int(self.folds.max()) + 1)
        left_out = torch.full((len(self.cases), self.classes), torch.nan)
        fitted = []
        for fold in np.unique(folds):
            spec = replace(
                self.spec,
                model=NETWORK,
                settings=NETWORK_SETTINGS,
                training=NETWORK_TRAINING,
                validation=0.0,
                seed=self.spec.seed + int(fold),
            )
            learned, held = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            if len(np.unique(self.codes[learned])) < self.classes:
                return None  # a class of one case can't be both learned and left out
            with torch.enable_grad():
                one = network_fit.fit(self.cases.take(learned), spec, replace(session, checkpoint=None, resume=False))
            if one.interrupted:
                self.interrupted = True
                return None
            fitted.append(one)
            left_out[torch.from_numpy(held)] = network_fit.network_logits(one, self.cases.take(held))
        reason = f"{len(fitted)} networks, each trained without one of {len(fitted)} folds"
        return FittedMember(NETWORK, Networks(tuple(fitted)), torch.log_softmax(left_out, dim=-1), reason)

    def _draw(self, name: BlockName, sizes: FeatureCounts) -> None:
        if name in self.blocks:
            return
        block = draw_block(name, self.values, self.codes, sizes, self._random(1 + list(KINDS).index(name)))
        if self.exact:
            block, self.sample.computed[name] = block.fit_scale(self.values)
        else:
            block, _ = block.fit_scale(self.values[:: -(-len(self.values) // MOST_SCALING)])
        self.blocks[name] = block

    def _features(self, names: tuple[BlockName, ...], some: Tensor) -> Tensor:
        """The features of some cases, computed afresh."""
        values = self.values[some.to(self.device)]
        return torch.cat([self.blocks[name](values) for name in names], dim=1)

    def _only_held(self, decisions: Tensor) -> Tensor:
        """[case, class]: NaN for cases that were not held out."""
        whole = decisions.new_full((len(self.cases), self.classes), torch.nan)
        whole[torch.from_numpy(self.held).to(whole.device)] = decisions
        return whole

    def _random(self, part: int) -> np.random.Generator:
        return np.random.default_rng([self.spec.seed, part])
