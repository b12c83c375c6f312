"""DUET with the authors' parameters and the authors' noise gives the authors' numbers."""

import authors
import authors_duet
import pytest
import torch
from test_golden import BLOCKS, Golden, same
from torch import Tensor

from rearview import models
from rearview.models.channel_hosts import duet as module


@pytest.fixture
def golden() -> Golden:
    return Golden("duet")


def duet(golden: Golden, monkeypatch: pytest.MonkeyPatch, noise: str, sample: str = "always") -> models.Model:
    """DUET with the authors' parameters, and their noise wherever it draws some."""
    config = golden.config
    model = models.create(
        "duet",
        channels=config["channels"],
        **golden.sizes(*BLOCKS, "lookback", "steps", "activation"),
        experts=config["num_experts"],
        used=config["k"],
        router=config["hidden_size"],
        kernel=config["moving_avg"],
        noisy=config["noisy_gating"],
        sample=sample,
    ).double()
    stored = golden.under("param/")
    written = authors.load(authors_duet.duet(authors.data(model), config["e_layers"], config["num_experts"]), stored)
    assert set(stored) - written == {"cluster.mean", "cluster.std"}, "a standard normal's, which have no place in ours"
    keep, drop = golden.tensor(f"mid/{noise}/gumbel_noise").unbind(-1)
    monkeypatch.setattr(module, "logistic_like", lambda x: (keep - drop).to(x))
    router = golden.tensor("mid/train/router_noise")
    monkeypatch.setattr(module, "normal_like", lambda x: router.reshape(x.shape))
    return model.eval()


@pytest.mark.parametrize("draw", ["eval", "eval_second_draw"])
def test_duet_gives_the_authors_forecast(golden: Golden, monkeypatch: pytest.MonkeyPatch, draw: str) -> None:
    model = duet(golden, monkeypatch, draw)
    past = golden.windows("input_x")
    assert torch.equal(model.read(past, None, None, None).gate, golden.tensor(f"mid/{draw}/channel_mask")[:, None])
    same(model(past), golden.windows(f"output_{draw}"))


def test_duet_has_the_authors_clusters_and_attention(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    model = duet(golden, monkeypatch, "eval")
    past = golden.windows("input_x")
    same(model.gate.alike(past), golden.tensor("mid/prob_distance"))
    gates, penalty = model.router(past)
    same(gates, golden.tensor("mid/eval/gates"))
    torch.testing.assert_close(penalty, golden.tensor("output_eval_loss_importance"), rtol=1e-6, atol=1e-6)
    same(model.read(past, None, None, None).tokens, golden.tensor("mid/eval/temporal_feature"))
    weights = model.weights(past)
    assert len(weights) == golden.config["e_layers"] == 2
    for layer, operator in enumerate(weights):
        assert isinstance(operator, Tensor)
        same(operator, golden.tensor(f"mid/eval/layer{layer}_attn"))


def test_duet_in_training_gives_the_authors_forecast_penalty_and_gradients(
    golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = duet(golden, monkeypatch, "train").train()
    out = model(golden.windows("input_x"))
    same(out, golden.windows("output_train"))
    penalty = model.penalty()
    assert penalty is not None
    torch.testing.assert_close(penalty, golden.tensor("output_train_loss_importance"), rtol=1e-6, atol=1e-6)
    ((out * golden.windows("input_cotangent")).sum() + penalty).backward()
    ours = dict(authors_duet.clusters(authors.gradients(model), golden.config["num_experts"]))
    expected = golden.under("output_train_grad/")
    assert len(expected) == 5
    for name, gradient in expected.items():
        # Theirs comes by way of a penalty in float32, whatever the network runs in.
        exact = 1e-9 if name in ("mask_generator.A", "cluster.revin.affine_weight") else 1e-7
        torch.testing.assert_close(ours[name], torch.from_numpy(gradient), rtol=exact, atol=exact)


def test_duet_in_float32_is_close_to_the_authors_own_path(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    model = duet(golden, monkeypatch, "eval").float()
    ours = model(golden.windows("input_x").float())
    torch.testing.assert_close(ours, golden.windows("output_eval_float32_stock"), rtol=1e-5, atol=1e-5)


def test_duet_without_chance_keeps_the_likelier_of_each_pair(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    model = duet(golden, monkeypatch, "eval", sample="training")
    past = golden.windows("input_x")
    gate = model.read(past, None, None, None).gate[:, 0, 0]
    assert torch.equal(gate, (golden.tensor("mid/prob_distance") > 0.5).to(gate.dtype))
    assert torch.equal(model(past), model(past))
    assert (model(past) - golden.windows("output_eval")).abs().max() > 0.01, "a draw is another mask than the likeliest"
