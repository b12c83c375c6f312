"""A wide and a long file, small sets under names of benchmarks; sweeps that are asked for and not made; helpers of
other folders are importable."""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

for folder in ("bench", "commands", "data", "estimators/classify", "estimators/forecast"):
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


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small set under the name of one of the archive's."""
    from small_sets import waves, write_ts

    folder = tmp_path_factory.mktemp("archive")
    (folder / "uea" / "BasicMotions").mkdir(parents=True)
    for part, seed in (("TRAIN", 1), ("TEST", 2)):
        cases, classes = waves(24, seed=seed)
        write_ts(folder / "uea" / "BasicMotions" / f"BasicMotions_{part}.ts", cases, classes)
    return folder


@pytest.fixture
def small_smap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a small set under the name of SMAP."""
    from rearview.bench.runs import detection
    from rearview.data.datasets import detection_sets

    rng = np.random.default_rng(3)
    labels = np.zeros(300, dtype=np.uint8)
    labels[100:130] = 1
    np.savez(
        tmp_path / "SMAP.npz",
        train=rng.normal(size=(700, 3)), test=rng.normal(size=(300, 3)), test_label=labels,
    )  # fmt: skip
    small = replace(detection_sets.get("SMAP"), train_rows=700, test_rows=300, channels=3, sha256=())
    others = tuple(one for one in detection_sets._SHELF if one.name != "SMAP")
    monkeypatch.setattr(detection_sets, "_SHELF", (*others, small))
    detection._load.cache_clear()
    yield tmp_path
    detection._load.cache_clear()


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
