"""A fit draws from a state of its own: the same numbers in any thread, and the caller's are left alone."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from toys import TRAIN, VALIDATION, Squares, Table, network, same_weights

from rearview import train
from rearview.core.errors import RearviewWarning
from rearview.core.random_state import RandomState, keep_caller_state
from rearview.train import checkpoint


def fit(seed: int, between: "threading.Barrier | None" = None, **more: object) -> dict[str, torch.Tensor]:
    """Weights of a small network with dropout; at every gather it meets the others at a barrier."""
    with RandomState(seed).drawing():
        model = torch.nn.Sequential(network(), torch.nn.Dropout(0.5))

    class Meet(train.Silent):
        def step(self, *_: object) -> None:
            if between is not None:
                between.wait(timeout=20)

    settings = train.Settings(epochs=3, batch=4, seed=seed)
    train.fit(model, Squares(), Table(), TRAIN, VALIDATION, settings, progress=Meet(), **more)  # type: ignore[arg-type]
    return model.state_dict()


def test_fits_in_threads_give_what_each_gives_alone() -> None:
    alone = [fit(seed) for seed in range(3)]
    assert not same_weights(alone[0], alone[1])
    together = threading.Barrier(3)
    with ThreadPoolExecutor(3) as pool:
        beside = list(pool.map(lambda seed: fit(seed, together), range(3)))
    assert all(map(same_weights, alone, beside))


def test_the_state_of_the_caller_is_untouched() -> None:
    torch.manual_seed(5)
    expected = torch.rand(4)
    torch.manual_seed(5)
    fit(0)
    with keep_caller_state():
        torch.rand(7)
    assert torch.equal(torch.rand(4), expected)


def test_a_state_is_the_stream_of_its_seed_and_goes_on_where_it_was() -> None:
    torch.manual_seed(11)
    expected = torch.rand(6)
    state = RandomState(11)
    parts = []
    for _ in range(2):
        torch.rand(3)
        with state.drawing(), state.drawing():
            parts.append(torch.rand(3))
    assert torch.equal(torch.cat(parts), expected)


class Cut(train.Silent):
    def epoch(self, *_: object) -> None:
        raise RuntimeError("cut")


def test_a_run_resumed_with_other_threads_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, settings = tmp_path / "c.safetensors", train.Settings(epochs=3, batch=4)

    def go_on(progress: train.Progress) -> None:
        train.fit(
            network(), Squares(), Table(), TRAIN, VALIDATION, settings, checkpoint=path, resume=True, progress=progress
        )

    with pytest.raises(RuntimeError, match="cut"):
        go_on(Cut())
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    with pytest.warns(RearviewWarning, match=r"begun with threads 1 instead of 3: its numbers can differ"):
        go_on(train.Silent())
    go_on(train.Silent())  # it has ended, so nothing is computed that could differ


@pytest.mark.parametrize(
    ("made_with", "says"), [({}, None), ({"threads": 1}, None), ({"torch": "1"}, "torch 1 instead")]
)
def test_what_rounding_rests_on(made_with: dict[str, object], says: str | None) -> None:
    found = checkpoint.find_inexact(made_with, torch.device("cpu"))
    assert found is None if says is None else says in str(found)
    assert "GPU" in str(checkpoint.find_inexact(made_with, torch.device("cuda")))
