"""Runs the arms of a study, here or in processes that share the device, and keeps what comes of them."""

import hashlib
import io
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rearview.bench.rows import result_file as files
from rearview.bench.rows.identity import find_same
from rearview.bench.runs.pool import KILLED, spread
from rearview.bench.synthetic import NAMES
from rearview.bench.synthetic.row import Look, SyntheticRow
from rearview.bench.synthetic.study import Asked, Study
from rearview.bench.synthetic.training import Seen
from rearview.core.errors import InputError, SettingsError, did_you_mean
from rearview.core.files import write_atomically
from rearview.estimators.base import resolve_device

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A run as it is kept: its row, its curve and the numbers behind its figures."""

    row: SyntheticRow
    looks: tuple[Look, ...]
    arrays: Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class _Order:
    """One run, in words that another process understands."""

    study: str
    arm: str
    full: bool
    changes: Mapping[str, Any]
    seed: int
    device: str
    out: Path


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
    changes: Mapping[str, Any] | None = None,
    say: Say = lambda sentence: None,
) -> list[SyntheticRow]:
    """The rows of the arms (all, unless some are named); what `out` holds already is not run again.

    `seconds` is for all runs together, and shared among those that wait for one another; a run does one stretch at
    least. A run that ran out of time says so in its row, and is made again next time. `changes` are sizes by name, such
    as steps or learning_rate. A run whose process is killed is told and has no row; the others go on.
    """
    if workers < 1:
        raise SettingsError(f"workers is {workers}; it must be at least 1.")
    study = get(name)
    chosen = tuple(arms) or tuple(study.arms(full))
    orders = [
        _Order(name, arm, full, dict(changes or {}), seed, resolve_device(device), out)
        for seed in seeds
        for arm in chosen
    ]
    known = files.known_rows(rows_file(out, name), study.row)
    done = {id(order): _made(order, known)[-1:] for order in orders}
    waiting = [order for order in orders if not done[id(order)]]
    until = None if seconds is None else time.time() + seconds
    ended = _here(waiting, until) if workers == 1 else _in_processes(waiting, workers, until)
    for order, row in ended:
        say(_words(order, row))
        done[id(order)] += [] if row is None else [row]
    found = [row for order in orders for row in done[id(order)]]
    if orders and not found:
        raise InputError(f"No run of {name} came to an end. {KILLED}")
    return found


def kept(name: str, out: Path) -> list[Kept]:
    """Every run of a study that `out` holds; of runs of the same configuration, the longest, then the last."""
    made = sorted(files.known_rows(rows_file(out, name), get(name).row), key=lambda row: row.steps)
    rows = {_run_name(row): row for row in made}
    place = looks_file(out, name)
    looks = files.read(place, Look) if place.exists() else []
    found = []
    for run_name, row in rows.items():
        own = [look for look in looks if look.run == run_name]
        found.append(Kept(row, _longest_pass(own), _arrays(out / name / f"{run_name}.npz")))
    return found


def rows_file(out: Path, name: str) -> Path:
    """Where the rows of a study are kept."""
    return out / f"{name}.csv"


def looks_file(out: Path, name: str) -> Path:
    """Where the curves of a study are kept."""
    return out / f"{name}-looks.csv"


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError) as problem:
        raise InputError(
            f"The numbers behind the figures of a run can't be read from {path} ({problem}); rows and these files go "
            "together: bring both, or use another folder."
        ) from problem


def _asked(order: _Order, keep: Callable[[Seen], None], seconds: float | None = None) -> Asked:
    size = get(order.study).sized(order.full, order.changes)
    return Asked(order.arm, size, order.seed, order.device, seconds, keep)


def _made(order: _Order, known: Sequence[SyntheticRow]) -> list[SyntheticRow]:
    """The rows of a run that came to its end before."""
    study = get(order.study)
    columns = study.columns(_asked(order, lambda seen: None))
    wanted = {name: columns[name] for name in study.row.CONFIGURATION}
    return [row for row in find_same(known, wanted) if row.ended == "steps"]


def _run(order: _Order, seconds: float | None = None, until: float | None = None) -> SyntheticRow:
    """Make a run within `seconds`, and before `until` by the wall clock, which processes share; and keep it."""
    if until is not None:
        left = max(0.0, until - time.time())
        seconds = left if seconds is None else min(seconds, left)
    study = get(order.study)
    run_name = _run_name(study.columns(_asked(order, lambda seen: None)))
    began = datetime.now(UTC).isoformat(timespec="milliseconds")

    def keep(seen: Seen) -> None:
        for metric, value in seen.values.items():
            look = Look(
                study=order.study, arm=order.arm, run=run_name, began=began, step=seen.step,
                seconds=round(seen.seconds, 3), train_loss=seen.train_loss, metric=metric, value=value,
            )  # fmt: skip
            files.append(looks_file(order.out, order.study), look)

    outcome = study.run(_asked(order, keep, seconds))
    known = files.known_rows(rows_file(order.out, order.study), study.row)
    if all(outcome.row.steps >= row.steps for row in known if _run_name(row) == run_name):
        content = io.BytesIO()
        np.savez_compressed(content, allow_pickle=False, **outcome.arrays)
        write_atomically(order.out / order.study / f"{run_name}.npz", content.getvalue())
    return files.append(rows_file(order.out, order.study), outcome.row, unless=lambda rows: _made(order, rows))


def _here(orders: Sequence[_Order], until: float | None) -> Iterator[tuple[_Order, SyntheticRow | None]]:
    for place, order in enumerate(orders):
        share = None if until is None else (until - time.time()) / (len(orders) - place)
        yield order, _run(order, share)


def _in_processes(
    orders: Sequence[_Order], workers: int, until: float | None
) -> Iterator[tuple[_Order, SyntheticRow | None]]:
    rounds = max(1, -(-len(orders) // workers))
    share = None if until is None else (until - time.time()) / rounds
    return spread(partial(_run, seconds=share, until=until), orders, workers)


def _words(order: _Order, row: SyntheticRow | None) -> str:
    what = f"{order.study} {order.arm} seed {order.seed}"
    if row is None:
        return f"{what}: failed: {KILLED}"
    metric = get(row.study).metric
    cut = "" if row.ended == "steps" else ", out of time"
    return f"{what}: {metric} {getattr(row, metric):.4g} after {row.steps:,} steps ({row.total_seconds:.0f} s{cut})"


def _run_name(facts: Mapping[str, Any] | SyntheticRow) -> str:
    """A name that is the same for the same configuration, and fit for a file."""
    values = (
        facts if isinstance(facts, Mapping) else {field.name: getattr(facts, field.name) for field in fields(facts)}
    )
    asked = repr([values[name] for name in SyntheticRow.CONFIGURATION])
    arm = values["arm"].replace("/", "-")
    return f"{arm}-{values['seed']}-{hashlib.sha256(asked.encode()).hexdigest()[:8]}"


def _longest_pass(looks: Sequence[Look]) -> tuple[Look, ...]:
    """The curve of a run; of one that was cut off and made again, the longest, then the last."""
    longest = max(looks, key=lambda look: (look.step, look.began), default=None)
    return tuple(look for look in looks if longest is not None and look.began == longest.began)
