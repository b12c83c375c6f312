"""The loop: what it computes, how it ends, and what it leaves behind."""

import copy
import json
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from toys import OUTPUTS, TRAIN, VALIDATION, WINDOWS, Cells, Squares, Table, network, same_weights, without_seconds

from rearview import train
from rearview.core.errors import InputError, SettingsError
from rearview.train.contract import Diverged
from rearview.train.loop import epoch_order

SILENT = train.Silent()


def fit(model: nn.Module, settings: train.Settings, **other: object) -> train.History:
    """Train on the toys; `other` replaces any of them."""
    toys = {"task": Squares(), "source": Table(), "train": TRAIN, "validation": VALIDATION, "progress": SILENT}
    return train.fit(model, settings=settings, **{**toys, **other})


def test_training_is_the_plain_loop_of_a_textbook() -> None:
    settings = train.Settings(epochs=3, batch=11, optimiser="adam", weight_decay=0.01, clip=0.5, schedule="type1")
    plain, ours = network(dropout=0.0), network(dropout=0.0)
    optimiser = torch.optim.Adam(plain.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    table, losses = Table(), []
    for epoch in (1, 2, 3):
        optimiser.param_groups[0]["lr"] = [1e-3, 1e-3, 5e-4][epoch - 1]
        sums = [0.0, 0.0]
        for index in torch.split(epoch_order(WINDOWS, settings, epoch), 11):
            total, number = Squares().loss(plain, table.batch(index))
            (total / number).backward()
            nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
            optimiser.step()
            optimiser.zero_grad()
            sums = [sums[0] + total.item(), sums[1] + number.item()]
        losses.append(sums[0] / sums[1])
    history = fit(ours, settings, validation=None)
    assert same_weights(plain.state_dict(), ours.state_dict())
    assert [epoch.train_loss for epoch in history.epochs] == losses
    assert [epoch.learning_rate for epoch in history.epochs] == [1e-3, 1e-3, 5e-4]
    assert (history.steps, history.windows, history.ended, history.best_epoch) == (15, 3 * WINDOWS, "epochs", None)


@pytest.mark.parametrize("batch", [WINDOWS, 7])
def test_training_ends_when_its_time_is_up_with_the_weights_of_its_first_epoch(batch: int) -> None:
    history = fit(network(), train.Settings(epochs=50, batch=batch), seconds=1e-9)
    assert (history.ended, len(history.epochs), history.best_epoch) == ("time", 1, 1)


def test_one_seed_is_one_result_and_another_seed_another() -> None:
    first, again, other = network(), network(), network()
    settings = train.Settings(epochs=4, batch=7, windows_per_epoch=31)
    histories = [fit(first, settings), fit(again, settings)]
    fit(other, train.Settings(epochs=4, batch=7, windows_per_epoch=31, seed=1))
    assert same_weights(first.state_dict(), again.state_dict())
    assert without_seconds(histories[0]) == without_seconds(histories[1])
    assert not same_weights(first.state_dict(), other.state_dict())


@pytest.mark.parametrize("updates", [2, 13])
def test_an_epoch_of_so_many_updates_has_them_however_many_windows_there_are(updates: int) -> None:
    settings = train.Settings(epochs=2, batch=7, updates_per_epoch=updates)
    order = epoch_order(WINDOWS, settings, 1)
    visits = torch.bincount(order, minlength=WINDOWS)
    assert len(order) == 7 * updates
    assert visits.max() - visits.min() <= 1  # nobody is visited twice before all are visited once
    assert not torch.equal(order, epoch_order(WINDOWS, settings, 2))
    history = fit(network(), settings)
    assert (history.steps, history.windows) == (2 * updates, 2 * 7 * updates)


def test_the_random_state_of_the_caller_stays() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fit(network(), train.Settings(epochs=1))
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("accumulate", [2, 4])
def test_accumulated_batches_are_the_large_batch(accumulate: int) -> None:
    whole, parts = network(dropout=0.0, norm=False).double(), network(dropout=0.0, norm=False).double()
    source = Table(dtype=torch.float64)
    large = fit(whole, train.Settings(epochs=5, batch=12, clip=0.7), source=source)
    small = fit(parts, train.Settings(epochs=5, batch=12 // accumulate, accumulate=accumulate, clip=0.7), source=source)
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(parts.state_dict()[name], value, rtol=1e-11, atol=1e-13)
    assert [e.train_loss for e in small.epochs] == pytest.approx([e.train_loss for e in large.epochs], rel=1e-12)
    assert small.steps == large.steps == 20


def test_validation_is_pooled_over_cells() -> None:
    model, table = network(), Table()
    model.eval()
    inputs, targets, observed = table.batch(VALIDATION)
    with torch.no_grad():
        expected = (model(inputs) - targets).square()[observed].double().mean().item()
    for batch in (1, 7, 100):
        assert train.evaluate(model, Squares(), table, VALIDATION, batch=batch) == pytest.approx(expected, rel=1e-6)


def test_measuring_leaves_each_module_in_its_mode() -> None:
    model = network()
    model.train()
    model[1].eval()
    train.evaluate(model, Squares(), Table(), VALIDATION)
    assert [module.training for module in model] == [True, False, True, True, True]


class FallingThenRising(Squares):
    """Selects by a script: a loss for each epoch, whatever the model does."""

    def __init__(self, script: list[float]) -> None:
        self.script = iter(script)
        self.weights: list[dict[str, Tensor]] = []

    def validation(self, model: nn.Module, batch: Cells, /) -> tuple[Tensor, Tensor]:
        self.weights.append(copy.deepcopy(model.state_dict()))
        return torch.tensor(next(self.script)), torch.tensor(1)


def test_patience_ends_training_and_the_best_weights_return() -> None:
    task, model = FallingThenRising([5.0, 3.0, 4.0, 3.0, 9.0]), network()
    history = fit(model, train.Settings(epochs=9, patience=3, validation_batch=1000), task=task)
    assert (history.ended, history.best_epoch, len(history.epochs)) == ("patience", 2, 5)
    assert [epoch.validation_loss for epoch in history.epochs] == [5.0, 3.0, 4.0, 3.0, 9.0]
    assert same_weights(model.state_dict(), task.weights[1])
    assert not same_weights(model.state_dict(), task.weights[4])
    assert not model.training


def test_the_last_weights_are_kept_on_request() -> None:
    task, model = FallingThenRising([5.0, 3.0, 4.0, 3.5, 9.0]), network()
    history = fit(model, train.Settings(epochs=5, patience=None, keep_last=True), task=task)
    assert (history.ended, history.best_epoch) == ("epochs", 5)
    assert same_weights(model.state_dict(), task.weights[4])
    task, model = FallingThenRising([5.0, 3.0, math.nan]), network()
    with pytest.raises(Diverged, match="The model holds the weights of epoch 2, the best before"):
        fit(model, train.Settings(epochs=5, patience=None, keep_last=True), task=task)
    assert same_weights(model.state_dict(), task.weights[1])


def test_the_largest_norm_is_halved_as_updates_go_by(monkeypatch: pytest.MonkeyPatch) -> None:
    norms = []
    monkeypatch.setattr(nn.utils, "clip_grad_norm_", lambda parameters, norm: norms.append(norm))
    fit(network(), train.Settings(epochs=2, batch=10, clip=8.0, clip_halve_every=3))
    assert norms == [8.0] * 3 + [4.0] * 3 + [2.0] * 3 + [1.0]
    norms.clear()
    fit(network(), train.Settings(epochs=1, batch=10, clip=8.0))
    assert norms == [8.0] * 5
    with pytest.raises(SettingsError, match="clip_halve_every halves clip; give clip too"):
        train.Settings(clip_halve_every=3)


def test_ties_can_count_as_improvement() -> None:
    task, model = FallingThenRising([5.0, 3.0, 4.0, 3.0, 9.0]), network()
    history = fit(model, train.Settings(epochs=5, patience=3, ties_improve=True), task=task)
    assert (history.ended, history.best_epoch) == ("epochs", 4)
    assert same_weights(model.state_dict(), task.weights[3])


def test_a_validation_loss_of_nan_is_a_failure_with_the_best_weights_in_hand() -> None:
    task, model = FallingThenRising([5.0, 4.0, math.nan]), network()
    with pytest.raises(
        train.TrainingError, match=r"validation loss of epoch 3 is nan.*learning_rate.*weights of epoch 2"
    ):
        fit(model, train.Settings(epochs=5), task=task)
    assert same_weights(model.state_dict(), task.weights[1])


def test_a_training_loss_that_explodes_is_a_failure() -> None:
    class Exploding(Squares):
        def loss(self, model: nn.Module, batch: Cells, /) -> tuple[Tensor, Tensor]:
            total, number = super().loss(model, batch)
            return total * math.inf, number

    with pytest.raises(train.TrainingError, match="training loss of epoch 1 is inf") as failure:
        fit(network(), train.Settings(epochs=2, batch=64), task=Exploding())
    assert "The model holds" not in str(failure.value)


def interrupt_at(gather: int) -> Callable[[int], None]:
    def watch(gathers: int) -> None:
        if gathers == gather:
            raise KeyboardInterrupt

    return watch


def test_ctrl_c_keeps_the_best_epoch() -> None:
    settings = train.Settings(epochs=50, batch=12, validation_batch=100, patience=None)
    model = network()
    history = fit(model, settings, source=Table(interrupt_at(5 * 3 + 3)))
    assert (history.ended, len(history.epochs), history.steps, history.windows) == ("interrupted", 3, 14, 3 * 47 + 24)
    best = min(history.epochs, key=lambda epoch: epoch.validation_loss or math.inf)
    assert history.best_epoch == best.number
    assert train.evaluate(model, Squares(), Table(), VALIDATION, batch=100) == best.validation_loss
    assert all(parameter.grad is None for parameter in model.parameters())


def test_ctrl_c_before_the_first_epoch_ends_keeps_the_current_weights() -> None:
    model, untouched = network(), network()
    history = fit(model, train.Settings(batch=12), source=Table(interrupt_at(3)))
    assert (history.ended, history.epochs, history.best_epoch, history.steps) == ("interrupted", (), None, 2)
    assert not same_weights(model.state_dict(), untouched.state_dict())
    assert not model.training


def test_a_second_ctrl_c_goes_through() -> None:
    class Stubborn(nn.Sequential):
        def eval(self) -> "Stubborn":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(Stubborn(*network()), train.Settings(), source=Table(interrupt_at(2)), validation=None)


def test_a_first_ctrl_c_while_finishing_loses_nothing() -> None:
    class Late(nn.Sequential):
        calls = 0

        def eval(self) -> "Late":
            self.calls += 1
            if self.calls == 1:
                raise KeyboardInterrupt
            return super().eval()

    model = Late(*network())
    history = fit(model, train.Settings(epochs=2), validation=None)
    assert (history.ended, len(history.epochs)) == ("epochs", 2)
    assert not model.training


def test_a_capped_epoch_visits_another_subset_each_time() -> None:
    table = Table()
    history = fit(network(), train.Settings(epochs=2, batch=7, windows_per_epoch=18), source=table, validation=None)
    first, second = torch.cat(table.seen[:3]), torch.cat(table.seen[3:])
    assert len(first) == len(second) == 18
    assert len(first.unique()) == 18
    assert set(first.tolist()) != set(second.tolist())
    assert (history.steps, history.windows) == (6, 36)


def test_dropping_the_last_update_leaves_equal_ones() -> None:
    table = Table()
    settings = train.Settings(epochs=2, batch=5, accumulate=2, drop_last=True)
    history = fit(network(), settings, source=table, validation=None)
    assert {len(index) for index in table.seen} == {5}
    assert (history.steps, history.windows) == (8, 80)
    with pytest.raises(SettingsError, match="an update takes 48 windows"):
        fit(network(), train.Settings(batch=48, drop_last=True))


def test_bfloat16_computes_in_bfloat16_and_keeps_weights_in_float32() -> None:
    seen = set()

    class Watching(Squares):
        def loss(self, model: nn.Module, batch: Cells, /) -> tuple[Tensor, Tensor]:
            seen.add((model(batch[0]).dtype, model.training))
            return super().loss(model, batch)

    model = network()
    history = fit(model, train.Settings(epochs=2, precision="bfloat16"), task=Watching())
    assert seen == {(torch.bfloat16, True), (torch.bfloat16, False)}
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert all(math.isfinite(epoch.train_loss) for epoch in history.epochs)


def test_a_batch_without_an_observed_cell_pulls_at_nothing() -> None:
    table, model, untouched = Table(), network(norm=False), network(norm=False)
    table.observed[:9] = False
    with pytest.raises(InputError, match="None of the 9 training windows of epoch 1 holds an observed cell"):
        fit(model, train.Settings(epochs=1), source=table, train=torch.arange(9))
    assert same_weights(model.state_dict(), untouched.state_dict())
    with pytest.raises(InputError, match="None of the 9 windows to measure on"):
        train.evaluate(model, Squares(), table, torch.arange(9))


def test_running_out_of_memory_names_the_same_update_in_less() -> None:
    def full(gathers: int) -> None:
        if gathers == 7:
            raise torch.OutOfMemoryError("no room")

    with pytest.raises(train.TrainingError, match="epoch 2 with batch=12; use batch=6 with accumulate=2"):
        fit(network(), train.Settings(batch=12), source=Table(full))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"train": torch.arange(0)}, "no training windows; give at least one."),
        ({"validation": torch.arange(0)}, "or None to train without validation"),
        ({"train": torch.ones(3)}, "whole numbers"),
        ({"validation": torch.ones(3, 2, dtype=torch.int64)}, r"shape \(3, 2\)"),
    ],
)
def test_windows_that_are_none_are_refused(other: dict[str, Tensor], words: str) -> None:
    with pytest.raises(InputError, match=words):
        fit(network(), train.Settings(), **other)


def test_a_model_without_parameters_is_refused() -> None:
    with pytest.raises(SettingsError, match="Identity has no parameters to train"):
        fit(nn.Identity(), train.Settings())


def test_history_goes_to_json_and_back() -> None:
    history = fit(network(), train.Settings(epochs=2, capture=True))
    facts = json.loads(json.dumps(history.to_dict()))
    assert train.History.from_dict(facts) == history
    assert len(facts["epochs"]) == 2
    assert len(facts["notes"]) == 1
    for later in ("compiled", "captured", "preparing_seconds", "notes"):
        del facts[later]
    assert train.History.from_dict(facts).notes == ()


@pytest.mark.slow
def test_compiled_training_is_the_eager_one_and_keeps_the_names() -> None:
    eager, compiled = network(dropout=0.0), network(dropout=0.0)
    settings = {"epochs": 2, "batch": 16}
    slow = fit(eager, train.Settings(**settings))
    fast = fit(compiled, train.Settings(**settings, compile=True))
    assert eager.state_dict().keys() == compiled.state_dict().keys()
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(compiled.state_dict()[name], value, rtol=1e-4, atol=1e-5)
    assert fast.epochs[-1].validation_loss == pytest.approx(slow.epochs[-1].validation_loss, rel=1e-4)
    assert compiled(torch.zeros(1, 5)).shape == (1, OUTPUTS)
