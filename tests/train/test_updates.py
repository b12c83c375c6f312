"""Which updates are replayed and which run plainly, decided without a GPU: the graph is one that keeps a diary."""

import gc
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from toys import INPUTS, TRAIN, VALIDATION, WINDOWS, Squares, Table, network, same_weights, without_seconds

from rearview import train
from rearview.train import evaluation, optimisation, updates
from rearview.train.optimisation import Rate
from rearview.train.updates import WORTHWHILE, CompiledModel, Update, obstacle

CUDA, CPU = torch.device("cuda"), torch.device("cpu")


@pytest.mark.parametrize(
    ("device", "full", "settings", "why"),
    [
        (CUDA, 1, {"epochs": WORTHWHILE}, None),
        (CUDA, 1, {"epochs": WORTHWHILE - 1}, f"{WORTHWHILE - 1} full updates are too few"),
        (CUDA, 1, {"epochs": 1, "capture": True}, None),
        (CUDA, 0, {"capture": True, "batch": 7, "accumulate": 3}, "no epoch has the 21 windows of a full update"),
        (CPU, 99, {"capture": True}, "the model is on the cpu"),
    ],
)
def test_obstacles_to_capturing_a_run_are_named(
    device: torch.device, full: int, settings: dict[str, int], why: str | None
) -> None:
    found = obstacle(train.Settings(**settings), device, full)
    assert found is None if why is None else why in str(found)


def test_a_graph_that_was_asked_for_and_cannot_be_is_noted() -> None:
    history = fit(train.Settings(epochs=1, capture=True))
    assert history.notes == (
        "Updates were not captured in a CUDA graph: that takes a GPU, and the model is on the cpu.",
    )
    for capture in (None, False):
        assert fit(train.Settings(epochs=1, capture=capture)).notes == ()
    assert not history.captured
    assert not history.compiled
    assert history.preparing_seconds == 0


class Diary:
    """A graph without a device: does its update plainly and writes down what it was told."""

    written: list[object]
    problem: Exception | None = None

    def __init__(self, step: Update[object], count: int) -> None:
        self.step, self.count = step, count
        Diary.written = [("made", count)]

    def begin(self, order: Tensor, rates: Sequence[Rate], first: int) -> None:
        self.order, self.rates, self.place = order, rates, first
        self.written.append(("begin", len(order), first))

    def capture(self, rate: Rate) -> None:
        self.written.append(("capture", rate))
        if self.problem is not None:
            try:
                raise self.problem
            finally:
                raise RuntimeError("the end of a broken capture raises again")

    def replay(self, rate: Rate) -> None:
        assert rate == self.rates[self.place]
        size = self.step.settings.windows_per_update
        optimisation.set_rate(self.step.optimiser, rate)
        self.step(self.order[self.place * size : (self.place + 1) * size])
        self.place += 1
        self.written.append(self.place)


@pytest.fixture
def diary(monkeypatch: pytest.MonkeyPatch) -> type[Diary]:
    """Captures as if there were a GPU."""
    monkeypatch.setattr(updates, "CapturedUpdates", Diary)
    monkeypatch.setattr(updates, "obstacle", lambda settings, device, full: None)
    monkeypatch.setattr(Diary, "problem", None)
    return Diary


def fit(settings: train.Settings, model: nn.Module | None = None, **other: object) -> train.History:
    toys = {"task": Squares(), "source": Table(), "train": TRAIN, "validation": VALIDATION, "progress": train.Silent()}
    return train.fit(model or network(), settings=settings, **{**toys, **other})


def test_full_updates_are_replayed_and_the_smaller_last_one_is_not(diary: type[Diary]) -> None:
    plain, replayed = network(), network()
    settings = {"epochs": 2, "batch": 4, "accumulate": 3, "schedule": "cosine"}
    expected = fit(train.Settings(**settings, capture=False), plain, validation=None)
    history = fit(train.Settings(**settings, capture=True), replayed, validation=None)
    laid_out = ("begin", WINDOWS, 0)
    assert diary.written == [("made", 3), laid_out, ("capture", Rate(1e-3, 0.9)), laid_out, 1, 2, 3, laid_out, 1, 2, 3]
    assert same_weights(plain.state_dict(), replayed.state_dict())
    assert history.captured
    assert history.steps == expected.steps == 8
    assert history.notes == ("The last update of each epoch, of 11 windows instead of 12, ran outside the CUDA graph.",)


@pytest.mark.parametrize(("crash_at", "first"), [(9, 3), (10, 4)])
def test_a_resumed_run_begins_within_an_epoch(diary: type[Diary], tmp_path: Path, crash_at: int, first: int) -> None:
    """Each epoch has four full updates and a smaller one, and validation takes one gather."""

    def crash(gathers: int) -> None:
        if gathers == crash_at + 1:
            raise RuntimeError("crash")

    path, whole, resumed = tmp_path / "run.safetensors", network(), network()
    settings = train.Settings(epochs=3, batch=11, checkpoint_every=1, validation_batch=99, capture=True)
    fit(settings, whole)
    with pytest.raises(RuntimeError, match="crash"):
        fit(settings, checkpoint=path, source=Table(crash))
    fit(settings, resumed, checkpoint=path, resume=True)
    begun = [entry[2] for entry in diary.written if isinstance(entry, tuple) and entry[0] == "begin"]
    assert begun == [0, first, 0]
    assert same_weights(whole.state_dict(), resumed.state_dict())


def test_a_capture_that_fails_costs_nothing_but_a_note(diary: type[Diary], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diary, "problem", ValueError("this layer is odd.\nSecond line."))
    plain, tried = network(), network()
    expected = fit(train.Settings(epochs=3, capture=False), plain)
    history = fit(train.Settings(epochs=3, capture=True), tried)
    assert history.notes == ("Updates were not captured in a CUDA graph: this layer is odd.",)
    assert not history.captured
    assert history.preparing_seconds > 0
    assert same_weights(plain.state_dict(), tried.state_dict())
    ours, theirs = without_seconds(history), without_seconds(expected)
    assert {**ours, "notes": []} == theirs


class Again:
    """A graph without a device: does its work again."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def record(self, work: Callable[[], None], untouched: object) -> None:
        self.replay = work


@pytest.mark.parametrize("batch", [5, 23, 100])
def test_validation_is_the_same_with_replays(monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    """With batches that leave a smaller one, that are all windows, and that are larger."""
    monkeypatch.setattr(evaluation, "Graph", Again)
    model, table = network(), Table()
    model.train()
    measure = evaluation.Evaluation(model, Squares(), table, VALIDATION, batch, "float32")
    for _ in range(2):
        expected = train.evaluate(model, Squares(), Table(), VALIDATION, batch=batch)
        assert measure(capture=True) == measure(capture=False) == expected
        nn.init.normal_(model[0].weight)
    assert model.training
    assert measure.notes == []


def test_validation_that_cannot_be_captured_is_measured_all_the_same() -> None:
    measure = evaluation.Evaluation(network(), Squares(), Table(), VALIDATION, 5, "float32")
    assert measure(capture=True) == measure(capture=False)
    assert len(measure.notes) == 1
    assert measure.notes[0].startswith("Validation was not captured in a CUDA graph: ")


def test_a_rate_on_the_device_is_set_in_its_place() -> None:
    model = network()
    optimiser = optimisation.build(model, train.Settings())
    rate = torch.zeros((), device=CPU)
    optimisation.place_rate(optimiser, rate)
    optimisation.set_rate(optimiser, Rate(0.25, 0.95))
    assert optimiser.param_groups[0]["lr"] is rate
    assert rate.item() == 0.25
    assert optimiser.param_groups[0]["betas"][0] == 0.95
    optimisation.place_rate(optimiser, 0.5)
    assert optimiser.param_groups[0]["lr"] == 0.5


def test_the_optimiser_may_be_captured_while_something_is(monkeypatch: pytest.MonkeyPatch) -> None:
    optimiser = optimisation.build(network(), train.Settings(decay_all=False))
    for capturing in (False, True):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda answer=capturing: answer)
        with optimisation.capturable(optimiser):
            assert [group["capturable"] for group in optimiser.param_groups] == [capturing, capturing]
    assert not any(group["capturable"] for group in optimiser.param_groups)


def test_matrix_products_on_a_cpu_stay_as_they_are() -> None:
    seen = set()

    class Watching(Squares):
        def loss(self, model: nn.Module, batch: object, /) -> tuple[Tensor, Tensor]:
            seen.add(torch.get_float32_matmul_precision())
            return super().loss(model, batch)

    fit(train.Settings(epochs=1, tf32=True), task=Watching())
    assert seen == {torch.get_float32_matmul_precision()} == {"highest"}


def test_every_model_is_compiled_for_itself_and_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than torch compiles one piece of code for."""
    compiled = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> torch.fx.GraphModule:
        compiled.append(len(inputs))
        return graph

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    alive, shapes = [], range(1, 1 + 11)
    for size in shapes:
        model = nn.Sequential(nn.Linear(INPUTS, size), nn.Linear(size, 2))
        ours = CompiledModel(model)
        for _ in range(2):
            assert torch.equal(ours(torch.ones(3, INPUTS)), model(torch.ones(3, INPUTS)))
        model.season = size
        assert ours.season == size
        alive.append(weakref.ref(model))
    assert len(compiled) == len(shapes)
    del model, ours
    gc.collect()
    assert not any(reference() for reference in alive)
