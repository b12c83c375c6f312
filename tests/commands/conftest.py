"""A wide and a long file; sweeps that are asked for and not made; helpers of other folders are importable."""

import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

for folder in ("bench", "commands", "data", "estimators/forecast"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    """A wide file."""
    from samples import wide

    path = tmp_path / "sales.csv"
    wide().to_csv(path, index=False)
    return path


@pytest.fixture
def shops(tmp_path: Path) -> Path:
    """A long file."""
    from samples import long

    path = tmp_path / "shops.csv"
    long().to_csv(path, index=False)
    return path


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch) -> list[SimpleNamespace]:
    """The sweeps that a command asks for: cells, plan and options; none of them is made."""
    from rearview.bench.runs import sweep
    from rearview.commands import bench
    from rearview.commands.reproduce import command

    sweeps = []

    def fake(runs, plan, **options):
        sweeps.append(SimpleNamespace(cells=[run.cell for run in runs], plan=plan, **options))
        return []

    def possible_runs(experiment, data_dir, wanted):
        return [cell for cell in experiment.cells if wanted(cell)], Counter()

    monkeypatch.setattr(sweep, "sweep", fake)
    monkeypatch.setattr(command, "possible_runs", possible_runs)
    monkeypatch.setattr(bench, "_check_first", lambda cells, plan: plan.runs(cells))
    return sweeps
