"""Batches that are too large for memory: the same gradients, the same statistics, by another way."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from toys import TRAIN, VALIDATION, Squares, Table, network, same_weights

from rearview import models, train
from rearview.core.errors import SettingsError
from rearview.models import outline
from rearview.models.blocks.stack import FeedBlock, TokenBatchNorm
from rearview.train import memory, optimisation
from rearview.train.updates import Update

CHANNELS, LOOKBACK, STEPS, WINDOWS = 3, 32, 5, 11
SMALL = {"width": 8, "heads": 2, "feed_forward": 16, "depth": 2}
PATCHES = {"patch": 8, "stride": 4, "dropout": 0.0}


class Windows:
    """Windows and what follows them, in float64, some of it unobserved."""

    def __init__(self) -> None:
        draw = torch.Generator().manual_seed(5)
        self.past = torch.randn(WINDOWS, CHANNELS, LOOKBACK, generator=draw, dtype=torch.float64)
        self.future = torch.randn(WINDOWS, CHANNELS, STEPS, generator=draw, dtype=torch.float64)
        self.observed = torch.rand(WINDOWS, CHANNELS, STEPS, generator=draw) < 0.7

    def batch(self, index: Tensor, /) -> tuple[Tensor, Tensor, Tensor]:
        return self.past[index], self.future[index], self.observed[index]


def updated(name: str, gib: float | None, **given: Any) -> tuple[Update[Any], models.Model]:
    """A network that has the gradients of one batch, all windows at once."""
    torch.manual_seed(3)
    model = models.create(name, channels=CHANNELS, lookback=LOOKBACK, steps=STEPS, **given).double().train()
    settings = train.Settings(batch=WINDOWS, memory=gib)
    step = Update(model, Squares(), Windows(), optimisation.build(model, settings), settings)
    step.gradients(torch.arange(WINDOWS))
    return step, model


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}


def cut_batch(name: str, **given: Any) -> tuple[Update[Any], models.Model]:
    """The same, with the largest of some limits that a whole batch does not fit into."""
    gib = 1.0
    while True:
        step, model = updated(name, gib, **given)
        if step.room.notes:
            return step, model
        gib /= 4


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("itransformer", {**SMALL, "dropout": 0.0}),
        ("moment", {**SMALL, **PATCHES, "attention": {"name": "mica", "mlp_dropout": 0.0}}),
        ("crossformer", {**SMALL, "patch": 8, "dropout": 0.0}),
        ("tsmixer", {"width": 8, "dropout": 0.0}),
    ],
)
def test_parts_of_a_batch_have_the_gradients_of_the_whole(name: str, given: dict[str, Any]) -> None:
    whole_step, whole = updated(name, None, **given)
    step, model = cut_batch(name, **given)
    assert 1 < step.room.at_once < WINDOWS
    wanted, found = gradients(whole), gradients(model)
    assert wanted.keys() == found.keys()
    for weight, gradient in wanted.items():
        torch.testing.assert_close(found[weight], gradient, rtol=1e-10, atol=1e-13, msg=weight)
    assert step.pool.mean() == pytest.approx(whole_step.pool.mean(), rel=1e-12)


@pytest.mark.filterwarnings("ignore:toa tends to:rearview.core.errors.RearviewWarning")
@pytest.mark.parametrize(
    "attention",
    [
        "softmax",
        "rbca",
        "caps",
        "differential",
        {"name": "mica", "mlp_dropout": 0.0},
        {"name": "mica", "mlp_dropout": 0.0, "local": "differential"},
        {"name": "toa", "sor": False},
        {"name": "toa", "sor": False, "kind": "gated", "carry_scores": True},
    ],
    ids=str,
)
def test_batch_norm_sees_the_whole_batch_and_remembers_it_once(attention: Any) -> None:
    given = {**SMALL, **PATCHES, "attention": attention}
    _, whole = updated("patchtst", None, **given)
    step, model = updated("patchtst", 1e-6, **given)
    assert step.room.at_once == WINDOWS
    assert all(part.part == 1 for part in model.modules() if isinstance(part, FeedBlock))
    for (name, wanted), found in zip(whole.named_buffers(), model.buffers(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-13, msg=name)
    norms = [part for part in model.modules() if isinstance(part, TokenBatchNorm)]
    assert [int(norm.num_batches_tracked) for norm in norms] == [1] * len(norms)  # type: ignore[arg-type]
    wanted, found = gradients(whole), gradients(model)
    assert wanted.keys() == found.keys()
    for weight, gradient in wanted.items():
        torch.testing.assert_close(found[weight], gradient, rtol=1e-9, atol=1e-12, msg=weight)


def test_dropout_is_drawn_alike_when_work_is_done_again() -> None:
    """The gradient is that of the loss just made: a step along it changes the loss as it says."""
    torch.manual_seed(3)
    model = models.create("patchtst", channels=CHANNELS, lookback=LOOKBACK, steps=STEPS, **SMALL, patch=8, stride=4)
    model = model.double().train()
    for part in model.modules():
        if isinstance(part, FeedBlock):
            part.part = 4
    source, squares = Windows(), Squares()
    weight = model.get_parameter("stack.blocks.0.attend.qkv.weight")

    def loss() -> Tensor:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(17)
            return squares.loss(model, source.batch(torch.arange(WINDOWS)))[0]

    torch.autograd.backward(loss())
    assert weight.grad is not None
    along, small = torch.randn_like(weight), 1e-6
    with torch.no_grad():
        weight += small * along
        above = loss()
        weight -= 2 * small * along
        below = loss()
    torch.testing.assert_close((above - below) / (2 * small), (weight.grad * along).sum(), rtol=1e-5, atol=1e-7)


def test_a_batch_that_fits_is_left_as_it_is() -> None:
    settings = {"epochs": 2, "batch": 8, "learning_rate": 1e-2}
    runs = []
    for gib in ("auto", 1.0, None):
        model, source = network(), Table()
        history = train.fit(
            model,
            Squares(),
            source,
            TRAIN,
            VALIDATION,
            train.Settings(memory=gib, **settings),
            progress=train.Silent(),
        )
        runs.append((model.state_dict(), source.gathers, history.notes))
    for weights, gathers, notes in runs[1:]:
        assert same_weights(weights, runs[0][0])
        assert (gathers, notes) == (runs[0][1], runs[0][2]) == (gathers, ())


def test_a_run_in_parts_ends_where_a_whole_one_does() -> None:
    found = []
    for gib in (None, 1e-6):
        model, source = network(dropout=0.0, norm=False).double(), Table(dtype=torch.float64)
        settings = train.Settings(epochs=3, batch=16, learning_rate=1e-2, memory=gib)
        history = train.fit(model, Squares(), source, TRAIN, VALIDATION, settings, progress=train.Silent())
        found.append((model, history))
    (whole, plain), (model, cut) = found
    assert plain.notes == ()
    assert (
        cut.notes
        == (
            "A batch of 16 windows takes more than the 1e-06 GiB of memory it may take, and went through the model in "
            "parts of 2.",
        )
        or "in parts of" in cut.notes[0]
    )
    for name, weight in whole.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], weight, rtol=1e-9, atol=1e-11)
    assert cut.epochs[-1].validation_loss == pytest.approx(plain.epochs[-1].validation_loss, rel=1e-10)


def test_a_model_that_can_not_be_cut_runs_whole_and_says_so() -> None:
    model, source = network(), Table()
    settings = train.Settings(epochs=1, batch=16, memory=1e-7)
    history = train.fit(model, Squares(), source, TRAIN, None, settings, progress=train.Silent())
    assert "can't be split, since the model looks at all windows of a batch at once" in history.notes[0]
    assert source.gathers == 1 + -(-len(TRAIN) // 16)


def test_blocks_are_as_before_when_training_is_over() -> None:
    model = models.create("patchtst", channels=CHANNELS, lookback=LOOKBACK, steps=STEPS, **SMALL, **PATCHES).double()
    settings = train.Settings(epochs=1, batch=WINDOWS, memory=1e-6)
    history = train.fit(
        model, Squares(), Windows(), torch.arange(WINDOWS), torch.arange(3), settings, progress=train.Silent()
    )
    assert "one window at a time" in history.notes[0]
    assert all(part.part is None for part in model.modules() if isinstance(part, FeedBlock))


def test_trials_leave_random_numbers_and_statistics_alone() -> None:
    states = []
    for gib in (None, 1e-6):
        torch.manual_seed(3)
        model = network(dropout=0.5, norm=False)
        settings = train.Settings(batch=16, memory=gib)
        step = Update(model, Squares(), Table(), optimisation.build(model, settings), settings)
        drawn = torch.get_rng_state()
        if gib is not None:
            with pytest.raises(memory.TooMuch), step.room.watch(16):
                step._loss(torch.arange(16))
            step.room.make(torch.arange(16), step._loss)
            assert torch.equal(drawn, torch.get_rng_state())
        states.append(step.room.at_once)
    assert states[0] == 16
    assert states[1] < 16


@pytest.mark.parametrize("gib", [0, -1.0, "some", True, float("nan")])
def test_a_limit_is_a_number_of_gibibytes(gib: Any) -> None:
    with pytest.raises(SettingsError, match="memory must be a number of GiB above 0, 'auto' or None"):
        train.Settings(memory=gib)


def test_the_limit_of_a_container_counts(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "memory.max"
    file.write_text("4294967296\n", encoding="utf-8")
    monkeypatch.setattr(outline, "CONTAINER", file)
    assert memory.limit(train.Settings(), torch.device("cpu")) == memory.GIB
    file.write_text("max\n", encoding="utf-8")
    assert (memory.limit(train.Settings(), torch.device("cpu")) or 0) > 0
    assert memory.limit(train.Settings(), torch.device("cuda")) is None
    assert memory.limit(train.Settings(compile=True), torch.device("cpu")) is None
    assert memory.limit(train.Settings(memory=2, compile=True), torch.device("cpu")) == 2 * memory.GIB


@pytest.mark.parametrize(("name", "settings"), [("itransformer", SMALL), ("patchtst", {**SMALL, "patch": 8})])
def test_a_wide_batch_that_fits_trains_bit_for_bit_as_without_a_limit(
    name: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "WIDE", 0)
    tried: list[int] = []
    make = memory.Room.make

    def watched(room: memory.Room, index: Tensor, loss: Any) -> None:
        make(room, index, lambda few: (tried.append(len(few)), loss(few)))

    monkeypatch.setattr(memory.Room, "make", watched)
    found = []
    for gib in (1.0, None):
        torch.manual_seed(3)
        model = models.create(name, channels=CHANNELS, lookback=LOOKBACK, steps=STEPS, **settings).double()
        train.fit(
            model,
            Squares(),
            Windows(),
            torch.arange(WINDOWS),
            None,
            train.Settings(epochs=2, batch=4, memory=gib),
            progress=train.Silent(),
        )
        found.append(model.state_dict())
    assert tried == [1, 2]
    assert same_weights(*found)


@pytest.mark.parametrize(
    ("name", "given", "looks"),
    [
        ("patchtst", {}, True),
        ("duet", {}, True),
        ("itransformer", {}, False),
        ("mlp", {"adapters": ["channel_heads"]}, False),
    ],
)
def test_models_with_batch_norm_or_a_penalty_look_at_whole_batches(
    name: str, given: dict[str, Any], looks: bool
) -> None:
    model = models.create(name, channels=CHANNELS, lookback=LOOKBACK, steps=STEPS, **given)
    assert memory.looks_at_batches(model) is looks
