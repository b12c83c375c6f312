"""What the Transformer, Timer-XL and Crossformer promise besides the contract of all networks."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview import models
from rearview.core.errors import SettingsError
from rearview.models.blocks.decoder import Cross
from rearview.models.patch_hosts.crossformer import Merge
from rearview.testing.small_models import BATCH, CHANNELS, LOOKBACK, MARKS, STEPS, marks_for, past_for, small

WIDE = {"width": 40, "heads": 5}


def same(ours: Tensor, theirs: Tensor) -> None:
    assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def ahead_of_itself(operator: Tensor) -> bool:
    return bool(operator.triu(1).abs().max() > 0)


@pytest.mark.parametrize(
    ("mechanism", "encoder", "decoder"),
    [("softmax", True, False), ("rbca", False, False), ("toa", True, True), ("prime", True, True)],
)
def test_mechanisms_keep_their_nature_in_the_transformer(mechanism: str, encoder: bool, decoder: bool) -> None:
    model = small("transformer", attention=mechanism)
    weights = model.weights(past_for(model))
    assert [ahead_of_itself(operator) for operator in weights] == [encoder, encoder, decoder]
    masked = small("transformer", attention=mechanism, causal_decoder=True)
    assert not ahead_of_itself(masked.weights(past_for(masked))[-1])


def test_recency_bias_turns_off_dropout_on_its_own_weights_only() -> None:
    model = small("transformer", attention="rbca", attention_dropout=0.5).train()
    past = past_for(model)
    assert model.decoder.blocks[0].cross.dropout == 0.5
    for block in (*model.stack.blocks, *model.decoder.blocks):
        x = torch.randn(BATCH, 1, 13, 26, dtype=torch.float64)
        assert torch.equal(block.attend(x), block.attend(x))
    assert not torch.equal(model(past), model(past))


def test_the_decoder_starts_from_what_is_observed() -> None:
    """With a look-back shorter than the label, all of it; what lies before the label reaches it by the memory alone."""
    short = small("transformer", label=100)
    assert short.label == LOOKBACK
    model = small("transformer", label=5)
    assert model.decoder.blocks[0].attend.site.tokens == 5 + STEPS
    seen: list[Tensor] = []
    model.embed_start.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    past = past_for(model)
    model(past)
    assert torch.equal(seen[0][..., :5], past[..., -5:])
    assert not seen[0][..., 5:].any()


def test_marks_ahead_stand_at_their_steps() -> None:
    """Cut to the steps asked for, 0 where nobody knows them, and repeated where a moment is asked for several times."""

    def ahead(future: int, steps: int) -> Tensor:
        model = small("transformer", marks=MARKS, future=future, steps=steps, label=7)
        marks = model._marks_ahead(marks_for(model, LOOKBACK), marks_for(model, future))
        assert torch.equal(marks[..., :7], marks_for(model, LOOKBACK)[..., -7:])
        assert marks.shape[-1] == 7 + steps
        return marks[..., 7:] - torch.nn.functional.pad(marks_for(model, future), (0, 100))[..., :steps]

    assert not ahead(17, 11).any()
    assert not ahead(7, 11).any()
    repeated = small("transformer", marks=MARKS, future=5, steps=15, label=7)
    known = marks_for(repeated, 5)
    found = repeated._marks_ahead(marks_for(repeated, LOOKBACK), known)[..., 7:]
    assert torch.equal(found, known.repeat_interleave(3, dim=-1))


@pytest.mark.parametrize("name", ["transformer", "timer_xl", "crossformer"])
@pytest.mark.parametrize("mechanism", ["softmax", "rbca", "toa", "prime"])
def test_windows_and_classes_are_given_by_every_pair(name: str, mechanism: str) -> None:
    mask = torch.arange(LOOKBACK) >= torch.tensor([[0], [23]])
    for asked, shape in (
        ({"asks": "window", "steps": None}, (BATCH, CHANNELS, LOOKBACK)),
        ({"asks": "classes", "classes": 5, "steps": None}, (BATCH, 5)),
    ):
        model = small(name, attention=mechanism, **asked).train()
        past = past_for(model)
        out = model(past, mask=mask)
        assert out.shape == shape
        out.square().mean().backward()
        assert all(parameter.grad is not None for parameter in model.parameters())
        model.eval()
        same(model(past, mask=mask), model(torch.where(mask[:, None], past, 1e6), mask=mask))


@pytest.mark.parametrize("mechanism", ["softmax", "rbca", "toa", "prime"])
def test_timer_xl_sees_all_channels_and_no_later_patch(mechanism: str) -> None:
    model = small("timer_xl", attention=mechanism, lookback=28, **WIDE)
    times = torch.arange(4).repeat(CHANNELS)
    later = times > times[:, None]
    for operator in model.weights(past_for(model)):
        assert not operator[..., later].any()
        assert (operator[..., ~later] != 0).any(0).all() or mechanism == "toa"


def test_timer_xl_with_a_primer_of_one_is_its_softmax() -> None:
    """So the primer stands after the rotation, and mask and bias are the network's."""
    plain = small("timer_xl", **WIDE)
    primed = small("timer_xl", attention={"name": "prime", "primer": "sparse", "sparsity": 1.0}, **WIDE)
    left = primed.load_state_dict(plain.state_dict(), strict=False)
    assert not left.unexpected_keys
    past = past_for(plain)
    same(primed(past), plain(past))


def test_prime_reads_channels_where_timer_xl_has_a_token_for_each() -> None:
    one = small("timer_xl", attention="prime", patch=LOOKBACK)
    assert one.stack.blocks[0].attend.primer.features.shape[-1] == LOOKBACK + 3
    assert small("timer_xl", attention="prime").stack.blocks[0].attend.primer.expand is None


@pytest.mark.parametrize("output", [3, 7, 10])
def test_timer_xl_rolls_out_by_reading_its_own_forecasts(output: int) -> None:
    model = small("timer_xl", output_patch=output, steps=23, **WIDE)
    once = small("timer_xl", output_patch=output, steps=output, **WIDE)
    once.load_state_dict(model.state_dict())
    series = past_for(model)
    for _ in range(0, 23, output):
        series = torch.cat([series, once(series[..., -LOOKBACK:])], dim=-1)
    same(model(past_for(model)), series[..., LOOKBACK : LOOKBACK + 23])


def test_the_target_of_timer_xl_is_informed_and_informs_nobody() -> None:
    model = small("timer_xl", target=1, **WIDE)
    past = past_for(model)
    for channel in range(CHANNELS):
        changed = past.clone()
        changed[:, channel] += torch.randn(LOOKBACK, dtype=past.dtype)
        moved = (model(changed) - model(past)).abs().amax((0, 2)) > 1e-9
        assert moved.tolist() == [other == channel or other == 1 for other in range(CHANNELS)]


@pytest.mark.parametrize("routers", [1, 4])
def test_crossformers_channels_meet_in_the_routers_only(routers: int) -> None:
    """Without what they send, channels stay apart."""
    model = small("crossformer", routers=routers)
    for stage in (*model.stages, *model.stages_ahead):
        torch.nn.init.zeros_(stage.channels.cross.out.weight)
    past = past_for(model)
    changed = past.clone()
    changed[:, 0] += 100
    moved = (model(changed) - model(past)).abs().amax((0, 2)) > 1e-9
    assert moved.tolist() == [True, False, False]


def test_merging_joins_neighbours_and_repeats_the_last() -> None:
    torch.manual_seed(3)
    merge, x = Merge(2, 3).double(), torch.randn(1, 1, 5, 2, dtype=torch.float64)
    joined = merge(x)
    assert joined.shape == (1, 1, 2, 2)
    for row, parts in enumerate([[0, 1, 2], [3, 4, 4]]):
        same(joined[0, 0, row], merge.project(merge.norm(x[0, 0, parts].flatten())))
    mask = torch.tensor([[[False, False, False, False, True]]])
    assert merge.mask(mask).tolist() == [[[False, True]]]


def test_cross_attention_leaves_padding_out_and_never_has_nothing_to_see() -> None:
    torch.manual_seed(3)
    cross = Cross(6, 2).double()
    x, memory = torch.randn(2, 1, 5, 6, dtype=torch.float64), torch.randn(2, 1, 7, 6, dtype=torch.float64)
    mask = torch.arange(7) >= torch.tensor([[3], [7]])
    out = cross(x, memory, mask[:, None])
    same(out[:1], cross(x[:1], memory[:1, :, 3:]))
    assert out.isfinite().all()


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("transformer", {"label": -1}, "label is -1"),
        ("transformer", {"decoder_depth": 0}, "decoder_depth is 0"),
        ("transformer", {"attention": "mica", "causal_decoder": True}, "mica's memory .* in Transformer .* use rbca"),
        ("timer_xl", {"attention": "linear"}, "linear does not work pair by pair, but Timer-XL hides"),
        ("timer_xl", {"attention": "mica"}, "mica's memory .* in Timer-XL"),
        ("timer_xl", {"attention": "mica", "target": 0}, "mica does not work pair by pair"),
        ("timer_xl", {"attention": "toa", "target": 0}, "toa mixes keys and values .* what target=0 hides"),
        ("timer_xl", {"attention": "hyperglu", "target": 1}, "hyperglu mixes .*; use softmax, rbca or prime"),
        ("timer_xl", {"attention": "caps"}, "several of Timer-XL's tokens share a moment"),
        ("timer_xl", {"attention": "caps", "channels": 1}, "caps does not work pair by pair"),
        ("timer_xl", {"target": 3}, "target is 3; channels count from 0 to 2"),
        ("timer_xl", {"output_patch": 0}, "output_patch is 0"),
        ("crossformer", {"attention": "mica"}, "mica mixes channels, but Crossformer's time stage keeps them apart"),
        ("crossformer", {"merge": 1}, "merge is 1; it must be at least 2"),
        ("crossformer", {"routers": 0}, "routers is 0"),
        ("crossformer", {"depth": 0}, "depth is 0"),
    ],
)
def test_decoder_networks_refuse_settings_that_do_not_fit(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        small(name, **given)


@pytest.mark.parametrize(
    ("name", "mechanisms"),
    [
        ("transformer", ["softmax", "rbca", "caps", "toa", "prime", "mica"]),
        ("timer_xl", ["softmax", "rbca", "toa", "prime"]),
        ("crossformer", ["softmax", "rbca", "caps", "toa", "prime"]),
    ],
)
def test_the_pairs_that_must_work_lower_their_loss(name: str, mechanisms: list[str]) -> None:
    for mechanism in mechanisms:
        model = small(name, attention=mechanism, normalise="revin").train()
        past = past_for(model)
        future = past.mean(-1, keepdim=True).expand(-1, -1, STEPS)
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
        losses = []
        for _ in range(3):
            optimiser.zero_grad()
            loss = (model(past) - future).square().mean()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        if mechanism != "toa":  # whose operators are dropped out at random in training
            assert losses[2] < losses[0]
        assert all(parameter.grad is not None for parameter in model.parameters())


def test_the_published_transformer_has_its_size() -> None:
    """Two encoder blocks and one decoder block of width 512, with convolutions and marks, on 7 channels."""
    model = models.create("transformer", channels=7, lookback=256, steps=96, marks=4, future=96)
    width, inner, channels = 512, 2048, 7
    attention = 4 * (width * width + width)
    feeding = 2 * width * inner + inner + width
    norms = 2 * width
    encoder = 2 * (attention + feeding + 2 * norms) + norms
    decoder = 2 * attention + feeding + 3 * norms + norms
    embedding = 2 * (3 * channels * width + 4 * width)
    head = width * channels + channels
    assert sum(parameter.numel() for parameter in model.parameters()) == encoder + decoder + embedding + head
