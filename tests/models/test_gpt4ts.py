"""One Fits All: GPT-2's blocks written out, its sizes, and the loading of a checkpoint, made up here."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from rearview import models
from rearview.core.errors import InputError, SettingsError
from rearview.models.patch_hosts import gpt4ts
from rearview.testing.small_models import past_for

SIZES: dict[str, Any] = {
    "width": 26,
    "heads": 13,
    "depth": 2,
    "feed_forward": 19,
    "patch": 7,
    "stride": 3,
    "dropout": 0.0,
}
SHAPE: dict[str, Any] = {"channels": 3, "lookback": 37, "steps": 11}
BLOCKS, PLACES = 3, 53
"""One block more than the network has, and more places."""


def created(**changes: Any) -> models.Model:
    torch.manual_seed(3)
    return models.create("gpt4ts", **{**SHAPE, **SIZES, **changes})


def checkpoint(prefix: str = "", **extra: Tensor) -> dict[str, Tensor]:
    """Arrays by the names of GPT-2's checkpoints, in small; maps are inputs x outputs."""
    draw = torch.Generator().manual_seed(5)
    width, hidden = SIZES["width"], SIZES["feed_forward"]
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (101, width), "wpe.weight": (PLACES, width)}
    for block in range(BLOCKS):
        maps = {
            "attn.c_attn": (width, 3 * width),
            "attn.c_proj": (width, width),
            "mlp.c_fc": (width, hidden),
            "mlp.c_proj": (hidden, width),
        }
        for name, (inputs, outputs) in maps.items():
            shapes |= {f"h.{block}.{name}.weight": (inputs, outputs), f"h.{block}.{name}.bias": (outputs,)}
        for norm in ("ln_1", "ln_2"):
            shapes |= {f"h.{block}.{norm}.{part}": (width,) for part in ("weight", "bias")}
        shapes[f"h.{block}.attn.bias"] = (1, 1, PLACES, PLACES)
    shapes |= {f"ln_f.{part}": (width,) for part in ("weight", "bias")}
    drawn = {name: 0.3 * torch.randn(shape, generator=draw) for name, shape in shapes.items()}
    return {f"{prefix}{name}": array for name, array in {**drawn, **extra}.items()}


def written(path: Path, arrays: dict[str, Tensor]) -> Path:
    save_file(arrays, path)
    return path


def gpt2(x: Tensor, stored: dict[str, Tensor], depth: int) -> Tensor:
    """GPT-2's blocks in plain functions, for tokens [row, token, width]."""
    heads, width = SIZES["heads"], SIZES["width"]

    def norm(x: Tensor, name: str) -> Tensor:
        return functional.layer_norm(x, (width,), stored[f"{name}.weight"], stored[f"{name}.bias"])

    def apply(x: Tensor, name: str) -> Tensor:
        return x @ stored[f"{name}.weight"] + stored[f"{name}.bias"]

    x = x + stored["wpe.weight"][: x.shape[1]]
    for at in range(depth):
        q, k, v = (
            part.unflatten(-1, (heads, -1)).transpose(1, 2)
            for part in apply(norm(x, f"h.{at}.ln_1"), f"h.{at}.attn.c_attn").chunk(3, dim=-1)
        )
        scores = q @ k.transpose(-1, -2) / (width / heads) ** 0.5
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(later, -torch.inf).softmax(-1) @ v
        x = x + apply(mixed.transpose(1, 2).flatten(2), f"h.{at}.attn.c_proj")
        hidden = functional.gelu(apply(norm(x, f"h.{at}.ln_2"), f"h.{at}.mlp.c_fc"), approximate="tanh")
        x = x + apply(hidden, f"h.{at}.mlp.c_proj")
    return norm(x, "ln_f")


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_a_loaded_network_is_gpt2_between_a_map_and_a_head(tmp_path: Path, prefix: str) -> None:
    model = created()
    left = gpt4ts.load_published(model, written(tmp_path / "model.safetensors", checkpoint(prefix)))
    assert left == ["patches.project.weight", "patches.project.bias", "head.weight", "head.bias"]
    model = model.double().eval()
    stored = {name: array.double() for name, array in checkpoint().items()}
    x, denormalise = model.normalise(past := past_for(model))
    tokens = gpt2(model.patches(x).flatten(0, 1), stored, SIZES["depth"]).view(2, 3, -1, SIZES["width"])
    assert_close(model(past), denormalise(model.head(tokens.flatten(2))))


def test_what_the_paper_freezes_is_frozen(tmp_path: Path) -> None:
    path = written(tmp_path / "model.safetensors", checkpoint())
    model = created()
    gpt4ts.load_published(model, path)
    trained = {name for name, one in model.named_parameters() if one.requires_grad}
    norms = {f"stack.blocks.{at}.{norm}" for at in range(2) for norm in ("norm_attended", "norm_fed")} | {"stack.final"}
    norms = {f"{norm}.{part}" for norm in norms for part in ("weight", "bias")}
    ends = {f"{name}.{part}" for name in ("patches.project", "head") for part in ("weight", "bias")}
    assert trained == norms | ends | {"positions.table"}
    gpt4ts.load_published(model, path, freeze=False)
    assert all(one.requires_grad for one in model.parameters())


def test_gpt2s_weights_serve_mechanisms_whose_scores_are_products(tmp_path: Path) -> None:
    path = written(tmp_path / "model.safetensors", checkpoint())
    assert "stack.blocks.0.attend.score_offset" in gpt4ts.load_published(
        created(attention={"name": "toa", "kind": "softmax"}, causal=False), path
    )
    with pytest.raises(SettingsError, match=r"build it with softmax, rbca, prime or toa"):
        gpt4ts.load_published(created(attention="linear"), path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ln_f.weight": None}, r"has no array 'ln_f\.weight', .* not a GPT-2 checkpoint, or one of fewer blocks"),
        ({"h.1.mlp.c_fc.weight": torch.zeros(19, 26)}, r"is 19 x 26 in .* but 26 x 19 in this network; .*PUBLISHED"),
        ({"wpe.weight": torch.zeros(5, 26)}, r"'wpe\.weight' is 5 x 26"),
        ({"score.weight": torch.zeros(2)}, r"1 arrays that this network has no place for, 'score\.weight'"),
    ],
    ids=["missing", "transposed", "too short", "unknown"],
)
def test_a_checkpoint_that_does_not_fit_is_refused_and_nothing_is_written(
    tmp_path: Path, change: dict[str, Tensor | None], words: str
) -> None:
    arrays = {name: array for name, array in {**checkpoint(), **change}.items() if array is not None}
    model, before = created(), created().state_dict()
    with pytest.raises(InputError, match=words):
        gpt4ts.load_published(model, written(tmp_path / "model.safetensors", arrays))
    assert all(torch.equal(array, before[name]) for name, array in model.state_dict().items())


def test_other_networks_and_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="fit the network 'gpt4ts' alone"):
        gpt4ts.load_published(models.create("patchtst", **SHAPE), tmp_path / "none")
    with pytest.raises(InputError, match=r"There is no file .*; a GPT-2 checkpoint is called"):
        gpt4ts.load_published(created(), tmp_path / "none")


def test_a_patch_sees_earlier_ones_only_unless_asked() -> None:
    for causal in (True, False):
        model = created(causal=causal).double().eval()
        weights = model.weights(past_for(model))[0]
        assert bool(weights.triu(1).any()) == (not causal)


def test_a_block_has_the_size_of_gpt2s() -> None:
    """GPT-2's 124,439,808 parameters: 12 blocks, 50,257 words and 1,024 places of width 768, one norm."""
    with torch.device("meta"):
        model = models.create("gpt4ts", **SHAPE)
    block = sum(one.numel() for one in model.stack.blocks[0].parameters())
    assert block == 7_087_872
    assert 12 * block + (50_257 + 1_024) * 768 + 2 * 768 == 124_439_808
    assert len(model.stack.blocks) == 6
    assert {name: sizes["width"] // sizes["heads"] for name, sizes in gpt4ts.PUBLISHED.items()} == dict.fromkeys(
        gpt4ts.PUBLISHED, 64
    )
