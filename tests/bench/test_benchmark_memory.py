"""What the scaling benchmark says of memory on a CPU: the tensors alive at once, views and what was there left out."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

SIZE = 1000
MATRIX = SIZE * SIZE * 4


@pytest.fixture
def peak_bytes(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    monkeypatch.delitem(sys.modules, "_held", raising=False)
    from _held import peak_bytes

    return peak_bytes


def test_what_is_given_back_does_not_count_twice(peak_bytes):
    given = torch.ones(SIZE, SIZE)

    def work() -> torch.Tensor:
        x = given
        for _ in range(20):
            x = x + 1
        return x

    assert peak_bytes(work) == 2 * MATRIX


def test_views_and_what_was_there_are_free(peak_bytes):
    given = torch.ones(SIZE, SIZE)
    assert peak_bytes(lambda: given.T[:10]) == 0
    assert peak_bytes(lambda: given.T.reshape(-1).view(SIZE, SIZE)[:10]) == MATRIX


def test_a_network_holds_its_widest_pair(peak_bytes):
    network = torch.nn.Sequential(torch.nn.Linear(SIZE, 4 * SIZE), torch.nn.ReLU())
    with torch.no_grad():
        assert peak_bytes(lambda: network(torch.ones(SIZE, SIZE))) == (1 + 4 + 4) * MATRIX
