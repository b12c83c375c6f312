"""Weights of a training folder become the package's, with a card whose scores are rows of results, and forecast."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import torch

import rearview as rv
from rearview.pretrained import weights
from rearview.pretrained.training import Plan, Trainer

HEADER = "model,tasks,task,mase,crps,naive_mase,naive_crps,created"


@pytest.fixture
def script(benchmark_scripts: Path) -> ModuleType:
    return importlib.import_module("release_glance")


LEARNED: dict[str, object] = {"name": "rbca", "learnable": True}


def release(
    script: ModuleType,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    attention: str | dict[str, object] = "softmax",
) -> Trainer:
    sizes: dict[str, object] = {"width": 16, "heads": 2, "depth": 1, "feed_forward": 24}
    settings = {**sizes, "patches": (2, 4), "context": (6, 8), "ahead": (2, 3)}
    plan = Plan(
        updates=8, attention=attention, settings=settings, tokens=300, pool=2, shapes=((0, 6, 2), (1, 8, 3)),
        lengths=(48,), warm_up=2, device="cpu", compile=False,
    )  # fmt: skip
    trainer = Trainer(plan)
    trainer.run(most=4)
    trainer.save(folder / "run")
    trainer = Trainer.load(folder / "run", plan)
    trainer.run()
    trainer.save(folder / "run", half=True)
    rows = ["a,test,t1,1,1,2,4,1", "a,test,t1,1,1,2,2,2", "a,test,t2,2,1,1,2,3", "b,test,t1,9,9,1,1,4"]
    (folder / "gift.csv").write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    given = ["--weights", str(folder / "run"), "--name", name, "--scores", str(folder / "gift.csv"), "--version", "1"]
    given += ["--trained-on", "a test", "--watts", "500", "--out", str(folder / "weights")]
    monkeypatch.setattr(sys, "argv", ["release_glance.py", *given])
    script.main()
    return trainer


@pytest.mark.parametrize("attention", ["softmax", LEARNED])
def test_released_weights_load_with_their_card_and_forecast(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attention: str | dict[str, object]
) -> None:
    trainer = release(script, tmp_path, monkeypatch, "a", attention)
    monkeypatch.setattr(weights, "FOLDER", tmp_path / "weights")
    card = weights.read_card()
    assert card.attention == attention
    assert card.scores == {
        "test: looks": 2, "test: relative CRPS, 2 tasks": 0.5, "test: relative MASE, 2 tasks": 1.0
    }  # fmt: skip
    assert card.parameters == sum(weight.numel() for weight in trainer.network.parameters())
    network = weights.load(card)
    for name, weight in trainer.network.state_dict().items():
        assert torch.equal(weight.bfloat16().float(), network.state_dict()[name]), name
    values = np.random.default_rng(0).normal(size=60).cumsum()
    frame = pd.DataFrame({"date": pd.date_range("2024-01-01", periods=60), "y": values})
    forecaster = rv.Forecaster(model="glance", horizon=17, device="cpu").fit(frame)
    made = forecaster.predict()
    assert np.isfinite(made.drop(columns="date").to_numpy()).all()
    forecaster.save(tmp_path / "model")
    pd.testing.assert_frame_equal(rv.Forecaster.load(tmp_path / "model").predict(), made)
    assert len(forecaster.explain(frame)) == network.settings.depth


def test_looks_of_earlier_forms_at_cuts_and_in_auto_are_counted(script: ModuleType, tmp_path: Path) -> None:
    rows = ["g-1,test,t1,1,1,2,4,1", "g-1.1,test,t1,1,1,1,1,2", "g-1.1 x,test,t1,8,8,1,1,3", "g-2,test,t1,8,8,1,1,3"]
    rows += ["auto,test,t1,8,8,1,1,3", '"g-1, 90 windows",test,t1,8,8,1,1,4']
    (tmp_path / "gift.csv").write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    looks = ["glance,test,t1,1", "auto,test,t1,1", "auto,test,t1,2", "auto,test,t2,2", "ets,test,t1,3"]
    (tmp_path / "portfolio_tests.csv").write_text("\n".join(["arm,tasks,task,created", *looks]) + "\n")
    found = script.read_scores(tmp_path / "gift.csv", "g-1.1")
    assert found["test: relative MASE, 1 tasks"] == 1.0
    assert {name: count for name, count in found.items() if name.endswith("looks")} == {
        "test: looks": 2, "test, cut to 20 series and 4 windows: looks": 1, "test, as a member of auto: looks": 3,
    }  # fmt: skip


def test_weights_without_scores_are_not_released(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match="no row of c"):
        release(script, tmp_path, monkeypatch, "c")
