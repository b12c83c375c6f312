"""CAPS's kernel for short axes is its formula, outputs and gradients, and is taken where it knows all that is asked."""

from copy import deepcopy
from dataclasses import replace
from itertools import combinations

import pytest
import torch
from caps_parts import layer_of, tokens_of
from kernel_parts import DEVICE, compiled_errors, errors, needs_a_device, needs_kernels, with_gradients
from torch import Tensor
from torch.nn import functional

from rearview.attention.caps import fast
from rearview.attention.caps.paths import EPS, PATHS, PathName, Signals
from rearview.attention.contract import Site
from rearview.attention.shared.rotary import Rotary

ROWS, HEADS = 2, 3
CLOSE = 1e-5
"""Of the largest number. A gate's gradient is a running sum of differences, which errs by the rounding of its terms."""
SUBSETS = [subset for count in (1, 2, 3) for subset in combinations(PATHS, count)]
pytestmark = needs_kernels


def drawn(tokens: int, width: int = 5, values: int = 3) -> list[Tensor]:
    """q, k, v, p, g [row, head, token, width] and the clock [row, head, token], side by side as maps leave them."""
    draw = torch.Generator().manual_seed(tokens)
    both = torch.randn(ROWS, tokens, HEADS, 4 * width + values + 1, generator=draw).transpose(1, 2)
    *parts, clock = both.split([width, width, values, width, width, 1], dim=-1)
    return [*parts, clock.squeeze(-1)]


def turns(tokens: int, width: int) -> Rotary:
    return Rotary(Site(groups=1, tokens=tokens, width=HEADS * width, heads=HEADS)).to(DEVICE)


def kernel(paths: tuple[PathName, ...], rotary: Rotary | None = None):
    """The kernel as a function of six tensors."""
    from rearview.attention.kernels.clocked import attend_clocked

    table = None if rotary is None else rotary.table

    def run(q: Tensor, k: Tensor, v: Tensor, p: Tensor, g: Tensor, clock: Tensor) -> Tensor:
        given = p if "riemann" in paths else None, g if "prefix" in paths else None
        # A zero of each, so that those of no path have a gradient too.
        return attend_clocked(q, k, v, *given, clock, table, "clock" in paths) + 0 * (p.sum() + g.sum())

    return run


def written_out(paths: tuple[PathName, ...], rotary: Rotary | None = None):
    """The form by plain operations, as the layer calls it."""

    def run(q: Tensor, k: Tensor, v: Tensor, p: Tensor, g: Tensor, clock: Tensor) -> Tensor:
        q, k, v, p, g = (part[:, None] for part in (q, k, v, p, g))
        delta = functional.softplus(clock)[:, None, ..., None] + EPS
        q, k = (q, k) if rotary is None else rotary.double()(q, k)
        return fast(q, k, v, Signals(delta, p, g, None), paths)[:, 0] + 0 * (p.sum() + g.sum())

    return run


@pytest.mark.parametrize("paths", SUBSETS, ids="+".join)
def test_every_choice_of_paths(paths: tuple[PathName, ...]) -> None:
    assert max(errors(kernel(paths), written_out(paths), drawn(13))) <= CLOSE


@pytest.mark.parametrize(("tokens", "width", "values"), [(1, 5, 3), (2, 1, 1), (17, 6, 2)])
def test_queries_and_keys_are_turned(tokens: int, width: int, values: int) -> None:
    """Odd widths have a channel that stays as it is."""
    rotary = turns(tokens, width)
    found = errors(kernel(PATHS, rotary), written_out(PATHS, deepcopy(rotary)), drawn(tokens, width, values))
    assert max(found) <= CLOSE


@pytest.mark.parametrize("size", [30.0, 1e6])
def test_gates_of_any_size_are_right(size: float) -> None:
    """Every fifth token forgets all, outweighs all before it, or counts for nothing."""
    parts = drawn(19)
    parts[3][:, :, 2::5] = 30.0  # p, of which float32 keeps fewer digits the larger it is
    parts[3][:, :, 4::5] = -size
    parts[4][:, :, 3::5] = size  # g
    assert max(errors(kernel(PATHS), written_out(PATHS), parts)) <= CLOSE
    dgate = with_gradients(kernel(PATHS), [part.to(DEVICE) for part in parts])[5]
    if size > 100:
        assert dgate[:, :, 3::5].eq(0).all()


def test_a_clock_that_stands_still_or_leaps_is_right() -> None:
    parts = drawn(19)
    parts[5][:, :, 2::5], parts[5][:, :, 4::5] = -40.0, 60.0
    assert max(errors(kernel(PATHS), written_out(PATHS), parts)) <= CLOSE


def test_more_heads_than_a_program_holds() -> None:
    """Three heads, two to a program."""
    from rearview.attention.kernels import clocked

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clocked, "NUMBERS", 2 * 8 * 4)
        assert max(errors(kernel(PATHS), written_out(PATHS), drawn(7))) <= CLOSE


@pytest.fixture
def calls(monkeypatch) -> list[str]:
    """A line for each call of the kernel; kernels of any kind are taken wherever they fit."""
    from rearview.attention import kernels
    from rearview.attention.kernels import clocked

    made: list[str] = []
    called = clocked.attend_clocked
    monkeypatch.setattr(kernels, "available", lambda device: True)
    monkeypatch.setattr(clocked, "attend_clocked", lambda *given: (made.append("called"), called(*given))[1])
    return made


@pytest.mark.parametrize("settings", [{}, {"paths": ("clock",), "rotation": "none"}, {"rotation": "released"}], ids=str)
def test_a_layer_takes_it_and_is_the_layer(settings, calls) -> None:
    layer, x = layer_of(7, site={"head_width": 6}, **settings).to(DEVICE), tokens_of(7).to(DEVICE)
    exact = layer(x)
    assert not calls
    found = layer.float()(x.float())
    assert calls == ["called"]
    assert (found.double() - exact).abs().max() <= CLOSE * exact.abs().max()


@pytest.mark.parametrize("silenced", PATHS)
def test_a_path_silenced_later_is_silent_in_the_kernel_too(silenced: PathName, calls) -> None:
    layer, x = layer_of(7).to(DEVICE), tokens_of(7).to(DEVICE)
    whole = layer(x)
    layer.settings = replace(layer.settings, paths=tuple(path for path in PATHS if path != silenced))
    exact = layer(x)
    found = layer.float()(x.float())
    assert calls == ["called"]
    assert (found.double() - exact).abs().max() <= CLOSE * exact.abs().max()
    assert (exact - whole).abs().max() > 0.01 * whole.abs().max()


@pytest.mark.parametrize(
    ("settings", "given"),
    [
        ({"normaliser": "softmax"}, ""),
        ({"numerics": "released"}, ""),
        ({"rotation": "learned"}, ""),
        ({}, "mask"),
        ({}, "ages"),
    ],
    ids=str,
)
def test_what_it_does_not_know_is_left_to_the_general_form(settings, given, calls, monkeypatch) -> None:
    from rearview.attention.caps import recurrence

    monkeypatch.setattr(recurrence, "available", lambda device: False)
    layer, x = layer_of(13, **settings).to(DEVICE), tokens_of(13).to(DEVICE)
    at = torch.arange(13, device=DEVICE)
    arguments = {
        "": {},
        "mask": {"mask": torch.ones(x.shape[:3], dtype=torch.bool, device=DEVICE)},
        "ages": {"ages": (at[:, None] - at).double().expand(*x.shape[:2], 13, 13)},
    }[given]
    exact = layer(x, **arguments)
    found = layer.float()(x.float(), **arguments)
    assert not calls
    assert (found.double() - exact).abs().max() <= 1e-4 * exact.abs().max()


@needs_a_device
@pytest.mark.parametrize("tokens", [42, 128])
def test_gradients_on_a_device_are_right(tokens: int) -> None:
    assert max(errors(kernel(PATHS), written_out(PATHS), drawn(tokens, 8, 8))) <= 2 * CLOSE


@needs_a_device
@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_compiled_is_eager_on_a_device() -> None:
    layer, x = layer_of(42).float().cuda(), tokens_of(42).float().cuda()
    assert max(compiled_errors(layer, x)) <= 1e-4
