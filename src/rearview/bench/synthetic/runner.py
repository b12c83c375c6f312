"""Run the arms of a study, here or in processes that share the device, and keep their rows, curves and arrays."""

import hashlib
import io
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np

from rearview.bench.rows import result_file
from rearview.bench.rows.identity import find_same
from rearview.bench.rows.row import Facts
from rearview.bench.runs.pool import KILLED, spread
from rearview.bench.synthetic import NAMES
from rearview.bench.synthetic.row import Look, SyntheticRow
from rearview.bench.synthetic.study import Arrays, Study, StudyRun
from rearview.bench.synthetic.training import Measured
from rearview.core.errors import InputError, SettingsError, did_you_mean
from rearview.core.files import write_atomically
from rearview.estimators.base import resolve_device

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, eq=False)
class StoredRun:
    """A run as it is kept: its row, its curve and the numbers behind its figures."""

    row: SyntheticRow
    looks: tuple[Look, ...]
    arrays: Arrays


def get(name: str) -> Study:
    """A study by its name."""
    if name not in NAMES:
        raise SettingsError(
            f"There is no synthetic study {name!r}.{did_you_mean(name, NAMES)} Known: {', '.join(NAMES)}."
        )
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
    say: Say = lambda sentence: None,
) -> list[SyntheticRow]:
    """The rows of the arms (all, unless some are named); what `out` holds already is not run again.

    `seconds` is for all runs together, and shared among those that wait for one another; a run does one stretch at
    least. A run that ran out of time says so in its row, and is made again next time. `changes` are sizes by name, such
    as steps or learning_rate. A run whose process is killed is reported and has no row; the others go on.
    """
    if workers < 1:
        raise SettingsError(f"workers is {workers}; it must be at least 1.")
    study = get(name)
    size, place = study.resize(full, changes), resolve_device(device)
    runs = [StudyRun(name, arm, size, seed, place) for seed in seeds for arm in tuple(arms) or tuple(study.arms(full))]
    known = result_file.known_rows(rows_file(out, name), study.row)
    rows = {id(one): _find_finished(one, known)[-1:] for one in runs}
    waiting = [one for one in runs if not rows[id(one)]]
    until = None if seconds is None else time.time() + seconds
    made = _make_here(waiting, out, until) if workers == 1 else _make_in_processes(waiting, out, workers, until)
    for one, row in made:
        say(f"{one.study} {one.arm} seed {one.seed}: {_describe_outcome(study, row)}")
        rows[id(one)] += [] if row is None else [row]
    finished = [row for one in runs for row in rows[id(one)]]
    if runs and not finished:
        raise InputError(f"No run of {name} came to an end. {KILLED}")
    return finished


def read_runs(name: str, out: Path) -> list[StoredRun]:
    """Every run of a study that `out` holds; of runs of the same configuration, the longest, then the last."""
    made = sorted(result_file.known_rows(rows_file(out, name), get(name).row), key=lambda row: row.steps)
    rows = {_run_name(row.configuration): row for row in made}
    place = looks_file(out, name)
    looks = result_file.read(place, Look) if place.exists() else []
    runs = []
    for run_name, row in rows.items():
        own = [look for look in looks if look.run == run_name]
        # Of a run that was cut off and made again, the longest curve, then the last.
        longest = max(own, key=lambda look: (look.step, look.began), default=None)
        curve = tuple(look for look in own if longest is not None and look.began == longest.began)
        runs.append(StoredRun(row, curve, _read_arrays(out / name / f"{run_name}.npz")))
    return runs


def rows_file(out: Path, name: str) -> Path:
    """Where the rows of a study are kept."""
    return out / f"{name}.csv"


def looks_file(out: Path, name: str) -> Path:
    """Where the curves of a study are kept."""
    return out / f"{name}-looks.csv"


def _read_arrays(path: Path) -> Arrays:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError) as problem:
        raise InputError(
            f"The numbers behind the figures of a run can't be read from {path} ({problem}); rows and these files go "
            "together: bring both, or use another folder."
        ) from problem


def _find_finished(run: StudyRun, known: Sequence[SyntheticRow]) -> list[SyntheticRow]:
    """The rows of a run that did all of its steps before."""
    study = get(run.study)
    columns = study.columns(run)
    wanted = {name: columns[name] for name in study.row.CONFIGURATION}
    return [row for row in find_same(known, wanted) if row.ended == "steps"]


def make(run: StudyRun, out: Path, seconds: float | None = None, until: float | None = None) -> SyntheticRow:
    """Make a run within `seconds`, and before `until` by the wall clock, which processes share; and keep it."""
    if until is not None:
        left = max(0.0, until - time.time())
        seconds = left if seconds is None else min(seconds, left)
    study = get(run.study)
    run_name = _run_name(study.columns(run))
    began = datetime.now(UTC).isoformat(timespec="milliseconds")

    def keep(measured: Measured) -> None:
        for metric, value in measured.values.items():
            look = Look(
                study=run.study, arm=run.arm, run=run_name, began=began, step=measured.step,
                seconds=round(measured.seconds, 3), train_loss=measured.train_loss, metric=metric, value=value,
            )  # fmt: skip
            result_file.append(looks_file(out, run.study), look)

    outcome = study.make(run, keep, seconds)
    known = result_file.known_rows(rows_file(out, run.study), study.row)
    if all(outcome.row.steps >= row.steps for row in known if _run_name(row.configuration) == run_name):
        content = io.BytesIO()
        np.savez_compressed(content, allow_pickle=False, **outcome.arrays)
        write_atomically(out / run.study / f"{run_name}.npz", content.getvalue())
    return result_file.append(rows_file(out, run.study), outcome.row, unless=lambda rows: _find_finished(run, rows))


def _make_here(
    runs: Sequence[StudyRun], out: Path, until: float | None
) -> Iterator[tuple[StudyRun, SyntheticRow | None]]:
    for place, one in enumerate(runs):
        share = None if until is None else (until - time.time()) / (len(runs) - place)
        yield one, make(one, out, share)


def _make_in_processes(
    runs: Sequence[StudyRun], out: Path, workers: int, until: float | None
) -> Iterator[tuple[StudyRun, SyntheticRow | None]]:
    rounds = max(1, -(-len(runs) // workers))
    share = None if until is None else (until - time.time()) / rounds
    return spread(partial(make, out=out, seconds=share, until=until), runs, workers)


def _describe_outcome(study: Study, row: SyntheticRow | None) -> str:
    if row is None:
        return f"failed: {KILLED}"
    cut = "" if row.ended == "steps" else ", out of time"
    value = getattr(row, study.metric)
    return f"{study.metric} {value:.4g} after {row.steps:,} steps ({row.total_seconds:.0f} s{cut})"


def _run_name(columns: Facts) -> str:
    """A name that is the same for the same configuration, and fit for a file."""
    configuration = repr([columns[name] for name in SyntheticRow.CONFIGURATION])
    arm = str(columns["arm"]).replace("/", "-")
    return f"{arm}-{columns['seed']}-{hashlib.sha256(configuration.encode()).hexdigest()[:8]}"
