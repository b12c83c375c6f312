"""Spikes of short series: left out of what is learned, found in the rows that were learned from."""

import numpy as np
import pytest
from sensors import ordinary

from rearview import Detector
from rearview.estimators.detect.portfolio import spikes


def noise(rows: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, channels)).astype(np.float32)


def find(cells: np.ndarray, observed: np.ndarray | None = None) -> list[list[int]]:
    return np.argwhere(spikes.find(cells, observed)[1]).tolist()


def test_a_cell_far_from_its_neighbours_is_a_spike() -> None:
    assert not find(noise(127))
    for row in (1, 60, 125):
        cells = noise(127)
        cells[row, 1] = 10
        assert find(cells) == [[row, 1]]
        assert abs(spikes.find(cells, None)[0][row, 1]) < 3  # what it is filled with


def test_two_spikes_are_found_together_and_only_where_the_rows_are_many() -> None:
    cells = noise(211)
    cells[[50, 150], 2] = 10, -11
    assert find(cells) == [[50, 2], [150, 2]]
    assert not find(cells[:199])


def test_what_comes_again_or_lasts_is_no_spike() -> None:
    daily, shifted, broken, still, rising = (noise(211) for _ in range(5))
    daily[7::24] += 12
    shifted[100:] += 12
    broken[100:103] += 12
    still[:] = 0
    still[100] = 1
    rising += 12 * np.arange(211)[:, None]
    for cells in (daily, shifted, broken, still, rising):
        assert not find(cells)


def test_a_missing_cell_is_no_spike() -> None:
    cells = noise(127)
    cells[60, 1] = 10
    observed = np.ones(cells.shape, dtype=bool)
    observed[60, 1] = False
    assert not find(cells, observed)


@pytest.mark.parametrize("rows", [120, 300])
def test_a_spike_that_was_learned_from_is_found_in_a_short_file(rows: int) -> None:
    for seed in range(3):
        frame = ordinary(rows, seed)
        at = [17, 61, 93][seed]
        frame.loc[at, "heat"] += 10 * 0.2 * 3
        detector = Detector(device="cpu").fit(frame)
        told = [finding for finding in detector.findings if finding.what == "spikes"]
        assert [finding.count for finding in told] == [1]
        assert f"'heat' at {frame['date'][at]}" in told[0].message
        found = detector.detect(frame)
        assert found.flags[at]
        assert [part.first <= at <= part.last for part in found.segments] == [True]
