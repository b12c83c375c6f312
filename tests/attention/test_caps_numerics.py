"""CAPS at lengths and gates where the released form fails: exact, finite, linear in cost, in any precision."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from caps_parts import BATCH, GROUPS, HEADS, SETTINGS, head, layer_of, ones, signals, tokens_of
from torch import Tensor
from torch.testing import assert_close

from rearview import attention
from rearview.attention import Site, caps
from rearview.attention.caps.paths import EPS, PATHS, Signals, average_gates, released_path, score_path, stable_path
from rearview.attention.caps.recurrence import mix_chunks, scan_states, score_pairs
from rearview.testing.places import EXACT, cost

LONGEST = 100_000
EVERY = [{**each, "rotation": "none"} if each.get("numerics") == "released" else each for each in SETTINGS]


def run(parts: list[Tensor], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Output and all gradients of the fast form, computed in `dtype`, without a rotation."""
    given = [part.detach().to(dtype).requires_grad_() for part in parts]
    q, k, v, p, g, clock = given
    y = caps.fast(q, k, v, signals(p, g, clock))
    return [y, *torch.autograd.grad((y * torch.linspace(-1, 1, y.shape[-1], dtype=dtype)).sum(), given)]


def close_in_float32(parts: list[Tensor], tolerance: float) -> None:
    """float32 is float64, output and gradients, up to a share of each tensor's largest number."""
    for exact, low in zip(run(parts), run(parts, torch.float32), strict=True):
        assert low.isfinite().all()
        allowed = tolerance * exact.abs().max() + torch.finfo(torch.float32).tiny
        assert (low.double() - exact).abs().max() <= allowed


def step_by_step(parts: list[Tensor]) -> np.ndarray:
    """The definition, token by token with numbers of unlimited range: E_t is kept as a mantissa and an exponent."""
    q, k, v, p, g, clock = (part.detach()[0, 0, 0].numpy() for part in parts)
    delta = np.logaddexp(0, clock) + EPS
    score, fade = p + np.log(delta), np.exp(-np.logaddexp(0, g) * delta)
    memory = {path: np.zeros((q.shape[1], v.shape[1])) for path in PATHS}
    largest, mass, time = score[0], np.zeros_like(score[0]), 0.0
    out = np.empty_like(v)
    for t in range(len(q)):
        added = k[t][:, None] * v[t]
        higher = np.maximum(largest, score[t])
        shrink, weight = np.exp(largest - higher), np.exp(score[t] - higher)
        memory["riemann"] = shrink[:, None] * memory["riemann"] + weight[:, None] * added
        largest, mass, time = higher, mass * shrink + weight, time + delta[t, 0]
        memory["prefix"] = fade[t][:, None] * memory["prefix"] + added
        memory["clock"] = memory["clock"] + delta[t, 0] * added
        out[t] = q[t] @ (memory["riemann"] / mass[:, None] + memory["prefix"] + memory["clock"] / time)
    return out


def test_it_is_right_at_a_hundred_thousand_tokens() -> None:
    parts = head(LONGEST, heads=1, width=2, values=1)
    expected = torch.from_numpy(step_by_step(parts))
    (exact, *gradients), (low, *low_gradients) = run(parts), run(parts, torch.float32)
    assert_close(exact[0, 0, 0], expected, rtol=1e-9, atol=1e-9)
    assert (low[0, 0, 0].double() - expected).abs().max() <= 2e-5 * expected.abs().max()
    for wide, narrow in zip(gradients, low_gradients, strict=True):
        assert (narrow.double() - wide).abs().max() <= 2e-5 * wide.abs().max()


@pytest.mark.parametrize("spread", [1.0, 30.0, 200.0, 1e4])
def test_scores_of_any_spread_are_right(spread: float) -> None:
    """One maximum and a clamp would be wrong by the size of the output from a spread of 200 on.

    In float32 a score of 10,000 is itself known to 5e-4 only, and so is its exponential.
    """
    q, k, v, p, g, clock = head(77, heads=1)
    parts = [q, k, v, p * spread / 2, g, clock]
    assert_close(run(parts)[0][0, 0, 0], torch.from_numpy(step_by_step(parts)), rtol=1e-10, atol=1e-10)
    close_in_float32(parts, max(2e-5, 2 * spread * torch.finfo(torch.float32).eps))


@pytest.mark.parametrize("size", [1e-6, 1.0, 30.0, 1e3, 1e6, 1e30])
def test_gates_of_any_size_are_right(size: float) -> None:
    """Every fifth token forgets by `size`; in between memory fades slowly."""
    q, k, v, p, g, clock = head(77, heads=1)
    g = torch.where(torch.arange(77)[:, None] % 5 == 2, size, -3.0 + 0.1 * g)
    parts = [q, k, v, p, g, clock]
    assert_close(run(parts)[0][0, 0, 0], torch.from_numpy(step_by_step(parts)), rtol=1e-10, atol=1e-10)
    close_in_float32(parts, 5e-6)


@pytest.mark.parametrize("size", [-50.0, 5.0, 1e6])
def test_clocks_of_any_size_are_right(size: float) -> None:
    q, k, v, p, g, clock = head(77, heads=1)
    clock = torch.where(torch.arange(77)[:, None] % 7 == 3, size, clock)
    parts = [q, k, v, p, g, clock]
    assert_close(run(parts)[0][0, 0, 0], torch.from_numpy(step_by_step(parts)), rtol=1e-10, atol=1e-10)
    close_in_float32(parts, 2e-5)


def test_no_digit_is_lost_after_a_gate_that_closes() -> None:
    """Differences of sums that hold -1e6 would give 0.829 for exp(-0.2)."""
    gate = torch.full((1, 16, 1), -0.1)
    gate[:, 5] = -1e6
    found = score_pairs(torch.ones(1, 16, 1), torch.ones(1, 16, 1), gate)[0]
    assert found[8, 6].item() == pytest.approx(math.exp(-0.2), rel=1e-6)
    assert found[8, 4].item() == 0
    assert found[4, 2].item() == pytest.approx(math.exp(-0.2), rel=1e-6)


def test_gate_and_weight_of_an_average_add_up_to_one() -> None:
    score = 100 * torch.randn(1, 1, 1, 513, 3)
    log_gate, weight = average_gates(score)
    assert_close(log_gate.exp() + weight, torch.ones_like(weight), rtol=0, atol=2e-7)
    assert (log_gate <= 0).all()
    assert weight[..., 0, :].eq(1).all()


@pytest.mark.parametrize("count", [1, 16, 17, 256, 300])
def test_states_by_groups_are_the_recurrence(count: int) -> None:
    draw = torch.Generator().manual_seed(count)
    gate = -torch.rand(2, count, 3, generator=draw, dtype=torch.float64)
    added = torch.randn(2, count, 3, 5, generator=draw, dtype=torch.float64)
    state = torch.zeros(2, 3, 5, dtype=torch.float64)
    for n, found in enumerate(scan_states(gate, added).unbind(1)):
        state = gate[:, n, :, None].exp() * state + added[:, n]
        assert_close(found, state, rtol=EXACT, atol=EXACT)


def test_the_released_diagonal_dies_where_the_notes_say() -> None:
    """A fresh layer: clock and softplus(g) are ln 2, so each step fades by exp(-0.48)."""
    tokens = 97
    fresh = Signals(torch.full((1, 1, 1, tokens, 1), math.log(2)), None, torch.zeros(1, 1, 1, tokens, 1), None)
    found = {
        form: score_path(form("prefix", *(ones(tokens),) * 2, fresh))[0, 0, 0].diag()
        for form in (released_path, stable_path)
    }
    by_step = {step: found[released_path][step - 1].item() for step in (38, 50, 96)}
    assert by_step == pytest.approx({38: 0.54, 50: 3.7e-3, 96: 9.3e-13}, rel=0.02)
    assert found[stable_path].eq(1).all()


def test_cost_is_linear_in_tokens() -> None:
    """Proposition 3.1, with the long form on either side of its border, counted in products and numbers written."""
    for first in (256, 1024):
        once, twice, thrice = (cost(layer_of(first * n)) for n in (1, 2, 3))
        assert ((thrice - 2 * twice + once) / thrice < 0.01).all()
    once, twice = (cost(layer_of(512 * n, normaliser="softmax")) for n in (1, 2))
    assert (twice > 3 * once)[0]


def test_three_paths_cost_three_times_one() -> None:
    """Proposition 3.1: the paths are a constant factor."""
    q, k, v, p, g, clock = (part.detach() for part in head(512, heads=1, width=8, values=8))
    with torch.utils.flop_counter.FlopCounterMode(display=False) as one:
        caps.fast(q, k, v, signals(p, g, clock), paths=("prefix",))
    with torch.utils.flop_counter.FlopCounterMode(display=False) as three:
        caps.fast(q, k, v, signals(p, g, clock))
    assert one.get_total_flops() < three.get_total_flops() < 3 * one.get_total_flops()


def test_long_sequences_hold_little_for_the_gradient() -> None:
    """What is kept is what was given: nothing in the size of weights or states."""
    kept = 0

    def pack(tensor: Tensor) -> Tensor:
        nonlocal kept
        kept += tensor.numel() if tensor.untyped_storage().data_ptr() not in known else 0
        known.add(tensor.untyped_storage().data_ptr())
        return tensor

    parts = head(2048, heads=3)
    known = {part.untyped_storage().data_ptr() for part in parts}
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = caps.fast(*parts[:3], signals(*parts[3:]))
    assert kept < 2 * sum(part.numel() for part in parts)
    y.sum().backward()
    assert all(part.grad is not None for part in parts)


def extremes() -> dict[str, Tensor]:
    x = tokens_of().float()
    return {"1e6": 1e6 * x, "1e-6": 1e-6 * x, "0": 0 * x, "equal": x[:, :, :1].expand_as(x).clone()}


@pytest.mark.parametrize("kind", extremes())
@pytest.mark.parametrize("settings", EVERY, ids=str)
def test_extremes_stay_finite(settings: dict[str, Any], kind: str) -> None:
    layer = layer_of(**settings).float()
    mask = torch.rand(BATCH, GROUPS, 17, generator=torch.Generator().manual_seed(1)) < 0.6
    mask[0, 0] = False
    x = extremes()[kind].requires_grad_()
    for given in (None, mask):
        y = layer(x, mask=given)
        assert y.isfinite().all()
        # The mean, not its square: outputs are cubic in the tokens, and the square of 1e6 cubed is beyond float32.
        for gradient in torch.autograd.grad(y.mean(), [x, *layer.parameters()]):
            assert gradient.isfinite().all()


@pytest.mark.parametrize("settings", EVERY, ids=str)
def test_padding_neither_adds_nor_fades(settings: dict[str, Any]) -> None:
    """Gaps of padding: what stands there moves no real token, and without a rotation taking it out changes nothing."""
    layer = layer_of(**{**settings, "rotation": "none"})
    x = tokens_of()
    real = torch.tensor([False, False, True, True, False, True, True, False, False, True] + [True, False] * 3 + [True])
    mask = real.expand(BATCH, GROUPS, -1)
    other = torch.where(mask[..., None], x, 10 * torch.randn_like(x))
    found = layer(other, mask=mask)[:, :, real]
    assert_close(found, layer(x, mask=mask)[:, :, real], rtol=EXACT, atol=EXACT)
    assert_close(found, layer(x[:, :, real]), rtol=1e-10, atol=1e-10)


def test_long_padded_rows_are_short_ones(monkeypatch) -> None:
    layer, x = layer_of(), tokens_of()
    mask = torch.rand(BATCH, GROUPS, 17, generator=torch.Generator().manual_seed(2)) < 0.6
    short = layer(x, mask=mask)
    monkeypatch.setattr(caps.layer, "LONG", 1)
    monkeypatch.setattr(caps.layer, "HELD", 17 * 7 * 4)
    assert_close(layer(x, mask=mask), short, rtol=EXACT, atol=EXACT)


# The released softmax is of scores that grow with the clip, to 1e8: no rounding of its inputs is small.
@pytest.mark.parametrize("settings", EVERY[:-1], ids=str)
def test_half_precision_keeps_its_exponents_in_float32(settings: dict[str, Any]) -> None:
    exact = layer_of(200, **settings)
    low = layer_of(200, **settings).bfloat16()
    exact.load_state_dict(low.double().state_dict())
    low = low.bfloat16()
    x = tokens_of(200).bfloat16()
    expected = exact(x.double())
    y = low(x)
    assert y.dtype == torch.bfloat16
    # Queries, keys, values and output are rounded to 8 bits each, and so are the gates' arguments.
    assert (y.double() - expected).norm() <= 0.03 * expected.norm()
    with torch.autocast("cpu", torch.bfloat16):
        mixed_precision = exact.float()(x.float())
    assert mixed_precision.dtype == torch.bfloat16
    assert (mixed_precision.double() - expected).norm() <= 0.03 * expected.norm()


def test_smallest_places_work() -> None:
    for changes in ({"tokens": 1}, {"groups": 1}, {"width": HEADS}):
        site = Site(**{"groups": GROUPS, "tokens": 17, "width": 2 * HEADS, "heads": HEADS, **changes})
        layer = attention.create("caps", site)
        x = torch.randn(BATCH, site.groups, site.tokens, site.width, requires_grad=True)
        layer(x).square().sum().backward()
        assert all(parameter.grad.isfinite().all() for parameter in [x, *layer.parameters()])


def small(tokens: int, **settings: Any) -> tuple[attention.Attention, Tensor]:
    torch.manual_seed(tokens)
    layer = attention.create("caps", Site(groups=GROUPS, tokens=tokens, width=14, heads=2), **settings)
    return layer, torch.randn(BATCH, GROUPS, tokens, 14)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("tokens", [42, 1100])
def test_an_exported_layer_takes_any_batch(tokens: int) -> None:
    layer, x = small(tokens)
    batch = torch.export.Dim("batch")
    program = torch.export.export(layer, (x,), dynamic_shapes={"x": {0: batch}})
    more = torch.cat([x, -x, 2 * x])
    assert_close(program.module()(more), layer(more), rtol=1e-4, atol=1e-7)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("tokens", "backend"), [(42, "inductor"), (1100, "aot_eager")])
def test_compiled_is_eager(tokens: int, backend: str) -> None:
    """The long form's graph is traced and differentiated only: its code takes minutes to build."""
    layer, x = small(tokens, rotation="learned")
    torch.compiler.reset()
    found = []
    for call in (torch.compile(layer, fullgraph=True, backend=backend), layer):
        layer.zero_grad()
        y = call(x)
        y.square().sum().backward()
        found.append([y, *(parameter.grad.clone() for parameter in layer.parameters())])
    for ours, theirs in zip(*found, strict=True):
        assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()


def test_chunks_and_pairs_agree_in_float32() -> None:
    draw = torch.Generator().manual_seed(9)
    q, k, v = (torch.randn(2, 3, 193, n, generator=draw) for n in (5, 5, 7))
    gate = -torch.rand(2, 3, 193, 5, generator=draw)
    assert_close(mix_chunks(q, k, v, gate), score_pairs(q, k, gate) @ v, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ["caps", "linear"])
def test_a_compiled_layer_takes_lengths_that_change(name: str) -> None:
    """Multiples of a chunk and others, between which nothing is filled up."""
    torch.compiler.reset()
    layer = attention.create(name, Site(groups=2, tokens=64, width=6, heads=2, causal=True)).double().eval()
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        for tokens in (40, 42, 43, 48, 64, 51):
            x = torch.randn(3, 2, tokens, 6, dtype=torch.float64)
            assert_close(compiled(x), layer(x), rtol=1e-11, atol=1e-11)
