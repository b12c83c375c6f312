"""VUS-PR of drawn entities, as `benchmarks/detection_bootstrap.py` adds it up, is that of the library."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from rearview.tasks.rankings import vus_pr


@pytest.fixture
def bootstrap(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import detection_bootstrap

    return detection_bootstrap


def test_a_surface_has_the_vus_pr_of_its_entities_together(bootstrap: ModuleType) -> None:
    random = np.random.default_rng(0)
    labels, scores = [], []
    for rows in (900, 600, 700):
        marked = np.zeros(rows, dtype=bool)
        for first in random.integers(0, rows - 40, 3):
            marked[first : first + 30] = True
        labels.append(marked)
        scores.append(np.round(random.normal(size=rows) + marked, 2))
    surface = bootstrap.find_surface(labels, scores)
    offsets = np.array([0, 900, 1_500, 2_200])
    wanted = vus_pr(np.concatenate(labels), np.concatenate(scores), bootstrap.SLACK, offsets)
    assert surface.measure(np.ones(3, dtype=np.int64)) == pytest.approx(wanted)
    alone = bootstrap.find_surface(labels[:1], scores[:1])
    assert alone.measure(np.array([4])) == pytest.approx(vus_pr(labels[0], scores[0], bootstrap.SLACK))
