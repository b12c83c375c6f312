"""Runs the arms of a study, here or in processes that share the device, and keeps what comes of them."""

import hashlib
import io
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import ClassVar

import numpy as np

from rearview.bench.rows import result_file as files
from rearview.bench.rows.identity import find_same
from rearview.bench.rows.row import Facts, ResultRow
from rearview.bench.runs.pool import KILLED, spread
from rearview.bench.synthetic import NAMES
from rearview.bench.synthetic.study import Arrays, Measurement, Study, StudyRun, SyntheticRow
from rearview.core.errors import InputError, SettingsError, unknown
from rearview.core.files import write_atomically
from rearview.estimators.base import resolve_device


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint(ResultRow):
    """A point of a training curve, kept as soon as it is measured."""

    SCHEMA: ClassVar[int] = 1
    CONFIGURATION: ClassVar[tuple[str, ...]] = ("study", "arm", "run", "step")

    schema: int = 1
    study: str
    arm: str
    run: str
    """Names the run; the file of its figures has the same name."""
    began: str
    """When the run began: UTC, ISO 8601. A run that was cut off and made again has two curves."""
    step: int
    seconds: float
    train_loss: float
    """Mean since the measurement before."""
    metric: str
    value: float


@dataclass(frozen=True, slots=True, eq=False)
class StoredRun:
    """A run as `out` holds it: its row, its curve and the numbers behind its figures."""

    row: SyntheticRow
    curve: tuple[CurvePoint, ...]
    arrays: Arrays


def get(name: str) -> Study:
    """A study by its name."""
    if name not in NAMES:
        raise unknown("synthetic study", name, NAMES)
    study: Study = import_module(f"rearview.bench.synthetic.{name}").STUDY
    return study


def run(
    name: str,
    *,
    out: Path,
    full: bool = False,
    arms: Sequence[str] = (),
    seeds: Sequence[int] = (0,),
    device: str = "auto",
    seconds: float | None = None,
    workers: int = 1,
    changes: Facts | None = None,
    say: Callable[[str], None] = lambda sentence: None,
) -> list[SyntheticRow]:
    """The rows of the arms (all, unless some are named); what `out` holds already is not run again.

    `seconds` is for all runs together, and shared among those that wait for one another; a run does one stretch at
    least. A run that ran out of time says so in its row, and is made again next time. `changes` are sizes by name, such
    as steps or learning_rate. A run whose process is killed is reported and has no row; the others go on.
    """
    if workers < 1:
        raise SettingsError(f"workers is {workers}; it must be at least 1.")
    study = get(name)
    runs = plan(name, out=out, full=full, arms=arms, seeds=seeds, device=device, changes=changes)
    rows = {one: row for one, row in runs.items() if row is not None}
    waiting = [one for one in runs if one not in rows]
    until = None if seconds is None else time.time() + seconds
    for one, row in _run_each(waiting, out, workers, until):
        what = f"{name} {one.arm} seed {one.seed}"
        if row is None:
            say(f"{what}: failed: {KILLED}")
            continue
        rows[one] = row
        score, cut = getattr(row, study.metric), "" if row.ended == "steps" else ", out of time"
        say(f"{what}: {study.metric} {score:.4g} after {row.steps:,} steps ({row.total_seconds:.0f} s{cut})")
    if runs and not rows:
        raise InputError(f"No run of {name} came to an end. {KILLED}")
    return [rows[one] for one in runs if one in rows]


def plan(
    name: str,
    *,
    out: Path,
    full: bool = False,
    arms: Sequence[str] = (),
    seeds: Sequence[int] = (0,),
    device: str = "auto",
    changes: Facts | None = None,
) -> dict[StudyRun, SyntheticRow | None]:
    """Every run that is asked for, in order, with its row where `out` holds one that came to its end."""
    study = get(name)
    size, device = study.resize(full, changes), resolve_device(device)
    runs = [StudyRun(name, arm, size, seed, device) for seed in seeds for arm in (arms or study.arms(full))]
    known = files.known_rows(rows_file(out, name), study.row)
    return {one: made[-1] if (made := _find_finished(one, known)) else None for one in runs}


def read_runs(name: str, out: Path) -> list[StoredRun]:
    """Every run of a study that `out` holds; of runs of the same configuration, the longest, then the last."""
    made = sorted(files.known_rows(rows_file(out, name), get(name).row), key=lambda row: row.steps)
    rows = {_run_name(row.configuration): row for row in made}
    place = curves_file(out, name)
    points = files.read(place, CurvePoint) if place.exists() else []
    runs = []
    for run_name, row in rows.items():
        own = [point for point in points if point.run == run_name]
        # A run that was cut off and made again has two curves: the longest counts, then the last.
        longest = max(own, key=lambda point: (point.step, point.began), default=None)
        curve = tuple(point for point in own if longest is not None and point.began == longest.began)
        path = out / name / f"{run_name}.npz"
        try:
            with np.load(path, allow_pickle=False) as arrays:
                runs.append(StoredRun(row, curve, dict(arrays)))
        except (OSError, ValueError) as problem:
            raise InputError(
                f"The numbers behind the figures of a run can't be read from {path} ({problem}); rows and these files "
                "go together: bring both, or use another folder."
            ) from problem
    return runs


def rows_file(out: Path, name: str) -> Path:
    """The file of a study's rows."""
    return out / f"{name}.csv"


def curves_file(out: Path, name: str) -> Path:
    """The file of a study's curves."""
    return out / f"{name}-looks.csv"


def _find_finished(one: StudyRun, known: Sequence[SyntheticRow]) -> list[SyntheticRow]:
    """The rows of a run that came to its end before."""
    return [row for row in find_same(known, get(one.study).configuration(one)) if row.ended == "steps"]


def _run_each(
    waiting: Sequence[StudyRun], out: Path, workers: int, until: float | None
) -> Iterator[tuple[StudyRun, SyntheticRow | None]]:
    """The runs with their rows as they end; those that wait for one another share the time left."""
    if workers > 1:
        rounds = max(1, -(-len(waiting) // workers))
        share = None if until is None else (until - time.time()) / rounds
        yield from spread(partial(make, out=out, seconds=share, until=until), waiting, workers)
        return
    for place, one in enumerate(waiting):
        share = None if until is None else (until - time.time()) / (len(waiting) - place)
        yield one, make(one, out=out, seconds=share)


def make(one: StudyRun, *, out: Path, seconds: float | None = None, until: float | None = None) -> SyntheticRow:
    """Make a run within `seconds`, and before `until` by the wall clock, which processes share; and keep it."""
    if until is not None:
        left = max(0.0, until - time.time())
        seconds = left if seconds is None else min(seconds, left)
    study = get(one.study)
    run_name = _run_name(study.configuration(one))
    began = datetime.now(UTC).isoformat(timespec="milliseconds")

    def keep(seen: Measurement) -> None:
        for metric, value in seen.values.items():
            point = CurvePoint(
                study=one.study, arm=one.arm, run=run_name, began=began, step=seen.step,
                seconds=round(seen.seconds, 3), train_loss=seen.train_loss, metric=metric, value=value,
            )  # fmt: skip
            files.append(curves_file(out, one.study), point)

    row, arrays = study.make(one, seconds=seconds, keep=keep)
    path = rows_file(out, one.study)
    known = files.known_rows(path, study.row)
    if all(row.steps >= other.steps for other in known if _run_name(other.configuration) == run_name):
        content = io.BytesIO()
        np.savez_compressed(content, allow_pickle=False, **arrays)
        write_atomically(out / one.study / f"{run_name}.npz", content.getvalue())
    return files.append(path, row, unless=lambda rows: _find_finished(one, rows))


def _run_name(configuration: Facts) -> str:
    """A name that is the same for the same configuration, and fit for a file."""
    arm = str(configuration["arm"]).replace("/", "-")
    digest = hashlib.sha256(repr(list(configuration.values())).encode()).hexdigest()
    return f"{arm}-{configuration['seed']}-{digest[:8]}"
