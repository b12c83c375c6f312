"""Patches, variates and points: how many tokens, and what each is made from."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview.core.errors import SettingsError
from rearview.embed import Patches, Points, Variates

BATCH, CHANNELS, MARKS, AHEAD, WIDTH, LOOKBACK = 2, 3, 5, 7, 13, 37


def windows(lookback: int = LOOKBACK) -> Tensor:
    torch.manual_seed(lookback)
    return torch.randn(BATCH, CHANNELS, lookback)


def pieces(channel: Tensor, patch: int, stride: int, pad_end: bool) -> Tensor:
    """The patches of one channel, cut one at a time."""
    steps = channel.tolist()
    steps += steps[-1:] * (stride if pad_end else 0)
    cut = []
    start = 0
    while start + patch <= len(steps):
        cut.append(steps[start : start + patch])
        start += stride
    return torch.tensor(cut)


@pytest.mark.parametrize("pad_end", [True, False])
@pytest.mark.parametrize(
    ("lookback", "patch", "stride"), [(37, 16, 8), (37, 7, 3), (37, 7, 7), (37, 1, 1), (37, 37, 11), (336, 16, 8)]
)
def test_patches_are_cut_as_a_loop_cuts_them(lookback: int, patch: int, stride: int, pad_end: bool) -> None:
    tokenise = Patches(lookback, patch, stride, WIDTH, pad_end=pad_end)
    past = windows(lookback)
    out = tokenise(past)
    assert out.shape == (BATCH, CHANNELS, tokenise.tokens, WIDTH)
    for row in range(BATCH):
        for channel in range(CHANNELS):
            cut = pieces(past[row, channel], patch, stride, pad_end)
            assert len(cut) == tokenise.tokens
            assert_close(out[row, channel], tokenise.project(cut))


def test_the_official_settings_make_42_patches() -> None:
    assert Patches(336, 16, 8, WIDTH).tokens == 42
    assert Patches(512, 16, 8, WIDTH).tokens == 64


@pytest.mark.parametrize(("lookback", "tokens"), [(1, 2), (5, 2), (15, 2), (16, 2)])
def test_a_short_lookback_is_one_patch_and_its_padding(lookback: int, tokens: int) -> None:
    tokenise = Patches(lookback, 16, 16, WIDTH)
    past = windows(lookback)
    assert tokenise.patch == lookback
    assert tokenise.tokens == tokens
    assert_close(tokenise(past)[:, :, 0], tokenise.project(past))
    assert_close(tokenise(past)[:, :, 1], tokenise.project(past[..., -1:].expand_as(past)))


def test_no_step_is_left_out_by_a_long_stride() -> None:
    tokenise = Patches(LOOKBACK, 5, 11, WIDTH)
    past = windows().requires_grad_()
    (gradient,) = torch.autograd.grad(tokenise(past).square().sum(), past)
    assert tokenise.stride == 5
    assert (gradient != 0).all()


def test_a_patch_is_real_when_any_of_its_steps_is() -> None:
    tokenise = Patches(LOOKBACK, 7, 3, WIDTH)
    mask = torch.arange(LOOKBACK) >= torch.tensor([[0], [20]])
    expected = [[bool(piece.any()) for piece in pieces(row, 7, 3, True)] for row in mask]
    assert tokenise.mask(mask).tolist() == expected
    assert not all(expected[1])


def test_a_map_without_bias_sends_0_to_0() -> None:
    assert not Patches(LOOKBACK, 7, 3, WIDTH, bias=False)(torch.zeros(BATCH, CHANNELS, LOOKBACK)).any()


@pytest.mark.parametrize(("patch", "stride"), [(0, 3), (7, 0), (-1, 3)])
def test_an_impossible_patch_is_refused(patch: int, stride: int) -> None:
    with pytest.raises(SettingsError, match=f"patch is {patch} and stride is {stride}"):
        Patches(LOOKBACK, patch, stride, WIDTH)


def test_a_variate_is_a_token() -> None:
    tokenise = Variates(LOOKBACK, WIDTH)
    past = windows()
    out = tokenise(past)
    assert out.shape == (BATCH, 1, CHANNELS, WIDTH)
    assert_close(out[:, 0, 2], tokenise.project(past[:, 2]))
    assert torch.equal(tokenise(past, torch.ones(BATCH, MARKS, LOOKBACK)), out), "no place for marks: ignored"


def test_marks_follow_as_tokens_with_the_map_of_the_channels() -> None:
    tokenise = Variates(LOOKBACK, WIDTH, marks=MARKS)
    past, before = windows(), torch.randn(BATCH, MARKS, LOOKBACK)
    out = tokenise(past, before)
    assert out.shape == (BATCH, 1, CHANNELS + MARKS, WIDTH)
    assert_close(out[:, 0, :CHANNELS], tokenise.project(past))
    assert_close(out[:, 0, CHANNELS:], tokenise.project(before))


def test_marks_known_ahead_have_a_map_of_their_own() -> None:
    tokenise = Variates(LOOKBACK, WIDTH, marks=MARKS, future=AHEAD)
    past = windows()
    before, after = torch.randn(BATCH, MARKS, LOOKBACK), torch.randn(BATCH, MARKS, AHEAD)
    out = tokenise(past, before, after)
    assert_close(out[:, 0, :CHANNELS], tokenise.project(past))
    assert_close(out[:, 0, CHANNELS:], tokenise.project_marks(torch.cat([before, after], -1)))


@pytest.mark.parametrize("future", [0, AHEAD])
def test_each_mark_that_describes_a_series_is_embedded_by_a_vector_of_its_own(future: int) -> None:
    statics = 2
    tokenise = Variates(LOOKBACK, WIDTH, marks=MARKS, future=future, statics=statics)
    kinds = torch.eye(statics)[torch.arange(BATCH) % statics]
    marks = torch.cat([torch.randn(BATCH, MARKS - statics, 1), kinds[..., None]], dim=1)
    before, after = marks.expand(-1, -1, LOOKBACK), marks.expand(-1, -1, future)
    out = tokenise(windows(), before, after if future else None)
    plain = Variates(LOOKBACK, WIDTH, marks=MARKS, future=future)
    same = plain(windows(), before, after if future else None)[:, 0, -statics:]
    assert out.shape == (BATCH, 1, CHANNELS + MARKS, WIDTH)
    assert_close(out[0, 0, -statics], tokenise.embedding[0])
    assert_close(out[1, 0, -1], tokenise.embedding[1])
    assert_close(same[0].flip(0), same[1]), "by the common map the tokens of two kinds are the same, in another order"
    assert not torch.allclose(out[0, 0, -statics:].flip(0), out[1, 0, -statics:])


def test_a_point_sees_its_neighbours_in_a_ring() -> None:
    tokenise = Points(CHANNELS, WIDTH)
    past = windows()
    out = tokenise(past)
    assert out.shape == (BATCH, 1, LOOKBACK, WIDTH)
    weight = tokenise.convolve.weight
    for step in (0, 11, LOOKBACK - 1):
        around = torch.stack([past[..., (step + shift) % LOOKBACK] for shift in (-1, 0, 1)], -1)
        assert_close(out[:, 0, step], torch.einsum("bcs,wcs->bw", around, weight))


@pytest.mark.parametrize("fill", ["front", "end"])
@pytest.mark.parametrize(("lookback", "tokens"), [(37, 6), (35, 5), (5, 1)])
def test_patches_filled_up_come_out_even(fill: str, lookback: int, tokens: int) -> None:
    tokenise = Patches(lookback, 7, 7, WIDTH, pad_end=False, fill=fill)
    past = windows(lookback)
    assert tokenise.tokens == tokens
    missing = tokens * tokenise.patch - lookback
    edge = past[..., :1] if fill == "front" else past[..., -1:]
    repeated = [edge.expand(-1, -1, missing), past] if fill == "front" else [past, edge.expand(-1, -1, missing)]
    whole = torch.cat(repeated, dim=-1).unflatten(-1, (tokens, tokenise.patch))
    assert_close(tokenise(past), tokenise.project(whole))
    mask = (torch.arange(lookback) == lookback - 1).expand(BATCH, -1)
    assert tokenise.mask(mask).sum() == BATCH
    assert tokenise.mask(mask)[:, -1].all()


def test_marks_of_a_point_are_added_to_its_token() -> None:
    tokenise, marks = Points(CHANNELS, WIDTH, marks=MARKS), torch.randn(BATCH, MARKS, LOOKBACK)
    silent = tokenise(windows(), torch.zeros_like(marks))
    added = tokenise(windows(), marks) - silent
    assert_close(added[:, 0], tokenise.project_marks(marks.transpose(1, 2)), rtol=1e-4, atol=1e-5)
    assert_close(silent[:, 0], tokenise.convolve(windows()).transpose(1, 2))
