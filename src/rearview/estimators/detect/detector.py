"""The detector: from a frame or file of ordinary rows to scores, flags and segments of new ones.

detector = Detector()                      # a portfolio; Detector("itransformer") is one network
detector.fit(train)
flags, segments = detector.predict(test)
flags, segments = detector.update(rows)    # rows that follow those of the last update
detector.evaluate(test, labels="label").auc_pr
detector.save("model/")
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rearview import train
from rearview.core.display import html_table
from rearview.core.errors import InputError, SettingsError, did_you_mean
from rearview.core.wording import listing, quantity
from rearview.data.io.files import column_names, select_present
from rearview.data.panel import Finding, Panel
from rearview.data.panel_reader import read_panel, settle
from rearview.data.read_options import ReadOptions, names_in
from rearview.data.step import Step
from rearview.estimators import base
from rearview.estimators.base import Estimator, Session, load_views
from rearview.estimators.detect import frames, storage
from rearview.estimators.detect.detection import Detection, detect, prepare
from rearview.estimators.detect.fit import Fitted
from rearview.estimators.detect.labels import add_labels, check_labels, split_labels
from rearview.estimators.detect.portfolio.portfolio import Portfolio
from rearview.estimators.detect.spec import DetectorOptions, DetectSpec
from rearview.estimators.detect.stream import Stream
from rearview.estimators.frames import Frame, has_whole_ids, leaderboard_frame, read_on_step, to_native
from rearview.tasks.assessment import Assessment, assess

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Labels = NDArray[np.float64]
"""[row]: 1 (anomaly), 0, or NaN where a row has no label."""
MOST_SHOWN = 10
"""Segments that a notebook shows."""
_OF_INPUTS = (("repaired", "constant"), ("repaired", "empty"))
"""Findings that hold for inputs of a forecast only, by kind and key."""


class Prediction(NamedTuple):
    """Flags and segments of a frame, as frames of the same kind."""

    flags: Frame
    """A row a step: `[id,] time, score, threshold, anomaly`."""
    segments: Frame
    """A row a segment: `[id,] start, end, peak, rows, score, threshold, channels, shares[, members]`."""

    def _repr_html_(self) -> str:
        """The segments as a table, for notebooks."""
        import narwhals as nw

        frame = nw.from_native(self.segments, eager_only=True)
        words = f"{quantity(len(frame), 'segment')} in {quantity(len(self.flags), 'row')}"
        words += f", the first {MOST_SHOWN}" if len(frame) > MOST_SHOWN else ""
        return html_table(frame.head(MOST_SHOWN).iter_rows(), frame.columns, words)


class Detector(Estimator[Fitted | Portfolio]):
    """Finds anomalies with a portfolio of detectors, or by the errors of one trained network."""

    @base.takes(DetectorOptions)
    def __init__(self, options: DetectorOptions) -> None:
        """How to look for anomalies; anything you omit is chosen from the data, with a reason (`fitted.plan`)."""
        self.spec = DetectSpec.pick(options)
        base.resolve_device(self.spec.device)
        train.follower(options.progress)
        self.reading = options.read_options()
        self.channels = None if options.channels is None else names_in(options.channels)
        self.label_col = options.label_col
        self.progress = options.progress
        self._findings: tuple[Finding, ...] = ()
        self._trained: ReadOptions | None = None
        self._judged: tuple[Panel, Labels | None] | None = None
        self._stream = Stream()

    def fit(self, frame: Frame, *, checkpoint: Path | str | None = None, resume: bool = False) -> "Detector":
        """Learn what is ordinary from a frame or file; with `checkpoint` a run can be taken up by `resume=True`.

        Nothing is learned from series of a long frame without any value; a warning (through logging) names them.
        """
        started = time.perf_counter()
        panel, truth = self.read(frame)
        path = None if checkpoint is None else Path(checkpoint)
        self.adopt(prepare(panel, self.spec).train(Session(path, resume, self.progress)), panel)
        self._judged = panel, truth
        self.remember_fit(started, frame)
        if not isinstance(frame, Panel):
            base.warn_of_findings(self.findings)
        return self

    def adopt(self, fitted: Fitted | Portfolio, panel: Panel) -> None:
        """Use a model that was fitted elsewhere on the rows of `panel`."""
        self._fitted, self._findings, self._stream = fitted, panel.findings, Stream()
        self._trained = settle(self.reading, panel.layout)

    def score(self, frame: Frame) -> Frame:
        """A score for every step, and one for every channel, as a frame of the kind and layout of the data.

        Columns `[id,] time, score, score-<channel> ...`; NaN where nothing was observed.
        """
        detection = self.detect(frame)
        layout = detection.panel.layout
        return to_native(frames.score_columns(detection, whole_ids=has_whole_ids(frame, layout)), layout)

    def predict(self, frame: Frame) -> Prediction:
        """(flags, segments): a row for every step, and a row for every stretch of anomalous rows."""
        return self._to_frames(self.detect(frame), frame)

    def _to_frames(self, detection: Detection, frame: Frame) -> Prediction:
        layout = detection.panel.layout
        whole_ids = has_whole_ids(frame, layout)
        return Prediction(
            to_native(frames.flag_columns(detection, whole_ids=whole_ids), layout),
            to_native(frames.segment_columns(detection, whole_ids=whole_ids), replace(layout, time_index=False)),
        )

    def update(self, frame: Frame) -> Prediction:
        """(flags, segments) of rows that follow those of the last update, scored as `predict` would score all together.

        The last rows of each series are kept for the next call, and saved with the detector. A score rests on the rows
        given so far: those at the end may move once more follow. Rows that were left out between count as missing.
        """
        panel, _ = self.read_new(frame)
        detection, self._stream = self._stream.follow(self.fitted, panel)
        return self._to_frames(detection, frame)

    def evaluate(self, frame: Frame, labels: object = None) -> Assessment:
        """How well scores and flags meet labels: an array of 1 and 0 a row, or the name of the column that holds them.

        Rows without a label (or without a score) do not count; one without a label ends the anomaly before it.
        Without `labels` those of `label_col` are taken. The labels of an array are in the order of the frame's rows,
        whatever that is, those of a pandas series go with the frame's index, and those of a file stand in it.
        """
        panel, truth = self._read_labelled(frame, labels)
        if truth is None:
            raise missing_labels_error(frame, panel, labels if isinstance(labels, str) else self.label_col)
        return assess_detection(detect(self.fitted, panel), truth, self.spec.lookback)

    def _read_labelled(self, frame: Frame, labels: object) -> tuple[Panel, Labels | None]:
        column = labels if isinstance(labels, str) else self.label_col
        is_array = labels is not None and not isinstance(labels, str)
        if is_array and not isinstance(frame, Panel):
            frame, column = add_labels(frame, labels)
        panel, truth = self.read_new(frame, column)
        if is_array and isinstance(frame, Panel):
            truth = check_labels(labels, len(panel.values), panel.layout.source)
        return panel, truth

    def read_judged(self, frame: Frame = None, labels: object = None) -> tuple[Panel, Labels | None]:
        """Rows and their labels, where they have some; without a frame those last judged, or else fitted to."""
        _ = self.fitted
        if frame is not None:
            self._judged = self._read_labelled(frame, labels)
        elif labels is not None:
            raise SettingsError("Labels belong to the rows of a frame; give both.")
        if self._judged is None:
            raise SettingsError("This detector was loaded and has judged no rows yet; give some.")
        return self._judged

    def plot(
        self,
        frame: Frame = None,
        *,
        labels: object = None,
        series: str | None = None,
        channels: str | Sequence[str] | None = None,
    ) -> "Figure":
        """A plotly figure of the channels that carry alarms, and of the score with its threshold; alarms are shaded.

        Without a frame it draws the rows that were last judged, or else those of `fit`. Of several series it draws the
        one named `series`, by default that with the highest score; `channels` names those to draw.
        """
        return load_views("detect").plot(self, frame, labels, series, channels)

    def report(self, path: Path | str, frame: Frame = None, *, labels: object = None) -> Path:
        """Write the page of `rearview detect` on the rows of a frame to a file, and return its path.

        Rows and labels are as in `plot` and `evaluate`.
        """
        return load_views("detect").report(self, path, frame, labels)

    def detect(self, frame: Frame) -> Detection:
        """Scores, flags and segments as arrays."""
        panel, _ = self._judged = self.read_new(frame)
        if not isinstance(frame, Panel):
            base.warn_of_findings(panel.findings)
        return detect(self.fitted, panel)

    def leaderboard(self) -> Frame:
        """Every member of the portfolio: its weight in the score, its usual error and its agreement with the score on
        held-out rows, seconds. A polars frame, or pandas where polars is missing."""
        if isinstance(self.fitted, Fitted):
            raise SettingsError(f"{self.fitted.name} is one network; model='auto' has a leaderboard.")
        return leaderboard_frame(self.fitted.standings)

    def save(self, folder: Path | str) -> None:
        """Write the fitted detector to a folder: settings as JSON, numbers as safetensors."""
        reading = (self._trained or self.reading).to_json()
        if self.channels is not None:
            reading["channels"] = list(self.channels)
        if self.label_col is not None:
            reading["label_col"] = self.label_col
        storage.save(Path(folder), self.fitted, reading, self._stream)

    @classmethod
    def load(cls, folder: Path | str, *, device: str | None = None) -> "Detector":
        """The detector that `save` wrote; a damaged or newer one is refused."""
        fitted, reading, stream = storage.load(Path(folder), device)
        detector = cls(**fitted.spec.to_dict(), **reading)
        detector._fitted, detector._stream = fitted, stream
        detector._origin = f"rv.Detector.load({str(folder)!r})"
        return detector

    def read(
        self, frame: Frame, label_col: str | None = None, *, drop: Sequence[str] | None = None
    ) -> tuple[Panel, Labels | None]:
        """The panel of a frame or file with every column a channel, and its labels where it has a column of them.

        `drop` names the columns to leave out where they are other than those of this detector.
        """
        panel = frame if isinstance(frame, Panel) else self._read(frame, drop=drop)
        return self._select_channels(panel, label_col, frame)

    def read_new(self, frame: Frame, label_col: str | None = None) -> tuple[Panel, Labels | None]:
        """The same for new rows, as the fitted network reads them; another step or a missing column is refused."""
        panel, truth = self.read_on(frame, self.fitted.step, label_col, self.fitted.columns)
        return select_channels(panel, self.fitted.columns), truth

    def read_on(
        self, frame: Frame, step: str, label_col: str | None = None, trained: Sequence[str] = ()
    ) -> tuple[Panel, Labels | None]:
        """The same on the step of the rows that are learned from, whatever columns there are; another is refused.

        So is text in the columns that a network was `trained` on. Columns that are left out need not be there.
        """
        if isinstance(frame, Panel):
            return self._select_channels(frame, label_col, frame)
        there = select_present(frame, self.reading.drop)

        def read(frame: Frame, *, freq: str | None = None) -> Panel:
            return self._read(frame, drop=there, freq=freq, trained=trained)

        return self._select_channels(read_on_step(frame, read, step), label_col, frame)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was inferred, repaired and warned of, in reading and in training."""
        return (*self._findings, *self.fitted.findings)

    def _describe(self) -> list[tuple[str, object]]:
        fitted = self.fitted
        names = fitted.columns
        return [
            ("model", fitted.name),
            ("channels", f"{len(names):,}: {', '.join(names[:5])}{' ...' if len(names) > 5 else ''}"),
            ("threshold", f"{fitted.calibration.threshold_elsewhere:.4g} ({fitted.calibration.drawn})"),
        ]

    def _select_channels(self, panel: Panel, label_col: str | None, frame: Frame) -> tuple[Panel, Labels | None]:
        """The channels of the panel of a frame that are looked at, and its labels."""
        panel, truth = split_labels(panel, label_col or self.label_col)
        panel = select_channels(panel, [name for name in panel.columns if name not in self.reading.drop])
        if self.channels is not None:
            panel = select_channels(panel, self.channels, frame)
        if not panel.columns:
            raise InputError(f"{panel.layout.source} has no column of numbers to look at beside time and labels.")
        if panel.observed is not None and not panel.observed.any():
            raise InputError(
                f"{panel.layout.source} has no value of any channel in any row, so there is nothing to look at; bring "
                "rows with values."
            )
        return replace(panel, targets=len(panel.columns), known=0), truth

    def _read(
        self,
        frame: Frame,
        *,
        drop: Sequence[str] | None = None,
        freq: str | None = None,
        trained: Sequence[str] = (),
    ) -> Panel:
        # No column is forecast from others here: read as inputs, a long table may have as many as it likes.
        reading = self.reading if self._trained is None or not trained else self._trained
        # A detector looks for values that are far from all others, so only the usual marks count as missing.
        sentinels = "marks" if reading.sentinels == "auto" else reading.sentinels
        options = replace(reading, target=(), trained=tuple(trained), sentinels=sentinels)
        options = options if drop is None else replace(options, drop=tuple(drop))
        panel = read_panel(frame, options if freq is None else replace(options, freq=Step.parse(freq)))
        findings = (finding for finding in panel.findings if (finding.kind, finding.what) not in _OF_INPUTS)
        return replace(panel, findings=tuple(findings))


def assess_detection(detection: Detection, truth: Labels, slack: int) -> Assessment:
    """A detection compared with labels [row]; rows without a label (NaN) or a score do not count."""
    scores = np.where(np.isnan(truth), np.nan, detection.scores.rows)
    if np.isnan(scores).all():
        raise InputError(
            f"No row of {detection.panel.layout.source} has both a label and a score, so there is nothing to compare."
        )
    return assess(
        truth == 1, scores, detection.flags, slack=slack, offsets=detection.panel.offsets, segments=detection.stretches
    )


def select_channels(panel: Panel, columns: Sequence[str], frame: Frame = None) -> Panel:
    """Some columns of a panel, in this order; one that it does not have is refused, as text where `frame` holds it."""
    if tuple(columns) == panel.columns:
        return panel
    missing = [name for name in columns if name not in panel.columns]
    text = _text_among(frame, panel, missing)
    if text:
        raise InputError(
            f"{panel.layout.source}: {'column' if len(text) == 1 else 'columns'} {listing(text)}, which the detector "
            f"looks at, {'holds' if len(text) == 1 else 'hold'} text where numbers are expected; correct the cells."
        )
    if missing:
        raise InputError(
            f"{panel.layout.source} has no column of numbers {', '.join(map(repr, missing))}, which the detector looks "
            f"at; it has {', '.join(panel.columns)}."
        )
    return replace(panel.select([panel.columns.index(name) for name in columns]), targets=len(columns), known=0)


def _text_among(frame: Frame, panel: Panel, missing: Sequence[str]) -> list[str]:
    """Those of the missing columns that the frame holds as text, which reading left out."""
    if frame is None or isinstance(frame, Panel) or not missing:
        return []
    return [name for name in select_present(frame, missing) if name not in (panel.layout.time_col, panel.layout.id_col)]


def missing_labels_error(frame: Frame, panel: Panel, column: str | None) -> InputError:
    """The error for rows to evaluate that have no labels."""
    source = panel.layout.source
    if column is None:
        return InputError(f"{source} has no labels: name their column, or give an array.")
    if column in (panel.layout.time_col, panel.layout.id_col):
        holds = "stamps" if column == panel.layout.time_col else "ids"
        return InputError(
            f"{source}: column {column!r} holds the {holds} and no labels; name a column of 1 (anomaly) and 0."
        )
    if _text_among(frame, panel, [column]):
        return InputError(
            f"{source}: column {column!r}, which is to hold the labels, holds text; a label is 1 (anomaly) or 0."
        )
    there = panel.columns if isinstance(frame, Panel) else column_names(frame)
    near = did_you_mean(column, there)
    return InputError(
        f"{source} has no column of numbers {column!r} to take labels from.{near} It has {listing(there)}."
    )
