"""A finished detection as its page shows it."""

from dataclasses import replace

import numpy as np

from rearview.commands import page_data
from rearview.commands.detect.job import Outcome
from rearview.data.infer.wall_time import to_wall_time
from rearview.estimators.detect.detection import Detection
from rearview.estimators.detect.detector import Labels
from rearview.estimators.detect.fit import Fitted
from rearview.estimators.detect.portfolio.portfolio import Portfolio, Standing
from rearview.estimators.detect.segments import shares
from rearview.report.detect.page import DetectionSummary, EntityView
from rearview.tasks.alarms import find_runs

MEASURES = {
    "vus_pr": ("VUS-PR", "area under precision and recall, near misses within a window counted in part"),
    "auc_pr": ("AUC-PR", "average precision over all thresholds"),
    "event_recall": ("Event recall", "marked anomalies that a flagged row touches"),
    "event_precision": ("Event precision", "anomalies found, close flags joined as listed, that hit a marked row"),
    "precision": ("Precision", "rows flagged rightly, counted one by one at the threshold"),
    "recall": ("Recall", "anomalous rows flagged, counted one by one at the threshold"),
    "f1": ("F1", "of these two; the threshold has seen no label"),
    "best_f1": ("Best F1", "of any threshold, chosen with the labels: an upper bound"),
    "auc_roc": ("AUC-ROC", "an anomalous row scores above an ordinary one this often"),
    "range_f1": ("Range F1", "range-based: overlap of ranges, over the pieces they are found in"),
    "adjusted_f1": ("Point-adjusted F1", "one hit flags a whole anomaly: edited by the labels, the field's number"),
    "adjusted_f1_by_chance": ("Point-adjusted F1 by chance", "of as many flags thrown at random"),
}
"""Field of an assessment -> its name and what it is, in the order of tables."""


def summary(outcome: Outcome, command: str) -> DetectionSummary:
    """The content of the page."""
    panel, fitted = outcome.detection.panel, outcome.detector.fitted
    network = network_of(fitted)
    history = network.history
    return DetectionSummary(
        title=f"Anomalies in {outcome.job.file}",
        outlook=outcome.anomalies_text if outcome.labels_text else "",
        verdict=outcome.labels_text or outcome.anomalies_text,
        command=command,
        device=page_data.describe_device(fitted.device),
        seconds=outcome.seconds,
        data=page_data.data_facts(panel),
        channels=panel.columns,
        entities=tuple(
            entity_view(outcome.detection, outcome.labels, s, fitted.spec.join) for s in range(panel.series)
        ),
        measures=measures(outcome),
        curves={network.name: page_data.training_curve(history)} if history is not None and history.epochs else {},
        findings=outcome.findings,
        settings=_settings(outcome),
        notes=(*outcome.notes, *outcome.warnings),
        members=standings(fitted),
    )


def measures(outcome: Outcome) -> dict[str, tuple[float, str]]:
    """The detection against the labels: measure -> (value, what it is)."""
    assessment = outcome.assessment
    if assessment is None:
        return {}
    values = {name: (float(getattr(assessment, key)), meaning) for key, (name, meaning) in MEASURES.items()}
    per, share = _rate(outcome)
    alarms = {f"False alarms {per}": (assessment.false_alarms * share, "anomalies found that hit no marked row")}
    first = ("VUS-PR", "AUC-PR", "Event recall")
    return {**{name: values[name] for name in first}, **alarms, **values}


def _rate(outcome: Outcome) -> tuple[str, float]:
    """("a day", alarms a day for each alarm), or in 1,000 rows where stamps are no times."""
    panel, rows = outcome.detection.panel, max(1, outcome.assessment.rows if outcome.assessment else 1)
    longest = int(panel.lengths.argmax())
    stamps = panel.stamps[panel.offsets[longest] : panel.offsets[longest + 1]]
    if stamps.dtype.kind != "M" or len(stamps) < 2:
        return "in 1,000 rows", 1000 / rows
    days = (stamps[-1] - stamps[0]) / np.timedelta64(1, "D") / (len(stamps) - 1) * rows
    return "a day", 1 / float(days)


def entity_view(detection: Detection, truth: Labels | None, series: int, join: int) -> EntityView:
    """One series with its scores, alarms and labels."""
    panel = detection.panel
    a, b = panel.span(series)
    flagged = detection.scores.channels[a:b][detection.flags[a:b]]
    labels = [] if truth is None else find_runs(truth[a:b] == 1).tolist()
    return EntityView(
        id=panel.ids[series],
        stamps=to_wall_time(panel.stamps[a:b], panel.layout),
        values=panel.original(slice(a, b), series),
        score=detection.scores.rows[a:b],
        threshold=float(detection.thresholds[series]),
        segments=tuple(
            replace(part, first=part.first - a, last=part.last - a, peak=part.peak - a)
            for part in detection.segments
            if part.series == series
        ),
        shares=shares(flagged if len(flagged) else detection.scores.channels[a:b]),
        labels=tuple((first, end - 1) for first, end in labels),
        join=join,
    )


def standings(fitted: Fitted | Portfolio) -> tuple[Standing, ...]:
    """The leaderboard of a portfolio; empty for one network."""
    return fitted.standings if isinstance(fitted, Portfolio) else ()


def network_of(fitted: Fitted | Portfolio) -> Fitted:
    """The network, alone or as a member of a portfolio."""
    return fitted.network if isinstance(fitted, Portfolio) else fitted


def _settings(outcome: Outcome) -> page_data.Settings:
    fitted = outcome.detector.fitted
    spec, network = fitted.spec, network_of(fitted)
    plan = network.plan
    modes = {
        "reconstruct": "the error of giving a window back",
        "forecast": "the error of forecasting a row from those before it",
    }
    sections: page_data.Settings = {
        "detection": {
            "model": (fitted.name, ""),
            "mode": (spec.mode, modes[spec.mode]),
            "lookback": (spec.lookback, plan.lookback.reason),
            "threshold": (float(f"{fitted.calibration.threshold_elsewhere:.6g}"), fitted.calibration.drawn),
            "stride": (spec.step, "rows from one scored window to the next"),
        }
    }
    if isinstance(fitted, Portfolio):
        sections["detection"]["window"] = (fitted.window, "rows that simple members look at")
        sections["detection"]["averaged"] = (fitted.averaged, "rows that errors are averaged over")
        sections["weights of members"] = page_data.page_settings(fitted.plan.model)
        if network.name not in fitted.references:
            return sections
    own = page_data.attention_choice(network.name, plan.model, network.spec.attention)
    return sections | page_data.network_settings(network.name, own, plan)
