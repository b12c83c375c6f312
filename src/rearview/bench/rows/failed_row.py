"""The row of a run that broke off: what was asked for, and why there is no number."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import torch

from rearview import __version__
from rearview.bench.rows.row import Row, as_json
from rearview.bench.runs import provenance, search
from rearview.bench.runs.run_spec import Asked, ask, in_rows

_ASKED = (
    "dataset", "model", "lookback", "horizon", "attention", "seed", "protocol", "settings", "training", "presets",
    "loss", "adapters",
)  # fmt: skip


def failed_row(run: Mapping[str, Any], problem: Exception) -> Row:
    """A row without metrics; what could not even be settled is told as it was asked."""
    return Row(
        **_configuration(run),
        file_sha256="",
        rows=0,
        channels=0,
        borders="{}",
        parameters=0,
        train_windows=0,
        validation_windows=0,
        test_windows=0,
        epochs=0,
        best_epoch=None,
        mse=math.nan,
        mae=math.nan,
        original_mse=math.nan,
        original_mae=math.nan,
        validation_loss=math.nan,
        train_seconds=0.0,
        total_seconds=0.0,
        windows_per_second=None,
        peak_memory_bytes=None,
        latency_ms=math.nan,
        **broken_off(run, problem),
    )


def broken_off(run: Mapping[str, Any], problem: Exception) -> dict[str, Any]:
    """The columns that are filled whatever went wrong."""
    return {
        "version": __version__,
        "commit": provenance.commit(),
        "device": str(run.get("device", "")),
        "torch": str(torch.__version__),
        "threads": torch.get_num_threads(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "status": "failed",
        "problem": " ".join(f"{type(problem).__name__}: {problem}".split()),
    }


def settled(run: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that tell what a run of a sweep asks for, its data unread."""
    return asked_of(run).configuration("")


def asked_of(run: Mapping[str, Any]) -> Asked:
    """What a run of a sweep asks for."""
    return ask(**{name: run[name] for name in _ASKED}, budget=_budget(run))


def _configuration(run: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return settled(run)
    except Exception:
        # Whatever kept the run from being settled is the problem that the row tells already.
        return {
            **parts(run),
            "dataset": run["dataset"],
            "values_sha256": "",
            "protocol": run["protocol"],
            "lookback": run["lookback"],
            "horizon": run["horizon"],
            "model": run["model"],
            "calendar": "",
            "seed": run["seed"],
            "loss": _loss(run["loss"]),
            "adapters": as_json(list(run["adapters"])),
            "budget": as_json(_budget(run)),
        }


def _loss(asked: Any) -> str:
    return as_json(in_rows(asked)) if isinstance(asked, Mapping) else str(asked or "mse")


def parts(run: Mapping[str, Any]) -> dict[str, str]:
    """Mechanism, network and training as they were asked for."""
    spec = run.get("attention") or {}
    given = {"name": spec} if isinstance(spec, str) else dict(spec)
    return {
        "attention": str(given.pop("name", "")),
        "attention_settings": as_json(given),
        "settings": as_json(run.get("settings") or {}),
        "training": as_json(run.get("training") or {}),
    }


def _budget(run: Mapping[str, Any]) -> dict[str, Any]:
    return search.budget(run.get("candidates", ()), run.get("tuning"))
