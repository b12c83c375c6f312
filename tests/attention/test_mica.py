"""MICA: fast against written out, numbers by hand, the paper's propositions, exclusion where one channel dominates."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from mica_written_out import by_definition
from torch import Tensor
from torch.testing import assert_close

from rearview import attention
from rearview.attention import Site, linear, mica
from rearview.attention.mica.memory import attend_to_others, sum_of_others
from rearview.core.errors import SettingsError
from rearview.testing import ATTENTION_PROMISES
from rearview.testing.places import EXACT, cost, tokens_for

BATCH, GROUPS, TOKENS, WIDTH, HEADS, KEYS, VALUES = 2, 3, 7, 13, 5, 7, 11
SITE = Site(groups=GROUPS, tokens=TOKENS, width=WIDTH, heads=HEADS, head_width=KEYS, value_width=VALUES)
GATES = ["shared", "channelwise", "layerwise", "layerwise_channelwise", "mlp", "mlp_query"]
FORMS: list[dict[str, Any]] = [
    {},
    {"gate": "shared"},
    {"gate": "mlp", "weighting": "static", "mlp_layers": 2},
    {"gate": "channelwise", "weighting": "dynamic"},
    {"gate": "layerwise", "channel_weights": (0.0, 3.0, 1.0)},
    {"exclude_self": True},
    {"gate": "mlp", "weighting": "dynamic", "exclude_self": True, "mlp_layers": 4},
    {"gate": "layerwise_channelwise", "weighting": "static", "exclude_self": True},
    {"gate": "shared", "channel_weights": [2.0, 0.5, 0.0], "exclude_self": True},
    {"gate": "added", "exclude_self": True},
]


def layer(seed: int = 17, dtype: torch.dtype = torch.float64, site: Site = SITE, **settings: Any) -> mica.Layer:
    """A layer in evaluation mode whose every parameter has left its initial value."""
    torch.manual_seed(seed)
    made = attention.create("mica", site, mlp_width=19, **settings)
    assert isinstance(made, mica.Layer)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return made.to(dtype).eval()


def with_gradients(y: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    cotangent = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    return [y, *torch.autograd.grad(y, inputs, cotangent)]


def agree(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, rtol=EXACT, atol=EXACT)


def same(one: Tensor, other: Tensor, tolerance: float = EXACT) -> None:
    assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("tokens", [1, 2, 13, 42, 65, 193])
def test_the_fast_form_is_the_definition(tokens: int, form: dict[str, Any]) -> None:
    made = layer(site=replace(SITE, tokens=tokens), **form)
    x = tokens_for(made).requires_grad_()
    wanted = [x, *made.parameters()]
    agree(with_gradients(made(x), wanted), with_gradients(by_definition(made, x), wanted))


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_the_two_forms_of_a_channels_own_part_agree(form: dict[str, Any]) -> None:
    made = layer(**form | {"exclude_self": True, "channel_weights": None})
    q, k, v = made.local.heads(tokens_for(made))
    phi_q, phi_k, logs = made._features(q, k, None)
    same(
        attend_to_others(phi_q, phi_k, v, logs, by_scores=True),
        attend_to_others(phi_q, phi_k, v, logs, by_scores=False),
    )


def test_scores_are_taken_where_they_are_smaller_than_a_memory() -> None:
    def by_scores(tokens: int) -> bool:
        return layer(site=replace(SITE, tokens=tokens), exclude_self=True).by_scores

    assert by_scores(9)
    assert not by_scores(10), "10 x 10 scores, 7 x (11 + 1) numbers of memory"


VARIANTS = [
    {"gate": "channelwise", "weighting": "static", "exclude_self": True},
    {"gate": "shared", "weighting": "dynamic", "exclude_self": True},
    {"gate": "layerwise_channelwise", "weighting": "dynamic"},
    {"gate": "added", "exclude_self": True},
]


@pytest.mark.parametrize("promise", ATTENTION_PROMISES, ids=lambda promise: promise.__name__)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: "-".join(map(str, variant.values())))
def test_every_variant_keeps_every_promise(variant: dict[str, Any], promise, monkeypatch: pytest.MonkeyPatch) -> None:
    create = attention.create

    def varied(name: str, site: Site, **settings: Any) -> attention.Attention:
        lonely = name == "mica" and site.groups == 1
        chosen = variant | ({"exclude_self": False} if lonely else {}) if name == "mica" else {}
        return create(name, site, **chosen | settings)

    monkeypatch.setattr(attention, "create", varied)
    promise("mica")


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_operator_and_gate_reproduce_the_output(form: dict[str, Any], masked: bool) -> None:
    made = layer(**form)
    x = tokens_for(made)
    mask = torch.arange(TOKENS) < torch.tensor([[[3], [7], [0]], [[5], [0], [1]]]) if masked else None
    found = made.weights(x, mask=mask)
    v = made.values(x)
    across = torch.einsum("bghqck,bchke->bghqe", found["cross"], v)
    same(made.project(made.combine(found["local"] @ v, across, x)), made(x, mask=mask))
    own = found["cross"].diagonal(dim1=1, dim2=4)
    assert bool((own == 0).all()) == made.settings.exclude_self


def heads_of_numbers(*values: float) -> Tensor:
    """One token of width 1 per channel."""
    return torch.tensor(values, dtype=torch.float64)[:, None, None]


def test_by_hand() -> None:
    """Keys of 0 have the feature 1: the memory is the mean of 3, 6 and 12, and each channel keeps half of its own."""
    zero, v = heads_of_numbers(0, 0, 0), heads_of_numbers(3, 6, 12)

    def half(across: Tensor, local: Tensor, q: Tensor) -> Tensor:
        return (across + local) / 2

    everyone = mica.reference(zero, zero, v, half)
    same(everyone, heads_of_numbers(5, 6.5, 9.5), 1e-6)
    others = mica.reference(zero, zero, v, half, exclude_self=True)
    same(others, heads_of_numbers(6, 6.75, 8.25), 1e-5)
    weighted = mica.reference(zero, zero, v, lambda across, local, q: across, torch.tensor([0.5, 0.25, 0.25]).double())
    same(weighted, heads_of_numbers(6, 6, 6), 1e-5)


def test_by_hand_with_features() -> None:
    """Keys ln(1/2) and 2 have the features 1/2 and 3; eps is in the denominator once."""
    k, v = heads_of_numbers(math.log(0.5), 2), heads_of_numbers(7, 14)
    found = mica.reference(heads_of_numbers(0, 1), k, v, lambda across, local, q: across)
    same(found, heads_of_numbers(45.5 / (3.5 + 1e-6), 91 / (7 + 1e-6)))


@pytest.mark.parametrize("gate", GATES)
def test_beta_starts_even_and_centred_over_heads(gate: str) -> None:
    torch.manual_seed(5)
    made = attention.create("mica", SITE, gate=gate)
    counts = {"shared": HEADS, "layerwise": HEADS}
    if "mlp" in gate:
        sizes = [2 * VALUES + (KEYS if gate == "mlp_query" else 0), 128, 128, VALUES]
        assert [tuple(p.shape[::-1]) for p in made.gate.parameters()][::2] == list(pairwise(sizes))
        return
    beta = made.gate.beta
    assert beta.numel() == counts.get(gate, HEADS * GROUPS)
    same(beta.mean(-1), torch.zeros(len(beta)), 1e-8)
    assert 0 < beta.abs().max() < 0.01


def test_permuting_channels_permutes_outputs() -> None:
    order = torch.tensor([2, 0, 1])
    for weighting in ("uniform", "dynamic"):
        for exclude_self in (False, True):
            made = layer(weighting=weighting, exclude_self=exclude_self)
            x = tokens_for(made)
            assert made.claims.equivariant_to_groups
            same(made(x[:, order]), made(x)[:, order])


@pytest.mark.parametrize(
    "settings", [{"gate": "channelwise"}, {"weighting": "static"}, {"channel_weights": (1.0, 2.0, 3.0)}]
)
def test_what_is_bound_to_channels_says_so(settings: dict[str, Any]) -> None:
    made = layer(**settings)
    assert not made.claims.equivariant_to_groups
    with pytest.raises(SettingsError, match="each of 3 channels and got 2"):
        made(tokens_for(made)[:, :2])


@pytest.mark.parametrize("weighting", ["uniform", "dynamic"])
@pytest.mark.parametrize("gate", ["shared", "mlp_query"])
def test_excluding_a_channel_is_its_not_being_there(gate: str, weighting: str) -> None:
    excluding, including = (layer(gate=gate, weighting=weighting, exclude_self=on) for on in (True, False))
    including.load_state_dict(excluding.state_dict())
    x = tokens_for(excluding)
    q, k, v = excluding.local.heads(x)
    across = excluding._across(q, k, v, None)
    for channel in range(GROUPS):
        others = [other for other in range(GROUPS) if other != channel]
        phi_q, _, _ = including._features(q, k, None)
        _, phi_k, logs = including._features(q[:, others], k[:, others], None)
        seen = mica.layer.attend_to_all(phi_q[:, [channel] * 2], phi_k, v[:, others], logs)
        same(across[:, channel], seen[:, 0])


def test_a_closed_gate_is_the_local_mechanism_exactly() -> None:
    made = layer(gate="shared")
    assert made.claims.reduces_to_softmax_at == "sigmoid(beta) = 0"
    with torch.no_grad():
        made.gate.beta.fill_(-torch.inf)
    x = tokens_for(made)
    assert torch.equal(made(x), made.local(x))
    with torch.no_grad():
        made.gate.beta.fill_(torch.inf)
    same(made(x), made.project(made._across(*made.local.heads(x), None)))


def test_a_gate_that_adds_starts_at_the_local_mechanism_and_adds_nothing_to_one_channel() -> None:
    torch.manual_seed(17)
    made = attention.create("mica", SITE, gate="added", exclude_self=True)
    x = tokens_for(made)
    assert torch.equal(made(x), made.local(x))
    opened = layer(gate="added", exclude_self=True)
    x = tokens_for(opened)
    assert torch.equal(opened(x[:, :1]), opened.local(x[:, :1]))
    assert not opened.weights(x[:, :1])["cross"].any()
    assert opened.claims.reduces_to_softmax_at == "gate.weight = 0"


def test_one_channel_has_linear_attention_as_its_memory() -> None:
    made = layer(site=replace(SITE, groups=1))
    x = tokens_for(made)
    q, k, v = made.local.heads(x)
    plain = linear.Layer(made.site, linear.Settings())
    same(made._across(q, k, v, None), plain.mix(q, k, v, mica.layer.Inputs(x))[0])


def test_weights_that_are_equal_are_uniform_weights() -> None:
    torch.manual_seed(3)
    uniform = attention.create("mica", SITE).double().eval()
    x = tokens_for(uniform)
    for settings in ({"weighting": "static"}, {"channel_weights": (5.0, 5.0, 5.0)}):
        other = attention.create("mica", SITE, **settings).double().eval()
        other.load_state_dict(uniform.state_dict(), strict=False)
        same(other(x), uniform(x), 1e-5)


@pytest.mark.parametrize("exclude_self", [False, True])
def test_cost_is_linear_in_channels(exclude_self: bool) -> None:
    few, more, most = (
        cost(layer(site=replace(SITE, groups=groups), exclude_self=exclude_self)) for groups in (24, 48, 72)
    )
    assert ((most - 2 * more + few) / most).abs().max() < 0.01
    assert (most / few > 2.5).all()


def padded(*lengths: int) -> Tensor:
    return (torch.arange(TOKENS) < torch.tensor(lengths)[:, None]).expand(BATCH, -1, -1)


@pytest.mark.parametrize("weighting", ["uniform", "dynamic"])
@pytest.mark.parametrize("exclude_self", [False, True])
def test_a_channel_of_padding_is_not_there(weighting: str, exclude_self: bool) -> None:
    made = layer(weighting=weighting, exclude_self=exclude_self)
    x = tokens_for(made)
    same(made(x, mask=padded(TOKENS, TOKENS, 0))[:, :2], made(x[:, :2]))


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_padding_everywhere_leaves_everything_finite(form: dict[str, Any]) -> None:
    made = layer(dtype=torch.float32, **form)
    for lengths in ((0, 0, 0), (0, 4, 0), (0, 0, 4)):
        x = tokens_for(made).requires_grad_()
        y = made(x, mask=padded(*lengths))
        assert y.isfinite().all()
        assert all(found.isfinite().all() for found in torch.autograd.grad(y.square().sum(), [x, *made.parameters()]))


def complement(q: Tensor, k: Tensor, v: Tensor, logs: Tensor) -> Tensor:
    """A_global of each channel from the others alone, in float64."""
    q, k, v, logs = q.double(), k.double(), v.double(), logs.double()
    out = []
    for channel in range(q.shape[1]):
        others = [other for other in range(q.shape[1]) if other != channel]
        seen = mica.layer.attend_to_all(q[:, [channel] * len(others)], k[:, others], v[:, others], logs[:, others])
        out.append(seen[:, 0])
    return torch.stack(out, dim=1)


@pytest.mark.parametrize("by_scores", [False, True])
@pytest.mark.parametrize("heaviest", [0, 1, 2])
@pytest.mark.parametrize("gap", [0.0, 14.0, 18.0, 40.0, 300.0, 1e6])
def test_exclusion_is_right_when_one_weight_dominates(gap: float, heaviest: int, by_scores: bool) -> None:
    """Others of 1e-6 (gap 14) cost the plain subtraction three digits in float32, 1e-8 (gap 18) all of them."""
    torch.manual_seed(11)
    q, k, v = (torch.randn(BATCH, GROUPS, HEADS, TOKENS, width) for width in (KEYS, KEYS, VALUES))
    q, k = linear.positive_features(q), linear.positive_features(k)
    logs = torch.randn(1, GROUPS, HEADS)
    logs[:, heaviest] += gap
    same(attend_to_others(q, k, v, logs, by_scores).double(), complement(q, k, v, logs), 1e-5)


@pytest.mark.parametrize("by_scores", [False, True])
def test_exclusion_is_right_when_one_channels_keys_dominate(by_scores: bool) -> None:
    torch.manual_seed(11)
    q, k, v = (torch.randn(BATCH, GROUPS, HEADS, TOKENS, width) for width in (KEYS, KEYS, VALUES))
    q, k = linear.positive_features(q), linear.positive_features(k)
    k[:, 1] *= 1e7
    found = attend_to_others(q, k, v, None, by_scores).double()
    same(found, complement(q, k, v, torch.zeros(1, GROUPS, HEADS)), 1e-5)


def test_weights_of_others_are_summed_without_subtraction() -> None:
    weight = torch.tensor([1.0, 1e-12, 3e-12])[None, :, None]
    same(sum_of_others(weight)[0, :, 0], torch.tensor([4e-12, 1.0, 1.0]), 1e-18)


def test_sums_run_in_float32_under_autocast() -> None:
    """600 channels of ones: the memory's share of each is exact, where bfloat16 stops counting at 256."""
    many = replace(SITE, groups=600)
    made = layer(dtype=torch.float32, site=many, gate="shared")
    torch.manual_seed(2)
    q, k = (torch.randn(1, 600, HEADS, TOKENS, KEYS).bfloat16() for _ in range(2))
    v = torch.ones(1, 600, HEADS, TOKENS, VALUES, dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        across = made._across(q, k, v, None)
    assert across.dtype == torch.float32
    same(across, torch.ones_like(across), 1e-6)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_autocast_in_training(form: dict[str, Any]) -> None:
    made = layer(dtype=torch.float32, **form).train()
    x = tokens_for(made).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        y = made(x)
    assert y.isfinite().all()
    found = torch.autograd.grad(y.float().square().sum(), [x, *made.parameters()])
    assert all(gradient.isfinite().all() for gradient in found)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("form", [{}, {"gate": "shared"}, {"gate": "mlp"}, {"gate": "layerwise", "local": "rbca"}])
@pytest.mark.parametrize("beside", ["nothing", "mask", "carry", "bias"])
def test_some_channels_at_a_time_make_the_same(size: int, form: dict[str, Any], beside: str) -> None:
    whole, parts = layer(**form), layer(**form, channels_at_once=size)
    parts.load_state_dict(whole.state_dict())
    outcomes = []
    for one in (whole, parts):
        torch.manual_seed(3)
        x = torch.randn(BATCH, GROUPS, TOKENS, WIDTH, dtype=torch.float64, requires_grad=True)
        given: dict[str, Any] = {}
        if beside == "mask":
            given["mask"] = torch.rand(BATCH, GROUPS, TOKENS) > 0.3
        elif beside == "carry":
            given["carry"] = tuple(torch.randn(BATCH, GROUPS, HEADS, TOKENS, KEYS, dtype=torch.float64) for _ in "qk")
        elif beside == "bias":
            given["bias"] = torch.randn(BATCH, GROUPS, HEADS, TOKENS, TOKENS, dtype=torch.float64)
        found = one(x, **given)
        y, handed_on = found if isinstance(found, tuple) else (found, ())
        outcomes.append([*with_gradients(y, [x, *one.parameters()]), *handed_on])
        with torch.no_grad():
            again = one(x, **given)
            same(again[0] if isinstance(again, tuple) else again, y)
    agree(*outcomes)


def test_some_channels_at_a_time_keep_less_for_the_backward_pass() -> None:
    kept = {}
    for size in (None, 1):
        made = layer(site=replace(SITE, groups=29), dtype=torch.float32, channels_at_once=size)
        numbers: list[int] = []

        def pack(tensor: Tensor, numbers: list[int] = numbers) -> Tensor:
            numbers.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            made(torch.randn(BATCH, 29, TOKENS, WIDTH, requires_grad=True))
        kept[size] = sum(numbers)
    assert kept[1] < kept[None] / 4


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"exclude_self": True}, "no exclude_self"),
        ({"weighting": "dynamic"}, "no weights of channels"),
        ({"gate": "channelwise"}, "no gate channelwise"),
        ({"channels_at_once": 0}, "must be at least 1"),
    ],
)
def test_some_channels_at_a_time_refuse_what_needs_all(form: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        layer(**{"channels_at_once": 2, **form})
