"""MICA in its places: inside PatchTST with one gate for all layers, over other mechanisms, compiled, and refused."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview import attention, models
from rearview.attention import Site, mica
from rearview.attention.contract import Attention, Heads
from rearview.core.errors import SettingsError

CHANNELS, LOOKBACK, STEPS, WIDTH, HEADS, DEPTH, KEYS, BATCH = 3, 47, 11, 10, 5, 3, 7, 2
SITE = Site(groups=CHANNELS, tokens=13, width=WIDTH, heads=HEADS)
EXACT = 1e-11
LOCAL: list[attention.Spec] = [
    "softmax",
    {"name": "rbca", "alpha": 0.7},
    {"name": "toa", "kind": "softmax", "sor": False},
    "prime",
    "linear",
    "differential",
]


def network(attention: Any, **settings: Any) -> models.Model:
    """PatchTST in float64 and evaluation mode, every parameter away from its initial value."""
    torch.manual_seed(7)
    model = models.create(
        "patchtst",
        channels=CHANNELS,
        lookback=LOOKBACK,
        steps=STEPS,
        attention=attention,
        width=WIDTH,
        heads=HEADS,
        depth=DEPTH,
        feed_forward=19,
        patch=8,
        stride=4,
        **settings,
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.double().eval()


def windows(seed: int = 23) -> Tensor:
    return torch.randn(BATCH, CHANNELS, LOOKBACK, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def same(one: Tensor, other: Tensor) -> None:
    assert_close(one, other, rtol=EXACT, atol=EXACT)


def gate_names(model: models.Model) -> list[str]:
    return [name for name in model.state_dict() if "gate" in name]


@pytest.mark.parametrize(
    ("gate", "parameters"),
    [
        ("shared", HEADS),
        ("channelwise", HEADS * CHANNELS),
        ("layerwise", HEADS * DEPTH),
        ("layerwise_channelwise", HEADS * CHANNELS * DEPTH),
    ],
)
def test_betas_are_as_many_as_the_paper_counts(gate: str, parameters: int) -> None:
    model = network({"name": "mica", "gate": gate})
    plain = network("softmax")
    assert sum(p.numel() for p in model.parameters()) - sum(p.numel() for p in plain.parameters()) == parameters
    owned = ["stack.shared.gate.beta"]
    assert (gate_names(model) == owned) == (gate in ("shared", "channelwise"))


def test_the_shared_gate_is_one_parameter_that_all_layers_read() -> None:
    model = network({"name": "mica", "gate": "shared"})
    past = windows()
    before = model.weights(past)
    with torch.no_grad():
        model.get_parameter("stack.shared.gate.beta").fill_(-torch.inf)
    for layer, (was, now) in enumerate(zip(before, model.weights(past), strict=True)):
        assert was["cross"].abs().max() > 0, layer
        assert now["cross"].abs().max() == 0, layer


def test_a_closed_gate_is_the_channel_independent_network_exactly() -> None:
    model, plain = network({"name": "mica", "gate": "shared"}), network("softmax")
    state = {name.replace(".attend.local.", ".attend."): tensor for name, tensor in model.state_dict().items()}
    del state["stack.shared.gate.beta"]
    plain.load_state_dict(state)
    past = windows()
    assert not torch.allclose(model(past), plain(past))
    with torch.no_grad():
        model.get_parameter("stack.shared.gate.beta").fill_(-torch.inf)
    assert torch.equal(model(past), plain(past))


@pytest.mark.parametrize("gate", ["shared", "channelwise", "layerwise", "mlp_query"])
def test_a_network_survives_safetensors_and_copies(gate: str, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    model, other = network({"name": "mica", "gate": gate}), network({"name": "mica", "gate": gate})
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.5)
    past = windows()
    assert not torch.allclose(model(past), other(past))
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    other.load_state_dict(load_file(tmp_path / "model.safetensors"), strict=True)
    assert torch.equal(model(past), other(past))
    copied = copy.deepcopy(model)
    with torch.no_grad():
        for name in gate_names(copied):
            copied.state_dict()[name].add_(1.0)
    assert torch.equal(model(past), other(past))
    assert not torch.allclose(copied(past), other(past)), "the copy's layers read the copy's gate"


@pytest.mark.parametrize("residual_scores", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"gate": "channelwise", "weighting": "static"},
        {"gate": "shared", "weighting": "dynamic", "exclude_self": True},
        {"gate": "layerwise", "channel_weights": (1.0, 2.0, 3.0), "key_width": KEYS},
    ],
    ids=str,
)
def test_every_parameter_learns_inside_patchtst(settings: dict[str, Any], residual_scores: bool) -> None:
    model = network({"name": "mica", **settings}, residual_scores=residual_scores, dropout=0.0).train()
    past = windows().requires_grad_()
    model(past)[:, 0].square().sum().backward()
    assert past.grad is not None
    assert (past.grad.abs().amax((0, 2)) > 0).all(), "a channel's forecast sees every channel"
    still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
    assert not still
    assert model.stack.residual_scores == residual_scores


@pytest.mark.parametrize("settings", [{}, {"gate": "shared", "exclude_self": True, "weighting": "dynamic"}], ids=str)
def test_short_histories_are_padded_and_masked(settings: dict[str, Any]) -> None:
    model = network({"name": "mica", **settings})
    past = windows()
    mask = torch.arange(LOOKBACK) >= torch.tensor([[20], [0]])
    changed = torch.where(mask[:, None], past, 50.0)
    same(model(past, mask=mask), model(changed, mask=mask))
    assert (model(past, mask=mask) - model(past))[0].abs().max() > 1e-6


def test_a_layer_by_itself_owns_its_gate() -> None:
    layer = attention.create("mica", SITE, gate="shared")
    assert "gate.beta" in layer.state_dict()
    x = torch.randn(BATCH, CHANNELS, 5, WIDTH)
    layer(x).square().sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


@pytest.mark.parametrize("spec", LOCAL, ids=lambda spec: spec if isinstance(spec, str) else spec["name"])
def test_any_local_mechanism(spec: attention.Spec) -> None:
    name, chosen = attention.split(spec)
    torch.manual_seed(3)
    layer = attention.create("mica", SITE, gate="shared", local=spec).double().eval()
    assert isinstance(layer, mica.Layer)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    x = torch.randn(BATCH, CHANNELS, 13, WIDTH, dtype=torch.float64)
    local = layer.local
    claimed = (layer.claims.carries_scores, layer.claims.takes_bias, layer.claims.needs_time_order)
    assert claimed == (local.claims.carries_scores, local.claims.takes_bias, local.claims.needs_time_order)
    found = layer.weights(x)
    v = layer.values(x)
    within = found["local"] @ v
    if name == "prime":
        within = torch.einsum("bghqk,qkhe,bghke->bghqe", found["local"], local.primers(), v)
    across = torch.einsum("bghqck,bchke->bghqe", found["cross"], v)
    same(layer.project(within + across), layer(x))
    alone = attention.create(name, layer.site, **chosen).double().eval()
    alone.load_state_dict(local.state_dict())
    with torch.no_grad():
        layer.gate.beta.fill_(-torch.inf)
    same(layer(x), alone(x))


@pytest.mark.parametrize("spec", LOCAL, ids=lambda spec: spec if isinstance(spec, str) else spec["name"])
def test_any_local_mechanism_inside_patchtst(spec: attention.Spec) -> None:
    model = network({"name": "mica", "local": spec})
    past = windows().requires_grad_()
    model.prepare(windows(29))
    y = model(past)
    y.square().sum().backward()
    assert y.shape == (BATCH, CHANNELS, STEPS)
    assert past.grad is not None
    assert past.grad.isfinite().all()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("site", "settings", "sentence"),
    [
        (
            {"causal": True, "host": "Timer-XL"},
            {},
            r"mica's memory .* in Timer-XL a token may only look back; use rbca or softmax\.$",
        ),
        ({"causal": True, "causal_unless": "a=0"}, {}, r"; use rbca or softmax, or give the network a=0\.$"),
        (
            {"groups": 1, "time_ordered": False, "host": "iTransformer"},
            {},
            "mica .* iTransformer's tokens are channels",
        ),
        ({"groups": 1}, {"exclude_self": True}, "exclude_self .* one channel here"),
        ({}, {"channel_weights": (1.0, 2.0)}, "2 channel_weights for the 3 channels"),
        ({}, {"channel_weights": (1.0, -2.0, 1.0)}, r"channel_weights\[1\] is -2.0"),
        ({}, {"channel_weights": (1.0, float("nan"), 1.0)}, r"channel_weights\[1\] is nan"),
        ({}, {"channel_weights": (0.0, 0.0, 0.0)}, "at least 1 above 0"),
        (
            {},
            {"channel_weights": (0.0, 1.0, 0.0), "exclude_self": True},
            "at least 2 above 0, so that something is left",
        ),
        ({}, {"channel_weights": (1.0, 1.0, 1.0), "weighting": "static"}, "two answers to one question"),
        ({}, {"gate": "beta"}, "gate is 'beta'; it must be one of 'mlp_query'"),
        ({}, {"weighting": "even"}, "weighting is 'even'; it must be one of 'uniform'"),
        ({}, {"mlp_layers": 1}, "mlp_layers is 1; it must be at least 2"),
        ({}, {"key_width": 0}, "key_width is 0"),
        ({}, {"key_width": "x"}, "key_width is 'x'; it must be a whole number"),
        ({}, {"mlp_layers": None}, "mlp_layers is None; it must be a whole number"),
        ({}, {"mlp_dropout": "x"}, "mlp_dropout is 'x'; it must be a number"),
        ({}, {"mlp_dropout": 1.0}, r"mlp_dropout is 1.0; it must lie in \[0, 1\)"),
        ({}, {"local": "mica"}, "must keep channels apart, but mica mixes them"),
        ({}, {"local": "softmxa"}, "no attention called 'softmxa'"),
        ({}, {"local": {"alpha": 1.0}}, "needs a 'name'"),
        ({}, {"gates": "mlp"}, "no setting 'gates'. Did you mean 'gate'"),
    ],
)
def test_refusals(site: dict[str, Any], settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        attention.create("mica", replace(SITE, **site), **settings)


def test_a_local_part_without_queries_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bare(Attention):
        claims = attention.Claims()

        def forward(self, x: Tensor, **given: Any) -> Tensor:
            return x

        def weights(self, x: Tensor, **given: Any) -> Tensor:
            return x

        def values(self, x: Tensor) -> Heads:
            return x[:, :, None]

        def project(self, heads: Heads) -> Tensor:
            return heads[:, :, 0]

    create = attention.create
    monkeypatch.setattr(
        attention, "create", lambda name, site, **s: Bare(site) if name == "bare" else create(name, site)
    )
    with pytest.raises(SettingsError, match="shares queries, keys and values with its local part, and bare has none"):
        mica.Layer(SITE, mica.Settings(local="bare"))


def test_itransformer_refuses_it_by_name() -> None:
    with pytest.raises(SettingsError, match=r"mica .* iTransformer's tokens are channels .*use softmax, toa or prime"):
        models.create(
            "itransformer", channels=5, lookback=LOOKBACK, steps=STEPS, attention="mica", width=WIDTH, heads=5
        )


def test_one_channel_left_at_run_time_is_refused_under_exclusion() -> None:
    layer = attention.create("mica", SITE, exclude_self=True)
    with pytest.raises(SettingsError, match="no others to look at"):
        layer(torch.randn(BATCH, 1, 5, WIDTH))


BUILT = [{}, {"gate": "shared", "weighting": "dynamic", "exclude_self": True}]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("settings", BUILT, ids=str)
def test_it_can_be_exported(settings: dict[str, Any]) -> None:
    model = network({"name": "mica", **settings})
    past = windows()
    program = torch.export.export(model, (past,), dynamic_shapes={"past": {0: torch.export.Dim("batch")}})
    for given in (past, torch.cat([past, -past, 2 * past])):
        same(program.module()(given), model(given))


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("settings", BUILT, ids=str)
def test_compiled_is_eager(settings: dict[str, Any]) -> None:
    torch.manual_seed(5)
    layer = attention.create("mica", SITE, **settings).double().eval()
    x = torch.randn(BATCH, CHANNELS, 13, WIDTH, dtype=torch.float64, requires_grad=True)
    torch.compiler.reset()
    wanted = [x, *layer.parameters()]
    ours, theirs = torch.compile(layer, fullgraph=True)(x), layer(x)
    same(ours, theirs)
    found = (torch.autograd.grad(y.square().sum(), wanted) for y in (ours, theirs))
    for one, other in zip(*found, strict=True):
        same(one, other)
