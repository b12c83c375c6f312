"""Rows of classification and detection with something in every column."""

from typing import Any

from rearview.bench.rows.row import ClassificationRow, DetectionRow

_SHARED: dict[str, Any] = {
    "protocol": "clean", "lookback": 100, "channels": 3, "attention": "toa", "attention_settings": '{"kind":"relu"}',
    "settings": '{"note":"a, b"}', "seed": 0, "version": "0.1.0", "commit": "", "device": "cpu (a processor, of sorts)",
    "torch": "2.6.0", "threads": 1, "parameters": 11, "epochs": 3, "best_epoch": 2, "train_seconds": 2.5,
    "total_seconds": 3.5, "created": "2026-01-02T03:04:05+00:00",
}  # fmt: skip


def classified(**changes: Any) -> ClassificationRow:
    """A row of classification."""
    values = {
        "dataset": "BasicMotions", "train_sha256": "1f", "test_sha256": "f1", "habits": "One. Two.", "loop": "eager",
        "model": "patchtst_tslib", "training": '{"batch":16,"epochs":100}', "classes": 4, "train_cases": 32,
        "validation_cases": 8, "test_cases": 40, "accuracy": 0.1 + 0.2, "macro_f1": 1 / 3, "validation_criterion": 0.25,
    }  # fmt: skip
    return ClassificationRow(**{**_SHARED, **values, **changes})


def detected(**changes: Any) -> DetectionRow:
    """A row of detection."""
    values = {
        "dataset": "SMAP", "values_sha256": "0f", "entities": 1, "train_rows": 135_183, "test_rows": 427_617,
        "mode": "reconstruct", "stride": 1, "threshold_rule": "quantile", "balance": 1, "model": "transformer",
        "training": '{"batch":128,"epochs":3}', "validation_loss": 0.1, "rows": 100, "anomalous": 12, "flagged": 1,
        "threshold": 0.5, "precision": None, "recall": 0.1, "f1": 1 / 3, "auc_pr": 0.2, "adjusted_precision": 0.9,
        "adjusted_recall": 0.5, "adjusted_f1": 0.6, "adjusted_f1_by_chance": 0.7, "score_seconds": 1.0,
    }  # fmt: skip
    return DetectionRow(**{**_SHARED, **values, **changes})
