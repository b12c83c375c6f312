"""What is prime attention's own: primers, features, graphs, and the theorems of its paper."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rearview import attention, models
from rearview.attention import prime
from rearview.attention.prime import features as pairs
from rearview.attention.shared import execution
from rearview.attention.shared.graph import list_edges
from rearview.core.errors import SettingsError

GOLDEN = Path(__file__).parents[1] / "golden"
BATCH, HEADS, CHANNELS, HEAD_WIDTH, MARKS, LOOKBACK, STEPS = 2, 3, 7, 5, 4, 23, 11
WIDTH = HEADS * HEAD_WIDTH


def layer_of(tokens: int = CHANNELS, variates: int | None = None, seed: int = 3, **settings: Any) -> prime.Layer:
    """A layer on channel tokens whose every parameter has left its initial value."""
    torch.manual_seed(seed)
    site = attention.Site(
        groups=1, tokens=tokens, width=WIDTH, heads=HEADS, time_ordered=False, variates=variates, lookback=LOOKBACK
    )
    layer = attention.create("prime", site, **settings).double()
    assert isinstance(layer, prime.Layer)
    layer.prepare(torch.randn(13, variates or tokens, LOOKBACK, dtype=torch.float64))
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return layer.eval()


def tokens_of(layer: prime.Layer, tokens: int | None = None) -> Tensor:
    draw = torch.Generator().manual_seed(5)
    shape = (BATCH, 1, tokens or layer.site.tokens, WIDTH)
    return torch.randn(shape, generator=draw, dtype=torch.float64)


def gradients(layer: prime.Layer, y: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(y.square().sum(), [*layer.parameters(), *more])


def by_reference(layer: prime.Layer, x: Tensor) -> Tensor:
    q, k, v = layer.heads(x)
    tokens = x.shape[2]
    primers = layer.primers()[:tokens, :tokens]
    heads = [
        torch.stack([prime.reference(q[b, 0, h], k[b, 0, h], v[b, 0, h], primers[:, :, h]) for h in range(HEADS)])
        for b in range(len(x))
    ]
    return layer.project(torch.stack(heads)[:, None])


@pytest.mark.parametrize("tokens", [1, 2, 13, 42, 65])
@pytest.mark.parametrize("settings", [{}, {"primer": "sparse", "sparsity": 0.4}, {"features": "random"}])
def test_fast_form_is_the_reference_with_gradients(tokens: int, settings: dict[str, Any], monkeypatch) -> None:
    monkeypatch.setattr(execution, "budget", lambda device: 3 * BATCH * HEADS * tokens * HEAD_WIDTH)
    layer = layer_of(tokens, **settings)
    x = tokens_of(layer).requires_grad_()
    fast, slow = layer(x), by_reference(layer, x)
    assert_close(fast, slow, rtol=1e-10, atol=1e-10)
    for ours, theirs in zip(gradients(layer, fast, x), gradients(layer, slow, x), strict=True):
        assert_close(ours, theirs, rtol=1e-8, atol=1e-8)


def test_numbers_by_hand() -> None:
    """Equal scores of 0, values 3 and 6, primers 1 and 2: (3 * 1 + 6 * 2) / 2."""
    zero = torch.zeros(1, 1, dtype=torch.float64)
    primers = torch.tensor([[[1.0], [2.0]]], dtype=torch.float64)
    values = torch.tensor([[3.0], [6.0]], dtype=torch.float64)
    assert prime.reference(zero, zero.expand(2, 1), values, primers).item() == pytest.approx(7.5)


def test_a_new_layer_is_softmax_attention_exactly() -> None:
    site = attention.Site(groups=1, tokens=CHANNELS, width=WIDTH, heads=HEADS, time_ordered=False, lookback=LOOKBACK)
    layer = attention.create("prime", site).double()
    assert isinstance(layer, prime.Layer)
    layer.prepare(torch.randn(13, CHANNELS, LOOKBACK, dtype=torch.float64))
    assert torch.equal(layer.primers(), torch.ones(CHANNELS, CHANNELS, HEADS, HEAD_WIDTH, dtype=torch.float64))
    assert_close(layer(tokens_of(layer)), softmax_like(layer)(tokens_of(layer)), rtol=1e-12, atol=1e-12)


def softmax_like(layer: prime.Layer) -> attention.Attention:
    plain = attention.create("softmax", layer.site).double()
    plain.load_state_dict({name: t for name, t in layer.state_dict().items() if name[:3] in ("qkv", "out")})
    return plain


def test_sparsity_one_is_softmax_attention() -> None:
    layer = layer_of(primer="sparse", sparsity=1.0)
    assert_close(layer(tokens_of(layer)), softmax_like(layer)(tokens_of(layer)), rtol=1e-12, atol=1e-12)


def test_sparsity_is_the_share_of_pairs_without_a_primer() -> None:
    layer = layer_of(tokens=20, primer="sparse", sparsity=0.3)
    without = (layer.primers() == 1).all(-1).all(-1)
    assert without.double().mean().item() == pytest.approx(0.3)


def test_gradients_reach_every_part_after_one_step() -> None:
    site = attention.Site(groups=1, tokens=CHANNELS, width=WIDTH, heads=HEADS, time_ordered=False, lookback=LOOKBACK)
    layer = attention.create("prime", site).double()
    layer.prepare(torch.randn(13, CHANNELS, LOOKBACK, dtype=torch.float64))
    x = torch.randn(BATCH, 1, CHANNELS, WIDTH, dtype=torch.float64)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(2):
        optimiser.zero_grad()
        (layer(x) - x.flip(0)).square().mean().backward()
        assert all(parameter.grad is not None for parameter in layer.parameters())
        optimiser.step()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().max() > 0, name


def test_standard_attention_is_static_and_prime_is_dynamic() -> None:
    """Theorems 4.3 and 5.1: what token j shows is the same for every partner, and with primers it is not."""
    layer = layer_of()
    _, _, v = layer.heads(tokens_of(layer))
    shown = v[0, 0, :, None] * layer.primers().permute(2, 0, 1, 3)  # [head, partner, token, width]
    assert (shown[:, 0] - shown[:, 1]).abs().max() > 1e-3
    plain = v[0, 0, :, None] * torch.ones_like(layer.primers()).permute(2, 0, 1, 3)
    assert torch.equal(plain[:, 0], plain[:, 1])


def test_permuting_channels_with_their_features_permutes_the_output() -> None:
    layer, other = layer_of(), layer_of()
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    with torch.no_grad():
        other.primer.features.copy_(layer.primer.features[order][:, order])
        other.primer.free.copy_(layer.primer.free[order][:, order])
    x = tokens_of(layer)
    assert_close(other(x[:, :, order]), layer(x)[:, :, order], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("free", [True, False])
def test_graph_of_all_edges_is_the_dense_form(free: bool) -> None:
    dense = layer_of(free=free)
    whole = layer_of(primer="graph", edges=torch.ones(CHANNELS, CHANNELS), free=free)
    state = dict(dense.state_dict())
    for name in ("primer.free", "primer.features"):
        if name in state:
            state[name] = state[name].flatten(0, 1)
    whole.load_state_dict({**state, "edges": whole.edges})
    x = tokens_of(dense).requires_grad_()
    assert_close(whole(x), dense(x), rtol=1e-11, atol=1e-11)
    assert_close(whole.weights(x), dense.weights(x), rtol=1e-11, atol=1e-11)
    assert_close(whole.primers(), dense.primers(), rtol=1e-11, atol=1e-11)
    (ours,), (theirs,) = (torch.autograd.grad(run(x).square().sum(), x) for run in (whole, dense))
    assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_graph_attends_along_edges_and_loops_only(monkeypatch) -> None:
    monkeypatch.setattr(execution, "budget", lambda device: 4 * BATCH * HEADS * HEAD_WIDTH)
    layer = layer_of(primer="graph", edges=[(0, 1), (2, 5), (5, 2)])
    x = tokens_of(layer)
    weights = layer.weights(x)
    assert isinstance(weights, Tensor)
    linked = torch.eye(CHANNELS, dtype=torch.bool)
    linked[0, 1] = linked[2, 5] = linked[5, 2] = True
    assert torch.equal((weights > 0).all(0).all(0).all(0), linked)
    assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    assert len(layer.primer.free) == CHANNELS + 3
    assert_close(layer(x[:, :, :4])[:, :, 0], layer(x)[:, :, 0], rtol=1e-11, atol=1e-11)
    assert torch.autograd.gradcheck(layer, tokens_of(layer).requires_grad_(), fast_mode=True)


def test_pairs_with_a_calendar_token_are_not_primed() -> None:
    layer = layer_of(tokens=CHANNELS + MARKS, variates=CHANNELS)
    primers = layer.primers()
    assert primers.shape == (CHANNELS + MARKS, CHANNELS + MARKS, HEADS, HEAD_WIDTH)
    assert (primers[CHANNELS:] == 1).all()
    assert (primers[:, CHANNELS:] == 1).all()
    assert (primers[:CHANNELS, :CHANNELS] != 1).all()


class LargestTensor(TorchDispatchMode):
    numbers = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        sizes = [leaf.untyped_storage().nbytes() // 8 for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        self.numbers = max([self.numbers, *sizes])
        return out


def test_no_tensor_of_batch_pairs_and_width_is_ever_held(monkeypatch) -> None:
    monkeypatch.setattr(execution, "budget", lambda device: 1 << 14)
    layer, batch = layer_of(tokens=41), 8
    x = torch.randn(batch, 1, 41, WIDTH, dtype=torch.float64, requires_grad=True)
    with LargestTensor() as largest:
        layer(x).sum().backward()
    assert largest.numbers <= max(2 * (1 << 14), 41 * 41 * max(WIDTH, LOOKBACK + 3))
    assert largest.numbers < batch * 41 * 41 * WIDTH / 4


def test_lead_lag_equals_the_published_formula() -> None:
    with np.load(GOLDEN / "lead_lag.npz") as golden:
        for case in ("even", "odd"):
            x = torch.from_numpy(golden[f"input_x/{case}"])
            expected = torch.from_numpy(golden[f"output_prime_eq13/{case}"])
            windows = x if x.shape[1] == expected.shape[1] else x.transpose(1, 2)
            assert_close(pairs.lead_lag_each(windows), expected, rtol=1e-9, atol=1e-9)
            assert_close(pairs.lead_lag(windows), expected.mean(0), rtol=1e-9, atol=1e-9)


def test_lag_zero_is_pearson_and_the_leader_is_found() -> None:
    draw = torch.Generator().manual_seed(7)
    leader = torch.randn(1, 50, generator=draw, dtype=torch.float64)
    windows = torch.stack([leader, leader.roll(3, -1)], dim=1)
    lags = pairs.lead_lag(windows)
    assert lags[0, 1].argmax().item() == 3
    expected = stats.pearsonr(windows[0, 0].numpy(), windows[0, 1].numpy()).statistic
    assert lags[0, 1, 0].item() == pytest.approx(expected, abs=1e-7)


def test_instantaneous_features_equal_scipy() -> None:
    draw = torch.Generator().manual_seed(11)
    windows = torch.randn(1, 2, 40, generator=draw, dtype=torch.float64).round(decimals=1)  # ties on purpose
    pearson, rolling, spearman = pairs.instantaneous_each(windows)[0, 0, 1].tolist()
    a, b = windows[0].numpy()
    assert pearson == pytest.approx(stats.pearsonr(a, b).statistic, abs=1e-6)
    assert spearman == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-6)
    deviations = [[part[t : t + 12].std() for t in range(29)] for part in (a, b)]
    assert rolling == pytest.approx(stats.pearsonr(*deviations).statistic, abs=1e-5)


def test_constant_channels_have_finite_features() -> None:
    windows = torch.randn(3, 4, 30, dtype=torch.float64)
    windows[:, 2] = 5.0
    found = pairs.average_features(windows, "full")
    assert found.shape == (4, 4, 33)
    assert found.isfinite().all()
    assert found[2].abs().max() < 1e-6


def test_features_decide_the_primers_and_come_from_prepare() -> None:
    layer = layer_of(free=False)
    before = layer.primers()
    layer.prepare(torch.randn(5, CHANNELS, LOOKBACK, dtype=torch.float64))
    assert (layer.primers() - before).abs().max() > 1e-4
    assert "primer.features" in layer.state_dict()


def test_per_window_primers_differ_from_window_to_window() -> None:
    def model_of(per_window: bool) -> models.Model:
        torch.manual_seed(13)
        spec = {"name": "prime", "per_window": per_window, "free": False}
        model = models.create(
            "itransformer", channels=CHANNELS, lookback=LOOKBACK, steps=STEPS, width=WIDTH, heads=HEADS, attention=spec
        ).double()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
        return model.eval()

    model = model_of(per_window=True)
    past = torch.randn(BATCH, CHANNELS, LOOKBACK, dtype=torch.float64)
    both = model(past)
    assert_close(both[1:], model(past[1:]), rtol=1e-10, atol=1e-10)
    fixed = model_of(per_window=False)
    fixed.load_state_dict(model.state_dict())
    assert (fixed.eval()(past) - both).abs().max() > 1e-5


def test_unfit_places_and_settings_are_refused() -> None:
    patches = attention.Site(groups=3, tokens=CHANNELS, width=WIDTH, heads=HEADS, host="PatchTST")
    with pytest.raises(SettingsError, match=r"prime.*PatchTST.*per_window=False"):
        attention.create("prime", patches, per_window=True)
    for settings, words in (
        ({"sparsity": 0.5}, "primer='sparse'"),
        ({"primer": "sparse", "sparsity": 1.5}, "share from 0 to 1"),
        ({"primer": "graph"}, "edges"),
        ({"primer": "graph", "edges": [(0, 99)]}, "token 99"),
        ({"bias": "softmax"}, "no bias to lend"),
    ):
        with pytest.raises(SettingsError, match=words):
            attention.create("prime", patches, **settings)


def test_tokens_that_are_no_channels_have_free_terms_only() -> None:
    model = models.create("patchtst", channels=2, lookback=64, steps=5, width=16, heads=4, attention="prime")
    assert not [name for name, _ in model.named_parameters() if "expand" in name]
    assert model(torch.randn(3, 2, 64)).shape == (3, 2, 5)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"features": "random"}, r"prime.*random features.*per_window=False"),
        ({"primer": "graph", "edges": [[0, 1]]}, r"prime.*graph.*primer='dense'"),
    ],
)
def test_features_of_a_window_are_refused_where_there_are_none(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        layer_of(per_window=True, **settings)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("settings", [{}, {"primer": "graph", "edges": [[0, 1], [2, 0]]}], ids=str)
@pytest.mark.parametrize("gated", [False, True])
def test_an_exported_layer_takes_any_batch(settings: dict[str, Any], gated: bool) -> None:
    layer = layer_of(tokens=42, **settings)
    if gated and not layer.claims.takes_gate:
        return
    x = tokens_of(layer)
    given = {"gate": (torch.arange(42) % 3 > 0).to(x.dtype).expand(1, 1, 1, 42, 42)} if gated else {}
    shapes = {"x": {0: torch.export.Dim("batch")}, **dict.fromkeys(given)}
    program = torch.export.export(layer, (x,), given, dynamic_shapes=shapes)
    more = torch.cat([x, -x, 2 * x])
    assert_close(program.module()(more, **given), layer(more, **given), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "settings"), [("prime", {}), ("prime", {"primer": "graph", "edges": [[0, 1]]}), ("gat", {"primed": True})]
)
def test_windows_of_another_place_are_refused(name: str, settings: dict[str, Any]) -> None:
    site = attention.Site(groups=1, tokens=4, width=8, heads=2, time_ordered=False, lookback=20)
    layer = attention.create(name, site, **settings)
    for shape in ((9, 5, 20), (9, 4, 19)):
        found = f"{shape[1]} channels of {shape[2]} steps"
        with pytest.raises(SettingsError, match=rf"{name}: the windows have {found}, .* 4 channels of 20"):
            layer.prepare(torch.randn(shape))
    layer.prepare(torch.randn(9, 4, 20))


@pytest.mark.parametrize(("name", "settings"), [("prime", {}), ("gat", {"primed": True})])
def test_lags_need_a_place_that_says_how_long_windows_are(name: str, settings: dict[str, Any]) -> None:
    site = attention.Site(groups=1, tokens=4, width=8, heads=2, time_ordered=False)
    for features in ("full", "lead_lag"):
        layer = attention.create(name, site, features=features, **settings)
        with pytest.raises(SettingsError, match=rf"{name}: features='{features}' .*; give Site\.lookback"):
            layer.prepare(torch.randn(9, 4, 20))
    for features in ("instantaneous", "random"):
        attention.create(name, site, features=features, **settings).prepare(torch.randn(9, 4, 20))


def test_sums_along_edges_are_rounded_once() -> None:
    """Under autocast on a GPU weights are float32 and values bfloat16; so they are here."""
    torch.manual_seed(5)
    tokens = 40
    q, k, v = torch.randn(3, 2, 3, tokens, 4, dtype=torch.float64)
    edges = list_edges("prime", None, tokens, tokens)
    primers = torch.rand(edges.shape[1], 3, 4, dtype=torch.float64)
    v = v.to(torch.bfloat16)

    def summed(dtype: torch.dtype, values: Tensor) -> Tensor:
        given = (q.to(dtype), k.to(dtype), values, edges, lambda a, b: primers[a:b].to(dtype))
        return prime.layer.mix_edges(*given, None, 0.5, 0.0)

    exact, found = summed(torch.float64, v.double()), summed(torch.float32, v)
    assert found.dtype == torch.bfloat16
    assert_close(found.double(), exact, rtol=torch.finfo(torch.bfloat16).eps, atol=1e-5)
