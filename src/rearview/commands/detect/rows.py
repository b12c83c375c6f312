"""What a detection reads before anything is trained: rows to judge, their labels, and rows to learn from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rearview.commands.forecast.verdict import counted
from rearview.core.errors import InputError, UsageError
from rearview.data.datasets import labelled_arrays
from rearview.data.datasets.labelled_arrays import LabelledArrays
from rearview.data.io.files import column_names, present
from rearview.data.panel import Panel
from rearview.estimators.detect.detector import Detector, select_channels, unlabelled

LABEL_NAMES = ("label", "labels", "anomaly", "is_anomaly")
"""What a column of labels is often called."""
SETTING_OF = {"quantile": "quantile", "risk": "pot"}
"""Setting -> the rule of the threshold that it belongs to."""
LEARNED_FROM_ITSELF = (
    "The detector learned from the rows it judges: anomalies in them count as ordinary in part. "
    "Give rows without anomalies with --fit, or a saved model with --model."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A detection as the command line asks for it."""

    file: str
    fit: str | None = None
    """A file of ordinary rows to learn from; None: the file itself."""
    model: Path | None = None
    """The folder of a saved detector, which is used as it is."""
    labels: str | None = None
    """The column that holds labels."""
    resume: bool = False
    request: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the detector: attention, lookback, mode, threshold ..."""
    reading: Mapping[str, Any] = field(default_factory=dict)
    """How files are read: id_col, drop, freq ..."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows to judge and to learn from, and the detector that is to do so."""

    detector: Detector
    panel: Panel
    labels: NDArray[np.float64] | None
    learned: Panel | None
    """None where a saved detector is used."""
    notes: tuple[str, ...] = ()
    """What a reader must know of the rows that are learned from."""


def read_rows(job: Job, say: Callable[[str], None]) -> Rows:
    """Everything a job reads; `say` is told what was inferred and repaired in the rows to judge."""
    if job.model is not None:
        detector = Detector.load(job.model, device=job.request.get("device"))
        panel, labels = _read_new(job, detector)
        return Rows(detector, panel, labels, None)
    file, detector = Path(job.file), _made(job)
    if labelled_arrays.is_array_file(file):
        whole = _triple(job, file)
        return _settled(job, Rows(detector, detector.read(whole.test)[0], whole.labels, detector.read(whole.train)[0]))
    learned, marks = (None, None) if job.fit is None else detector.read(job.fit, **_dropped(job, job.fit))
    panel, labels = detector.read(job.file) if learned is None else detector.read_on(job.file, str(learned.step))
    _check_labels(job, detector, panel, labels)
    for finding in panel.findings:
        say(finding.message)
    learned = panel if learned is None else _same_channels(job, learned, panel)
    return _settled(job, Rows(detector, panel, labels, learned, _about_marks(job, marks)))


def _settled(job: Job, rows: Rows) -> Rows:
    """The rows with a word where those to learn from are those to judge, and with the threshold that bears it."""
    if rows.learned is None or not _same_values(rows.learned, rows.panel):
        return rows
    return replace(rows, detector=_made(job, itself=True), notes=(LEARNED_FROM_ITSELF, *rows.notes))


def _same_values(one: Panel, other: Panel) -> bool:
    """Whether panels of the same channels hold the same values, be they read from a copy of a file."""
    seen = [np.True_ if panel.observed is None else panel.observed for panel in (one, other)]
    parts = ((one.offsets, other.offsets), (one.centre, other.centre), (one.values, other.values), seen)
    return one is other or all(np.array_equal(a, b) for a, b in parts)


def _about_marks(job: Job, marks: NDArray[np.float64] | None) -> tuple[str, ...]:
    """A sentence where labels mark rows of the file to learn from."""
    count = 0 if marks is None else int(np.sum(marks == 1))
    if not count:
        return ()
    are, were = ("is marked as an anomaly", "was") if count == 1 else ("are marked as anomalies", "were")
    return (
        f"{counted(count, 'row')} of {job.fit} {are} and {were} learned from; --fit is for rows without anomalies.",
    )


def _rule(job: Job, itself: bool) -> str | float | None:
    """The threshold that is asked for, be it by a setting of one; a setting of another is refused, not passed over.

    `itself`: the detector learns from the rows that it judges.
    """
    asked = job.request.get("threshold")
    belongs = {name: rule for name, rule in SETTING_OF.items() if job.request.get(name) is not None}
    if asked is None and len(set(belongs.values())) == 1:
        asked = next(iter(belongs.values()))
    for name, rule in belongs.items():
        if rule != asked:
            other = f"the threshold is {asked}" if asked is not None else "the threshold is drawn in one way"
            raise UsageError(f"--{name} belongs to --threshold {rule}, but {other}; leave one of the two out.")
    if asked is None and itself:
        return "robust"  # a quantile of rows that hold anomalies would flag as many of them
    return asked


def _made(job: Job, *, itself: bool = False) -> Detector:
    given = {**job.request, "threshold": _rule(job, itself)}
    return Detector(
        **{name: value for name, value in given.items() if value is not None}, **job.reading, label_col=job.labels
    )


def _triple(job: Job, file: Path) -> LabelledArrays:
    """The arrays of a file; what has no meaning for them is refused, not passed over."""
    if job.fit is not None or job.labels is not None:
        raise UsageError(f"{file.name} brings its own training rows and labels; leave out --fit and --labels.")
    unused = [name for name in job.reading if name not in ("channels", "drop")]
    if unused:
        raise UsageError(f"{file.name} holds arrays without stamps or ids; leave out --{unused[0].replace('_', '-')}.")
    whole = labelled_arrays.read(file)
    unknown = [name for name in job.reading.get("drop", ()) if name not in whole.test.columns]
    if unknown:
        raise InputError(
            f"{job.file} has no channel {unknown[0]!r}, which --drop names; it has {', '.join(whole.test.columns)}."
        )
    return whole


def _read_new(job: Job, detector: Detector) -> tuple[Panel, NDArray[np.float64] | None]:
    file = Path(job.file)
    if labelled_arrays.is_array_file(file):
        whole = labelled_arrays.read(file)
        return detector.read_new(whole.test)[0], whole.labels
    panel, labels = detector.read_new(job.file, job.labels)
    _check_labels(job, detector, panel, labels)
    return panel, labels


def _check_labels(job: Job, detector: Detector, panel: Panel, labels: NDArray[np.float64] | None) -> None:
    if job.labels is not None and job.labels in detector.reading.drop:
        raise InputError(
            f"{job.file}: the detector leaves out the column {job.labels!r} (--drop) and can take no labels from it; "
            f"train with --labels {job.labels} in place of --drop: labels are never looked at, only compared with."
        )
    if job.labels is not None and labels is None:
        others = [name for name in column_names(job.file) if name != job.labels]
        raise InputError(f"{unlabelled(job.file, panel, job.labels)}{_pointed_at(others)}")
    if labels is not None and np.isnan(labels).all():
        raise InputError(
            f"{job.file}: the label column {job.labels!r} is empty; fill it with 1 (anomaly) and 0 (ordinary), or "
            "leave out --labels."
        )


def _same_channels(job: Job, learned: Panel, panel: Panel) -> Panel:
    """The rows to learn from with the channels of those to judge, in their order; other channels are refused."""
    missing = [name for name in panel.columns if name not in learned.columns]
    extra = [name for name in learned.columns if name not in panel.columns]
    if missing or extra:
        which = f"{missing[0]!r}, which {job.file} has" if missing else f"{extra[0]!r} beside what {job.file} has"
        says = f"has no column {which}" if missing else f"has a column {which}"
        labels = _pointed_at([*missing, *extra]) if job.labels is None else ""
        raise InputError(f"{job.fit} {says}; both files need the same channels: leave others out with --drop.{labels}")
    return select_channels(learned, panel.columns)


def _pointed_at(names: Sequence[str]) -> str:
    """A sentence on the column that is likeliest to hold the labels; nothing where none is called so."""
    marks = [name for name in names if name.casefold() in LABEL_NAMES]
    return f" If {marks[0]!r} marks anomalies, say --labels {marks[0]}." if marks else ""


def _dropped(job: Job, fit: str) -> dict[str, Any]:
    """The columns to leave out of the file to learn from; each must be in one of the two files."""
    dropped = job.reading.get("drop")
    if dropped is None:
        return {}
    here = present(fit, dropped)
    nowhere = [name for name in dropped if name not in (*here, *present(job.file, dropped))]
    if nowhere:
        raise InputError(f"Neither {job.file} nor {fit} has the column {nowhere[0]!r}, which --drop names.")
    return {"drop": here}
