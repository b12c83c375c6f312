"""The detector: from a frame or file of ordinary rows to scores, flags and segments of new ones.

detector = Detector(model="itransformer", lookback=100)
detector.fit(train)
flags, segments = detector.predict(test)
detector.evaluate(test, labels="label").auc_pr
detector.save("model/")
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rearview import train
from rearview.core.errors import InputError, SettingsError, did_you_mean
from rearview.data.io.files import column_names, present
from rearview.data.io.table import listing
from rearview.data.panel import Finding, Panel
from rearview.data.panel_reader import load as read
from rearview.data.read_options import names_in
from rearview.estimators.detect import frames, storage
from rearview.estimators.detect import labels as labelling
from rearview.estimators.detect.engine import Detection, Fitted, detect, fit
from rearview.estimators.detect.spec import Request
from rearview.estimators.forecast.engine import device_named
from rearview.estimators.forecast.frames import has_whole_ids, native
from rearview.estimators.forecast.new_rows import options, read_on_step, tell
from rearview.estimators.parameters import Parameters, kept
from rearview.tasks.assess import Assessment, assess
from rearview.tasks.detect import Mode
from rearview.tasks.thresholds import Rule

READING = ("id_col", "time_col", "drop", "freq", "sentinels", "fill", "channels", "label_col")
_OF_INPUTS = (("repaired", "constant"), ("repaired", "empty"))
"""Findings on inputs of a forecast, by kind and key: of channels they would say what is not so."""


class Prediction(NamedTuple):
    """What a detector says of a frame, as frames of the same kind."""

    flags: Any
    """A row a step: `[id,] time, score, threshold, anomaly`."""
    segments: Any
    """A row a segment: `[id,] start, end, peak, rows, score, threshold, channels, shares`."""


class Detector(Parameters):
    """Anomalies by how badly one trained network gives windows back, or forecasts the next row."""

    @kept
    def __init__(
        self,
        model: str | None = None,
        attention: str | Mapping[str, Any] | None = None,
        *,
        lookback: int = 100,
        mode: Mode = "reconstruct",
        threshold: Rule | float = "quantile",
        quantile: float = 0.995,
        risk: float = 1e-3,
        stride: int | None = None,
        balance: bool = True,
        join: int = 3,
        settings: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
        seed: int = 0,
        device: str = "auto",
        progress: train.Progress | bool | None = None,
        **reading: Any,
    ) -> None:
        """How to look for anomalies; what is left open is chosen from the data, with a reason (`fitted.plan`).

        Args:
            model: a network's name (`rearview.models.names()`); None: itransformer.
            attention: a mechanism's name, or a mapping with `name` and its settings; None: the network's own.
            lookback: rows of a window.
            mode: "reconstruct" scores a row by the error of giving its window back, averaged over the windows that
                hold it; "forecast" by the error of forecasting it from the rows before it.
            threshold: "quantile" or "pot" (peaks over threshold) of held-out training scores, "robust" where the
                training rows hold anomalies themselves, or a number.
            quantile: for "quantile", the share of ordinary rows below the threshold.
            risk: for "pot", the share of ordinary rows above it.
            stride: rows from one scored window to the next; None: a quarter of a window.
            balance: divide a channel's error by what is usual for it, so that no noisy channel drowns the others.
            join: flagged rows no further apart than this belong to one segment.
            settings: settings of the network, such as {"width": 64}.
            training: settings of the training loop, such as {"epochs": 5} (`rearview.train.Settings`).
            seed: fixes every random draw; two runs of one seed on a CPU are equal bit for bit.
            device: "auto", "cpu" or "cuda".
            progress: who is told how training goes; True: a line on the terminal; default: nobody.
            **reading: how frames are read: id_col, time_col, drop, freq, sentinels, fill (see `rearview.data.load`),
                channels (the columns to look at; default: every column of numbers) and label_col (a column of labels,
                which is never looked at).
        """
        self.request = Request(
            lookback=lookback,
            model=model,
            attention=attention,
            mode=mode,
            threshold=threshold,
            quantile=quantile,
            risk=risk,
            stride=stride,
            balance=balance,
            join=join,
            settings=dict(settings or {}),
            training=dict(training or {}),
            seed=seed,
            device=device,
        )
        device_named(device)
        train.follower(progress)
        self.reading = options("Detector", reading, READING)
        self.progress = progress
        self._fitted: Fitted | None = None
        self._findings: tuple[Finding, ...] = ()

    def fit(self, frame: Any, *, checkpoint: Path | str | None = None, resume: bool = False) -> "Detector":
        """Learn what is ordinary from a frame or file; with `checkpoint` a run can be taken up by `resume=True`.

        Nothing is learned from series of a long frame without any value; a warning (through logging) names them.
        """
        panel, _ = self.read(frame)
        path = None if checkpoint is None else Path(checkpoint)
        self._fitted = fit(panel, self.request, checkpoint=path, resume=resume, progress=self.progress)
        self._findings = panel.findings
        tell(frame, self.findings)
        return self

    def score(self, frame: Any) -> Any:
        """A score for every step, and one for every channel, as a frame of the kind and layout of the data.

        Columns `[id,] time, score, score-<channel> ...`; NaN where nothing was observed.
        """
        found = self.detect(frame)
        return native(frames.score_columns(found, whole_ids=_whole(frame, found)), found.panel.layout)

    def predict(self, frame: Any) -> Prediction:
        """(flags, segments): a row for every step, and a row for every stretch of anomalous rows."""
        found = self.detect(frame)
        whole, layout = _whole(frame, found), found.panel.layout
        return Prediction(
            native(frames.flag_columns(found, whole_ids=whole), layout),
            native(frames.segment_columns(found, whole_ids=whole), replace(layout, time_index=False)),
        )

    def evaluate(self, frame: Any, labels: Any = None) -> Assessment:
        """How well scores and flags meet labels: an array of 1 and 0 a row, or the name of the column that holds them.

        Rows without a label (or without a score) do not count; one without a label ends the anomaly before it.
        Without `labels` those of `label_col` are taken. The labels of an array are in the order of the frame's rows,
        whatever that is, those of a pandas series go with the frame's index, and those of a file stand in it.
        """
        column = labels if isinstance(labels, str) else self.reading.get("label_col")
        beside = labels is not None and not isinstance(labels, str)
        if beside and not isinstance(frame, Panel):
            frame, column = labelling.beside(frame, labels)
        panel, truth = self.read_new(frame, column)
        if beside and isinstance(frame, Panel):
            truth = labelling.given(labels, len(panel.values), panel.layout.source)
        elif truth is None:
            raise unlabelled(frame, panel, column)
        return judged(detect(self.fitted, panel), truth, self.request.lookback)

    def detect(self, frame: Any) -> Detection:
        """Scores, flags and segments as arrays."""
        panel, _ = self.read_new(frame)
        tell(frame, panel.findings)
        return detect(self.fitted, panel)

    def save(self, folder: Path | str) -> None:
        """Write the fitted detector to a folder: settings as JSON, numbers as safetensors."""
        storage.save(Path(folder), self.fitted, self.reading)

    @classmethod
    def load(cls, folder: Path | str, *, device: str | None = None) -> "Detector":
        """The detector that `save` wrote; a changed or newer one is refused."""
        fitted, reading = storage.load(Path(folder), device)
        detector = cls(**fitted.request.to_dict(), **reading)
        detector._fitted = fitted
        return detector

    def read(
        self, frame: Any, label_col: str | None = None, **changed: Any
    ) -> tuple[Panel, NDArray[np.float64] | None]:
        """The panel of a frame or file with every column a channel, and its labels where it has a column of them."""
        panel = frame if isinstance(frame, Panel) else self._load(frame, **changed)
        return self._looked_at(panel, label_col, frame)

    def read_new(self, frame: Any, label_col: str | None = None) -> tuple[Panel, NDArray[np.float64] | None]:
        """The same for new rows, as the fitted network reads them; another step or a missing column is refused."""
        panel, truth = self.read_on(frame, self.fitted.step, label_col, self.fitted.columns)
        return chosen(panel, self.fitted.columns), truth

    def read_on(
        self, frame: Any, step: str, label_col: str | None = None, trained: Sequence[str] = ()
    ) -> tuple[Panel, NDArray[np.float64] | None]:
        """The same on the step of the rows that are learned from, whatever columns there are; another is refused.

        So is text in the columns that a network was `trained` on.
        """
        load = partial(self._load_new, trained=trained)
        panel = frame if isinstance(frame, Panel) else read_on_step(frame, load, step)
        return self._looked_at(panel, label_col, frame)

    @property
    def fitted(self) -> Fitted:
        """The trained network and how it was made."""
        if self._fitted is None:
            raise SettingsError("This detector has not been fitted; call fit(frame) or load(folder) first.")
        return self._fitted

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was inferred, repaired and warned of, in reading and in training."""
        return (*self._findings, *self.fitted.findings)

    def _looked_at(self, panel: Panel, label_col: str | None, frame: Any) -> tuple[Panel, NDArray[np.float64] | None]:
        """The channels of the panel of a frame that are looked at, and its labels."""
        panel, truth = labelling.apart(panel, label_col or self.reading.get("label_col"))
        dropped, wanted = names_in(self.reading.get("drop", ())), self.reading.get("channels")
        panel = chosen(panel, [name for name in panel.columns if name not in dropped])
        if wanted is not None:
            panel = chosen(panel, names_in(wanted), frame)
        if not panel.columns:
            raise InputError(f"{panel.layout.source} has no column of numbers to look at beside time and labels.")
        if panel.observed is not None and not panel.observed.any():
            raise InputError(
                f"{panel.layout.source} has no value of any channel in any row, so there is nothing to look at; bring "
                "rows with values."
            )
        return replace(panel, targets=len(panel.columns), known=0), truth

    def _load(self, frame: Any, **changed: Any) -> Panel:
        given = {name: value for name, value in self.reading.items() if name not in ("channels", "label_col")}
        # No column is forecast from others here: read as inputs, a long table may have as many as it likes.
        panel = read(frame, target=(), **{**given, **changed})
        findings = (finding for finding in panel.findings if (finding.kind, finding.what) not in _OF_INPUTS)
        return replace(panel, findings=tuple(findings))

    def _load_new(self, frame: Any, **changed: Any) -> Panel:
        """The same for new rows, which need not have the columns that are left out."""
        dropped = self.reading.get("drop")
        return self._load(frame, **({} if dropped is None else {"drop": present(frame, dropped)}), **changed)


def judged(found: Detection, truth: NDArray[np.float64], slack: int) -> Assessment:
    """A detection compared with labels [row]; rows without a label (NaN) or a score do not count."""
    scores = np.where(np.isnan(truth), np.nan, found.scores.rows)
    if np.isnan(scores).all():
        raise InputError(
            f"No row of {found.panel.layout.source} has both a label and a score, so there is nothing to compare."
        )
    return assess(truth == 1, scores, found.flags, slack=slack, offsets=found.panel.offsets, segments=found.stretches)


def chosen(panel: Panel, columns: Sequence[str], frame: Any = None) -> Panel:
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


def _text_among(frame: Any, panel: Panel, missing: Sequence[str]) -> list[str]:
    """Those of some columns missing in a panel that the frame it was read from has, as text, which was left out."""
    if frame is None or isinstance(frame, Panel) or not missing:
        return []
    return [name for name in present(frame, missing) if name not in (panel.layout.time_col, panel.layout.id_col)]


def unlabelled(frame: Any, panel: Panel, column: str | None) -> InputError:
    """What to say of rows to evaluate that came without labels."""
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


def _whole(frame: Any, found: Detection) -> bool:
    return has_whole_ids(frame, found.panel.layout)
