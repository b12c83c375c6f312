"""One run is resolved once, its mechanism's defaults are read once, and its results file is opened twice."""

import builtins
import io
import os
import pickle
from pathlib import Path

import pytest
from small import HORIZON, LOOKBACK

from rearview import attention, bench, train
from rearview.bench.papers import catalogue
from rearview.bench.papers.catalogue import Cell
from rearview.bench.runs import detection, forecasting, run_spec
from rearview.bench.runs.request import Request
from rearview.bench.runs.run_spec import resolve
from rearview.bench.runs.sweep import SweepPlan, sweep
from rearview.data.datasets import catalogue as datasets
from rearview.data.datasets import detection_sets

QUICK = {"epochs": 1, "batch": 64, "windows_per_epoch": 64}
SIZES = {"width": 8, "heads": 2, "feed_forward": 8, "depth": 1}
RBCA = Cell("Small", "patchtst", {"name": "rbca"}, LOOKBACK, HORIZON, settings=SIZES)
PUMPS = Cell("Pumps", "transformer", {"name": "toa"}, 20, task="detection", settings=SIZES)


class Counts:
    """How often a run is resolved, a layer is built to describe it, and a file is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resolved: list[Request] = []
        self.described = self.read = 0
        self.opened: list[str] = []
        for module in (forecasting, detection):
            monkeypatch.setattr(module, "resolve", self.counted(module.resolve))
        describe, table = attention.describe, run_spec.settings_table
        monkeypatch.setattr(attention, "describe", lambda name: self.add("described") or describe(name))
        monkeypatch.setattr(run_spec, "settings_table", lambda kind: self.add("read") or table(kind))
        run_spec._read_defaults.cache_clear()
        for place, name in ((builtins, "open"), (io, "open"), (os, "open")):
            monkeypatch.setattr(place, name, self.watched(getattr(place, name)))

    def add(self, name: str) -> None:
        setattr(self, name, getattr(self, name) + 1)

    def counted(self, function):
        return lambda request: self.resolved.append(request) or function(request)

    def watched(self, function):
        def opened(path, *rest, **options):
            if isinstance(path, str | os.PathLike):
                self.opened.append(os.fspath(path))
            return function(path, *rest, **options)

        return opened

    def opens(self, path: Path) -> int:
        return self.opened.count(str(path))


def test_one_run_is_resolved_once_and_opens_its_file_twice(folder, monkeypatch):
    results = folder / "rows.csv"
    bench.run("Small", "dlinear", lookback=29, horizon=7, training=QUICK, data_dir=folder, device="cpu",
              results=results, progress=train.Silent())  # fmt: skip
    counts = Counts(monkeypatch)
    asked = {"lookback": LOOKBACK, "horizon": HORIZON, "settings": SIZES, "training": QUICK, "data_dir": folder}
    bench.run("Small", "patchtst", attention="rbca", **asked, device="cpu", results=results, progress=train.Silent())
    assert (len(counts.resolved), counts.described, counts.read) == (1, 0, 1)
    assert 1 <= counts.opens(results) <= 2


@pytest.mark.parametrize(("cell", "place"), [(RBCA, "folder"), (PUMPS, "pumps")])
def test_a_run_of_a_sweep_is_resolved_once_and_opens_its_file_twice(cell, place, request, monkeypatch):
    home = request.getfixturevalue(place)
    plan = SweepPlan(home / "rows.csv", seeds=(0, 1, 2), data_dir=home, device="cpu", training=QUICK)
    counts = Counts(monkeypatch)
    rows = sweep([cell], plan, progress=train.Silent())
    assert [row.status for row in rows] == ["done"] * 3
    assert [one.seed for one in counts.resolved] == [0, 1, 2]
    assert (counts.described, counts.read <= 1) == (0, True)
    assert 3 <= counts.opens(plan.results) <= 2 * len(rows)
    counts.opened.clear()
    assert sweep([cell], plan, progress=train.Silent()) == rows
    assert counts.opens(plan.results) <= 1


def test_every_run_of_the_catalogue_resolves_to_a_value_that_another_process_understands():
    from rearview import models

    known, seen = {*models.names()}, set()
    sets = {"forecasting": datasets.names(), "detection": detection_sets.names()}
    sets = {task: {name.casefold() for name in names} for task, names in sets.items()}
    sets["classification"] = {cell.dataset.casefold() for one in catalogue.every() for cell in one.cells}
    for experiment in catalogue.every():
        for cell in experiment.cells:
            kind = (experiment.task, cell.dataset, cell.model, cell.mechanism)
            if cell.model in known and kind not in seen:
                seen.add(kind)
                if cell.dataset.casefold() not in sets[experiment.task]:
                    continue
                spec = resolve(cell)
                assert pickle.loads(pickle.dumps(spec)).columns() == spec.columns()
    assert len(seen) > 200
