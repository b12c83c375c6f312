"""MICA's kernels are its two paths and its gate, outputs and gradients, and are taken at the settings they know."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernel_parts import DEVICE, compiled_errors, errors, needs_a_device, needs_kernels
from torch import Tensor, nn

from rearview import attention
from rearview.attention.contract import Site
from rearview.attention.linear import positive_features
from rearview.attention.mica.memory import attend_to_all

BATCH, GROUPS, HEADS, KEY, VALUE, SCALE = 2, 5, 3, 7, 11, 0.4
EXACT = 5e-6
"""Of the largest number: float32, and sums over all tokens of all channels."""
pytestmark = [needs_kernels, pytest.mark.usefixtures("float32_products")]


def drawn(tokens: int) -> list[Tensor]:
    """Queries, keys and values [batch, group, head, token, width], side by side within each head."""
    draw = torch.Generator().manual_seed(tokens)
    both = torch.randn(BATCH, GROUPS, tokens, HEADS, 2 * KEY + VALUE, generator=draw).transpose(2, 3)
    return list(both.split([KEY, KEY, VALUE], dim=-1))


def drawn_dense(tokens: int, heads: int, width: int) -> list[Tensor]:
    """The same as one projection leaves them, heads side by side."""
    draw = torch.Generator().manual_seed(tokens)
    parts = torch.randn(BATCH, GROUPS, tokens, 3 * heads * width, generator=draw).split(heads * width, dim=-1)
    return [part.unflatten(-1, (heads, width)).transpose(2, 3) for part in parts]


def paths(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, kept: Tensor | float = 1.0) -> list[Tensor]:
    """A_global and A_local."""
    scores = q @ k.transpose(-1, -2) * SCALE
    scores = scores if bias is None else scores + bias
    return [attend_to_all(positive_features(q), positive_features(k), v, None), (scores.softmax(-1) * kept) @ v]


@pytest.mark.parametrize(
    ("tokens", "shares", "biased"), [(1, 1, False), (12, 1, True), (12, GROUPS, False), (30, 1, True)]
)
@pytest.mark.parametrize("programs", [1, 1000], ids=["whole", "parts"])
def test_a_share_of_each_path(tokens, shares, biased, programs, monkeypatch) -> None:
    """Sums over channels come out alike as a whole and in parts."""
    from rearview.attention.kernels import memory

    monkeypatch.setattr(memory, "PROGRAMS", programs)
    monkeypatch.setattr(memory, "ROWS", 32)
    bias = torch.randn(HEADS, tokens, tokens, generator=torch.Generator().manual_seed(3)) if biased else None
    share = torch.rand(shares, HEADS, generator=torch.Generator().manual_seed(5))

    def ours(q: Tensor, k: Tensor, v: Tensor, share: Tensor) -> Tensor:
        return memory.mix_with_memory(q, k, v, share, None if bias is None else bias.to(q), SCALE)

    def theirs(q: Tensor, k: Tensor, v: Tensor, share: Tensor) -> Tensor:
        across, local = paths(q, k, v, None if bias is None else bias.to(q))
        return torch.lerp(local, across, share[..., None, None])

    assert max(errors(ours, theirs, [*drawn(tokens), share])) <= EXACT


@pytest.mark.parametrize(("heads", "width"), [(6, 8), (3, 16), (1, 64)], ids=["four a tile", "two a tile", "one"])
@pytest.mark.parametrize("shares", [1, GROUPS])
def test_heads_that_lie_side_by_side(heads, width, shares, monkeypatch) -> None:
    """Read as one line where all tensors are so, also where the last tile of heads is not full."""
    from rearview.attention.kernels import memory

    monkeypatch.setattr(memory, "ROWS", 32)
    parts, share = drawn_dense(9, heads, width), torch.rand(shares, heads, generator=torch.Generator().manual_seed(5))
    assert memory._sizes(*parts)["DENSE"]
    assert memory._sizes(*parts[:2], parts[2].contiguous())["DENSE"] == (heads == 1)

    # Tokens in front, as a projection takes them: so lies the gradient that comes back.
    def ours(q: Tensor, k: Tensor, v: Tensor, share: Tensor) -> Tensor:
        return memory.mix_with_memory(q, k, v, share, None, SCALE).transpose(2, 3)

    def theirs(q: Tensor, k: Tensor, v: Tensor, share: Tensor) -> Tensor:
        across, local = paths(q, k, v)
        return torch.lerp(local, across, share[..., None, None]).transpose(2, 3)

    assert max(errors(ours, theirs, [*parts, share])) <= EXACT


def test_dropout_falls_on_the_local_path_alone() -> None:
    """With a share of 0 the output is a dropping short kernel's from the same seed; with 1, nothing is dropped."""
    from rearview.attention.kernels.memory import mix_with_memory
    from rearview.attention.kernels.short import attend_short

    seed, parts = torch.tensor([7], device=DEVICE), [part.to(DEVICE) for part in drawn(12)]
    none, all_of_it = torch.zeros(1, HEADS, device=DEVICE), torch.ones(1, HEADS, device=DEVICE)
    local = attend_short(*(part.flatten(0, 1) for part in parts), None, SCALE, False, seed, 0.5)
    dropped = mix_with_memory(*parts, none, None, SCALE, seed, 0.5)
    torch.testing.assert_close(dropped.flatten(0, 1), local)
    assert not torch.allclose(dropped, paths(*parts)[1], atol=1e-2)
    torch.testing.assert_close(mix_with_memory(*parts, all_of_it, None, SCALE, seed, 0.5), paths(*parts)[0])


def test_backward_drops_what_forward_did() -> None:
    from rearview.attention.kernels.memory import mix_with_memory
    from rearview.attention.kernels.short import attend_short

    tokens, rate, seed = 12, 0.5, torch.tensor([11], device=DEVICE)
    nothing = torch.zeros(BATCH * GROUPS, HEADS, tokens, KEY, device=DEVICE)
    one_hot = torch.eye(tokens, device=DEVICE).expand(BATCH * GROUPS, HEADS, tokens, tokens)
    kept = tokens * attend_short(nothing, nothing, one_hot, None, 1.0, seed=seed, rate=rate)
    kept = kept.view(BATCH, GROUPS, HEADS, tokens, tokens).double()
    share = torch.rand(1, HEADS, generator=torch.Generator().manual_seed(5))

    def theirs(q: Tensor, k: Tensor, v: Tensor, share: Tensor) -> Tensor:
        across, local = paths(q, k, v, kept=kept)
        return torch.lerp(local, across, share[..., None, None])

    def ours(q: Tensor, k: Tensor, v: Tensor, share: Tensor) -> Tensor:
        return mix_with_memory(q, k, v, share, None, SCALE, seed, rate)

    assert max(errors(ours, theirs, [*drawn(tokens), share])) <= EXACT


@pytest.mark.parametrize("tokens", [1, 12, 30, 70])
@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("asks", [False, True])
def test_an_mlp_of_both_paths(tokens, deep, asks) -> None:
    """Tiles of several channels, of one, and larger ones for more tokens than a tile has rows."""
    from rearview.attention.kernels.perceptron import Maps, mix_by_perceptron

    torch.manual_seed(13)
    q, k, v = (part.to(DEVICE) for part in drawn(tokens))
    bias = torch.randn(1, tokens, tokens, device=DEVICE)
    first, middle, last = (
        nn.Linear(*sizes, device=DEVICE) for sizes in ((2 * VALUE + asks * KEY, 19), (19, 19), (19, VALUE))
    )
    between = [middle.weight, middle.bias] if deep else [None, None]
    maps = Maps(first.weight, first.bias, *between, last.weight, last.bias)
    with torch.no_grad():
        found = mix_by_perceptron(q, k, v, None, bias, maps, asks, SCALE)
        exact = torch.cat([*paths(*(part.double() for part in (q, k, v)), bias), *([q.double()] if asks else [])], -1)
        for step in [first, middle] if deep else [first]:
            exact = step.double()(exact).relu()
        exact = last.double()(exact)
    assert (found.double() - exact).abs().max() <= EXACT * exact.abs().max()


def layer_of(tokens: int = 12, **settings: Any) -> nn.Module:
    """A layer whose parameters have all left their initial values."""
    torch.manual_seed(17)
    site = Site(groups=GROUPS, tokens=tokens, width=13, heads=2, head_width=8, dropout=settings.pop("dropout", 0.0))
    layer = attention.create("mica", site, **settings)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return layer


@pytest.fixture
def calls(monkeypatch) -> list[str]:
    """The names of MICA's kernels as they are called; kernels of any kind are taken wherever they fit."""
    from rearview.attention import kernels
    from rearview.attention.kernels import memory, perceptron

    made: list[str] = []

    def noted(module: Any, name: str) -> None:
        called: Callable[..., Tensor] = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given: (made.append(name), called(*given))[1])

    monkeypatch.setattr(kernels, "available", lambda device: True)
    noted(memory, "mix_with_memory")
    noted(perceptron, "mix_by_perceptron")
    return made


@pytest.mark.parametrize(
    ("settings", "training", "kernel"),
    [
        ({"gate": "shared"}, True, "mix_with_memory"),
        ({"gate": "layerwise_channelwise", "dropout": 0.3}, True, "mix_with_memory"),
        ({"gate": "channelwise"}, False, "mix_with_memory"),
        ({"gate": "mlp_query"}, False, "mix_by_perceptron"),
        ({"gate": "mlp", "mlp_layers": 2, "value_width": 5}, False, "mix_by_perceptron"),
        ({"gate": "mlp_query"}, True, None),
        ({"gate": "mlp_query", "mlp_layers": 4}, False, None),
        ({"gate": "mlp_query", "mlp_width": 300}, False, None),
        ({"gate": "shared", "exclude_self": True}, False, None),
        ({"gate": "shared", "weighting": "dynamic"}, False, None),
        ({"gate": "shared", "local": {"name": "softmax", "rotary": True}}, False, None),
    ],
    ids=str,
)
def test_a_layer_takes_a_kernel_and_is_the_layer(settings, training, kernel, calls) -> None:
    """Against the layer in float64, which no kernel knows; not where weights are dropped."""
    dropping = training and (kernel is None or "dropout" in settings)
    layer = layer_of(**settings).train(training).to(DEVICE)
    x = torch.randn(3, GROUPS, 12, 13, device=DEVICE)
    with torch.set_grad_enabled(training):
        found = layer(x)
        exact = layer.double()(x.double())
    assert calls == ([] if kernel is None else [kernel])
    if not dropping:
        assert (found.double() - exact).abs().max() <= EXACT * exact.abs().max()


@pytest.mark.parametrize("given", ["mask", "carry", "bias of each window", "bias that learns", "many tokens"])
def test_what_a_kernel_does_not_know_is_left_to_the_general_form(given, calls) -> None:
    tokens = 150 if given == "many tokens" else 12
    layer, x = layer_of(tokens, gate="shared").to(DEVICE), torch.randn(3, GROUPS, tokens, 13, device=DEVICE)
    square = torch.zeros(3, GROUPS, 1, tokens, tokens, device=DEVICE)
    arguments = {
        "mask": {"mask": torch.ones(3, GROUPS, tokens, dtype=torch.bool, device=DEVICE)},
        "carry": {"carry": ()},
        "bias of each window": {"bias": square},
        "bias that learns": {"bias": square[0, 0].clone().requires_grad_()},
        "many tokens": {},
    }
    y = layer(x, **arguments[given])
    assert not calls
    found = y[0] if isinstance(y, tuple) else y
    exact = layer_of(tokens, gate="shared").double().to(DEVICE)(x.double())
    assert (found.double() - exact).abs().max() <= EXACT * exact.abs().max()


@pytest.mark.parametrize("gate", ["mlp", "mlp_query"])
def test_residual_scores_go_with_an_mlp_gate_from_layer_to_layer(gate, calls) -> None:
    layers = [layer_of(gate=gate).eval().to(DEVICE) for _ in range(4)]
    x = torch.randn(3, GROUPS, 12, 13, device=DEVICE)
    with torch.no_grad():
        found, carry, exact, exact_carry = x, (), x.double(), ()
        for layer in layers:
            found, carry = layer(found, carry=carry)
            exact, exact_carry = layer.double()(exact, carry=exact_carry)
            layer.float()
            assert (found.double() - exact).abs().max() <= EXACT * exact.abs().max()
    assert calls == ["mix_by_perceptron"] * 4
    assert carry[0].shape[-1] == 4 * 8
    plain = x
    with torch.no_grad():
        for layer in layers:
            plain = layer(plain)
    assert (plain - found).abs().max() > 10 * EXACT * exact.abs().max()


@pytest.mark.parametrize("gate", ["shared", "mlp_query"])
def test_a_gate_that_somebody_hooked_into_is_called(gate, calls) -> None:
    layer, x, seen = layer_of(gate=gate).eval().to(DEVICE), torch.randn(3, GROUPS, 12, 13, device=DEVICE), []
    watched = layer.gate if gate == "shared" else layer.gate.layers[0]
    watched.register_forward_hook(lambda module, given, out: seen.append(module))
    with torch.no_grad():
        layer(x)
    assert seen == [watched]
    assert not calls


def test_a_bias_that_all_windows_share_goes_to_the_kernel(calls) -> None:
    layer, x = layer_of(gate="shared").to(DEVICE), torch.randn(3, GROUPS, 12, 13, device=DEVICE)
    bias = torch.randn(1, 1, 2, 12, 12, device=DEVICE)
    found = layer(x, bias=bias)
    exact = layer.double()(x.double(), bias=bias.double())
    assert calls == ["mix_with_memory"]
    assert (found.double() - exact).abs().max() <= EXACT * exact.abs().max()


@needs_a_device
@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_compiled_is_eager_on_a_device() -> None:
    layer, x = layer_of(42, gate="layerwise").cuda(), torch.randn(3, GROUPS, 42, 13, device="cuda")
    assert max(compiled_errors(layer, x)) <= 1e-4
    layer = layer_of(42).eval().cuda()
    with torch.no_grad():
        compiled = torch.compile(layer, fullgraph=True)(x)
        torch.testing.assert_close(compiled, layer(x), rtol=1e-4, atol=1e-5)


@needs_a_device
@pytest.mark.parametrize(("tokens", "width"), [(64, 64), (128, 64), (128, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("tf32", [False, True])
def test_the_largest_tiles_that_are_sent_there_fit(tokens, width, dtype, tf32) -> None:
    from rearview.attention.kernels import memory, perceptron

    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.manual_seed(19)
    q, k, v = (torch.randn(2, 3, 2, tokens, width, device="cuda", dtype=dtype).requires_grad_() for _ in range(3))
    if not memory.fits(q, v):
        return
    seed = torch.tensor([1], device="cuda")
    memory.mix_with_memory(q, k, v, torch.rand(1, 2, device="cuda"), None, 0.1, seed, 0.2).sum().backward()
    assert all(part.grad is not None and part.grad.isfinite().all() for part in (q, k, v))
    scored = torch.randn(2, 2, 3, 2, tokens, 128, device="cuda", dtype=dtype)
    if not perceptron.fits(q, v, scored, 128):
        return
    linear = [nn.Linear(*sizes, device="cuda", dtype=dtype) for sizes in ((3 * width, 128), (128, 128), (128, width))]
    maps = perceptron.Maps(*(tensor for step in linear for tensor in (step.weight, step.bias)))
    with torch.no_grad():
        for wider in (None, tuple(scored)):
            assert perceptron.mix_by_perceptron(q, k, v, wider, None, maps, True, 0.1).isfinite().all()
