"""The decay of rates and the end of patience follow the authors' own code (golden file) and torch."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rearview.train import Epoch, Settings
from rearview.train.checkpoint import BestSoFar
from rearview.train.optimisation import rate

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "losses_and_schedules.npz", allow_pickle=False)
CONFIG = json.loads(str(GOLDEN["config"]))
PATCHTST_NAMES = {"TST": "onecycle", "type3": "type3", "constant": "constant"}


def rates(settings: Settings, updates: int) -> np.ndarray[Any, Any]:
    """[epoch, update, (learning rate, beta1)]."""
    epochs = range(1, settings.epochs + 1)
    return np.array([[rate(settings, epoch, update, updates)[:2] for update in range(updates)] for epoch in epochs])


@pytest.mark.parametrize("name", [name for name in CONFIG["tslib_lr"]["runs"] if not name.startswith("type2")])
def test_rates_per_epoch_are_those_of_tslib(name: str) -> None:
    run = CONFIG["tslib_lr"]["runs"][name]
    settings = Settings(schedule=run["lradj"], learning_rate=run["learning_rate"], epochs=run["train_epochs"])
    ours = rates(settings, 7)[..., 0]
    np.testing.assert_allclose(ours[:, 0], GOLDEN[f"output_lr/tslib/{name}"], rtol=1e-13)
    if run["lradj"] != "cosine":
        assert (ours == ours[:, :1]).all()
    else:
        assert (np.diff(ours.ravel()) < 0).all()


def test_the_golden_file_has_the_runs_compared_here() -> None:
    assert len(CONFIG["tslib_lr"]["runs"]) == 5
    assert len(CONFIG["patchtst_lr"]["runs"]) == 5
    assert len(CONFIG["early_stopping"]["runs"]) == 5


@pytest.mark.parametrize("name", list(CONFIG["patchtst_lr"]["runs"]))
def test_rates_and_beta1_per_update_are_those_of_patchtst(name: str) -> None:
    run = CONFIG["patchtst_lr"]["runs"][name]
    settings = Settings(
        schedule=PATCHTST_NAMES[run["lradj"]],
        learning_rate=run["learning_rate"],
        epochs=run["train_epochs"],
        pct_start=run["pct_start"],
        patchtst_compat=True,
    )
    ours = rates(settings, run["steps_per_epoch"])
    np.testing.assert_allclose(ours[..., 0], GOLDEN[f"output_lr/patchtst/{name}"], rtol=1e-12)
    np.testing.assert_allclose(ours[..., 1], GOLDEN[f"output_beta1/patchtst/{name}"], rtol=1e-12)


def test_without_compat_the_first_epoch_runs_at_the_full_rate() -> None:
    clean = rates(Settings(schedule="type3", epochs=5), 2)
    assert (clean[0, :, 0] == 1e-3).all()
    assert (clean[..., 1] == 0.9).all()


@pytest.mark.parametrize("anneal", ["cosine", "linear"])
@pytest.mark.parametrize(("pct_start", "divide"), [(0.3, 25.0), (0.0, 10.0), (0.01, 25.0), (0.9, 3.0)])
def test_onecycle_is_the_one_of_torch(anneal: str, pct_start: float, divide: float) -> None:
    epochs, laid_over, updates = 5, 7, 3
    settings = Settings(
        schedule="onecycle",
        epochs=epochs,
        schedule_epochs=laid_over,
        learning_rate=5e-4,
        anneal=anneal,
        pct_start=pct_start,
        divide=divide,
    )
    optimiser = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=5e-4)
    cycle = torch.optim.lr_scheduler.OneCycleLR(
        optimiser,
        5e-4,
        total_steps=laid_over * updates,
        pct_start=pct_start,
        div_factor=divide,
        anneal_strategy={"cosine": "cos", "linear": "linear"}[anneal],
    )
    theirs = []
    for _ in range(epochs * updates):
        theirs.append((optimiser.param_groups[0]["lr"], optimiser.param_groups[0]["betas"][0]))
        optimiser.step()
        cycle.step()
    np.testing.assert_allclose(rates(settings, updates).reshape(-1, 2), theirs, rtol=1e-12)


def test_halving_is_the_step_schedule_of_torch() -> None:
    settings = Settings(schedule="halving", halve_every=7, epochs=5, learning_rate=1e-3)
    optimiser = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], lr=1e-3)
    steps = torch.optim.lr_scheduler.StepLR(optimiser, step_size=7, gamma=0.5)
    theirs = []
    for _ in range(5 * 5):
        theirs.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        steps.step()
    ours = rates(settings, 5)
    np.testing.assert_allclose(ours[..., 0].ravel(), theirs, rtol=1e-15)
    assert set(ours[..., 0].ravel()) == {1e-3, 5e-4, 2.5e-4, 1.25e-4}  # within epochs, not between them
    assert (ours[..., 1] == 0.9).all()


def test_a_rise_of_one_update_starts_low() -> None:
    settings = Settings(schedule="onecycle", epochs=2, pct_start=0.5, learning_rate=1.0, divide=4.0)
    assert rate(settings, 1, 0, 1).learning_rate == 0.25


def test_warm_up_rises_in_equal_steps_and_then_the_schedule_begins() -> None:
    constant = rates(Settings(warmup=0.25, epochs=4, learning_rate=1.0), 5)[..., 0].ravel()
    np.testing.assert_allclose(constant, [0.2, 0.4, 0.6, 0.8] + [1.0] * 16)
    cosine = rates(Settings(schedule="cosine", warmup=0.25, epochs=4, learning_rate=1.0), 5)[..., 0].ravel()
    np.testing.assert_allclose(cosine[:5], [0.2, 0.4, 0.6, 0.8, 1.0])
    np.testing.assert_allclose(cosine[5:], [(1 + math.cos(math.pi * k / 15)) / 2 for k in range(15)])


def follow(standing: BestSoFar, loss: float, settings: Settings) -> BestSoFar:
    """The standing after one more epoch with this validation loss."""
    return standing.after(Epoch(len(standing.epochs) + 1, 0.0, loss, 1e-3, 0.0), torch.nn.Linear(1, 1), settings)


@pytest.mark.parametrize("name", ["plain", "ties_reset", "delta", "patience1"])
def test_stopping_decisions_are_those_of_tslib(name: str) -> None:
    run = CONFIG["early_stopping"]["runs"][name]
    settings = Settings(patience=run["patience"], minimum_delta=run["delta"], ties_improve=True, epochs=1000)
    standing, decisions = BestSoFar(), []
    for loss in GOLDEN[f"input_early_stopping_nan_ok/{name}"].tolist():
        standing = follow(standing, loss, settings)
        decisions.append([standing.waited, int(standing.waited == 0), int(standing.ended == "patience")])
        if standing.ended:
            break
    assert decisions == GOLDEN[f"output_early_stopping/{name}"][: len(decisions)].tolist()


def test_a_tie_is_no_improvement_unless_asked_for() -> None:
    settings = Settings(patience=2)
    standing = follow(follow(BestSoFar(), 1.0, settings), 1.0, settings)
    assert (standing.best_epoch, standing.waited, standing.ended) == (1, 1, None)
    assert follow(standing, 1.0, settings).ended == "patience"
    assert follow(standing, 0.5, settings).ended is None
    assert follow(replace(standing, waited=1000), 1.0, Settings(patience=None)).ended is None
