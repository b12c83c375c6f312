"""From a file to its anomalies: read, learn what is ordinary, score, flag, judge where there are labels."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rearview.data import triples
from rearview.data.panel import Finding, Panel
from rearview.data.read import column_names, listed, present
from rearview.data.stamps import show
from rearview.detecting.engine import Detection, detect
from rearview.detector import Detector, chosen, judged, unlabelled
from rearview.errors import InputError, UsageError
from rearview.jobs import benchmark_sets
from rearview.jobs.forecast import fingerprint
from rearview.jobs.verdict import counted
from rearview.jobs.warned import warned
from rearview.tasks.alarms import Hits, hits
from rearview.tasks.assess import Assessment
from rearview.train import Progress

LABEL_NAMES = ("label", "labels", "anomaly", "is_anomaly")
"""What a column of labels is often called."""
SETTING_OF = {"quantile": "quantile", "risk": "pot"}
"""Setting -> the rule of the threshold that it belongs to."""
MOST_TIMES = 1e4
"""Multiples of the threshold beyond which the number says no more than that it is large."""
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


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything a finished run has to show."""

    job: Job
    detector: Detector
    found: Detection
    labels: NDArray[np.float64] | None
    """[row]: 1, 0, or NaN where a row has no label."""
    assessment: Assessment | None
    verdict: str
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]
    fresh: bool
    """Whether the network was trained in this run."""
    seconds: float
    warnings: tuple[str, ...] = ()
    """What rearview warned of while the job was made."""

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the training of this run."""
        return self.fresh and self.detector.fitted.interrupted


@warned
def run(
    job: Job, folder: Path, *, progress: Progress | None = None, say: Callable[[str], None] = lambda _: None
) -> Outcome:
    """Do the job; the checkpoint lies in `folder` while it trains, so that it can be resumed."""
    started = time.perf_counter()
    if job.model is not None and job.fit is not None:
        raise UsageError("--fit trains a detector and --model brings one; give one of the two.")
    benchmark_sets.refuse(job.file, job.fit)
    rows = _Rows.read(job, say)
    detector = rows.detector
    detector.progress = progress
    if rows.learned is not None:
        say(
            f"Learning what is ordinary from {counted(len(rows.learned.values), 'row')} of {rows.learned.layout.source}"
        )
        name = f"detector-{fingerprint(rows.learned, detector.request)}.safetensors"
        detector.fit(rows.learned, checkpoint=folder / "checkpoints" / name, resume=job.resume)
        for finding in detector.fitted.findings:
            say(finding.message)
    found = detect(detector.fitted, rows.panel)
    assessment, told = _compared(found, rows.labels, detector.request.lookback)
    notes = [LEARNED_FROM_ITSELF] if rows.learned is rows.panel else []
    notes += [*detector.fitted.notes, *found.notes, *_about_channels(job.file, rows), *told]
    return Outcome(
        job=job,
        detector=detector,
        found=found,
        labels=rows.labels,
        assessment=assessment,
        verdict=verdict(found, assessment, rows.labels),
        notes=tuple(notes),
        findings=tuple(dict.fromkeys((*rows.panel.findings, *detector.findings))),
        fresh=rows.learned is not None,
        seconds=time.perf_counter() - started,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """What a job reads before anything is trained: rows to judge, their labels, rows to learn from."""

    detector: Detector
    panel: Panel
    labels: NDArray[np.float64] | None
    learned: Panel | None
    """None where a saved detector is used; the judged rows themselves where there are no others."""

    @staticmethod
    def read(job: Job, say: Callable[[str], None]) -> "_Rows":
        if job.model is not None:
            detector = Detector.load(job.model, device=job.request.get("device"))
            panel, labels = _read_new(job, detector)
            return _Rows(detector, panel, labels, None)
        file = Path(job.file)
        request = {**job.request, "threshold": _rule(job, itself=job.fit is None and not triples.is_triple(file))}
        if triples.is_triple(file):
            whole, detector = _triple(job, file), _made(job, request)
            return _Rows(detector, detector.read(whole.test)[0], whole.labels, detector.read(whole.train)[0])
        detector = _made(job, request)
        learned = None if job.fit is None else detector.read(job.fit, **_dropped(job, job.fit))[0]
        panel, labels = _read(job, detector, learned)
        for finding in panel.findings:
            say(finding.message)
        return _Rows(detector, panel, labels, panel if learned is None else _same_channels(job, learned, panel))


def _rule(job: Job, *, itself: bool) -> str | float | None:
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


def _made(job: Job, request: Mapping[str, Any]) -> Detector:
    given = {name: value for name, value in request.items() if value is not None}
    return Detector(**given, **job.reading, label_col=job.labels)


def _triple(job: Job, file: Path) -> triples.Triple:
    """The arrays of a file; what has no meaning for them is refused, not passed over."""
    if job.fit is not None or job.labels is not None:
        raise UsageError(f"{file.name} brings its own training rows and labels; leave out --fit and --labels.")
    unused = [name for name in job.reading if name not in ("channels", "drop")]
    if unused:
        raise UsageError(f"{file.name} holds arrays without stamps or ids; leave out --{unused[0].replace('_', '-')}.")
    whole = triples.read(file)
    unknown = [name for name in job.reading.get("drop", ()) if name not in whole.test.columns]
    if unknown:
        raise InputError(
            f"{job.file} has no channel {unknown[0]!r}, which --drop names; it has {', '.join(whole.test.columns)}."
        )
    return whole


def _read(job: Job, detector: Detector, learned: Panel | None) -> tuple[Panel, NDArray[np.float64] | None]:
    """The rows to judge and their labels, on the step of the rows to learn from where there are some."""
    if learned is None:
        panel, labels = detector.read(job.file)
    else:
        panel, labels = detector.read_on(job.file, str(learned.step))
    _check_labels(job, detector, panel, labels)
    return panel, labels


def _read_new(job: Job, detector: Detector) -> tuple[Panel, NDArray[np.float64] | None]:
    file = Path(job.file)
    if triples.is_triple(file):
        whole = triples.read(file)
        return detector.read_new(whole.test)[0], whole.labels
    panel, labels = detector.read_new(job.file, job.labels)
    _check_labels(job, detector, panel, labels)
    return panel, labels


def _check_labels(job: Job, detector: Detector, panel: Panel, labels: NDArray[np.float64] | None) -> None:
    if job.labels is not None and job.labels in listed(detector.reading.get("drop", ())):
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
    return chosen(learned, panel.columns)


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


def verdict(found: Detection, assessment: Assessment | None, labels: NDArray[np.float64] | None) -> str:
    """What was found, in a sentence or two; segments are what it counts, as the table and anomalies.csv do."""
    rows = len(found.scores.rows)
    if not found.segments:
        sentence = f"No anomaly in {counted(rows, 'row')}: no score is above the threshold."
    else:
        worst = max(found.segments, key=lambda part: part.score / (found.thresholds[part.series] or 1))
        of = f" of {found.panel.ids[worst.series]}" if found.panel.series > 1 else ""
        carrier = found.panel.columns[worst.channels[0][0]]
        many = "1 anomaly" if len(found.segments) == 1 else f"{len(found.segments):,} anomalies"
        sentence = (
            f"{many} in {rows:,} rows. The worst peaks at {show(found.panel.stamps[worst.peak])}{of}, "
            f"{_height(worst.score, float(found.thresholds[worst.series]))}, carried by {carrier}."
        )
    if assessment is None or labels is None:
        return sentence
    labelled = hits(labels == 1, found.flags & ~np.isnan(labels), found.stretches)
    return f"{sentence} {_judgement(assessment, len(found.segments), labelled)}"


def _height(score: float, threshold: float) -> str:
    """A score in words: how many times the threshold it is, where that says something."""
    if threshold <= 0:
        return f"with a score of {score:.4g}"
    times = score / threshold
    if times > MOST_TIMES:
        return f"more than {MOST_TIMES:,.0f} times the threshold"
    return f"{times:,.{0 if times >= 100 else 1}f} times the threshold"


def _judgement(assessment: Assessment, found: int, labelled: Hits) -> str:
    """What labels say of those of the segments found that have some."""
    where = "found" if labelled.alarms == found else "found in labelled rows"
    if not assessment.anomalous:
        if not labelled.alarms:
            return f"The labels mark no anomaly{' either' if not found else ''}."
        alarms = (
            f"the one {where} is a false alarm"
            if labelled.alarms == 1
            else f"all {labelled.alarms:,} {where} are false alarms"
        )
        return f"The labels mark no anomaly, so {alarms}."
    touched = round(assessment.event_recall * assessment.events)
    if assessment.events == 1:
        marked = f"the one marked anomaly is {'' if touched else 'not '}found"
    else:
        marked = f"{_share_of(touched, f'{assessment.events:,} marked anomalies')} found"
    if labelled.alarms == 1:
        marked = f"the one {where} is {'right' if labelled.right else 'a false alarm'}; {marked}"
    elif labelled.alarms:
        marked = f"{_share_of(labelled.right, f'the {labelled.alarms:,} {where}')} right; {marked}"
    share = assessment.anomalous / assessment.rows
    return f"{marked[0].upper()}{marked[1:]}. AUC-PR {assessment.auc_pr:.3f}, where chance gets {share:.3f}."


def _share_of(part: int, whole: str) -> str:
    """'none of the 5 found is', '1 of the 5 found is', '3 of the 5 found are'."""
    return f"{f'{part:,}' if part else 'none'} of {whole} {'are' if part > 1 else 'is'}"


def _compared(found: Detection, labels: NDArray[np.float64] | None, slack: int) -> tuple[Assessment | None, list[str]]:
    """What labels say of a detection, and a word on it; a finished detection is not lost to unfit labels."""
    if labels is None:
        return None, []
    try:
        assessment = judged(found, labels, slack)
    except InputError as problem:
        return None, [str(problem)]
    return assessment, _about_labels(assessment)


def _about_channels(file: str, rows: _Rows) -> list[str]:
    """A word on channels that look like labels, and on those of which nothing was observed in the rows judged."""
    panel = rows.panel
    notes = [
        f"The column {name!r} holds 0 and 1 alone and was looked at as a channel; if it marks anomalies, say "
        f"--labels {name}."
        for name in panel.columns
        if rows.labels is None and name.casefold() in LABEL_NAMES and _is_binary(panel, name)
    ]
    blind = panel.empty_names
    if blind:
        notes.append(
            f"{file} has no value of {', '.join(map(repr, blind))}: its scores rest on "
            f"{len(panel.columns) - len(blind)} of {counted(len(panel.columns), 'channel')}."
        )
    return notes


def _is_binary(panel: Panel, name: str) -> bool:
    place = panel.columns.index(name)
    cells = [panel.original(slice(a, b), s)[:, place] for s, (a, b) in enumerate(panel.bounds())]
    return bool(np.isin(np.concatenate(cells).round(5), (0.0, 1.0)).all())


def _about_labels(assessment: Assessment) -> list[str]:
    if not assessment.anomalous:
        return ["The labels mark no anomaly: recall, F1 and the areas do not exist."]
    return [
        f"The point-adjusted F1 of {assessment.adjusted_f1:.3f} is edited by the labels; as many flags thrown at "
        f"random get {assessment.adjusted_f1_by_chance:.3f}."
    ]
