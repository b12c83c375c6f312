"""On a GPU: updates replayed from a CUDA graph are the plain ones; what can't be captured runs plainly and says so."""

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from toys import INPUTS, TRAIN, VALIDATION, WINDOWS, Cells, Squares, Table, network

from rearview import models, train
from rearview.train import optimisation
from rearview.train.loop import epoch_order
from rearview.train.optimisation import rate
from rearview.train.updates import Update, Updates

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


class Unwatched(Table):
    """A table on the GPU that keeps no note of its gathers, which would wait for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.to("cuda")

    def batch(self, index: Tensor, /) -> Cells:
        return self.inputs[index], self.targets[index], self.observed[index]


class Running(train.Silent):
    """Keeps the running mean loss after every update; may end the run in the middle."""

    def __init__(self, crash_at: int | None = None) -> None:
        self.losses: list[float] = []
        self.crash_at = crash_at

    def step(self, epoch: int, done: int, loss: Callable[[], float]) -> None:
        self.losses.append(loss())
        if len(self.losses) == self.crash_at:
            raise RuntimeError("crash")


def fit(model: nn.Module, settings: dict[str, object], **other: object) -> train.History:
    """Train on the toys, exactly; `other` replaces any of them."""
    toys = {"task": Squares(), "source": Unwatched(), "train": TRAIN, "validation": VALIDATION, "progress": Running()}
    return train.fit(model.cuda(), settings=train.Settings(**{"tf32": False, **settings}), **{**toys, **other})


def same_state(one: nn.Module, other: nn.Module, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    for name, value in one.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], value, rtol=rtol, atol=atol, msg=lambda m, n=name: n + m)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"accumulate": 3, "clip": 0.5},
        {"optimiser": "adam", "weight_decay": 0.01, "schedule": "type3", "patchtst_compat": True},
        {"optimiser": "radam"},
        {"schedule": "onecycle", "clip": 0.5},
        {"schedule": "cosine", "warmup": 0.2, "drop_last": True, "decay_all": False, "weight_decay": 0.1},
    ],
)
def test_captured_updates_are_the_plain_ones(settings: dict[str, object]) -> None:
    """Batch norm included, for 50 updates and more; the last update of an epoch is smaller unless dropped."""
    common = {"epochs": 30 if "accumulate" in settings else 10, "batch": 8, "learning_rate": 1e-2, **settings}
    plain, replayed = network(dropout=0.0), network(dropout=0.0)
    slow, fast = (
        fit(plain, {**common, "capture": False}, validation=None),
        fit(replayed, {**common, "capture": True}, validation=None),
    )
    assert fast.captured
    assert not slow.captured
    assert fast.steps == slow.steps >= 50
    assert [e.train_loss for e in fast.epochs] == pytest.approx([e.train_loss for e in slow.epochs], rel=1e-5)
    assert int(replayed[1].num_batches_tracked) == int(plain[1].num_batches_tracked)
    same_state(plain, replayed)
    assert len(fast.notes) == (0 if settings.get("drop_last") else 1)
    assert fast.preparing_seconds > 0


def test_bfloat16_is_captured_too() -> None:
    common = {"epochs": 10, "batch": 8, "precision": "bfloat16"}
    slow = fit(network(dropout=0.0), {**common, "capture": False})
    fast = fit(network(dropout=0.0), common)
    assert fast.captured
    assert fast.epochs[-1].validation_loss == pytest.approx(slow.epochs[-1].validation_loss, rel=1e-2)


class Pairs:
    """Windows of several channels with a trend and a wave, and what follows them."""

    LOOKBACK, AHEAD, CHANNELS = 48, 13, 5

    def __init__(self) -> None:
        draw = torch.Generator().manual_seed(17)
        time = torch.arange(self.LOOKBACK + self.AHEAD) / 7
        phase = torch.rand(64, self.CHANNELS, 1, generator=draw) * 6
        noise = torch.randn(64, self.CHANNELS, len(time), generator=draw)
        self.values = (torch.sin(time + phase) + 0.1 * noise).cuda()

    def batch(self, index: Tensor, /) -> tuple[Tensor, Tensor]:
        windows = self.values[index]
        return windows[..., : self.LOOKBACK], windows[..., self.LOOKBACK :]


class Errors:
    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor], /) -> tuple[Tensor, Tensor]:
        errors = (model(batch[0]) - batch[1]).square()
        return errors.sum(), torch.full((), errors.numel(), dtype=torch.float32, device=errors.device)


def host(name: str, attention: dict[str, object], dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(3)
    return models.create(
        name,
        channels=Pairs.CHANNELS,
        lookback=Pairs.LOOKBACK,
        steps=Pairs.AHEAD,
        attention=attention,
        width=16,
        heads=2,
        depth=2,
        feed_forward=32,
        dropout=dropout,
    )


@pytest.mark.filterwarnings("ignore:toa tends to:rearview.core.errors.RearviewWarning")
@pytest.mark.parametrize(
    ("name", "attention"),
    [
        ("patchtst", {"name": "softmax"}),
        ("patchtst", {"name": "rbca"}),
        ("patchtst", {"name": "rbca", "learnable": True}),
        ("patchtst", {"name": "toa", "kind": "softmax", "sor": False}),
        ("patchtst", {"name": "toa", "kind": "relu", "sor": False}),
        ("patchtst", {"name": "toa", "kind": "gated", "sor": False}),
        ("patchtst", {"name": "mica", "mlp_dropout": 0.0}),
        ("patchtst", {"name": "caps"}),
        ("patchtst", {"name": "prime"}),
        ("itransformer", {"name": "softmax"}),
        ("itransformer", {"name": "prime"}),
    ],
)
def test_every_mechanism_is_captured_and_learns_the_same(name: str, attention: dict[str, object]) -> None:
    runs = []
    for capture in (False, True):
        model = host(name, attention)
        model.prepare(Pairs().batch(torch.arange(64))[0].cpu())
        settings = {"epochs": 13, "batch": 16, "capture": capture}
        common = {"task": Errors(), "source": Pairs(), "train": torch.arange(64), "validation": None}
        runs.append(fit(model, settings, **common))
    assert runs[1].captured, runs[1].notes
    assert runs[1].steps == 52
    losses = [[epoch.train_loss for epoch in run.epochs] for run in runs]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def losses_of_single_updates(model: nn.Module, **other: object) -> list[float]:
    """The loss at each of 24 updates that change nothing."""
    follow = Running()
    settings = {"epochs": 1, "batch": 8, "learning_rate": 1e-12, "capture": True}
    history = fit(model, settings, train=torch.arange(8).repeat(24), validation=None, progress=follow, **other)
    assert history.captured, history.notes
    sums = [mean * number for number, mean in enumerate(follow.losses, start=1)]
    return [after - before for before, after in zip([0.0, *sums], sums, strict=False)]


def drawn_far(model: nn.Module) -> None:
    """Set the operators of toa, which start as no operation at all, to something that regularisation changes."""
    for name, parameter in model.named_parameters():
        if name.endswith("offset"):
            nn.init.normal_(parameter)


class Same(Pairs):
    """Gives the same windows whatever the order of an epoch."""

    def batch(self, index: Tensor, /) -> tuple[Tensor, Tensor]:
        return super().batch(torch.arange(len(index), device=index.device))


@pytest.mark.filterwarnings("ignore:toa tends to:rearview.core.errors.RearviewWarning")
def test_what_is_dropped_and_regularised_differs_between_replays() -> None:
    fixed = losses_of_single_updates(host("itransformer", {"name": "softmax"}), task=Errors(), source=Same())
    assert max(fixed) == pytest.approx(min(fixed), rel=1e-5)
    dropping = host("itransformer", {"name": "softmax"}, dropout=0.5)
    regularising = host("patchtst", {"name": "toa", "kind": "relu"})
    drawn_far(regularising)
    for model in (dropping, regularising):
        drawn = sorted(losses_of_single_updates(model, task=Errors(), source=Same()))
        assert all(more > less * (1 + 1e-8) for less, more in pairwise(drawn))


def test_dropout_leaves_the_mean_loss_alike() -> None:
    common = {"epochs": 40, "batch": 8, "learning_rate": 1e-12}
    means = []
    for capture in (False, True):
        history = fit(network(dropout=0.5), {**common, "capture": capture}, validation=None)
        means.append(sum(epoch.train_loss for epoch in history.epochs) / 40)
    assert means[0] == pytest.approx(means[1], rel=0.03)


@pytest.mark.filterwarnings("ignore:toa tends to:rearview.core.errors.RearviewWarning")
@pytest.mark.parametrize("kind", ["softmax", "relu", "gated"])
def test_regularised_operators_leave_the_mean_loss_alike(kind: str) -> None:
    """Without what is drawn, the mean loss of these operators is 2 to 4 % higher."""
    common = {"epochs": 40, "batch": 8, "learning_rate": 1e-12}
    toys = {"task": Errors(), "source": Pairs(), "train": torch.arange(64), "validation": None}
    means = []
    for capture in (False, True):
        model = host("itransformer", {"name": "toa", "kind": kind, "sor": True})
        drawn_far(model)
        history = fit(model, {**common, "capture": capture}, **toys)
        assert history.captured is capture, history.notes
        losses = [epoch.train_loss for epoch in history.epochs]
        assert max(losses) > min(losses) * (1 + 1e-6)
        means.append(sum(losses) / len(losses))
    assert means[0] == pytest.approx(means[1], rel=0.01)


@pytest.mark.parametrize("schedule", ["cosine", "onecycle"])
@pytest.mark.parametrize("crash_at", [9, 12, 17])
def test_a_captured_run_that_crashed_goes_on(tmp_path: Path, schedule: str, crash_at: int) -> None:
    """Dropout on: the generator must stand where it stood. An epoch has five full updates and a smaller one."""
    settings = {"epochs": 5, "batch": 8, "validation_batch": 8, "checkpoint_every": 1, "schedule": schedule}
    settings["capture"] = True
    path, whole, resumed = tmp_path / "run.safetensors", network(), network()
    expected = fit(whole, settings)
    with pytest.raises(RuntimeError, match="crash"):
        fit(network(), settings, checkpoint=path, progress=Running(crash_at))
    history = fit(resumed, settings, checkpoint=path, resume=True)
    assert history.captured
    assert history.steps == expected.steps == 30
    losses = [[epoch.validation_loss for epoch in each.epochs] for each in (expected, history)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    same_state(whole, resumed, rtol=1e-6, atol=1e-7)


def test_captured_validation_is_the_plain_one() -> None:
    model = network()
    history = fit(model, {"epochs": 10, "batch": 8, "validation_batch": 5, "patience": None})
    assert history.captured
    assert len(history.notes) == 1
    best = history.epochs[history.best_epoch - 1].validation_loss
    assert best == min(epoch.validation_loss for epoch in history.epochs)
    assert train.evaluate(model, Squares(), Unwatched(), VALIDATION) == pytest.approx(best, rel=1e-6)


def test_capturing_leaves_no_trace() -> None:
    settings = train.Settings(batch=8, capture=True)
    model = network().cuda().train()
    step = Update(model, Squares(), Unwatched(), optimisation.build(model, settings), settings)
    torch.cuda.manual_seed(5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    states = torch.get_rng_state(), torch.cuda.get_rng_state()
    updates = Updates(step, WINDOWS)
    order = TRAIN[epoch_order(WINDOWS, settings, 1)].cuda()
    updates.begin(order, [rate(settings, 1, u, 6) for u in range(6)], 0)
    assert updates.captured
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(not value.any() for value in optimisation.moments(model, step.optimiser).values())
    assert torch.equal(torch.get_rng_state(), states[0])
    assert torch.equal(torch.cuda.get_rng_state(), states[1])
    assert step.pool.empty
    assert all(parameter.grad is None for parameter in model.parameters())
    updates(0)
    assert step.pool.mean() > 0
    assert {float(value) for name, value in optimisation.moments(model, step.optimiser).items() if "step" in name} == {
        1.0
    }


class Waiting(nn.Linear):
    """Reads a value from the device at every call."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (1.0 if math.isfinite(x.sum().item()) else 0.0)


class HostDraw(nn.Linear):
    """Draws on the CPU."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (1 + torch.rand(()).item() / 10 if self.training else 1)


class WaitingInCapture(nn.Linear):
    """Fails where nothing but a capture can find out."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.cuda.is_current_stream_capturing():
            x.sum().item()
        return super().forward(x)


@pytest.mark.parametrize(
    ("layer", "why"),
    [(Waiting, "synchronizing"), (HostDraw, "random numbers on the CPU"), (WaitingInCapture, "captur")],
)
def test_what_cannot_be_captured_runs_plainly_and_says_why(layer: type[nn.Linear], why: str) -> None:
    """To the last bit as without the attempt: dropout and the generators too."""

    def build() -> nn.Module:
        model = network()
        chosen = layer(INPUTS, model[0].out_features, bias=False)
        chosen.load_state_dict(model[0].state_dict())
        return nn.Sequential(chosen, *model[1:])

    plain, tried = build(), build()
    expected = fit(plain, {"epochs": 4, "batch": 8, "capture": False})
    history = fit(tried, {"epochs": 4, "batch": 8})
    assert not history.captured
    assert len(history.notes) == 1
    assert why in history.notes[0]
    assert [e.train_loss for e in history.epochs] == pytest.approx([e.train_loss for e in expected.epochs], rel=1e-6)
    same_state(plain, tried, rtol=1e-6, atol=1e-7)
    assert fit(network(), {"epochs": 4, "batch": 8}).captured


def test_few_updates_are_captured_on_request_only() -> None:
    assert "too few" in fit(network(), {"epochs": 1, "batch": 8}).notes[0]
    assert fit(network(), {"epochs": 1, "batch": 8, "capture": True}).captured
    assert "48 windows" in fit(network(), {"epochs": 30, "batch": 48, "capture": True}).notes[0]


@pytest.mark.parametrize("tf32", [True, False])
def test_tensor_cores_are_used_within_and_the_switch_is_put_back(tf32: bool) -> None:
    seen = set()

    class Watching(Squares):
        def loss(self, model: nn.Module, batch: Cells, /) -> tuple[Tensor, Tensor]:
            seen.add(torch.get_float32_matmul_precision())
            return super().loss(model, batch)

    before = torch.get_float32_matmul_precision()
    fit(network(), {"epochs": 1, "tf32": tf32}, task=Watching())
    assert seen == {"high" if tf32 else "highest"}
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")
def test_compiled_and_captured_learns_the_same() -> None:
    common = {"epochs": 10, "batch": 8}
    plain, fast = network(dropout=0.0), network(dropout=0.0)
    slow = fit(plain, {**common, "capture": False})
    history = fit(fast, {**common, "capture": True, "compile": True})
    assert history.captured
    assert history.compiled
    assert [e.train_loss for e in history.epochs] == pytest.approx([e.train_loss for e in slow.epochs], rel=1e-4)
    assert int(fast[1].num_batches_tracked) == int(plain[1].num_batches_tracked)
    same_state(plain, fast, rtol=1e-3, atol=1e-4)
    one = TRAIN[:1].repeat(8)
    drawn = Running()
    settings = {"epochs": 24, "batch": 8, "learning_rate": 1e-12, "capture": True, "compile": True}
    fit(network(dropout=0.5, norm=False), settings, train=one, validation=None, progress=drawn)
    assert len(set(drawn.losses)) == 24
