"""Temporal operator attention: what the paper proves of its operators, and how they are regularised."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview import attention
from rearview.attention import toa
from rearview.attention.contract import Site
from rearview.testing.places import EXACT, SITE, tokens_for

LENGTH, VALUES = 24, 5
PERIODS = (8, 12)


def waves(start: int) -> Tensor:
    """Cosines and sines of `PERIODS` at times start, start + 1, ... (appendix D.1)."""
    angles = 2 * math.pi * (start + torch.arange(LENGTH, dtype=torch.float64))[:, None] / torch.tensor(PERIODS)
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


def continuation() -> Tensor:
    """T = Phi_fcast Phi_obs^+: the waves seen for LENGTH steps, LENGTH steps later (lemma 1)."""
    return waves(LENGTH) @ torch.linalg.pinv(waves(0))


def residual() -> Tensor:
    """I - G with G the mean of a token and its neighbours (lemma 2)."""
    steps = torch.arange(LENGTH)
    near = ((steps[:, None] - steps).abs() <= 2).double()
    return torch.eye(LENGTH, dtype=torch.float64) - near / near.sum(-1, keepdim=True)


def demixing() -> Tensor:
    """P_A = A (A^T A)^-1 A^T for random factors A (lemma 3)."""
    torch.manual_seed(5)
    A = torch.randn(LENGTH, 3, dtype=torch.float64)
    return A @ torch.linalg.pinv(A)


def seasonal_difference() -> Tensor:
    """h_n - h_(n-7), with the first season as it is (lemma 6)."""
    eye = torch.eye(LENGTH, dtype=torch.float64)
    return eye - torch.diag(torch.ones(LENGTH - 7, dtype=torch.float64), -7)


def channel_difference() -> Tensor:
    """One channel less another, the rest as they are (lemma 7)."""
    T = torch.eye(LENGTH, dtype=torch.float64)
    T[2, 11] = -1.0
    return T


OPERATORS: dict[str, Callable[[], Tensor]] = {
    "2, harmonic continuation": continuation,
    "3, residual of a filter": residual,
    "4, demixing": demixing,
    "7, difference of patches": seasonal_difference,
    "8, difference of channels": channel_difference,
}


def routing(kind: str, T: Tensor) -> toa.Layer:
    """A layer whose queries and keys are one-hot positions, so that A = I, and whose S2 is T.

    Tokens are [one-hot position | value]; the gated kind's right scores are 0, a gate of ln 2 for every pair.
    """
    site = Site(1, LENGTH, LENGTH + VALUES, 1, head_width=LENGTH, value_width=VALUES, projection_bias=False)
    layer = attention.create("toa", site, kind=kind, score_scale=1.0).double().eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        queries, keys, values = layer.qkv.weight.split(layer.widths)
        queries[:LENGTH, :LENGTH] = keys[:LENGTH, :LENGTH] = torch.eye(LENGTH)
        values[:, LENGTH:] = layer.out.weight[LENGTH:] = torch.eye(VALUES)
        layer.value_offset[0] = T - torch.eye(LENGTH)
    return layer


def outside_the_simplex(T: Tensor) -> Tensor:
    return (T.min(-1).values < -1e-9) | ((T.sum(-1) - 1).abs() > 1e-9)


@pytest.mark.parametrize("kind", ["relu", "gated"])
@pytest.mark.parametrize("name", OPERATORS)
def test_propositions_2_3_4_7_8_the_operator_is_realised_by_setting_m2(name, kind):
    T = OPERATORS[name]()
    assert outside_the_simplex(T).any(), "softmax attention could do it too"
    layer = routing(kind, T)
    values = torch.randn(LENGTH, VALUES, dtype=torch.float64)
    x = torch.cat([torch.eye(LENGTH, dtype=torch.float64), values], dim=-1)[None, None]
    gate = math.log(2) if kind == "gated" else 1.0
    assert_close(layer(x)[0, 0, :, LENGTH:], gate * T @ values, rtol=EXACT, atol=EXACT)
    assert_close(layer.weights(x)[0, 0, 0], gate * T, rtol=EXACT, atol=EXACT)


def test_proposition_2_waves_of_any_phase_are_continued():
    T = continuation()
    assert_close(T.sum(-1), torch.zeros(LENGTH, dtype=torch.float64), rtol=0, atol=1e-12)
    mixture = torch.randn(2 * len(PERIODS), VALUES, dtype=torch.float64)
    x = torch.cat([torch.eye(LENGTH, dtype=torch.float64), waves(0) @ mixture], dim=-1)[None, None]
    assert_close(routing("relu", T)(x)[0, 0, :, LENGTH:], waves(LENGTH) @ mixture, rtol=1e-10, atol=1e-10)


def test_lemmas_2_and_3_zero_rows_and_projections():
    assert_close(residual().sum(-1), torch.zeros(LENGTH, dtype=torch.float64), rtol=0, atol=1e-12)
    assert outside_the_simplex(residual()).all()
    P = demixing()
    assert_close(P @ P, P, rtol=EXACT, atol=EXACT)
    assert outside_the_simplex(P).all()


def test_proposition_1_softmax_stays_in_the_simplex_until_s2_leaves_it():
    torch.manual_seed(7)
    layer = attention.create("toa", SITE, kind="softmax").double().eval()
    torch.nn.init.normal_(layer.score_offset)
    x = 3 * tokens_for(layer)
    torch.nn.init.zeros_(layer.value_offset)
    rows = layer.weights(x)
    assert rows.min() >= 0
    assert_close(rows.sum(-1), torch.ones_like(rows[..., 0]), rtol=EXACT, atol=EXACT)
    torch.nn.init.normal_(layer.value_offset)
    assert layer.weights(x).min() < -0.1


def test_proposition_1_small_tokens_are_mixed_evenly():
    """The step of its proof: scores shrink with the square of the tokens, so every row goes to 1 / N."""
    layer = attention.create("toa", replace(SITE, projection_bias=False), kind="softmax").double().eval()
    torch.nn.init.zeros_(layer.value_offset)
    rows = layer.weights(1e-6 * tokens_for(layer))
    assert_close(rows, torch.full_like(rows, 1 / SITE.tokens), rtol=0, atol=1e-10)


def test_training_on_differences_finds_negative_weights():
    torch.manual_seed(11)
    layer = attention.create("toa", Site(1, 7, 4, 1), kind="softmax", sor=False)
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.02)
    losses = []
    for _ in range(200):
        x = torch.randn(32, 1, 7, 4)
        target = x - torch.cat([torch.zeros(32, 1, 1, 4), x[:, :, :-1]], dim=2)
        loss = (layer(x) - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert layer.weights(torch.randn(3, 1, 7, 4)).min() < -0.1


def drawn(draws: int = 1, **settings) -> tuple[toa.Layer, list[tuple[Tensor, Tensor]]]:
    """A layer with offsets near 1, and M1, M2 of several training calls."""
    torch.manual_seed(13)
    layer = attention.create("toa", SITE, **settings).train()
    with torch.no_grad():
        layer.score_offset.normal_(1.0, 0.2)
        layer.value_offset.normal_(1.0, 0.2)
    return layer, [layer.offsets(SITE.tokens, layer.value_offset, regularise=True) for _ in range(draws)]


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.8])
def test_regularised_operators_have_the_right_mean_and_variance_at_a_fixed_rate(rate):
    draws = 4000
    layer, calls = drawn(draws, kind="relu", sor_rate=rate)
    for found, M in zip(
        (torch.stack(part) for part in zip(*calls, strict=True)),
        (layer.score_offset.detach(), layer.value_offset.detach()),
        strict=True,
    ):
        variance = rate / (1 - rate) * M.square()
        error = variance.div(draws).sqrt()
        assert ((found.mean(0) - M).abs() <= 5 * error + 1e-5).all()
        ratio = found.var(0).sum() / variance.sum() if rate else found.var(0).sum() + 1
        assert ratio.item() == pytest.approx(1.0, abs=0.02)


def rates_of(dropped: Tensor, M: Tensor) -> Tensor:
    """p of every matrix, read off the entries that were kept; NaN where none was."""
    ratio = (M / dropped).masked_fill(dropped == 0, torch.nan).flatten(-2)
    return 1 - ratio.nanmedian(-1).values


@pytest.mark.parametrize("share", ["call", "matrix"])
def test_who_shares_a_rate(share):
    layer, calls = drawn(200, kind="gated", sor_share=share)
    spreads, rates = [], []
    for before, after in calls:
        found = torch.cat([rates_of(before, layer.score_offset).flatten(), rates_of(after, layer.value_offset)])
        found = found[~found.isnan()]
        rates.append(found)
        spreads.append((found.max() - found.min()).item() if len(found) else 0.0)
    if share == "call":
        assert max(spreads) < 1e-4
    else:
        assert sorted(spreads)[20] > 0.1
    levels = torch.stack([found.mean() for found in rates if len(found)])
    assert 0.4 < levels.mean() < 0.6
    if share == "call":
        assert levels.min() < 0.05
        assert levels.max() > 0.9


def test_every_matrix_and_head_drops_its_own_entries():
    _, [(before, after)] = drawn(kind="gated", sor_rate=0.5)
    kept = torch.cat([before.flatten(0, 1), after]) != 0
    assert len({tuple(matrix.flatten().tolist()) for matrix in kept}) == 3 * SITE.heads


def test_regularisation_acts_in_training_only_and_can_be_left_out():
    layer, _ = drawn(kind="relu")
    x = tokens_for(layer)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))
    plain = attention.create("toa", SITE, kind="relu", sor=False).train()
    plain.load_state_dict(layer.state_dict())
    assert torch.equal(plain(x), layer(x))


def test_rates_near_1_fall_back_to_the_identity():
    layer, [(before, after)] = drawn(kind="softmax", sor_rate=1 - 1e-6)
    assert not before.any()
    assert not after.any()
    plain = attention.create("softmax", SITE)
    plain.load_state_dict({name: value for name, value in layer.state_dict().items() if "offset" not in name})
    x = tokens_for(layer)
    assert torch.equal(layer(x), plain(x))


def test_operators_are_formed_in_float32():
    """A bfloat16 layer drops and scales in float32: an entry is rounded once, after the division by 1 - p."""
    layer, _ = drawn(kind="relu", sor_rate=0.3)
    layer.to(torch.bfloat16)
    _, after = layer.offsets(SITE.tokens, layer.value_offset, regularise=True)
    once = (layer.value_offset.float() / (1 - 0.3)).to(torch.bfloat16)
    assert after.dtype == torch.bfloat16
    assert torch.equal(after[after != 0], once[after != 0])
