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
    hidden[:, context + 1] = False
    spoilt[:, context + 1] = 1e6
    assert torch.equal(trainer.loss(spoilt, hidden, cell), trainer.loss(values, hidden, cell))
    assert not torch.equal(trainer.loss(spoilt, observed, cell), trainer.loss(values, observed, cell))
