"""The script that settles defaults: folds hold every class, anomalies stand where they are said to, the rule holds."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from rearview.data.datasets import labelled_arrays
from rearview.data.datasets.labelled_arrays import LabelledArrays


@pytest.fixture
def script(benchmark_scripts: Path) -> ModuleType:
    return import_module("settle_defaults")


def test_folds_are_equal_and_hold_every_class(script: ModuleType) -> None:
    labels = np.repeat(["a", "b", "c"], [7, 11, 13])
    found = script.folds(labels, seed=0)
    counts = np.array([[((labels == label) & (found == fold)).sum() for label in "abc"] for fold in range(3)])
    assert counts.min() >= 2
    assert np.ptp(counts.sum(axis=1)) <= 1
    assert (script.folds(labels, seed=1) != found).any()


@pytest.fixture(scope="module")
def rows() -> LabelledArrays:
    random = np.random.default_rng(0)
    arrays = {
        "train": random.normal(size=(7400, 3)).cumsum(axis=0) * [1, 100, 0],
        "test": np.zeros((2, 3)),
        "test_label": np.zeros(2),
        "machine": np.array(["long", "short"]),
        "machine_lengths": np.array([[7000, 1], [400, 1]]),
    }
    return labelled_arrays.from_arrays(arrays, Path("x.npz"))


def test_anomalies_stand_where_they_are_said_to_and_nowhere_else(script: ModuleType, rows: LabelledArrays) -> None:
    learned, judged, kinds = script.inject(rows.train, seed=0)
    assert learned.ids == judged.ids == ("long",)
    assert len(learned.values) == 5250
    before = rows.train.values[5250:7000]
    assert set(kinds) == {-1, *range(len(script.KINDS))}
    np.testing.assert_array_equal(judged.values[kinds < 0], before[kinds < 0])
    changed = (judged.values != before).any(axis=1)
    assert changed[kinds >= 0].mean() > 0.9
    assert not (judged.values != before)[:, 2].any()  # a channel that never varies has no spread to go by
    spikes = kinds == script.KINDS.index("spike")
    spread = learned.values[:, :2].std(axis=0)
    assert (np.abs(judged.values - before)[spikes][:, :2] / spread).max(axis=1).min() > 2.9


def test_of_choices_as_good_as_the_best_the_smallest_is_taken(script: ModuleType, capsys) -> None:
    task = script.TASKS["classification"]

    def made(pool: str, width: int, accuracies: list[float]) -> list[dict[str, str]]:
        return [
            {
                "dataset": "x",
                "fold": str(fold),
                "seed": "0",
                "pool": pool,
                "width": str(width),
                "dropout": "0.1",
                "parameters": str(width),
                "accuracy": str(accuracy),
            }
            for fold, accuracy in enumerate(accuracies)
        ]

    best, near, far = [0.9, 0.8, 0.7], [0.8, 0.9, 0.69], [0.7, 0.6, 0.5]
    script.print_choice([*made("none", 128, best), *made("mean", 64, near), *made("mean", 32, far)], task)
    assert capsys.readouterr().out.splitlines()[-1] == "chosen: pool = mean, width = 64, dropout = 0.1"


def test_every_choice_is_one_that_the_estimators_know(script: ModuleType) -> None:
    from rearview import models
    from rearview.embed.normalisation import KINDS

    known = set(models.settings_of("patchtst").__dataclass_fields__)
    assert len(script.NETWORKS) == 8
    assert {name for chosen in script.NETWORKS for name in chosen} <= known
    assert set(script.NORMALISE) <= set(KINDS)
