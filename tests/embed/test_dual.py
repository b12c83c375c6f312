"""CAPS's tokens: context and value parts, the tied way back, marks of past and future, channels dropped in training."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview.core.errors import SettingsError
from rearview.embed.dropout import channel_dropout
from rearview.embed.dual import Dual

BATCH, CHANNELS, MARKS, AHEAD, CONTEXT, VALUE, LOOKBACK = 2, 3, 5, 7, 11, 13, 17


def dual(ahead: int = AHEAD, **changes: int | bool | None) -> Dual:
    torch.manual_seed(3)
    made = Dual(CHANNELS, LOOKBACK, ahead, **{"context": CONTEXT, "value": VALUE, **changes}).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter))
    return made.eval()


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def same(ours: Tensor, theirs: Tensor) -> None:
    assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_a_token_is_its_steps_context_and_its_channels_value() -> None:
    made, x = dual(), drawn(BATCH, CHANNELS, LOOKBACK)
    tokens = made(x)
    assert tokens.shape == (BATCH, CHANNELS, LOOKBACK + AHEAD, CONTEXT + VALUE)
    extended = torch.cat([x, x @ made.extend.weight.T], dim=-1)
    for channel, step in ((0, 0), (1, LOOKBACK - 1), (2, LOOKBACK), (1, LOOKBACK + AHEAD - 1)):
        context = made.context.weight @ extended[1, :, step]
        value = extended[1, channel, step] * made.values[channel]
        same(tokens[1, channel, step], torch.cat([context, value]) + made.channels[channel] + made.positions[step])


def test_the_way_back_is_tied_to_the_way_in() -> None:
    """Tokens as they were made give the extension, each step times the squared length of its channel's vector."""
    made, x = dual(), drawn(BATCH, CHANNELS, LOOKBACK)
    with torch.no_grad():
        made.channels.zero_()
        made.positions.zero_()
    same(made.decode(made(x)), made.extend(x) * made.values.square().sum(-1)[:, None])


def test_the_last_channels_are_the_targets() -> None:
    made, x = dual(targets=2), drawn(BATCH, CHANNELS, LOOKBACK)
    assert made(x).shape[1] == made.decode(made(x)).shape[1] == 2
    changed = x.clone()
    changed[:, 0] += 1
    moved = (made(changed) - made(x)).abs().amax((0, 1, 2)) > 0
    assert moved[:CONTEXT].all()
    assert not moved[CONTEXT:].any()
    for targets in (0, 4):
        with pytest.raises(SettingsError, match=f"targets is {targets}; of 3 channels"):
            dual(targets=targets)


def marked(made: Dual, past: Tensor, future: Tensor | None, mask: Tensor | None = None) -> Tensor:
    """What the context token sees of the marks."""
    return made._marks(past, future, mask)


def test_marks_stand_relative_to_the_look_back() -> None:
    made = dual(marks=MARKS, future=AHEAD)
    past, future = drawn(BATCH, MARKS, LOOKBACK), drawn(BATCH, MARKS, AHEAD)
    whole = torch.cat([past, future], dim=-1)
    expected = (whole - past[..., -1:]) / (past.std(-1, keepdim=True) + 1e-8)
    same(marked(made, past, future), expected)


def test_marks_of_the_past_alone_stay_where_they_were() -> None:
    made, past = dual(marks=MARKS), drawn(BATCH, MARKS, LOOKBACK)
    assert (marked(made, past, None)[..., LOOKBACK:] == 0).all()


def test_each_quantile_of_a_step_has_its_steps_marks() -> None:
    made = dual(ahead=3 * AHEAD, marks=MARKS, future=AHEAD)
    past, future = drawn(BATCH, MARKS, LOOKBACK), drawn(BATCH, MARKS, AHEAD)
    ahead = marked(made, past, future)[..., LOOKBACK:]
    once = marked(dual(marks=MARKS, future=AHEAD), past, future)[..., LOOKBACK:]
    for quantile in range(3):
        same(ahead[..., quantile::3], once)


@pytest.mark.parametrize("future", [AHEAD - 2, AHEAD + 4])
def test_marks_known_for_another_number_of_steps_are_cut_or_left_at_nothing(future: int) -> None:
    made = dual(marks=MARKS, future=future)
    past, known = drawn(BATCH, MARKS, LOOKBACK), drawn(BATCH, MARKS, future)
    ahead = marked(made, past, known)[..., LOOKBACK:]
    common = min(future, AHEAD)
    assert ahead.shape[-1] == AHEAD
    same(ahead[..., :common], ((known - past[..., -1:]) / (past.std(-1, keepdim=True) + 1e-8))[..., :common])
    assert (ahead[..., common:] == 0).all()


def test_a_mark_that_stood_still_is_not_blown_up() -> None:
    made = dual(marks=1, future=AHEAD)
    past = torch.full((BATCH, 1, LOOKBACK), 0.3, dtype=torch.float64)
    same(marked(made, past, past[..., :AHEAD] + 0.5)[..., LOOKBACK:], torch.full((BATCH, 1, AHEAD), 0.5).double())


def test_padding_has_no_say_in_the_spread_of_a_mark() -> None:
    made = dual(marks=MARKS, future=AHEAD)
    past, future = drawn(BATCH, MARKS, LOOKBACK), drawn(BATCH, MARKS, AHEAD)
    mask = torch.arange(LOOKBACK).expand(BATCH, -1) >= 4
    short = Dual(CHANNELS, LOOKBACK - 4, AHEAD, context=CONTEXT, value=VALUE, marks=MARKS, future=AHEAD)
    same(marked(made, past, future, mask)[..., 4:], marked(short, past[..., 4:], future))
    assert (marked(made, past, future, mask)[..., :4] == 0).all()
    assert torch.equal(made.mask(mask), torch.cat([mask, torch.ones(BATCH, AHEAD, dtype=torch.bool)], dim=1))


def test_a_part_needs_a_width() -> None:
    with pytest.raises(SettingsError, match="has an empty part"):
        dual(context=0)


def test_dropped_channels_keep_the_sums_size() -> None:
    torch.manual_seed(0)
    x = torch.ones(4000, 23, 2)
    out = channel_dropout(x, training=True)
    kept = (out[..., 0] > 0).double().mean(1)
    some = kept > 0
    assert_close(out.double().sum(1)[some], torch.full_like(out[some, 0].double(), 23), rtol=1e-5, atol=1e-5)
    assert (out[~some] == 0).all()
    # Rates are drawn from U(0, 1), so are the shares kept: mean 1/2, variance 1/12 and what the draw adds.
    assert kept.mean().item() == pytest.approx(0.5, abs=0.02)
    assert kept.var().item() == pytest.approx(1 / 12 + 1 / (6 * 23), abs=0.01)
    assert channel_dropout(x, training=False) is x


def test_only_the_context_loses_channels() -> None:
    made = dual(drop_channels=True).train()
    x = drawn(BATCH, CHANNELS, LOOKBACK)
    torch.manual_seed(1)
    moved = (made(x) - made.eval()(x)).abs().amax((0, 1, 2)) > 0
    assert moved[:CONTEXT].all()
    assert not moved[CONTEXT:].any()


def test_what_is_left_of_the_channels_is_divided_as_printed_on_request() -> None:
    """By one less the rate, so that every window keeps its channels on average and not in each draw."""
    torch.manual_seed(3)
    x = torch.ones(4000, 11, 2)
    out = channel_dropout(x, training=True, printed=True)
    kept = out[..., 0] != 0
    sizes = [out[row, kept[row], 0].unique() for row in range(50) if kept[row].any()]
    assert all(len(size) == 1 for size in sizes)
    shares = torch.stack([1 / size[0] for size in sizes])
    found = torch.stack([kept[row].float().mean() for row in range(50) if kept[row].any()])
    assert (shares - found).abs().max() > 0.05, "the rate divides, and not the share that is kept"
    assert torch.corrcoef(torch.stack([shares, found]))[0, 1] > 0.8
    size = out.amax((1, 2))
    low = out[(size > 0) & (size < 2)]  # rates below a half, whose mean is not ruled by few large numbers
    assert low.mean().item() == pytest.approx(1, abs=0.05)
