"""The block, the stack and their norms: what the words of the formula say, with and without padding."""

import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from rearview import attention, models
from rearview.attention.contract import Inputs, Site
from rearview.core.errors import RearviewWarning, SettingsError
from rearview.models.blocks.stack import Block, BlockSettings, Stack, TokenBatchNorm, norm

BATCH, GROUPS, TOKENS, WIDTH, HEADS, FEED_FORWARD = 5, 3, 7, 26, 13, 19
SITE = Site(groups=GROUPS, tokens=TOKENS, width=WIDTH, heads=HEADS)


def tokens() -> Tensor:
    torch.manual_seed(3)
    return 4 + 3 * torch.randn(BATCH, GROUPS, TOKENS, WIDTH, dtype=torch.float64)


def padding() -> Tensor:
    torch.manual_seed(5)
    mask = torch.rand(BATCH, GROUPS, TOKENS) < 0.6
    assert mask.any()
    assert not mask.all()
    return mask


def scattered_norm() -> TokenBatchNorm:
    torch.manual_seed(7)
    made = TokenBatchNorm(WIDTH).double()
    for tensor in (made.weight.data, made.bias.data, made.running_mean, made.running_var):
        tensor.uniform_(0.5, 1.5)
    return made


def test_batch_norm_takes_its_statistics_over_real_tokens() -> None:
    ours, plain = scattered_norm(), nn.BatchNorm1d(WIDTH).double()
    plain.load_state_dict(ours.state_dict())
    mask = padding()
    x = tokens().requires_grad_()
    chosen = x.detach()[mask].requires_grad_()
    out, expected = ours(x, mask), plain(chosen)
    assert_close(out[mask], expected)
    assert not out[~mask].any()
    cotangent = torch.linspace(-1, 1, expected.numel(), dtype=x.dtype).view(expected.shape)
    mine = torch.autograd.grad(out[mask], [x, ours.weight, ours.bias], cotangent)
    theirs = torch.autograd.grad(expected, [chosen, plain.weight, plain.bias], cotangent)
    assert_close(mine[0][mask], theirs[0])
    assert not mine[0][~mask].any()
    assert_close(mine[1:], theirs[1:])
    assert_close(ours.state_dict(), plain.state_dict())


def test_padding_leaves_batch_norm_as_zero_in_training_and_evaluation() -> None:
    mask, x = padding(), tokens()
    for training in (True, False):
        made = scattered_norm().train(training)
        out = made(x, mask)
        assert not out[~mask].any()
        assert out[mask].abs().min() > 0
    assert_close(scattered_norm().eval()(x, mask)[mask], scattered_norm().eval()(x)[mask])


def test_batch_norm_goes_back_through_two_passes() -> None:
    """One with padding behind one without: statistics that are remembered are no part of either's way back."""
    mask, x = padding(), tokens()
    cotangent = torch.linspace(-1, 1, x.numel(), dtype=x.dtype).view(x.shape)
    found = []
    for together in (True, False):
        made, given = scattered_norm().train(), x.clone().requires_grad_()
        if together:
            torch.autograd.backward([made(given), made(given, mask)], [cotangent, cotangent])
        else:
            made(given).backward(cotangent)
            made(given, mask).backward(cotangent)
        found.append((given.grad, made.running_mean, made.running_var))
    for ours, theirs in zip(*found, strict=True):
        assert_close(ours, theirs)


def test_batch_norm_without_a_real_token_stays_finite() -> None:
    made = scattered_norm()
    out = made(tokens(), torch.zeros(BATCH, GROUPS, TOKENS, dtype=torch.bool))
    assert not out.any()
    assert made.running_mean.isfinite().all()
    assert made.running_var.isfinite().all()


def test_batch_norm_of_low_precision_counts_in_full() -> None:
    made = TokenBatchNorm(WIDTH)
    # 996 and 1004, neither near the mean: what is 0 but for the rounding of float32 can't be compared.
    x = (1000 + 4 * torch.randn(61, GROUPS, TOKENS, WIDTH).sign()).to(torch.bfloat16)
    out = made(x, torch.ones(61, GROUPS, TOKENS, dtype=torch.bool))
    assert out.dtype == torch.bfloat16
    assert_close(out, nn.BatchNorm1d(WIDTH)(x.float().view(-1, WIDTH)).view(x.shape).to(torch.bfloat16))


@pytest.mark.parametrize("order", ["post", "pre"])
@pytest.mark.parametrize("kind", ["batch", "layer"])
def test_a_block_is_its_formula(kind: str, order: str) -> None:
    torch.manual_seed(11)
    attend = attention.create("softmax", SITE)
    block = Block(attend, WIDTH, BlockSettings(FEED_FORWARD, norm=kind, order=order)).double().eval()
    x = tokens()
    first, second, feed = block.norm_attended, block.norm_fed, block.feed_forward
    if order == "post":
        y = first(x + attend(x))
        expected = second(y + feed(y))
    else:
        y = x + attend(first(x))
        expected = y + feed(second(y))
    out, carry = block(Inputs(x))
    assert_close(out, expected)
    assert carry is None


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("order", ["pre", "post"])
def test_a_feed_forward_part_that_somebody_hooked_into_is_called(order: str, gated: bool) -> None:
    """On the part as a whole, on what it is made of, or on all modules: the block's numbers stay, or become theirs."""
    torch.manual_seed(11)
    block = Block(
        attention.create("softmax", SITE), WIDTH, BlockSettings(FEED_FORWARD, order=order, gated=gated)
    ).double()
    feed, x, seen = block.feed_forward, tokens().requires_grad_(), []
    expected = block(Inputs(x))[0]
    hooks = [
        feed.register_forward_pre_hook(lambda module, given: seen.append("before")),
        feed[-1].register_forward_hook(lambda module, given, out: seen.append("inside")),
        feed.register_forward_hook(lambda module, given, out: seen.append("after")),
        feed.register_full_backward_pre_hook(lambda module, gradient: seen.append("back")),
    ]
    out = block(Inputs(x))[0]
    out.sum().backward()
    assert seen == ["before", "inside", "after", "back"]
    assert_close(out, expected)
    for hook in hooks:
        hook.remove()
    with nn.modules.module.register_module_forward_hook(lambda module, given, out: seen.append(module)):
        block(Inputs(x))
    assert feed in seen
    feed.register_forward_hook(lambda module, given, out: torch.zeros_like(out))
    attended = block.mix(Inputs(x))[0]
    assert_close(block(Inputs(x))[0], attended if order == "pre" else block.norm_fed(attended))


def test_weights_of_a_stack_are_those_on_its_way() -> None:
    torch.manual_seed(13)
    stack = Stack(SITE, 3, BlockSettings(FEED_FORWARD, order="pre"), final_norm="layer").double().eval()
    x, mask = tokens(), padding()
    weights = stack.weights(x, mask)
    seen = []
    for block, operator in zip(stack.blocks, weights, strict=True):
        hook = block.attend.register_forward_hook(lambda layer, given, out: seen.append((given[0], out)))
        stack(x, mask)
        hook.remove()
        given, out = seen[-1]
        assert_close(block.attend.project(operator @ block.attend.values(given)), out)
    assert len(seen) == 3
    assert_close(stack(x, mask).mean(-1), torch.zeros(BATCH, GROUPS, TOKENS, dtype=x.dtype), rtol=0, atol=1e-9)


def test_residual_scores_reach_later_layers_where_the_mechanism_carries_them() -> None:
    def built(name: str, residual: bool) -> Stack:
        torch.manual_seed(17)
        return Stack(SITE, 2, BlockSettings(FEED_FORWARD), name, residual_scores=residual).double().eval()

    x = tokens()
    assert (built("softmax", True)(x) - built("softmax", False)(x)).abs().max() > 1e-6
    assert torch.equal(built("linear", True)(x), built("linear", False)(x))


@pytest.mark.parametrize(
    "spec", ["toa", {"name": "toa", "kind": "relu"}, {"name": "mica", "local": "toa"}], ids=["gated", "relu", "in mica"]
)
def test_weights_that_nothing_bounds_are_warned_of_once_under_batch_norm(spec: attention.Spec) -> None:
    name = attention.split(spec)[0]
    for host in ("patchtst", "powerformer"):
        told = rf'^{name} tends to .* in {host}: .* Give score_norm="l2".* such as patchtst_tslib\.$'
        with pytest.warns(RearviewWarning, match=rf"(?i){told}") as met:
            models.create(host, channels=3, lookback=37, steps=5, attention=spec)
        assert len(met) == 1


@pytest.mark.parametrize(
    ("host", "spec"),
    [
        ("patchtst", {"name": "toa", "score_norm": "l2"}),
        ("patchtst", {"name": "toa", "kind": "relu", "score_norm": "mean"}),
        ("patchtst", {"name": "toa", "kind": "softmax"}),
        ("patchtst", "hyperglu"),
        ("patchtst_tslib", "toa"),
        ("itransformer", "toa"),
    ],
)
def test_bounded_weights_and_layer_norms_go_without_a_word(host: str, spec: attention.Spec) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert models.create(host, channels=3, lookback=37, steps=5, attention=spec).stack.blocks


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Stack(SITE, 0, BlockSettings(FEED_FORWARD)), "depth is 0"),
        (lambda: BlockSettings(FEED_FORWARD, activation="tanh"), "activation is 'tanh'; it can be one of gelu, relu"),
        (lambda: BlockSettings(FEED_FORWARD, dropout=1.0), r"dropout is 1\.0"),
        (lambda: norm("group", WIDTH), "norm is 'group'; it can be one of batch, layer, rms"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_an_impossible_stack_is_refused(make, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        make()


def test_patchtst_drops_attention_out_as_two_dropouts_in_a_row_do() -> None:
    model = models.create("patchtst", channels=3, lookback=37, steps=5, dropout=0.2)
    block = model.stack.blocks[0]
    assert block.drop_attended.rate == pytest.approx(1 - 0.8 * 0.8)
    assert [part.rate for part in block.feed_forward if hasattr(part, "rate")] == [0.2, 0.2]
    assert model.drop.rate == 0.2
    assert block.attend.site.dropout == 0


def test_seasonal_naive_repeats_the_last_season_as_far_as_it_is_known() -> None:
    model = models.create("seasonal_naive", channels=2, lookback=7, steps=5, period=3)
    past = torch.arange(28.0).view(2, 2, 7)
    assert torch.equal(model(past)[0, 0], torch.tensor([4.0, 5, 6, 4, 5]))
    mask = torch.arange(7) >= torch.tensor([[0], [5]])
    short = model(past, mask=mask)
    assert torch.equal(short[0], model(past)[0])
    assert torch.equal(short[1, 0], torch.tensor([20.0, 19, 20, 20, 19]))
    with pytest.raises(SettingsError, match="period is 8"):
        models.create("seasonal_naive", channels=2, lookback=7, steps=5, period=8)


def test_dlinear_needs_an_odd_kernel() -> None:
    with pytest.raises(SettingsError, match="kernel is 4"):
        models.create("dlinear", channels=2, lookback=7, steps=5, kernel=4)
