"""Flip-flop strings keep the rules of the language."""

import pytest
import torch

from rearview.core.errors import SettingsError
from rearview.data.synthetic.flipflop import IGNORE, READ, WRITE, draw_strings, find_last_writes

COUNT, LENGTH = 211, 46


def drawn(ignore: float, seed: int = 5) -> torch.Tensor:
    return draw_strings(COUNT, LENGTH, ignore, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("ignore", [0.1, 0.8, 0.98])
def test_reads_repeat_what_was_last_written(ignore):
    for string in drawn(ignore).tolist():
        assert string[0] == WRITE
        assert string[-2] == READ
        memory = None
        for instruction, bit in zip(string[0::2], string[1::2], strict=True):
            assert instruction in (WRITE, IGNORE, READ)
            assert bit in (0, 1)
            if instruction == WRITE:
                memory = bit
            if instruction == READ:
                assert bit == memory


@pytest.mark.parametrize("ignore", [0.1, 0.8, 0.98])
def test_instructions_come_as_often_as_asked(ignore):
    inner = draw_strings(4000, LENGTH, ignore, generator=torch.Generator().manual_seed(3))[:, 2:-2:2]
    shares = [(inner == code).float().mean().item() for code in (IGNORE, WRITE, READ)]
    assert shares == pytest.approx([ignore, (1 - ignore) / 2, (1 - ignore) / 2], abs=0.01)


def test_written_and_ignored_bits_are_even():
    text = drawn(0.5)
    assert text[:, 1::2][text[:, 0::2] != READ].float().mean().item() == pytest.approx(0.5, abs=0.03)


def test_the_same_generator_gives_the_same_strings():
    assert torch.equal(drawn(0.8), drawn(0.8))
    assert not torch.equal(drawn(0.8), drawn(0.8, seed=6))


def test_the_last_write_is_found():
    instructions = torch.tensor([[WRITE, IGNORE, WRITE, READ, IGNORE, READ]])
    assert find_last_writes(instructions).tolist() == [[0, 0, 2, 2, 2, 2]]


@pytest.mark.parametrize(("length", "ignore", "words"), [(7, 0.5, "even number"), (8, 1.2, "probability")])
def test_what_is_no_flip_flop_is_refused(length, ignore, words):
    with pytest.raises(SettingsError, match=words):
        draw_strings(3, length, ignore)
