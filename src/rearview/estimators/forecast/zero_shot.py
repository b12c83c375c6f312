"""Forecasts of a pretrained network; the data only decide how wide its intervals are.

Every variable is read alone, or with the others of its series where the attention mixes channels, masked where
values are missing, at the grain that suits its length. Intervals are the network's own quantiles, stretched by
what backtest windows show where there are rows for some, but never beyond a limit that the series rests on. `tune`
trains the network further on the data, and keeps it only where a backtest is the better for it.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist

import numpy as np
import torch

from rearview import train
from rearview.core.settings import settings_from
from rearview.core.wording import quantity
from rearview.data.far_values import FAR, find_far_values
from rearview.data.launch import Rows, cut_idle, find_begins
from rearview.data.panel import Finding, Panel
from rearview.data.panel_checks import TooShort
from rearview.data.scale import Scaler
from rearview.data.split import split
from rearview.data.windows import Source, Windows
from rearview.estimators import base
from rearview.estimators.auto.weights import measure_losses
from rearview.estimators.base import Session
from rearview.estimators.forecast.backtest import Backtest, backtest, ends_apart
from rearview.estimators.forecast.prediction import Fitted, note_launches, warn_of_far_values
from rearview.estimators.forecast.predictor import Array, Forecasts
from rearview.estimators.forecast.spec import ForecastSpec
from rearview.estimators.forecast.stretch import (
    cut_bounds,
    find_count_floors,
    measure_stretch,
    read_factor,
    stretch_bounds,
)
from rearview.estimators.forecast.transform import hide_counters, list_counters, transform_panel, undo_transform
from rearview.estimators.options import Attention
from rearview.models.contract import Shape
from rearview.models.patch_hosts.glance import Network, Settings, find_limits
from rearview.pretrained import weights
from rearview.tasks import plan as planning
from rearview.tasks.objectives import Forecast
from rearview.tasks.plan import Choice, Plan

MOST_TOKENS = 1 << 13
"""Tokens that go through the network at once: more take more memory and are no faster."""
MOST_COLUMNS = 32
"""Columns that are read together where the attention mixes them: memory is bounded for wide tables, too."""
TUNED = f"{weights.NAME}_tuned"
"""The name of a network that was trained further."""
NEAR = f"{weights.NAME}_near"
"""The name of one that reads the newest rows alone."""
CUT_PAST = "cut_past"
"""Key of the finding about rows that are not read."""
LEAST_ROWS = 3
SHORTEST = 8
"""Rows of the shortest series that the network was trained on."""
GRID = (20.0, 40.0, 60.0, 80.0, 95.0)
"""Levels at which intervals are corrected, beside those asked for."""
MOST_WINDOWS = 5
MOST_TESTED = 250
"""Forecasts that a correction rests on, about: more tell little and take time."""
TUNING_SECONDS = 120.0
"""Time to train further where no limit is given."""
TOKENS_LEARNED = 1 << 10
"""Tokens of an update where the network is trained further, about: an update stays quick, however long windows are."""
LEAST_SECONDS = 2.0
"""Seconds below which training further is not begun."""
TOKENS_HELD = 1 << 12
"""Tokens of the windows that stop that training, about."""
BLENDS = (0.5, 1.0)
"""How far the weights may go towards those that training ends with; half-way is often better than either end."""
TUNING: Mapping[str, Choice[object]] = {
    "learning_rate": Choice(1e-4, "small: the weights are good already"),
    "schedule": Choice("constant", "the time left decides how long it trains"),
    "clip": Choice(1.0, "guards against rare large gradients"),
    "updates_per_epoch": Choice(10, "updates between two looks at the rows held out"),
    "epochs": Choice(16, "with early stopping"),
    "patience": Choice(3, "epochs without improvement"),
}
COUNTERS_ALONE = "Series that only ever rise are not trained on further: the weights stay as they came."


Fit = Callable[[Panel], "ZeroShot"]
"""Fits the network to the rows of a panel."""


def uses_shipped_weights(spec: ForecastSpec) -> bool:
    """Whether a spec requests the weights in the package; settings or attention of its own mean a new network."""
    known = spec.model == weights.NAME or spec.model in weights.names()
    return known and not spec.settings and spec.attention is None


def count_near_rows(horizon: int) -> int | None:
    """Rows that the network reads at its finest grain; None where that is its only one, or ends before the horizon."""
    settings = settings_from(Settings, weights.NAME, weights.read_card().settings)
    if len(settings.patches) == 1 or settings.patches[0] * settings.ahead[0] < horizon:
        return None
    return settings.patches[0] * settings.context[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroShot(Fitted):
    """The network and how far its intervals reach."""

    attention: Attention
    """The mechanism of the network."""
    stretch: Mapping[float, float] = field(default_factory=dict)
    """Level in percent -> factor of its interval's reach on both sides of the median; empty: as the network has it."""

    def predict(self, panel: Panel, which: Windows, levels: tuple[float, ...], known: Array | None = None) -> Forecasts:
        """Forecast from the rows before each window's start (see `Predictor`)."""
        counts = find_count_floors(panel, which, self.targets)
        panel = transform_panel(panel, self.spec)
        network = self.network
        assert isinstance(network, Network)
        cells = np.full((len(which), self.targets, self.spec.horizon, len(network.settings.quantiles)), np.nan)
        limits = np.broadcast_to(np.array([-np.inf, np.inf])[:, None, None], (2, len(which), self.targets)).copy()
        cases = list(self._cases(panel, which))
        far = 0
        for part in _batches(network, cases, self.spec.horizon):
            past, observed = _stack(panel, part)
            far += hide_far_values(past, observed)
            with torch.inference_mode():
                on_device = torch.from_numpy(past).to(self.device), torch.from_numpy(observed).to(self.device)
                quantiles = network.forecast(*on_device, self.spec.horizon).cpu().numpy()
                of_cases = torch.stack(find_limits(*on_device), 1).cpu().numpy()
            for case, values, both in zip(part, quantiles, of_cases, strict=True):
                centre = panel.centre[case.series, case.columns]
                cells[case.window, case.columns] = values + centre[:, None, None]
                limits[:, case.window, case.columns] = both + centre
        cells = undo_transform(cells, self.spec)
        floors, ceilings = undo_transform(limits, self.spec)[..., None]
        floors = np.maximum(floors, counts[..., None])
        unobserved = panel.first[which.series, : self.targets] >= which.starts[:, None]
        cells[unobserved] = np.nan
        known_levels = network.settings.quantiles
        point = cells[..., network.median]
        own = {level: _bounds(cells, known_levels, level) for level in levels}
        reaching = stretch_bounds(point, own, {level: read_factor(self.stretch, level) for level in levels})
        point, bounds = np.clip(point, floors, ceilings), cut_bounds(reaching, floors, ceilings)
        findings = (
            *_find_limits(cases, self.lookback, far),
            *note_launches(panel, which, self.targets),
            *warn_of_far_values(self, panel, which, self.scaler(panel)),
        )
        return Forecasts(which.series, point, bounds, tuple(one.message for one in findings), findings)

    def _cases(self, panel: Panel, which: Windows) -> Iterator["_Case"]:
        """The columns that are forecast together: one, or all of a series where attention mixes them."""
        network = self.network
        assert isinstance(network, Network)
        mixes = any(layer.claims.mixes_groups for layer in network.stack.layers)
        # Neighbouring columns together, in as few groups as hold at most so many, of nearly equal size.
        count = -(-self.targets // (MOST_COLUMNS if mixes else 1))
        parts = np.array_split(np.arange(self.targets), count)
        groups = [slice(int(part[0]), int(part[-1]) + 1) for part in parts]
        begins = find_begins(panel, which, self.targets)
        for window, (start, series) in enumerate(zip(which.starts.tolist(), which.series.tolist(), strict=True)):
            for columns in groups:
                of_columns = begins[window, columns]
                if of_columns.min() < start:
                    yield _Case(window, series, columns, start, of_columns, self.lookback)


@dataclass(frozen=True, slots=True)
class _Case:
    """Rows of some columns that are read together."""

    window: int
    series: int
    columns: slice
    stop: int
    begins: Rows
    """The first row of each column, which may lie before those that are read."""
    lookback: int

    @property
    def first(self) -> int:
        return int(self.begins.min())

    @property
    def begin(self) -> int:
        return max(self.first, self.stop - self.lookback)

    @property
    def length(self) -> int:
        return self.stop - self.begin

    @property
    def width(self) -> int:
        return int(self.columns.stop - self.columns.start)


def _batches(network: Network, cases: Sequence[_Case], horizon: int) -> Iterator[list[_Case]]:
    """Cases of one grain and as many tokens, as many as fit in memory: a forecast must not depend on the others."""
    alike: dict[tuple[tuple[tuple[int, int], ...], int], list[_Case]] = {}
    for case in cases:
        grains = network.choose_grain(case.length, horizon), network.find_finer(case.length, horizon)
        passes = tuple((one.patch, one.count_tokens(case.length, horizon)) for one in grains if one is not None)
        alike.setdefault((passes, case.width), []).append(case)
    for (passes, columns), group in alike.items():
        size = max(1, MOST_TOKENS // (max(tokens for _, tokens in passes) * columns))
        yield from (group[start : start + size] for start in range(0, len(group), size))


def _stack(panel: Panel, cases: Sequence[_Case]) -> tuple[Array, np.typing.NDArray[np.bool_]]:
    """[case, column, time], the newest rows last, and which of them were observed."""
    longest = max(case.length for case in cases)
    past = np.zeros((len(cases), cases[0].width, longest))
    observed = np.zeros(past.shape, dtype=np.bool_)
    for place, case in enumerate(cases):
        rows = slice(case.begin, case.stop)
        past[place, :, longest - case.length :] = panel.values[rows, case.columns].T
        begun = np.arange(case.begin, case.stop) >= case.begins[:, None]
        if panel.observed is not None:
            begun &= panel.observed[rows, case.columns].T
        observed[place, :, longest - case.length :] = begun
    return past, observed


def hide_far_values(past: Array, observed: np.typing.NDArray[np.bool_]) -> int:
    """Mark single values out of all proportion as missing, and return how many."""
    count = observed.sum(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        centred = np.where(observed, past - (past.sum(-1, where=observed) / np.maximum(count, 1))[..., None], 0.0)
        reach = np.abs(centred).max(-1, initial=0.0)
        # One in a hundred at most: such a value lies that many standard deviations off, and most series have none.
        suspect = reach**2 * count > np.minimum(25, count / 2) * (centred**2).sum(-1)
    hidden = 0
    for place in np.argwhere(suspect):
        seen = observed[tuple(place)]
        far = find_far_values(past[tuple(place)][seen])
        seen[np.flatnonzero(seen)[far]] = False
        hidden += len(far)
    return hidden


def _bounds(cells: Array, known: Sequence[float], level: float) -> tuple[Array, Array]:
    """Both ends of an interval, by the normal distribution between the quantiles that are known and beyond them."""
    scores = [NormalDist().inv_cdf(one) for one in known]
    middle = known.index(0.5)

    def read(share: float) -> Array:
        score = NormalDist().inv_cdf(share)
        if score <= scores[0] or score >= scores[-1]:
            end = 0 if score <= scores[0] else -1
            median = cells[..., middle]
            return median + (cells[..., end] - median) * (score / scores[end])
        above = int(np.searchsorted(scores, score))
        part = (score - scores[above - 1]) / (scores[above] - scores[above - 1])
        return cells[..., above - 1] * (1 - part) + cells[..., above] * part

    tail = (1 - level / 100) / 2
    return read(tail), read(1 - tail)


def _find_limits(cases: Sequence[_Case], room: int, far: int) -> Iterator[Finding]:
    """Findings on pasts that are cut off or short, and on `far`, the values too far off to be read."""
    cut = sum(case.begin > case.first for case in cases)
    if cut:
        message = f"{quantity(cut, 'forecast')} read the newest {room:,} rows alone; older ones are cut off."
        yield Finding("inferred", CUT_PAST, cut, message)
    short = sum(case.length < SHORTEST for case in cases)
    if short:
        message = f"{quantity(short, 'forecast')} start from fewer than {SHORTEST} rows, which tell little."
        yield Finding("warning", "short_past", short, message)
    if far:
        message = (
            f"{quantity(far, 'value')} of the past {'is' if far == 1 else 'are'} not read: more than {FAR} times "
            "as far from the median as most values reach."
        )
        yield Finding("warning", "far_values", far, message)


@dataclass(frozen=True, slots=True, eq=False)
class Pretrained:
    """The shipped weights and the rows to forecast."""

    spec: ForecastSpec
    panel: Panel
    card: weights.Card
    notes: tuple[str, ...]

    @classmethod
    def of(cls, panel: Panel, spec: ForecastSpec) -> "Pretrained":
        """Refuse what can't be forecast, and a build without weights, before anything is computed."""
        card = weights.read_card(spec.model or weights.NAME)
        panel, notes = planning.select_usable(panel, weights.NAME)
        longest = int(panel.lengths.max())
        if longest < LEAST_ROWS:
            raise TooShort(
                f"{panel.layout.source} is not long enough: a forecast needs {LEAST_ROWS} rows, but there are "
                f"{longest}; bring more history."
            )
        return cls(spec, panel, card, notes)

    def train(self, session: Session = base.NO_CHECKPOINT, *, tune: bool = False) -> ZeroShot:
        """The forecaster, intervals corrected; with `tune` trained further where its own backtest is the better."""
        start = self.start()
        windows = self._count_windows()
        if not windows:
            notes = ["Too short for a backtest: the intervals are the network's own."]
            notes += ["Too short to train further: the weights stay as they came."] if tune else []
            return replace(start, notes=(*start.notes, *notes))
        levels = tuple(sorted({*GRID, *self.spec.levels}))
        test = self._backtest(start, levels, windows) if tune or self.spec.intervals == "conformal" else None
        fitted = start
        if tune and list_counters(self.panel).all():
            fitted = replace(start, notes=(*start.notes, COUNTERS_ALONE))
        elif tune and test is not None:
            seconds = (TUNING_SECONDS if session.seconds is None else session.seconds) / 2
            half = replace(session, seconds=seconds, checkpoint=None, resume=False)
            tuned = self._backtest(lambda rows: Pretrained(self.spec, rows, self.card, ()).tuned(half), levels, windows)
            before, after = (float(np.nanmean(measure_losses([one]))) for one in (test, tuned))
            note = "Training further did not lower the backtest's loss: the weights stay as they came."
            if after < before:
                trained = self.tuned(half)
                note = "Training further on all rows gave nothing better in its time: the weights stay as they came."
                if trained.name != start.name:
                    fitted, test = trained, tuned
                    fall = 100 * (1 - after / before)
                    note = f"Trained further on these rows: the backtest's loss fell by {fall:.1f} %."
            fitted = replace(fitted, notes=(*fitted.notes, note))
        if self.spec.intervals != "conformal" or test is None:
            return fitted
        note = f"Intervals are stretched by what {quantity(windows, 'backtest window')} showed."
        return replace(fitted, stretch=measure_stretch(test, levels), notes=(*fitted.notes, note))

    def start(self) -> ZeroShot:
        """The weights as they came, intervals not corrected."""
        panel, spec, card = self.panel, self.spec, self.card
        device = base.resolve_device(spec.device)
        network = weights.load(card, channels=panel.targets, steps=spec.horizon, device=device)
        room = network.room
        longest = int(panel.lengths.max())
        lookback = Choice(min(room, longest), "all rows" if longest <= room else "what the network can read")
        if spec.lookback is not None:
            lookback = Choice(min(spec.lookback, room), planning.GIVEN)
        network.shape = replace(network.shape, lookback=lookback.value)
        moved = transform_panel(panel, spec)
        scaler = Scaler.fit(moved)
        return ZeroShot(
            spec=spec,
            plan=Plan(
                lookback=lookback,
                season=planning.choose_season(panel, spec.season, longest),
                model={name: Choice(value, "as trained") for name, value in card.settings.items()},
                training={},
            ),
            name=card.name,
            network=network,
            attention=card.attention,
            task=Forecast(spec.horizon),
            ids=panel.ids,
            columns=panel.columns,
            targets=panel.targets,
            known=0,
            mean=scaler.mean + moved.centre,
            std=scaler.std,
            step=str(panel.step),
            calendar=None,
            residuals=None,
            history=None,
            notes=(
                *self.notes,
                f"Weights {card.version}, trained on {card.data}, and not on these rows.",
            ),
            findings=(),
            windows={},
        )

    def tuned(self, session: Session) -> ZeroShot:
        """The weights after training on the rows, stopped by the newest of them; intervals not corrected.

        Where these are not forecast better for it, the weights stay as they came, and so does the name.
        """
        start, spec = self.start(), self.spec
        # Launches and counters are read otherwise in a forecast than in training.
        panel = hide_counters(cut_idle(transform_panel(self.panel, spec), 0))
        network = start.network
        assert isinstance(network, Network)
        settings = network.settings
        horizon = min(spec.horizon, network.reach)
        # A window reads what a forecast would: all rows before it, at the same grain. Half of the rows are to learn.
        lookback = start.lookback
        least = max(SHORTEST, min(lookback, (int(panel.lengths.max()) - 2 * horizon) // 2))
        cut = split(panel, least, horizon, calibrate=False)
        if not len(cut.train):
            return start
        device = base.resolve_device(spec.device)
        source = Source(
            panel, Scaler.fit(panel, cut.rows), cut.train + cut.validation, lookback, horizon, device=device,
            inputs=False,
        )  # fmt: skip
        tokens = network.choose_grain(lookback, horizon).count_tokens(lookback, horizon) * panel.targets
        order, a = torch.arange(len(source)), len(cut.train)
        held = order[a:][:: max(1, -(-(len(source) - a) * tokens // TOKENS_HELD))]
        shape = Shape(panel.targets, lookback, horizon * len(settings.quantiles))
        learner = Network(shape, replace(settings, answer="quantiles"), self.card.attention).to(device)
        learner.load_state_dict(network.state_dict())
        training = planning.override(
            {**TUNING, "batch": Choice(max(1, min(32, TOKENS_LEARNED // tokens)), "so that an update stays quick")},
            spec.training,
        )
        loop = base.training_settings(training, spec.seed)
        task = Forecast(horizon, quantiles=settings.quantiles)
        began = time.monotonic()
        losses = [train.evaluate(learner, task, source, held)] if len(held) else []
        if session.seconds is not None:  # of looks at the rows held out, each blend takes one, and so does an epoch
            left = session.seconds - (2 + len(BLENDS)) * (time.monotonic() - began)
            if left < LEAST_SECONDS:
                return start
            session = replace(session, seconds=left)
        history = base.train_network(learner, task, source, order[:a], held, loop, session)
        first, last = network.state_dict(), {name: one.clone() for name, one in learner.state_dict().items()}
        candidates = [first]
        for share in BLENDS if len(held) else BLENDS[:1]:
            candidates.append({name: torch.lerp(first[name], last[name], share) for name in first})
            if len(held):
                learner.load_state_dict(candidates[-1])
                losses.append(train.evaluate(learner, task, source, held))
        best = int(np.argmin(losses)) if losses else len(candidates) - 1
        network.load_state_dict(candidates[best])
        fitted = replace(start, history=history)
        if not best and not fitted.interrupted:
            return start
        return replace(
            fitted,
            name=f"{start.name}_tuned",
            plan=replace(start.plan, training=training),
            notes=self.notes,
            windows={"train": a, "validation": len(held), "calibration": 0},
        )

    def _count_windows(self) -> int:
        """Backtest windows that leave two horizons of rows before the first, and no more than are worth their time."""
        longest, horizon = int(self.panel.lengths.max()), self.spec.horizon
        variables = min(self.panel.series, MOST_TESTED) * self.panel.targets
        most = max(1, min(MOST_WINDOWS, MOST_TESTED // variables))
        return max(0, min(most, (longest - max(2 * horizon, 2 * SHORTEST)) // horizon))

    def _backtest(self, fitted: "ZeroShot | Fit", levels: tuple[float, ...], windows: int) -> Backtest:
        panel = self.panel
        if panel.series > MOST_TESTED:
            panel = panel.only(panel.ids[:: -(-panel.series // MOST_TESTED)])
        return backtest(
            panel,
            lambda rows, window: fitted if isinstance(fitted, ZeroShot) else fitted(rows),
            self.spec.horizon,
            n_windows=windows,
            levels=levels,
            own_ends=ends_apart(panel, self.spec.horizon),
        )
