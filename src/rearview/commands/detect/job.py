"""From a file to its anomalies: read, learn what is ordinary, score, flag, judge where there are labels."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rearview.commands.detect.rows import LABEL_NAMES, Job, Rows, read_rows
from rearview.core.errors import InputError, collect_warnings
from rearview.core.wording import quantity
from rearview.data.infer.timestamps import show
from rearview.data.panel import Finding, Panel
from rearview.estimators.base import Session, fingerprint
from rearview.estimators.detect.detection import Detection, describe_moved, detect, find_moved, prepare
from rearview.estimators.detect.detector import Detector, Labels, assess_detection
from rearview.tasks.alarms import Hits, count_hits
from rearview.tasks.assessment import Assessment
from rearview.train import Progress

MOST_TIMES = 1e4
"""Multiples of the threshold beyond which the number says no more than that it is large."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a finished run."""

    job: Job
    detector: Detector
    detection: Detection
    labels: Labels | None
    assessment: Assessment | None
    anomalies_text: str
    """How many anomalies there are, and which is the worst."""
    labels_text: str
    """What the labels say of them; empty where there are none."""
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]
    fresh: bool
    """Whether the network was trained in this run."""
    seconds: float
    warnings: tuple[str, ...]
    """What rearview warned of during the run."""

    @property
    def verdict(self) -> str:
        """The result in a sentence or two; it counts segments, as the table and anomalies.csv do."""
        return " ".join(filter(None, (self.anomalies_text, self.labels_text)))

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the training of this run."""
        return self.fresh and self.detector.fitted.interrupted


def run(
    job: Job, folder: Path, *, progress: Progress | None = None, say: Callable[[str], None] = lambda _: None
) -> Outcome:
    """Do the job; the checkpoint lies in `folder` while it trains, so that it can be resumed."""
    started = time.perf_counter()
    with collect_warnings() as warnings:
        rows = read_rows(job, say)
        detector = rows.detector
        if rows.learned is not None:
            learned = rows.learned
            prepared = prepare(learned, detector.spec)
            say(f"Learning what is ordinary from {quantity(len(learned.values), 'row')} of {learned.layout.source}")
            path = folder / "checkpoints" / f"detector-{fingerprint(learned, detector.spec)}.safetensors"
            detector.adopt(prepared.train(Session(path, job.resume, progress)), learned)
            for finding in detector.fitted.findings:
                say(finding.message)
        outcome = evaluate(job, rows, started)
    return replace(outcome, warnings=tuple(warnings))


def evaluate(job: Job, rows: Rows, started: float) -> Outcome:
    """Judge rows with a detector that is fitted, and the result by labels where there are some."""
    detector = rows.detector
    detection = detect(detector.fitted, rows.panel)
    assessment, sentence, label_notes = _compare(detection, rows.labels, detector.spec.lookback)
    notes = (*rows.notes, *detector.fitted.notes, *detection.notes, *_note_channels(job.file, rows), *label_notes)
    return Outcome(
        job=job,
        detector=detector,
        detection=detection,
        labels=rows.labels,
        assessment=assessment,
        anomalies_text=_count_anomalies(detection),
        labels_text=sentence,
        notes=notes,
        findings=tuple(dict.fromkeys((*rows.panel.findings, *detector.findings))),
        fresh=rows.learned is not None,
        seconds=detector.seconds + time.perf_counter() - started,
        warnings=(),
    )


def _count_anomalies(detection: Detection) -> str:
    rows = len(detection.scores.rows)
    moved = find_moved(detection.scores, detection.panel)
    after = f" {describe_moved(moved, detection.panel)}: see the notes." if moved else ""
    if not detection.segments:
        return f"No anomaly in {quantity(rows, 'row')}: no score is above the threshold.{after}"
    worst = max(detection.segments, key=lambda part: part.score / (detection.thresholds[part.series] or 1))
    of = f" of {detection.panel.ids[worst.series]}" if detection.panel.series > 1 else ""
    channel, share = worst.channels[0]
    carrier = f"{detection.panel.columns[channel]} ({100 * share:.0f} %)"
    return (
        f"{quantity(len(detection.segments), 'anomaly', 'anomalies')} in {rows:,} rows. The worst peaks at "
        f"{show(detection.panel.stamps[worst.peak])}{of}, "
        f"{_height(worst.score, float(detection.thresholds[worst.series]))}, carried by {carrier}.{after}"
    )


def _height(score: float, threshold: float) -> str:
    """A score in words: how many times the threshold it is, where that says something."""
    if threshold <= 0:
        return f"with a score of {score:.4g}"
    times = score / threshold
    if times > MOST_TIMES:
        return f"more than {MOST_TIMES:,.0f} times the threshold"
    return f"{times:,.{0 if times >= 100 else 1}f} times the threshold"


def _compare_with_labels(assessment: Assessment, anomalies: int, labelled: Hits) -> str:
    """The labelled segments against the labels, in a sentence."""
    where = "found" if labelled.alarms == anomalies else "found in labelled rows"
    if not assessment.anomalous:
        if not labelled.alarms:
            return f"The labels mark no anomaly{' either' if not anomalies else ''}."
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


def _compare(detection: Detection, labels: Labels | None, slack: int) -> tuple[Assessment | None, str, list[str]]:
    """(a detection assessed by labels, the result in a sentence, notes).

    Labels that don't fit become a note, so that no detection is lost.
    """
    if labels is None:
        return None, "", []
    try:
        assessment = assess_detection(detection, labels, slack)
    except InputError as problem:
        return None, "", [str(problem)]
    labelled = count_hits(labels == 1, detection.flags & ~np.isnan(labels), detection.stretches)
    sentence = _compare_with_labels(assessment, len(detection.segments), labelled)
    if not assessment.anomalous:
        return assessment, sentence, ["The labels mark no anomaly: recall, F1 and the areas do not exist."]
    note = (
        f"The point-adjusted F1 of {assessment.adjusted_f1:.3f} is edited by the labels; as many flags thrown at "
        f"random get {assessment.adjusted_f1_by_chance:.3f}."
    )
    return assessment, sentence, [note]


def _note_channels(file: str, rows: Rows) -> list[str]:
    """Notes on channels that look like labels, and on those without any value in the rows judged."""
    panel = rows.panel
    notes = [
        f"The column {name!r} holds 0 and 1 alone and was looked at as a channel; if it marks anomalies, say "
        f"--labels {name}."
        for name in panel.columns
        if rows.labels is None and name.casefold() in LABEL_NAMES and _is_binary(panel, name)
    ]
    empty = panel.empty_names
    if empty:
        notes.append(
            f"{file} has no value of {', '.join(map(repr, empty))}: its scores rest on "
            f"{len(panel.columns) - len(empty)} of {quantity(len(panel.columns), 'channel')}."
        )
    return notes


def _is_binary(panel: Panel, name: str) -> bool:
    place = panel.columns.index(name)
    cells = [panel.original_column(slice(a, b), s, place) for s, (a, b) in enumerate(panel.bounds())]
    return bool(np.isin(np.concatenate(cells).round(5), (0.0, 1.0)).all())
