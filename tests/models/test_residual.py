"""Where blocks take kernels for what stands between their products, and that it makes no other difference.

The choice is asked where kernels can run: on a CUDA device, or in Triton's interpreter on a CPU (TRITON_INTERPRET=1).
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernel_parts import DEVICE, needs_a_device, needs_kernels
from torch import Tensor, nn
from torch.testing import assert_close

from rearview import attention
from rearview.attention.contract import Inputs
from rearview.embed import Dropout
from rearview.models import kernels
from rearview.models.blocks.residual import add, layer_norm, widen
from rearview.models.blocks.stack import Block, BlockSettings, norm

BATCH, GROUPS, TOKENS, WIDTH, FEED_FORWARD = 5, 3, 7, 22, 13
PAY = kernels.pay
pytestmark = needs_kernels


@pytest.fixture(autouse=True)
def _kernels_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU too, where the interpreter stands in for the device; and on a few numbers, where they don't pay."""
    monkeypatch.setattr(kernels, "available", lambda device: True)
    monkeypatch.setattr(kernels, "pay", lambda x: True)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that were called since, by name."""
    from rearview.models.kernels import branch
    from rearview.models.kernels import norm as norms

    calls: list[str] = []

    def watched(name: str, call: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def noted(*given: Any) -> Tensor:
            calls.append(name)
            return call(*given)

        return noted

    for module, name in ((norms, "add_norm"), (branch, "activate"), (branch, "add")):
        monkeypatch.setattr(module, name, watched(name, getattr(module, name)))
    return calls


def tokens(seed: int = 3) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, GROUPS, TOKENS, WIDTH, generator=draw).to(DEVICE)


def block(dropout: float = 0.0, **settings: Any) -> Block:
    """A block whose every parameter has left its initial value."""
    torch.manual_seed(11)
    site = attention.Site(groups=GROUPS, tokens=TOKENS, width=WIDTH, heads=2)
    chosen = BlockSettings(FEED_FORWARD, dropout=dropout, **settings)
    made = Block(attention.create("linear", site), WIDTH, chosen)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made.to(DEVICE).train()


def stepped(made: nn.Module, x: Tensor) -> list[Tensor]:
    """Output, and gradients of the tokens and all parameters."""
    x = x.detach().clone().requires_grad_()
    y, _ = made(Inputs(x))
    cotangent = torch.linspace(-1, 1, y.numel(), device=y.device).view(y.shape)
    return [y.detach(), *torch.autograd.grad(y, [x, *made.parameters()], cotangent)]


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, ["add_norm", "activate", "add_norm"]),
        ({"activation": "relu"}, ["add_norm", "activate", "add_norm"]),
        ({"activation": "gelu_tanh", "bias": False}, ["add_norm", "activate", "add_norm"]),
        ({"order": "pre"}, ["add_norm", "add_norm", "activate"]),
        ({"norm": "batch"}, ["activate"]),
        ({"norm": "rms", "gated": True}, []),
    ],
    ids=str,
)
def test_a_block_on_kernels_is_the_block(settings: dict[str, Any], wanted: list[str], taken: list[str]) -> None:
    got = stepped(block(**settings), tokens())
    assert taken == wanted
    with pytest.MonkeyPatch.context() as without:
        without.setattr(kernels, "available", lambda device: False)
        expected = stepped(block(**settings), tokens())
    assert taken == wanted
    for one, other in zip(got, expected, strict=True):
        assert_close(one, other, rtol=1e-4, atol=1e-5 * max(1.0, other.abs().max().item()))


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, ["add_norm", "activate", "add_norm"]),
        ({"norm": "batch"}, ["add", "activate", "add"]),
        ({"norm": "rms", "order": "pre", "gated": True}, ["add", "add"]),
    ],
    ids=str,
)
def test_a_dropping_block_drops_anew_at_every_call(
    settings: dict[str, Any], wanted: list[str], taken: list[str]
) -> None:
    made = block(dropout=0.5, **settings)
    torch.manual_seed(5)
    once, again = made(Inputs(tokens()))[0], made(Inputs(tokens()))[0]
    assert taken == wanted * 2
    assert not torch.equal(once, again)
    torch.manual_seed(5)
    assert torch.equal(made(Inputs(tokens()))[0], once)


def test_a_block_in_evaluation_is_untouched(taken: list[str]) -> None:
    made = block(dropout=0.5).eval()
    y = made(Inputs(tokens()))[0]
    with pytest.MonkeyPatch.context() as without:
        without.setattr(kernels, "available", lambda device: False)
        assert torch.equal(made(Inputs(tokens()))[0], y)
    assert not taken


@pytest.mark.parametrize("kind", ["layer", "batch"])
def test_work_done_again_drops_the_same(kind: str) -> None:
    """All windows as one part: the same draws in the same order as at once, if backward draws them again."""
    found = []
    for part in (None, BATCH):
        made = block(dropout=0.5, norm=kind)
        made.part = part
        torch.manual_seed(7)
        found.append(stepped(made, tokens()))
    for one, other in zip(*found, strict=True):
        assert_close(one, other, rtol=1e-4, atol=1e-5 * max(1.0, other.abs().max().item()))


def test_parts_drop_each_their_own() -> None:
    made = block(dropout=0.5, norm="batch")
    made.part = 1
    alike = tokens()[:1].expand(BATCH, -1, -1, -1)
    assert len({y.sum().item() for y in made(Inputs(alike))[0]}) == BATCH


def test_a_mean_over_many_calls_is_the_sum_without_dropout() -> None:
    x, branch = tokens(3)[0], tokens(5)[0]
    drop = Dropout(0.3).train()
    torch.manual_seed(13)
    mean = torch.stack([add(x, branch, drop) for _ in range(200)]).mean(0)
    # Five standard deviations of a mean of 200, for the largest of some hundred cells.
    assert ((mean - x - branch).abs() <= 5 * (0.3 / 0.7 / 200) ** 0.5 * branch.abs() + 1e-6).all()


def whole_branch(x: Tensor, rate: float = 0.3, training: bool = True) -> Tensor:
    """Everything that a kernel could stand for, of tokens of any width and type."""
    torch.manual_seed(19)
    width = x.shape[-1]
    wide, narrow = (nn.Linear(*sizes).to(x) for sizes in ((width, 3), (3, width)))
    layer, drop = norm("layer", width).to(x).train(training), Dropout(rate).train(training)
    hidden = widen(x, wide, nn.GELU(), drop)
    return layer_norm(add(x, hidden, drop, layer, narrow=narrow), layer)


@pytest.mark.parametrize(
    "given",
    [{"x": tokens(), "training": False}, {"x": tokens().double()}, {"x": tokens()[:0]}],
    ids=["evaluation", "float64", "nothing"],
)
def test_what_kernels_do_not_take_runs_as_it_is(given: dict[str, Any], taken: list[str]) -> None:
    assert whole_branch(**given).shape == given["x"].shape
    assert not taken


def test_a_compiler_sees_plain_operations(taken: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    whole_branch(tokens())
    assert not taken


def test_what_32_bits_can_not_count_is_left_to_torch(taken: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    x = tokens()
    for reach, wanted in ((x.numel(), []), (x.numel() + 1, ["activate", "add_norm", "add_norm"])):
        monkeypatch.setattr(kernels, "REACH", reach)
        whole_branch(x)
        assert taken == wanted


def test_rows_that_no_program_can_hold_are_normalised_by_torch(taken: list[str]) -> None:
    for width, wanted in ((2049, ["activate", "add"]), (2048, ["activate", "add_norm", "add_norm"])):
        taken.clear()
        whole_branch(torch.randn(2, width, device=DEVICE))
        assert taken == wanted


def test_a_norm_of_another_type_is_left_to_torch(taken: list[str]) -> None:
    """Which refuses it, or takes it, as it always did."""
    layer = norm("layer", WIDTH).to(DEVICE).train()
    layer.forward = lambda x, mask=None: x
    assert add(tokens().half(), tokens().half(), Dropout(0.0).train(), layer).dtype == torch.float16
    assert not taken


def test_where_all_is_dropped_nothing_is_added(taken: list[str]) -> None:
    x = tokens()
    assert torch.equal(add(x, x, Dropout(1.0).train()), x)
    assert not taken


def test_whoever_waits_for_a_module_is_called(taken: list[str]) -> None:
    seen: list[str] = []
    x, drop, layer = tokens(), Dropout(0.3).train(), norm("layer", WIDTH).to(DEVICE).train()
    layer.register_forward_hook(lambda module, given, out: seen.append("norm"))
    add(x, x, drop, layer)
    drop.register_forward_hook(lambda module, given, out: seen.append("drop"))
    add(x, x, drop)
    assert seen == ["norm", "drop"]
    assert taken == ["add_norm"]  # the norm's own


def test_whoever_waits_for_a_feed_forward_part_is_called(taken: list[str]) -> None:
    made, x, seen = block(dropout=0.3), tokens(), []
    made.feed_forward.register_forward_hook(lambda module, given, out: seen.append(out.shape))
    made.feed(x)
    assert seen == [x.shape]
    assert taken == ["add_norm"]  # the norm's own


def test_maps_that_are_not_plain_are_called(taken: list[str]) -> None:
    """One that somebody hooked into, and one of another class, keep their bias."""

    class Doubled(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    torch.manual_seed(17)
    x, drop, layer = tokens(), Dropout(0.0).train(), norm("layer", WIDTH).to(DEVICE).train()
    hooked = nn.Linear(WIDTH, WIDTH, device=DEVICE)
    hooked.register_forward_hook(lambda module, given, out: 2 * out)
    for odd in (hooked, Doubled(WIDTH, WIDTH, device=DEVICE)):
        assert_close(add(x, x, drop, layer, narrow=odd), nn.LayerNorm.forward(layer, x + odd(x)))
        assert_close(widen(x, odd, nn.ReLU(), drop), odd(x).relu())
    assert taken == ["add_norm", "activate"] * 2


def test_activations_that_no_kernel_knows_run_as_they_are(taken: list[str]) -> None:
    x, wide = tokens(), nn.Linear(WIDTH, 5, device=DEVICE)
    assert_close(widen(x, wide, nn.Tanh(), Dropout(0.0).train()), wide(x).tanh())
    assert not taken


def test_shapes_that_are_broadcast_are_left_to_torch(taken: list[str]) -> None:
    x, drop = tokens(), Dropout(0.0).train()
    layer = norm("layer", WIDTH).to(DEVICE).train()
    assert add(x[:1], x, drop, layer).shape == x.shape
    assert taken == ["add_norm"]  # the norm alone


def test_transformations_of_functions_see_plain_operations(taken: list[str]) -> None:
    x, drop, layer = tokens(), Dropout(0.0).train(), norm("layer", WIDTH).to(DEVICE).train()
    mapped = torch.func.vmap(lambda one: add(one, one, drop, layer))(x)
    assert not taken
    assert_close(mapped, add(x, x, drop, layer), rtol=1e-4, atol=1e-5)
    slopes = torch.func.jacrev(lambda one: layer_norm(one, layer))(x[0, 0, 0])
    assert slopes.shape == (WIDTH, WIDTH)
    assert taken == ["add_norm"]


def test_state_has_the_names_it_had() -> None:
    names = set(block().state_dict())
    parts = ("norm_attended", "norm_fed", "feed_forward.0", "feed_forward.3")
    assert {f"{part}.{kind}" for part in parts for kind in ("weight", "bias")} <= names
    gated = set(block(gated=True).state_dict())
    assert {"feed_forward.0.gate.weight", "feed_forward.0.value.weight", "feed_forward.2.weight"} <= gated


@needs_a_device
@pytest.mark.parametrize("settings", [{}, {"norm": "batch"}, {"order": "pre"}], ids=str)
def test_a_block_under_autocast_is_near_the_plain_one(settings: dict[str, Any], taken: list[str]) -> None:
    found = []
    for here in (True, False):
        with pytest.MonkeyPatch.context() as choice:
            choice.setattr(kernels, "available", lambda device, answer=here: answer)
            with torch.autocast("cuda", torch.bfloat16):
                found.append(stepped(block(**settings), tokens()))
    assert taken
    for one, other in zip(*found, strict=True):
        assert one.dtype == other.dtype
        assert_close(one, other, rtol=3e-2, atol=3e-2 * max(1.0, other.abs().max().item()))


@needs_a_device
def test_kernels_are_left_alone_where_launches_cost_more(taken: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "pay", PAY)
    x = tokens()
    whole_branch(x)
    assert not taken
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        whole_branch(x)
    torch.cuda.current_stream().wait_stream(side)
    assert taken == ["activate", "add_norm", "add_norm"]
    monkeypatch.setattr(kernels, "MANY", x.numel())
    whole_branch(x)
    assert taken == ["activate", "add_norm", "add_norm"] * 2


@needs_a_device
def test_a_captured_block_drops_anew_at_every_replay_and_alike_in_both_ways() -> None:
    """Gradients of a sum show where a branch was kept: they are 0 where it was dropped."""
    x = torch.zeros(64, 40, device="cuda")
    branch = torch.ones(64, 40, device="cuda", requires_grad=True)
    drop = Dropout(0.5).train()

    def step() -> tuple[Tensor, Tensor]:
        y = add(x, branch, drop)
        return y, torch.autograd.grad(y.sum(), branch)[0]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y, gradient = step()
    seen = []
    for _ in range(3):
        graph.replay()
        assert torch.equal(y, gradient)
        seen.append(y.clone())
    assert not any(torch.equal(one, other) for n, one in enumerate(seen) for other in seen[:n])
