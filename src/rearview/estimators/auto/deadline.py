"""The forecast of many variables within the time that is left.

Members forecast part by part. A member whose next part would end too late gets no weight for the remaining series, and
the others get more.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rearview.data.panel import Finding, Panel
from rearview.data.windows import Windows, final_windows
from rearview.estimators.auto.ensemble import Ensemble, forecast_member
from rearview.estimators.clock_view import ClockView
from rearview.estimators.forecast.predictor import Array, Bounds, Forecasts, Predictor
from rearview.tasks import statistical_models

MANY = 1_000
"""Series from which on they are forecast in parts."""
PARTS, FEW_PARTS = 20, 5
"""Parts of a panel, and those of models that several processes share, which must be worth starting these."""
LEAST_SECONDS = 1.0
"""Seconds of a part below which its pace is not reliable."""


def forecast_in_time(
    ensemble: Ensemble,
    spare: Predictor | None,
    panel: Panel,
    levels: tuple[float, ...],
    known: Array | None,
    left: Callable[[float], float],
) -> tuple[Ensemble, Forecasts]:
    """Forecast what follows a panel, and the ensemble that it is the forecast of.

    `left(slower)` are the seconds left where all that follows takes so many times as long as it would have before.
    `spare` is a cheap forecaster for series that nothing else has time for.
    """
    horizon = ensemble.spec.horizon
    made: list[Ensemble] = []

    def predict(rows: Panel, which: Windows, inputs: Array | None) -> Forecasts:
        after, forecasts = _forecast_rows(made[0] if made else ensemble, spare, rows, which, levels, inputs, left)
        made.append(after)
        return forecasts

    forecasts = ClockView.of(panel, horizon).forecast(predict, final_windows(panel), horizon, known)
    # Steps behind an hour that clocks skip are few: who had no time for them has its share in all the others.
    return made[0], forecasts


def _forecast_rows(
    ensemble: Ensemble,
    spare: Predictor | None,
    panel: Panel,
    which: Windows,
    levels: tuple[float, ...],
    known: Array | None,
    left: Callable[[float], float],
) -> tuple[Ensemble, Forecasts]:
    """The same of rows as they are."""
    if len(which) < MANY:
        return ensemble, ensemble.predict(panel, which, levels, known)
    shares = zip(ensemble.members, ensemble.common.tolist(), strict=True)
    progress = [_Progress(one, share, panel, which, levels, known) for one, share in shares]
    for one in progress:
        one.forecast_part()
    cheapest_first = sorted(progress, key=lambda one: one.paces[0])
    for one in cheapest_first:
        while one.done < len(which) and one.expect_next() < left(one.slower()):
            one.forecast_part()
    if any(one.done < len(which) for one in progress):
        names = [one.name for one in ensemble.members]
        if spare is not None and spare.name not in names:
            progress.append(_Progress(spare, 0.0, panel, which, levels, known))
        stand_in = cheapest_first[0] if spare is None else progress[[*names, spare.name].index(spare.name)]
        ensemble = _drop_late_members(ensemble, progress, stand_in)
    forecasts = {one.member.name: one.join() for one in progress if one.done}
    return ensemble, ensemble.mix(panel, which, levels, [forecasts[one.name] for one in ensemble.members])


@dataclass(slots=True, eq=False)
class _Progress:
    """What a member has forecast so far."""

    member: Predictor
    share: float
    """Mean weight in the ensemble; 0: a substitute."""
    panel: Panel
    which: Windows
    levels: tuple[float, ...]
    known: Array | None
    made: list[Forecasts] = field(default_factory=list)
    done: int = 0
    """Series that are forecast."""
    paces: list[float] = field(default_factory=list)
    """Seconds a series, of each part."""

    @property
    def _next(self) -> int:
        """Series of the next part; the first is small for all, to see how fast it goes."""
        shared = self.made and self.member.name in statistical_models.NAMES
        size = -(-len(self.which) // (FEW_PARTS if shared else PARTS))
        return min(size, len(self.which) - self.done)

    def expect_next(self) -> float:
        """Seconds that the next part takes, about."""
        return self.paces[-1] * self._next

    def slower(self) -> float:
        """How many times as long a series took in the last part as in the quickest one; 1 where that is by chance."""
        return self.paces[-1] / min(self.paces) if self.expect_next() > LEAST_SECONDS else 1.0

    def forecast_part(self) -> None:
        """Forecast some more series."""
        began, part = time.monotonic(), slice(self.done, self.done + self._next)
        known = None if self.known is None else self.known[part]
        self.made.append(forecast_member(self.member, self.panel, self.which.take(part), self.levels, known))
        self.done = part.stop
        self.paces.append(max(time.monotonic() - began, 1e-9) / (part.stop - part.start))

    def join(self) -> Forecasts:
        """The parts as one, without numbers for series that are not forecast."""

        def stack(parts: Sequence[Array]) -> Array:
            rest = np.full((len(self.which) - self.done, *parts[0].shape[1:]), np.nan)
            return np.concatenate([*parts, rest])

        bounds: Bounds = {}
        for level in self.levels:
            low, high = ([one.intervals[level][side] for one in self.made] for side in (0, 1))
            bounds[level] = stack(low), stack(high)
        findings = _join_findings([finding for one in self.made for finding in one.findings])
        messages = {finding.message for one in self.made for finding in one.findings}
        plain = [note for one in self.made for note in one.notes if note not in messages]
        notes = (*dict.fromkeys(plain), *(finding.message for finding in findings))
        return Forecasts(self.which.series, stack([one.mean for one in self.made]), bounds, notes, findings)


def _join_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings of one kind that parts have in common as one, with the sum of what they count."""
    joined: dict[tuple[str, str], Finding] = {}
    for one in findings:
        before = joined.setdefault((one.kind, one.what), one)
        if before is not one and before.count:
            total = before.count + one.count
            message = before.message.replace(f"{before.count:,}", f"{total:,}", 1)
            joined[one.kind, one.what] = replace(before, count=total, message=message)
    return tuple(joined.values())


def _drop_late_members(ensemble: Ensemble, progress: Sequence[_Progress], stand_in: _Progress) -> Ensemble:
    """Give members no weight for series they have not forecast; `stand_in` forecasts those without any member."""
    count = len(ensemble.ids)
    weights = np.zeros((count, ensemble.targets, len(progress)))
    weights[..., : len(ensemble.members)] = ensemble.weights.reshape(count, ensemble.targets, -1)
    for number, one in enumerate(progress):
        weights[one.done :, :, number] = 0
    bare = weights.sum(axis=-1) == 0
    while bare.any() and stand_in.done < count:
        stand_in.forecast_part()
    weights[bare, progress.index(stand_in)] = 1
    weights = (weights / weights.sum(axis=-1, keepdims=True)).reshape(-1, len(progress))
    used = [number for number in range(len(progress)) if weights[:, number].any()]
    common = np.array([progress[number].share for number in used])
    shares = {progress[number].member.name: float(weights[:, number].mean()) for number in used}
    late = [one for one in progress[: len(ensemble.members)] if one.done < count]
    reasons = {one.member.name: f"no time left for {count - one.done:,} of {count:,} series" for one in late}
    board = [
        replace(one, weight=shares.get(one.name, 0.0), note=reasons.get(one.name, one.note))
        for one in ensemble.leaderboard
    ]
    return replace(
        ensemble,
        members=tuple(progress[number].member for number in used),
        weights=weights[:, used],
        common=common / common.sum(),
        leaderboard=tuple(sorted(board, key=lambda one: -one.weight)),
        notes=(*ensemble.notes, *(f"{name}: {note}, where the others weigh more." for name, note in reasons.items())),
    )
