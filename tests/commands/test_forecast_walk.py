"""A forecast walks its path once: one file read once, as-of views shared, nothing built twice."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import forecast

from rearview import models
from rearview.commands.forecast import job
from rearview.data.io import csv, files
from rearview.estimators import base
from rearview.estimators.forecast.as_of import AsOf


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each step of a forecast is taken."""
    counter: Counter[str] = Counter()

    def count(owner: Any, name: str, step: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            counter[step] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, counted)

    count(files, "sniff", "sniffs")
    count(csv, "_read_with_polars", "parses")
    count(job, "read_panel", "reads")
    count(AsOf, "_read", "as-of views")
    count(job, "Forecaster", "forecasters")
    count(models, "create", "networks")
    monkeypatch.setattr(base, "outline", lambda *_, **__: None)  # shapes without values: no network is built
    return counter


def test_a_forecast_reads_its_file_once_and_builds_no_network_twice(
    sales: Path, tmp_path: Path, counts: Counter[str]
) -> None:
    assert forecast(sales, tmp_path / "out", "--model", "patchtst") == 0
    # Two backtest windows; patchtst, seasonal_naive and dlinear in the backtest, and patchtst for the forecast.
    assert counts == {"sniffs": 1, "parses": 1, "reads": 1, "as-of views": 2, "forecasters": 3, "networks": 4}


def test_baselines_share_the_views_of_a_network_with_known_inputs(tmp_path: Path, counts: Counter[str]) -> None:
    from samples import wide

    frame = wide()
    known = frame.columns[-1]
    past, future = tmp_path / "past.csv", tmp_path / "future.csv"
    frame[:-5].to_csv(past, index=False)
    frame[-5:].to_csv(future, index=False)
    target = ",".join(frame.columns[1:-1])
    given = ["--model", "itransformer", "--target", target, "--known", known, "--future", str(future)]
    assert forecast(past, tmp_path / "out", *given) == 0
    assert (counts["reads"], counts["as-of views"]) == (1, 2)


def test_a_forecast_imports_nothing_of_other_tasks(sales: Path, tmp_path: Path) -> None:
    arguments = ["forecast", str(sales), "--horizon", "5", "--model", "seasonal_naive", "--out", str(tmp_path / "out")]
    script = (
        f"import sys; from rearview.cli import main; assert main({arguments!r}) == 0; "
        "print(*(name for name in sys.modules if name.startswith('rearview.')), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "rearview.estimators.forecast.fit" in loaded
    others = {f"rearview.{place}.{task}" for place in ("commands", "report") for task in ("detect", "classify")}
    others |= {f"rearview.estimators.{task}.fit" for task in ("detect", "classify")}
    assert not loaded & others
