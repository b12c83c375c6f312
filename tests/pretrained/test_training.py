"""Training of the zero-shot network: it learns, and a run in parts equals a run at one go."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rearview.core.errors import SettingsError
from rearview.pretrained import training
from rearview.pretrained.training import Plan, Trainer, read_network

SIZES: dict[str, object] = {
    "width": 16, "heads": 2, "depth": 1, "feed_forward": 24, "context": (16, 16), "ahead": (4, 4), "patches": (2, 4),
}  # fmt: skip
SHAPES = ((0, 16, 2), (0, 5, 4), (1, 16, 3))
PLAN = Plan(
    updates=24,
    tokens=300,
    pool=2,
    settings=SIZES,
    shapes=SHAPES,
    lengths=(32, 90),
    warm_up=4,
    device="cpu",
    compile=False,
)


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return trainer.network.state_dict()


def validation_loss(trainer: Trainer) -> float:
    other = Trainer(replace(trainer.plan, seed=77))
    with torch.no_grad():
        batches = [batch for _ in range(4) for batch in other.batches()]
        return sum(trainer.loss(values, observed, cell).item() for cell, values, observed in batches) / len(batches)


def test_the_loss_falls_on_series_that_were_not_trained_on() -> None:
    trainer = Trainer(replace(PLAN, updates=150))
    before = validation_loss(trainer)
    trainer.run()
    after = validation_loss(trainer)
    assert math.isfinite(before)
    assert after < 0.9 * before


def test_a_run_in_parts_equals_a_run_at_one_go(tmp_path: Path) -> None:
    whole = Trainer(PLAN)
    whole.run()
    part = Trainer(PLAN)
    part.run(seconds=0.01)
    assert 0 < part.step_count < PLAN.updates
    part.save(tmp_path)
    rest = Trainer.load(tmp_path, PLAN)
    rest.run()
    assert rest.step_count == whole.step_count >= PLAN.updates
    for name, weight in weights(whole).items():
        assert torch.equal(weight, weights(rest)[name]), name


def test_annealing_leaves_the_training_where_it_was() -> None:
    plain, branched = Trainer(PLAN), Trainer(PLAN)
    plain.run(most=8)
    branched.run(most=8)
    annealed = branched.anneal(8)
    assert branched.step_count == plain.step_count == 8
    assert branched.plan == PLAN
    plain.run()
    branched.run()
    for name, weight in weights(plain).items():
        assert torch.equal(weight, weights(branched)[name]), name
    assert not torch.equal(annealed.empty, branched.network.empty)


def test_validation_is_the_same_whenever_it_is_asked_for() -> None:
    trainer = Trainer(PLAN)
    first = trainer.validate(trainer.network)
    start = {name: weight.clone() for name, weight in weights(trainer).items()}
    trainer.run()
    assert trainer.validate(trainer.network) != first
    trainer.network.load_state_dict(start)
    assert trainer.validate(trainer.network) == first


def test_a_state_in_several_files_is_read_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer(PLAN)
    trainer.save(tmp_path)
    [whole] = tmp_path.glob("state-*")
    monkeypatch.setattr(training, "MOST_BYTES", 4_000)
    trainer.save(tmp_path)
    parts = list(tmp_path.glob("state-*"))
    assert len(parts) > 3
    assert whole in parts
    network, facts = read_network(tmp_path)
    assert facts["updates"] == 0
    for name, weight in weights(trainer).items():
        assert torch.equal(weight, network.state_dict()[name]), name
    trainer.save(tmp_path)
    assert len(list(tmp_path.glob("state-*"))) == len(parts)


def test_another_plan_is_refused(tmp_path: Path) -> None:
    Trainer(PLAN).save(tmp_path)
    with pytest.raises(SettingsError, match="another plan"):
        Trainer.load(tmp_path, replace(PLAN, tokens=8))


def test_missing_steps_ahead_do_not_count() -> None:
    trainer = Trainer(PLAN)
    cell, values, observed = next(trainer.batches())
    context = cell.context * (2, 4)[cell.grain]
    spoilt, hidden = values.clone(), observed.clone()
    hidden[..., context + 1] = False
    spoilt[..., context + 1] = 1e6
    assert torch.equal(trainer.loss(spoilt, hidden, cell), trainer.loss(values, hidden, cell))
    assert not torch.equal(trainer.loss(spoilt, observed, cell), trainer.loss(values, observed, cell))


COUPLED = replace(PLAN, coupled=0.5, coupled_shapes=((0, 8, 2, 3), (1, 8, 2, 5)))
TOGETHER: dict[str, object] = {"name": "mica", "gate": "added", "exclude_self": True}


def test_a_share_of_the_batches_holds_coupled_channels() -> None:
    trainer = Trainer(replace(COUPLED, attention=TOGETHER))
    batches = [batch for _ in range(20) for batch in trainer.batches()]
    assert {values.shape[1] for _, values, _ in batches} == {1, 3, 5}
    assert all(values.shape == observed.shape for _, values, observed in batches)
    assert all(
        len(values) * values.shape[1] * (cell.context + cell.ahead) <= PLAN.tokens for cell, values, _ in batches
    )
    assert all(values.shape[1] > 1 for _, values, _ in trainer.batches(coupled=True))
    trainer.run()
    assert trainer.step_count == PLAN.updates


def test_training_goes_on_from_weights_without_channels_that_mix(tmp_path: Path) -> None:
    first = Trainer(PLAN)
    first.run(most=4)
    first.save(tmp_path)
    second = Trainer(replace(COUPLED, attention=TOGETHER, start=str(tmp_path)))
    assert second.validate(second.network, coupled=True) == pytest.approx(first_loss(first, second))
    assert second.validate(second.network, coupled=True) == second.validate(second.network, coupled=True, apart=True)


def first_loss(first: Trainer, second: Trainer) -> float:
    """The loss of the first network on the coupled series of the second training."""
    return second.validate(first.network, coupled=True)


def test_the_end_is_planned_by_the_pace_so_far() -> None:
    trainer = Trainer(replace(PLAN, updates=1000))
    with pytest.raises(SettingsError, match="no pace"):
        trainer.finish_within(10)
    trainer.step_count, trainer.seconds = 100, 5.0
    trainer.finish_within(10)
    assert trainer.plan.updates == 300
    assert trainer.plan.fall == PLAN.fall
    trainer.finish_within(1)
    assert trainer.plan.updates == 120
    assert trainer.plan.fall == pytest.approx(20 / 120)
    trainer.step_count, trainer.seconds = 110, 5.5
    trainer.finish_within(0.5)
    assert trainer.plan.updates == 120
    assert trainer.plan.fall == pytest.approx(20 / 120), "rates that fall go on falling"


def test_moments_in_half_take_half_the_room_and_weights_stay_whole(tmp_path: Path) -> None:
    trainer = Trainer(PLAN)
    trainer.run(most=8)
    sizes = []
    for half in (False, True):
        folder = tmp_path / str(half)
        trainer.save(folder, half=half)
        sizes.append(sum(file.stat().st_size for file in folder.glob("state-*")))
    assert sizes[1] < 0.8 * sizes[0]
    again = Trainer.load(tmp_path / "True", PLAN)
    for name, weight in weights(trainer).items():
        assert torch.equal(weight, weights(again)[name]), name
    moments = dict(trainer._moments())
    for name, moment in again._moments():
        torch.testing.assert_close(moment, moments[name], rtol=2**-8, atol=0)


def test_few_pools_are_drawn_again_and_again() -> None:
    trainer = Trainer(replace(PLAN, distinct=3, updates=40))
    seen = []
    loss = trainer.loss
    trainer.loss = lambda values, *rest: seen.append(values) or loss(values, *rest)  # type: ignore[method-assign]
    trainer.run()
    assert all(torch.equal(one, other) for one, other in zip(seen[:6], seen[6:12], strict=True))
    assert not torch.equal(seen[0][:1, :, :8], seen[2][:1, :, :8])


@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("long_kernels", [False, True])
@pytest.mark.parametrize(
    "attention", ["softmax", {"name": "rbca", "learnable": True}, {"name": "rbca", "bias": "causal"}, TOGETHER]
)
def test_compiled_and_captured_updates_learn(attention: str | dict[str, object], long_kernels: bool) -> None:
    coupled = 0.5 if attention is TOGETHER else 0.0
    plan = replace(COUPLED, attention=attention, coupled=coupled, updates=150, device="cuda", compile=True)
    trainer = Trainer(replace(plan, long_kernels=long_kernels))
    before = trainer.validate(trainer.network)
    trainer.run()
    assert trainer.validate(trainer.network) < 0.9 * before
    for name, weight in trainer.network.named_parameters():
        assert weight.isfinite().all(), name
