"""What the scaling benchmark says of memory on a CPU: the tensors alive at once, views and what was there left out."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

SIZE = 1000
MATRIX = SIZE * SIZE * 4


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    monkeypatch.delitem(sys.modules, "_held", raising=False)
    from _held import held

    return held


def test_what_is_given_back_does_not_count_twice(held):
    given = torch.ones(SIZE, SIZE)

    def work() -> torch.Tensor:
        x = given
        for _ in range(20):
            x = x + 1
        return x

    assert held(work) == 2 * MATRIX


def test_views_and_what_was_there_are_free(held):
    given = torch.ones(SIZE, SIZE)
    assert held(lambda: given.T[:10]) == 0
    assert held(lambda: given.T.reshape(-1).view(SIZE, SIZE)[:10]) == MATRIX


def test_a_network_holds_its_widest_pair(held):
    network = torch.nn.Sequential(torch.nn.Linear(SIZE, 4 * SIZE), torch.nn.ReLU())
    with torch.no_grad():
        assert held(lambda: network(torch.ones(SIZE, SIZE))) == (1 + 4 + 4) * MATRIX
