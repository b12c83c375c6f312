"""Harmonic signals are the formula's, regime by regime."""

import math

import numpy as np
import pytest
import torch

from rearview.core.errors import SettingsError
from rearview.data.synthetic.harmonic import LENGTH, REGIMES, draw_signals, linear_floor, tone_periods, warp_time


def seeded(seed: int = 7) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_paper_s_axis_at_its_length():
    stationary, vibrato, chirp = warp_time(LENGTH).double()
    assert stationary[100] == 100
    assert vibrato[84].item() == pytest.approx(84 + 20 * math.sin(4 * math.pi * 84 / 672), abs=1e-3)
    assert chirp[336].item() == pytest.approx(336 + 40 * 0.25, abs=1e-3)
    assert tone_periods(LENGTH) == (24.0, 84.0, 168.0)


def test_a_clean_signal_is_three_tones_of_one_phase():
    made = draw_signals(31, LENGTH, generator=seeded())
    assert sorted(set(made.regime.tolist())) == list(range(len(REGIMES)))
    for clean, regime in zip(made.clean.double(), made.regime, strict=True):
        at = warp_time(LENGTH)[regime].double()
        angles = [2 * math.pi / period * at for period in tone_periods(LENGTH)]
        # cos(a + phi) = cos a cos phi - sin a sin phi: two numbers must explain all 672 steps.
        basis = torch.stack([sum(map(torch.cos, angles)), -sum(map(torch.sin, angles))], dim=1)
        phase = torch.linalg.lstsq(basis, clean[:, None]).solution
        assert torch.linalg.vector_norm(phase).item() == pytest.approx(1, abs=1e-3)
        assert (basis @ phase - clean[:, None]).abs().max() < 1e-3


def test_noise_is_as_strong_as_asked():
    made = draw_signals(200, 84, generator=seeded())
    assert (made.noisy - made.clean).std().item() == pytest.approx(0.5, abs=0.01)
    quiet = draw_signals(5, 84, noise=0.0, generator=seeded())
    assert torch.equal(quiet.noisy, quiet.clean)


def test_a_short_signal_is_a_long_one_seen_from_afar():
    assert torch.allclose(warp_time(112) * 6, warp_time(LENGTH)[:, ::6], atol=1e-3)


@pytest.mark.parametrize("length", [112, LENGTH])
def test_the_floor_is_what_the_best_fixed_linear_operator_leaves(length):
    covariance = np.zeros((length, length))
    for at in warp_time(length).double().numpy():
        angles = [2 * np.pi / period * at for period in tone_periods(length)]
        for wave in (sum(map(np.cos, angles)), sum(map(np.sin, angles))):
            covariance += np.outer(wave, wave) / 2 / len(REGIMES)
    strengths = np.linalg.eigvalsh(covariance)
    assert (strengths > 1e-6).sum() == 6
    # Wiener's filter leaves s n / (s + n) of a direction of strength s under noise n.
    left = (strengths * 0.25 / (strengths + 0.25)).sum() / length
    assert left == pytest.approx(linear_floor(length), rel=0.02)


def test_too_short_a_signal_is_refused():
    with pytest.raises(SettingsError, match="at least 8 steps"):
        draw_signals(3, 7)
