"""Every network says what the axes of its weights are: as many names as places, and the steps they were made from."""

from itertools import pairwise

import pytest
from torch import Tensor

from rearview import attention, models
from rearview.core.errors import SettingsError
from rearview.models import Axes, Model, Token
from rearview.models.contract import layer_names
from rearview.testing.small_models import AHEAD, CHANNELS, LOOKBACK, MARKS, STEPS, marks_for, past_for, small

ATTENTIVE = [name for name in models.names() if models.claims(name).attention]
MARKED = [name for name in ATTENTIVE if models.claims(name).uses_marks]
ODD = [(1, 37, 11), (23, 37, 11), (3, 5, 11), (3, 37, 101), (1, 3, 1), (3, 49, 7)]


def check(model: Model, past_marks: Tensor | None = None, future_marks: Tensor | None = None) -> list[Axes]:
    found, axes = model.weights(past_for(model), past_marks, future_marks), model.axes()
    assert len(axes) == len(found) > 0
    for weights, of in zip(found, axes, strict=True):
        for part in weights.values() if isinstance(weights, dict) else [weights]:
            groups, tokens = len(of.groups), len(of.tokens)
            between = (groups,) if part.dim() == 6 else ()
            assert part.shape[1] == groups
            assert part.shape[3:] == (tokens, *between, tokens)
        assert len(set(of.groups)) == len(of.groups)
        lookback, steps = model.shape.lookback, model.shape.steps
        for token in of.tokens:
            assert token.steps is None or -lookback <= token.steps[0] < token.steps[1] <= steps
            assert token.index < {"all": 1, "mark": model.shape.marks}.get(token.of, model.shape.channels)
    return axes


@pytest.mark.parametrize(("channels", "lookback", "steps"), ODD)
@pytest.mark.parametrize("name", ATTENTIVE)
def test_there_are_as_many_names_as_places(name: str, channels: int, lookback: int, steps: int) -> None:
    check(small(name, channels=channels, lookback=lookback, steps=steps))


@pytest.mark.parametrize("name", ATTENTIVE)
def test_axes_fit_the_weights_at_the_defaults(name: str) -> None:
    check(models.create(name, channels=7, lookback=97, steps=24).double().eval())


@pytest.mark.parametrize("future", [0, AHEAD])
@pytest.mark.parametrize("name", MARKED)
def test_axes_name_marks(name: str, future: int) -> None:
    model = small(name, marks=MARKS, future=future)
    axes = check(model, marks_for(model, LOOKBACK), marks_for(model, future) if future else None)
    marks = [token.index for token in axes[0].tokens if token.of == "mark"]
    assert marks == (list(range(MARKS)) if axes[0].tokens[0].steps is None else [])


@pytest.mark.filterwarnings("ignore:toa tends to:rearview.core.errors.RearviewWarning")
@pytest.mark.parametrize("mechanism", attention.names())
@pytest.mark.parametrize("name", ATTENTIVE)
def test_axes_fit_the_weights_of_every_attention(name: str, mechanism: str) -> None:
    try:
        model = small(name, attention=mechanism)
    except SettingsError:
        return
    check(model)


@pytest.mark.parametrize("asks", ["window", "classes"])
@pytest.mark.parametrize("name", ATTENTIVE)
def test_axes_fit_the_weights_of_windows_and_classes(name: str, asks: str) -> None:
    claims = models.claims(name)
    if claims.reconstructs if asks == "window" else claims.classifies:
        check(small(name, steps=None, asks=asks, classes=3 if asks == "classes" else 0))


def test_networks_without_attention_have_no_axes() -> None:
    for name in set(models.names()) - set(ATTENTIVE):
        assert small(name).axes() == []


def test_patches_are_the_steps_they_were_cut_from() -> None:
    """A change to the steps of a token, and to no others, moves that token before the first layer."""
    for name in ("patchtst", "patchtst_tslib", "moment", "crossformer"):
        model = small(name, normalise="none")
        past = past_for(model)
        tokens = model.read(past, None, None, None).tokens
        for place, token in enumerate(model.axes()[0].tokens):
            begin, end = (step + LOOKBACK for step in token.steps)
            outside = past.clone()
            outside[..., :begin] += 100
            outside[..., end:] += 100
            moved = (model.read(outside, None, None, None).tokens - tokens).abs().amax((0, 1, 3)) > 1e-9
            assert not moved[place]
            for step in range(begin, end):
                inside = past.clone()
                inside[..., step] += 100
                moved = (model.read(inside, None, None, None).tokens - tokens).abs().amax((0, 1, 3)) > 1e-9
                assert moved[place]


def test_padding_counts_as_the_step_it_repeats() -> None:
    tokens = small("moment", lookback=16, patch=8, stride=8).axes()[0].tokens
    assert [token.steps for token in tokens] == [(-16, -8), (-8, 0), (-1, 0)]
    first = small("timer_xl", channels=2, lookback=13, patch=5).axes()[0].tokens
    assert [(token.index, token.steps) for token in first] == [
        (channel, steps) for channel in range(2) for steps in ((-13, -10), (-10, -5), (-5, 0))
    ]


def test_layers_are_named_by_the_part_they_stand_in() -> None:
    """Encoders and decoders where there are both; one part alone has layers."""
    named = {name: layer_names(small(name).axes()) for name in ATTENTIVE}
    both = ["encoder", "decoder"]
    parts = {"transformer": both, "crossformer": both, "timemixer_pp": ["channels", "within", "across"]}
    for name, names in named.items():
        assert len(set(names)) == len(names)
        assert list(dict.fromkeys(one.partition(" ")[0] for one in names)) == parts.get(name, ["layer"])
    assert named["transformer"] == ["encoder 1", "encoder 2", "decoder 1"]
    assert named["crossformer"] == ["encoder 1", "encoder 2", "decoder 1", "decoder 2", "decoder 3"]
    assert layer_names(small("transformer", steps=None, asks="window").axes()) == ["encoder 1", "encoder 2"]
    turned = models.create("patchtst", channels=3, lookback=48, steps=5, adapters="decorrelate")
    assert layer_names(turned.axes()) == ["layer 1", "layer 2", "layer 3"]
    assert turned.axes()[0].groups[0].of == "component"


def test_decoders_go_on_after_the_look_back() -> None:
    encoder, _, decoder = small("transformer", label=4, decoder_depth=1).axes()
    assert [token.steps for token in encoder.tokens] == [(step, step + 1) for step in range(-LOOKBACK, 0)]
    assert [token.steps for token in decoder.tokens] == [(step, step + 1) for step in range(-4, STEPS)]
    scales = small("crossformer", patch=7, merge=2).axes()
    assert [len(axes.tokens) for axes in scales] == [6, 3, 2, 2, 2]
    assert [token.steps for token in scales[0].tokens][-2:] == [(-9, -2), (-2, 0)]
    assert [token.steps for token in scales[1].tokens] == [(-37, -23), (-23, -9), (-9, 0)]
    assert [token.steps for token in scales[2].tokens] == [(0, 4), (4, 11)]
    caps = small("caps_net").axes()[0]
    assert [token.index for token in caps.groups] == list(range(CHANNELS))
    assert all(one.steps[1] == other.steps[0] for one, other in pairwise(caps.tokens))
    assert caps.tokens[-1].steps == (STEPS - 1, STEPS)


def test_adapters_hand_names_on_and_components_are_no_channels() -> None:
    plain = small("patchtst").axes()
    assert check(small("patchtst", adapters=["lift"])) == plain
    turned = check(small("patchtst", adapters=["decorrelate"]))
    assert turned[0].groups == tuple(Token("component", index) for index in range(CHANNELS))
    assert turned[0].tokens == plain[0].tokens


def test_the_target_of_caps_is_the_last_channel() -> None:
    assert check(small("caps_net", targets=1))[0].groups == (Token("channel", CHANNELS - 1),)
