"""Positions: the table of sines and cosines against its formula, the learned table, shorter sequences."""

import math

import pytest
import torch
from torch.testing import assert_close

from rearview.embed import Learned, Sinusoidal, sinusoids

BATCH, GROUPS, TOKENS = 2, 3, 11


@pytest.mark.parametrize("width", [1, 2, 7, 26])
def test_sinusoids_are_their_formula(width: int) -> None:
    table = sinusoids(TOKENS, width)
    assert table.dtype == torch.float32
    for t in range(TOKENS):
        for column in range(width):
            angle = t / 10000 ** (2 * (column // 2) / width)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert table[t, column].item() == pytest.approx(expected, abs=1e-7)


def test_a_long_table_stays_right() -> None:
    """An angle held in float32 would be off by 4e-3 at position 100,000."""
    assert sinusoids(100_001, 2)[-1].tolist() == pytest.approx([math.sin(1e5), math.cos(1e5)], abs=1e-7)


@pytest.mark.parametrize("tokens", [TOKENS, 5001])
def test_a_standardised_table_is_a_tenth_as_wide_whatever_part_of_it_is_used(tokens: int) -> None:
    counted, table = sinusoids(5000, 7).double(), Sinusoidal(tokens, 7, standard=True).table
    assert table.shape == (tokens, 7)
    expected = (sinusoids(tokens, 7).double() - counted.mean()) / counted.std() / 10
    assert_close(table.double(), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", [Learned, Sinusoidal])
def test_positions_are_added_to_as_many_tokens_as_there_are(kind: type[Learned] | type[Sinusoidal]) -> None:
    positions = kind(TOKENS, 7)
    x = torch.randn(BATCH, GROUPS, TOKENS, 7)
    assert_close(positions(x) - x, positions.table.expand_as(x))
    assert_close(positions(x[:, :, :5]), positions(x)[:, :, :5])


def test_a_learned_table_is_learned_and_starts_small() -> None:
    table = Learned(101, 7).table
    assert table.requires_grad
    assert 0.015 < table.abs().max() <= 0.02
    assert table.min() < 0 < table.max()


def test_a_fixed_table_follows_the_module_and_is_not_saved() -> None:
    positions = Sinusoidal(TOKENS, 7)
    assert not positions.state_dict()
    assert not list(positions.parameters())
    assert positions.double().table.dtype == torch.float64
