"""MOMENT and the encoder of T5: relative positions, initial values, published checkpoints, refusals, `transformers`."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.testing import assert_close

from rearview import models
from rearview.core.errors import InputError, SettingsError
from rearview.embed.positions import RelativeBias, buckets
from rearview.models.patch_hosts import moment
from rearview.testing.small_models import SETTINGS, past_for, small

BATCH, CHANNELS, LOOKBACK, STEPS, PATCH = 2, 3, 55, 7, 5
SIZES = {"width": 22, "heads": 2, "head_width": 13, "depth": 3, "feed_forward": 17}
FORM = {**SIZES, "patch": PATCH, "stride": PATCH, "form": "moment-1", "dropout": 0.1}
OPERATOR_KINDS = ("relu", "softmax")
EXTRAS = {
    "encoder.embed_tokens.weight": (29, 22),
    "patch_embedding.position_embedding.pe": (1, 31, 22),
    "patch_embedding.mask_embedding": (22,),
}


def created(**changes: Any) -> models.Model:
    torch.manual_seed(3)
    shape = {"channels": CHANNELS, "lookback": LOOKBACK, "steps": STEPS}
    return models.create("moment", **{**shape, **FORM, **changes})


def checkpoint(depth: int = 3) -> dict[str, Tensor]:
    """Arrays under the names, and of the shapes, that a published checkpoint has."""
    draw = torch.Generator().manual_seed(11)
    width, inner, hidden = SIZES["width"], SIZES["heads"] * SIZES["head_width"], SIZES["feed_forward"]
    shapes: dict[str, tuple[int, ...]] = {
        **EXTRAS,
        "patch_embedding.value_embedding.weight": (width, PATCH),
        "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": (32, SIZES["heads"]),
        "encoder.final_layer_norm.weight": (width,),
        "head.linear.weight": (PATCH, width),
        "head.linear.bias": (PATCH,),
    }
    for block in range(depth):
        prefix = f"encoder.block.{block}.layer."
        for part in "qkv":
            shapes[f"{prefix}0.SelfAttention.{part}.weight"] = (inner, width)
        shapes[f"{prefix}0.SelfAttention.o.weight"] = (width, inner)
        for part in ("wi_0", "wi_1"):
            shapes[f"{prefix}1.DenseReluDense.{part}.weight"] = (hidden, width)
        shapes[f"{prefix}1.DenseReluDense.wo.weight"] = (width, hidden)
        for layer in (0, 1):
            shapes[f"{prefix}{layer}.layer_norm.weight"] = (width,)
    return {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_file(checkpoint(), tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def test_a_bucket_for_each_near_distance_and_wider_ones_beyond() -> None:
    """T5's buckets: 8 distances by themselves, then up to 12, 16, 23, 32, 46, 64, 91 and all the rest."""
    table = buckets(300, 32, 128)
    assert table[0, 0] == 0
    assert table[:10, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 8]
    starts = [distance for distance in range(1, 300) if table[distance, 0] != table[distance - 1, 0]]
    assert starts == [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
    assert torch.equal(table.T.tril(-1), (table + 16).tril(-1)), "keys after a query have the other half of the buckets"


def test_the_bias_depends_on_how_far_two_tokens_are_apart() -> None:
    bias = RelativeBias(29, 5)
    found = bias(23)
    assert found.shape == (5, 23, 23)
    assert torch.equal(found[:, 1:, 1:], found[:, :-1, :-1])
    assert torch.equal(found[:, 4, 1], bias.table[3])
    assert torch.equal(found[:, 1, 4], bias.table[16 + 3])
    assert not [name for name in bias.state_dict() if name != "table"]


def test_all_layers_share_one_bias_and_mechanisms_without_scores_have_none() -> None:
    model = small("moment")
    past = past_for(model)
    before = model.weights(past)
    with torch.no_grad():
        model.relative.table[:, 0] += torch.linspace(-1, 1, 32)
    after = model.weights(past)
    for old, new in zip(before, after, strict=True):
        assert (old[:, :, 0] - new[:, :, 0]).abs().max() > 1e-3
    assert torch.equal(before[0][:, :, 1:], after[0][:, :, 1:]), "the other heads of the first layer are as they were"
    for mechanism in ("linear", "linear_rope", "caps"):
        assert small("moment", attention=mechanism).relative is None
    softmax = {"name": "caps", "normaliser": "softmax"}
    for mechanism in ("rbca", "toa", "prime", "mica", softmax):
        assert small("moment", attention=mechanism).relative is not None
    assert "run without the bias" in models.describe("moment").details


def test_moment_starts_as_the_release_of_mica_does() -> None:
    torch.manual_seed(7)
    model = models.create("moment", channels=3, lookback=96, steps=5)
    block = model.stack.blocks[0]
    assert model.relative.table.std().item() == pytest.approx(1, rel=0.2)
    assert block.feed_forward[0].weight.std().item() == pytest.approx(256**-0.5, rel=0.02)
    assert block.feed_forward[3].weight.std().item() == pytest.approx(1024**-0.5, rel=0.02)
    assert block.attend.qkv.weight.abs().max().item() == pytest.approx(256**-0.5, rel=0.01)
    biased = {"patches.project.bias", "head.bias"}
    assert {name for name, _ in model.named_parameters() if name.endswith("bias")} == biased


@pytest.mark.parametrize("asks", ["steps", "window"])
def test_a_published_checkpoint_goes_where_it_belongs(path: Path, asks: str) -> None:
    model = created() if asks == "steps" else created(asks=asks, steps=None)
    stored = checkpoint()
    left = moment.load_published(model, str(path))
    assert left == ([] if asks == "window" else ["head.weight", "head.bias"])
    state = model.state_dict()
    for index in range(SIZES["depth"]):
        theirs, ours = f"encoder.block.{index}.layer.", f"stack.blocks.{index}."
        q, k, v = state[f"{ours}attend.qkv.weight"].chunk(3)
        assert_close(q, stored[f"{theirs}0.SelfAttention.q.weight"] * 13**0.5)
        assert torch.equal(k, stored[f"{theirs}0.SelfAttention.k.weight"])
        assert torch.equal(v, stored[f"{theirs}0.SelfAttention.v.weight"])
        assert torch.equal(state[f"{ours}feed_forward.0.gate.weight"], stored[f"{theirs}1.DenseReluDense.wi_0.weight"])
        assert torch.equal(state[f"{ours}norm_fed.weight"], stored[f"{theirs}1.layer_norm.weight"])
    assert torch.equal(state["patches.project.weight"], stored["patch_embedding.value_embedding.weight"])
    out = model.eval()(torch.randn(BATCH, CHANNELS, LOOKBACK))
    assert out.shape == (BATCH, CHANNELS, STEPS if asks == "steps" else LOOKBACK)
    assert out.isfinite().all()


def test_a_window_is_given_back_patch_by_patch(path: Path) -> None:
    model = created(asks="window", steps=None).eval()
    moment.load_published(model, path)
    given = model.read(torch.randn(BATCH, CHANNELS, LOOKBACK), None, None, None)
    tokens = model.stack(given.tokens, None, given.bias)
    stored = checkpoint()
    expected = tokens @ stored["head.linear.weight"].T + stored["head.linear.bias"]
    assert_close(model.detokenise(tokens), expected.reshape(BATCH, CHANNELS, LOOKBACK))


@pytest.mark.parametrize(
    ("mechanism", "own"),
    [
        ("rbca", []),
        ({"name": "mica", "gate": "layerwise"}, ["attend.gate.beta"]),
        *(({"name": "toa", "kind": kind}, ["attend.score_offset", "attend.value_offset"]) for kind in OPERATOR_KINDS),
    ],
    ids=str,
)
def test_published_weights_serve_other_mechanisms_too(path: Path, mechanism: Any, own: list[str]) -> None:
    model = created(attention=mechanism)
    left = moment.load_published(model, path)
    assert left == [f"stack.blocks.{index}.{name}" for index in range(3) for name in own] + ["head.weight", "head.bias"]


@pytest.mark.parametrize(
    "mechanism",
    [
        "linear",
        "differential",
        "hyperglu",
        "gat",
        "toa",
        {"name": "toa", "half_width": True},
        {"name": "mica", "local": "differential"},
    ],
    ids=str,
)
def test_published_weights_are_refused_where_queries_mean_something_else(path: Path, mechanism: Any) -> None:
    with pytest.raises(SettingsError, match=r"keys whose products are scores.* toa \(kind relu or softmax\), or"):
        moment.load_published(created(attention=mechanism), path)


def test_published_weights_make_the_same_scores_under_another_scale(path: Path) -> None:
    """With operators that mix nothing; weights are rounded to float32 after they are scaled."""
    found = []
    for scale in (None, 1.0):
        model = created(attention={"name": "toa", "kind": "softmax", "score_scale": scale}).double().eval()
        left = moment.load_published(model, path)
        for name in left:
            nn.init.zeros_(model.get_parameter(name))
        past = torch.linspace(-1, 1, BATCH * CHANNELS * LOOKBACK, dtype=torch.float64).sin()
        found.append(model.weights(past.view(BATCH, CHANNELS, LOOKBACK)))
    for ours, theirs in zip(*found, strict=True):
        assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def change(stored: dict[str, Tensor], fault: str) -> dict[str, Tensor]:
    name = "encoder.block.1.layer.1.DenseReluDense.wo.weight"
    if fault == "missing":
        del stored[name]
    if fault == "shape":
        stored[name] = stored[name][:, 1:].contiguous()
    return stored


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            "missing",
            r"has no array 'encoder\.block\.1\.layer\.1\.DenseReluDense\.wo\.weight', which this network needs",
        ),
        ("shape", r"DenseReluDense\.wo\.weight' is 22 x 16 in .*, but 22 x 17 in this network; build it with"),
        ("deeper", r"has 9 arrays that this network has no place for, 'encoder\.block\.3\..*may be deeper"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused_and_changes_nothing(
    tmp_path: Path, fault: str, message: str
) -> None:
    path = tmp_path / "model.safetensors"
    save_file(change(checkpoint(4 if fault == "deeper" else 3), fault), path)
    model = created()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(InputError, match=message):
        moment.load_published(model, path)
    assert_close(model.state_dict(), before, rtol=0, atol=0)


def test_loading_refuses_other_files_and_other_networks(tmp_path: Path, path: Path) -> None:
    with pytest.raises(InputError, match="There is no file"):
        moment.load_published(created(), tmp_path / "absent.safetensors")
    other = tmp_path / "other.safetensors"
    other.write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match="can't be read as a safetensors file"):
        moment.load_published(created(), other)
    with pytest.raises(SettingsError, match="build it with form='moment-1'"):
        moment.load_published(created(form="mica"), path)
    with pytest.raises(SettingsError, match="fit the network 'moment' alone"):
        moment.load_published(models.create("patchtst", channels=3, lookback=55, steps=7), path)


def test_settings_of_the_published_checkpoints_build() -> None:
    """Each has as many parameters as the encoder of the flan-T5 it was made from, and a map of patches."""
    counts = {}
    with torch.device("meta"):
        for name, settings in moment.PUBLISHED.items():
            model = models.create("moment", channels=1, lookback=512, steps=1, **settings)
            assert model.patches.tokens == 64
            counts[name] = sum(p.numel() for part, p in model.named_parameters() if not part.startswith("head"))
    sizes = {name: (s["width"], s["heads"] * 64, s["feed_forward"], s["depth"]) for name, s in moment.PUBLISHED.items()}
    for name, (width, inner, hidden, depth) in sizes.items():
        block = 4 * width * inner + 3 * width * hidden + 2 * width
        assert counts[name] == depth * block + 8 * width + 32 * inner // 64 + width


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lookback": 53}, r"one of 53 steps leaves 3 newest ones out; use a look-back of 50 steps, or form='mica'"),
        ({"asks": "window", "steps": None, "stride": 2}, r"at a stride of 2 overlap; use stride=5, or form='mica'"),
        ({"form": "moment"}, r"moment's form is 'moment'; it can be one of mica, moment-1"),
    ],
)
def test_what_moment_1_can_t_do_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        created(**changes)


def of_transformers(gated: bool) -> tuple[nn.Module, Any]:
    transformers = pytest.importorskip("transformers", reason="the encoder is compared with that of transformers")
    config = transformers.T5Config(
        vocab_size=3,
        d_model=SIZES["width"],
        d_kv=SIZES["head_width"],
        d_ff=SIZES["feed_forward"],
        num_layers=SIZES["depth"],
        num_heads=SIZES["heads"],
        feed_forward_proj="gated-gelu" if gated else "relu",
        use_cache=False,
    )
    theirs = transformers.T5EncoderModel(config).encoder.double().eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn_like(parameter) / 3)
    return theirs, config


def norm_in_full(norm: Any, hidden: Tensor) -> Tensor:
    """The norm of `transformers` but for its cast: it takes the variance in float32, whatever the network runs in."""
    return norm.weight * hidden * torch.rsqrt(hidden.square().mean(-1, keepdim=True) + norm.variance_epsilon)


def copied(ours: models.Model, theirs: nn.Module, gated: bool) -> None:
    """Write the parameters of `transformers` into our stack."""
    state, other = ours.state_dict(), theirs.state_dict()
    for index in range(SIZES["depth"]):
        block, layer = f"stack.blocks.{index}.", f"block.{index}.layer."
        q, k, v = state[f"{block}attend.qkv.weight"].chunk(3)
        q.copy_(other[f"{layer}0.SelfAttention.q.weight"] * SIZES["head_width"] ** 0.5)
        k.copy_(other[f"{layer}0.SelfAttention.k.weight"])
        v.copy_(other[f"{layer}0.SelfAttention.v.weight"])
        widening = {"0.gate": "wi_0", "0.value": "wi_1", "2": "wo"} if gated else {"0": "wi", "3": "wo"}
        for part, name in widening.items():
            state[f"{block}feed_forward.{part}.weight"].copy_(other[f"{layer}1.DenseReluDense.{name}.weight"])
        state[f"{block}attend.out.weight"].copy_(other[f"{layer}0.SelfAttention.o.weight"])
        state[f"{block}norm_attended.weight"].copy_(other[f"{layer}0.layer_norm.weight"])
        state[f"{block}norm_fed.weight"].copy_(other[f"{layer}1.layer_norm.weight"])
    state["stack.final.weight"].copy_(other["final_layer_norm.weight"])
    state["relative.table"].copy_(other["block.0.layer.0.SelfAttention.relative_attention_bias.weight"])


@pytest.mark.baselines
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("gated", [False, True])
@torch.no_grad()
def test_moments_encoder_is_the_t5_of_transformers(gated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, config = of_transformers(gated)
    form = "moment-1" if gated else "mica"
    model = created(lookback=1000, patch=5, stride=5, form=form, dropout=0.0).double().eval()
    copied(model, theirs, gated)
    x = torch.randn(BATCH, CHANNELS, 151, config.d_model, dtype=torch.float64)
    mask = torch.arange(151) >= torch.tensor([[0], [29]])
    real = mask[:, None].expand(-1, CHANNELS, -1)
    ours = model.stack(x, real, model.score_bias(x))
    given = {"inputs_embeds": x.flatten(0, 1), "attention_mask": real.flatten(0, 1).long()}
    assert_close(ours[real], theirs(**given).last_hidden_state.view(x.shape)[real], rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(type(theirs.final_layer_norm), "forward", norm_in_full)
    assert_close(ours[real], theirs(**given).last_hidden_state.view(x.shape)[real], rtol=1e-9, atol=1e-9)


def test_itransformer_t5_has_no_bias_by_position() -> None:
    model = small("itransformer_t5", gated=True)
    assert model.score_bias(torch.zeros(1, 1, 3, SETTINGS["width"])) is None
    assert {name for name, _ in model.named_parameters() if name.endswith("bias")} == {
        "variates.project.bias",
        "head.bias",
    }
