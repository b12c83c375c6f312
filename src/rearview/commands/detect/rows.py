"""Read the rows to judge, their labels, and the rows to learn from, before anything is trained."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np

from rearview.commands import benchmark_sets
from rearview.core.errors import InputError, UsageError
from rearview.core.wording import quantity
from rearview.data.datasets import labelled_arrays
from rearview.data.datasets.labelled_arrays import LabelledArrays
from rearview.data.io.files import column_names, select_present
from rearview.data.panel import Panel
from rearview.data.read_options import names_in
from rearview.estimators.detect.detector import Detector, Labels, missing_labels_error, select_channels
from rearview.estimators.detect.spec import DetectorOptions
from rearview.estimators.options import TableKeywords
from rearview.tasks.thresholds import Rule

LABEL_NAMES = ("label", "labels", "anomaly", "is_anomaly")
"""Usual names of a column of labels."""
RULE_OF: dict[str, Rule] = {"quantile": "quantile", "risk": "pot"}
"""Option -> the rule of the threshold that it belongs to."""
LEARNED_FROM_ITSELF = (
    "The detector learned from the rows it judges: a network from the first 80 % of each series, simple members from "
    "all rows, remembering none; the threshold is drawn from the last 20 %, allowing for anomalies there. Anomalies in "
    "them count as ordinary in part: what occurs again and again goes unseen, and an anomaly that fills much of the "
    "last 20 % raises the threshold. Give rows without anomalies with --fit, or a saved model with --model."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A detection request of the command line."""

    file: str
    fit: str | None = None
    """A file of ordinary rows to learn from; None: the file itself."""
    model: Path | None = None
    """The folder of a saved detector, which is used as it is."""
    labels: str | None = None
    """The column that holds labels."""
    resume: bool = False
    options: DetectorOptions = field(default_factory=DetectorOptions)
    given: frozenset[str] = frozenset()
    """Names of the options that were given."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows to judge and to learn from, and the detector that is to do so."""

    detector: Detector
    panel: Panel
    labels: Labels | None
    learned: Panel | None
    """None where a saved detector is used."""
    notes: tuple[str, ...] = ()
    """Notes on the rows that are learned from."""


def read_rows(job: Job, say: Callable[[str], None]) -> Rows:
    """Read everything a job needs; `say` receives the findings of the rows to judge.

    A job that can't be done is refused.
    """
    if job.model is not None and job.fit is not None:
        raise UsageError("--fit trains a detector and --model brings one; give one of the two.")
    benchmark_sets.refuse_set_names(job.file, job.fit)
    if job.model is not None:
        detector = Detector.load(job.model, device=job.options.device)
        detector.reading = detector.reading.override(job.options.read_options())
        if labelled_arrays.is_array_file(Path(job.file)):
            arrays = labelled_arrays.read(Path(job.file))
            return Rows(detector, detector.read_new(arrays.test)[0], arrays.labels, None)
        panel, labels = detector.read_new(job.file, job.labels)
        _check_labels(job, detector, panel, labels)
        for finding in panel.findings:
            say(finding.message)
        return Rows(detector, panel, labels, None)
    detector = _new_detector(job)
    notes: tuple[str, ...] = ()
    if labelled_arrays.is_array_file(Path(job.file)):
        arrays = _read_arrays(job)
        panel, labels, learned = detector.read(arrays.test)[0], arrays.labels, detector.read(arrays.train)[0]
    else:
        other, marks = (None, None) if job.fit is None else detector.read(job.fit, drop=_columns_to_drop(job, job.fit))
        panel, labels = detector.read(job.file) if other is None else detector.read_on(job.file, str(other.step))
        _check_labels(job, detector, panel, labels)
        for finding in panel.findings:
            say(finding.message)
        learned = panel if other is None else _same_channels(job, other, panel)
        notes = _note_marked_rows(job, marks)
    if not _same_values(learned, panel):
        return Rows(detector, panel, labels, learned, notes)
    return Rows(_new_detector(job, itself=True), panel, labels, learned, (LEARNED_FROM_ITSELF, *notes))


def _same_values(one: Panel, other: Panel) -> bool:
    """Whether panels of the same channels hold the same values, even if read from two files."""
    seen = [np.True_ if panel.observed is None else panel.observed for panel in (one, other)]
    parts = ((one.offsets, other.offsets), (one.centre, other.centre), (one.values, other.values), seen)
    return one is other or all(np.array_equal(a, b) for a, b in parts)


def _note_marked_rows(job: Job, marks: Labels | None) -> tuple[str, ...]:
    """A sentence where labels mark rows of the file to learn from."""
    count = 0 if marks is None else int(np.sum(marks == 1))
    if not count:
        return ()
    are, were = ("is marked as an anomaly", "was") if count == 1 else ("are marked as anomalies", "were")
    return (
        f"{quantity(count, 'row')} of {job.fit} {are} and {were} learned from; --fit is for rows without anomalies.",
    )


def _new_detector(job: Job, *, itself: bool = False) -> Detector:
    """A new detector; `itself`: it learns from the rows that it judges.

    An option of one threshold rule selects that rule; with another rule it is refused, not ignored.
    """
    threshold = job.options.threshold if "threshold" in job.given else None
    belongs = {name: rule for name, rule in RULE_OF.items() if name in job.given}
    if threshold is None and len(set(belongs.values())) == 1:
        threshold = next(iter(belongs.values()))
    for name, rule in belongs.items():
        if rule != threshold:
            other = f"the threshold is {threshold}" if threshold is not None else "the threshold is drawn in one way"
            raise UsageError(f"--{name} belongs to --threshold {rule}, but {other}; leave one of the two out.")
    if threshold is None:
        # A quantile of rows that hold anomalies would flag as many of them.
        threshold = "robust" if itself else job.options.threshold
    return Detector(**vars(replace(job.options, threshold=threshold, label_col=job.labels)))


def _read_arrays(job: Job) -> LabelledArrays:
    """The arrays of a file; options that have no meaning for them are refused."""
    name = Path(job.file).name
    if job.fit is not None or job.labels is not None:
        raise UsageError(f"{name} brings its own training rows and labels; leave out --fit and --labels.")
    unused = [each.name for each in fields(TableKeywords) if each.name in job.given and each.name != "drop"]
    if unused:
        raise UsageError(f"{name} holds arrays without stamps or ids; leave out --{unused[0].replace('_', '-')}.")
    arrays = labelled_arrays.read(Path(job.file))
    unknown = [name for name in names_in(job.options.drop or ()) if name not in arrays.test.columns]
    if unknown:
        raise InputError(
            f"{job.file} has no channel {unknown[0]!r}, which --drop names; it has {', '.join(arrays.test.columns)}."
        )
    return arrays


def _check_labels(job: Job, detector: Detector, panel: Panel, labels: Labels | None) -> None:
    if job.labels is not None and job.labels in detector.reading.drop:
        raise InputError(
            f"{job.file}: the detector leaves out the column {job.labels!r} (--drop) and can take no labels from it; "
            f"train with --labels {job.labels} in place of --drop: labels are used to judge the result, never to train."
        )
    if job.labels is not None and labels is None:
        others = [name for name in column_names(job.file) if name != job.labels]
        raise InputError(f"{missing_labels_error(job.file, panel, job.labels)}{_label_hint(others)}")
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
        labels = _label_hint([*missing, *extra]) if job.labels is None else ""
        raise InputError(f"{job.fit} {says}; both files need the same channels: leave others out with --drop.{labels}")
    return select_channels(learned, panel.columns)


def _label_hint(names: Sequence[str]) -> str:
    """A sentence on the column that is likeliest to hold the labels; nothing where none is called so."""
    marks = [name for name in names if name.casefold() in LABEL_NAMES]
    return f" If {marks[0]!r} marks anomalies, say --labels {marks[0]}." if marks else ""


def _columns_to_drop(job: Job, fit: str) -> tuple[str, ...]:
    """The columns to leave out of the file to learn from; each must be in one of the two files."""
    dropped = names_in(job.options.drop or ())
    here = select_present(fit, dropped)
    nowhere = [name for name in dropped if name not in (*here, *select_present(job.file, dropped))]
    if nowhere:
        raise InputError(f"Neither {job.file} nor {fit} has the column {nowhere[0]!r}, which --drop names.")
    return here
