"""Prime attention as public code has it: features and primers of each window, not near 1, one for all layers."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.testing import assert_close

from rearview import attention, models
from rearview.attention import prime
from rearview.attention.prime import features as pairs
from rearview.core.errors import SettingsError

WINDOWS, CHANNELS, LOOKBACK, HEADS, WIDTH = 2, 5, 41, 3, 7
RELEASED: dict[str, Any] = {"form": "released", "features": "spectral", "free": False, "per_window": True}


def windows_of(seed: int = 3, lookback: int = LOOKBACK) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(WINDOWS, CHANNELS, lookback, generator=draw, dtype=torch.float64).cumsum(-1)


def layer_of(**settings: Any) -> prime.Layer:
    torch.manual_seed(11)
    site = attention.Site(
        groups=1, tokens=CHANNELS, width=WIDTH, heads=HEADS, head_width=WIDTH, time_ordered=False, lookback=LOOKBACK
    )
    layer = attention.create("prime", site, **{**RELEASED, **settings}).double().eval()
    assert isinstance(layer, prime.Layer)
    return layer


def written_out(windows: Tensor) -> np.ndarray[Any, Any]:
    """The 15 features of every pair, one at a time, from their description."""
    found = np.zeros((WINDOWS, CHANNELS, CHANNELS, 15))
    for w, window in enumerate(windows.numpy()):
        length = window.shape[-1]
        z = (window - window.mean(-1, keepdims=True)) / np.sqrt(window.var(-1, keepdims=True) + 1e-8)
        hann = 0.5 - 0.5 * np.cos(2 * math.pi * np.arange(length) / length)
        spectra = [np.fft.rfft(hann * row) for row in z]
        bins = len(spectra[0])
        edges = [int(share * bins) for share in (0, 0.15, 0.2, 0.6, 0.8)]
        rolling = min(10, length // 4)
        spread = [[row[t : t + rolling].std() for t in range(length - rolling + 1)] for row in window]
        for i in range(CHANNELS):
            for j in range(CHANNELS):
                crossed = spectra[i] * spectra[j].conj()
                coherence = abs(crossed) ** 2 / (abs(spectra[i]) ** 2 * abs(spectra[j]) ** 2 + 1e-8)
                parts = []
                for first, last in pairwise(edges):
                    g, c = coherence[first:last].clip(0, 1), crossed[first:last]
                    total = g.sum() + 1e-8
                    parts += [(g * np.angle(c)).sum() / total, np.log1p((g * abs(c)).sum() / total), g.mean()]
                parts.append(np.corrcoef(window[i], window[j])[0, 1])
                parts.append(np.corrcoef(spread[i], spread[j])[0, 1])
                parts.append(stats.spearmanr(window[i], window[j]).statistic)
                found[w, i, j] = parts
    return found


def test_spectral_features_are_those_of_their_description() -> None:
    windows = windows_of()
    features = pairs.window_features(windows, "spectral")
    assert features.shape == (WINDOWS, CHANNELS, CHANNELS, pairs.feature_width("spectral", LOOKBACK))
    assert_close(features.numpy(), written_out(windows), rtol=1e-6, atol=1e-6)  # z-scores have 1e-8 under the root


def test_a_band_without_a_frequency_is_zero() -> None:
    """Seven frequencies: 15 % and 20 % of them are the same one."""
    features = pairs.window_features(windows_of(lookback=12), "spectral")
    assert features.isfinite().all()
    assert not features[..., 3:6].any()


def test_bins_are_phase_and_magnitude_of_every_frequency_but_the_first() -> None:
    windows = windows_of()
    features = pairs.window_features(windows, "bins")
    assert features.shape[-1] == 2 * 20 == pairs.feature_width("bins", LOOKBACK)
    z = pairs.standardise(windows[0]) * torch.hann_window(LOOKBACK, dtype=torch.float64)
    spectra = torch.fft.rfft(z)
    crossed = spectra[1] * spectra[3].conj()
    assert_close(features[0, 1, 3, :20], crossed.angle()[1:])
    assert_close(features[0, 1, 3, 20:], crossed.abs().log1p()[1:])


@pytest.mark.parametrize("features", ["spectral", "bins"])
def test_the_output_is_attention_with_the_primers_of_each_window(features: str) -> None:
    layer, windows = layer_of(features=features), windows_of()
    x = torch.randn(WINDOWS, 1, CHANNELS, WIDTH, dtype=torch.float64)
    maps = layer.primer.maps
    F = maps(pairs.window_features(windows, features))
    assert_close(layer.primers(windows), F[..., None, :].expand(-1, -1, -1, HEADS, -1))
    assert (F - 1).abs().mean() > 0.3, "nothing starts near 1"
    q, k, v = layer.heads(x)
    heads = [
        torch.stack([prime.reference(q[w, 0, h], k[w, 0, h], v[w, 0, h], F[w]) for h in range(HEADS)])
        for w in range(WINDOWS)
    ]
    assert_close(layer(x, windows=windows), layer.project(torch.stack(heads)[:, None]))


def test_the_maps_are_those_of_public_code() -> None:
    kinds = [type(part).__name__ for part in layer_of().primer.maps]
    assert kinds == ["LayerNorm", "Linear", "GELU", "Dropout", "Linear", "GELU", "Dropout", "Linear"]
    shapes = {name: tuple(one.shape) for name, one in layer_of().primer.maps.named_parameters() if one.dim() == 2}
    assert list(shapes.values()) == [(WIDTH // 2, 15), (WIDTH, WIDTH // 2), (WIDTH, WIDTH)]


@pytest.mark.parametrize("form", ["released", "near_identity"])
def test_self_pairs_can_be_left_as_they_are(form: str) -> None:
    given = {} if form == "released" else {"form": form, "per_window": False}
    layer = layer_of(self_pairs=False, **given)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    primers = layer.primers(windows_of() if form == "released" else None).expand(WINDOWS, -1, -1, -1, -1)
    own = primers.diagonal(dim1=1, dim2=2)
    assert torch.equal(own, torch.ones_like(own))
    assert (primers[:, 0, 1] - 1).abs().max() > 0.01


def test_random_features_are_drawn_anew_at_every_call() -> None:
    layer = layer_of(features="drawn", per_window=False)
    x = torch.randn(WINDOWS, 1, CHANNELS, WIDTH, dtype=torch.float64)
    assert not torch.equal(layer(x), layer(x))
    from rearview.attention.prime.window_primer import draw_features

    drawn = draw_features(200, CHANNELS, 15, x)
    bound = math.sqrt(6 / (CHANNELS**2 + 15))
    assert drawn.min() > 1 - bound
    assert drawn.max() < 1 + bound
    assert drawn.mean().item() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"free": True},
            "form='released' makes primers of all pairs from each window and nothing else; give free=False",
        ),
        ({"per_window": False}, "per_window=True, or features='drawn'"),
        ({"features": "drawn"}, "features='drawn' goes with form='released' and per_window=False"),
        ({"form": "near_identity", "features": "drawn", "per_window": False}, "goes with form='released'"),
        (
            {"form": "near_identity", "primer": "graph", "edges": [(0, 1)], "per_window": False, "self_pairs": False},
            "loops are primed",
        ),
    ],
)
def test_settings_that_contradict_one_another_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        layer_of(**settings)


def test_tokens_that_are_no_channels_are_refused() -> None:
    for given in (RELEASED, {"form": "released", "features": "drawn", "free": False}):
        with pytest.raises(SettingsError, match="needs tokens that are channels, and PatchTST's are not"):
            models.create("patchtst", channels=3, lookback=48, steps=12, attention={"name": "prime", **given})


def network(**changes: Any) -> models.Model:
    torch.manual_seed(5)
    given = {"width": 10, "heads": 3, "depth": 2, "feed_forward": 11, "dropout": 0.0, **changes}
    return models.create("prime_net", channels=CHANNELS, lookback=LOOKBACK, steps=13, **given).double().eval()


def test_layers_of_a_stack_share_one_set_of_maps() -> None:
    model = network()
    names = [name for name, _ in model.named_parameters() if ".maps." in name]
    assert names == [f"stack.shared.maps.{part}.{kind}" for part in (0, 1, 4, 7) for kind in ("weight", "bias")]
    other = network()
    with torch.no_grad():
        other.stack.shared.maps[7].bias.add_(1.0)
    past = windows_of()
    assert (model(past) - other(past)).abs().max() > 1e-6


def test_the_network_is_the_one_that_is_described() -> None:
    """Pre-norm, heads as wide as tokens, SwiGLU, no norm at the end: written out with softmax attention."""
    model = network(attention="softmax")
    past = windows_of()
    x = (past - past.mean(-1, keepdim=True)) / (past.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
    tokens = model.variates.project(x)
    for block in model.stack.blocks:
        q, k, v = block.attend.heads(block.norm_attended(tokens[:, None]))
        assert q.shape[-1] == 10
        mixed = (q @ k.transpose(-1, -2) / math.sqrt(10)).softmax(-1) @ v
        tokens = tokens + block.attend.project(mixed)[:, 0]
        y = block.norm_fed(tokens)
        gate, narrow = block.feed_forward[0], block.feed_forward[2]
        tokens = tokens + narrow(torch.nn.functional.silu(gate.gate(y)) * gate.value(y))
    scale, shift = (past.var(-1, keepdim=True, correction=0) + 1e-5).sqrt(), past.mean(-1, keepdim=True)
    assert_close(model(past), model.head(tokens) * scale + shift)
