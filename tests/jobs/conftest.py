"""The generators of broken files and the small frames are importable by these tests; so are a wide and a long file.

Commands of benchmarks can be tried without making a run.
"""

import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

for folder in ("jobs", "data", "estimators/forecast"):
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

    asked = []

    def fake(cells, plan, **options):
        asked.append(SimpleNamespace(cells=list(cells), plan=plan, **options))
        return []

    def reachable(experiment, chosen, data):
        return [cell for cell in experiment.runs if command.wanted(cell, chosen)], Counter()

    monkeypatch.setattr(sweep, "sweep", fake)
    monkeypatch.setattr(command, "_reachable", reachable)
    monkeypatch.setattr(bench, "_check_first", lambda cells, plan: None)
    return asked
