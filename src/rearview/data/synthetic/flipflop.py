"""Flip-flop strings (Liu et al., 2023): a one-bit memory that is written, left alone and read.

A string alternates instructions and bits. `w` writes the bit behind it, `i` says to ignore it, and behind `r` stands
the bit that was last written. The first instruction is w and the last is r; in between i comes with probability
`ignore`, w and r share the rest. Strings are drawn on the device where they are used, and nothing here waits for it.
"""

import torch
from jaxtyping import Int
from torch import Tensor

from rearview.core.errors import SettingsError

SYMBOLS = ("0", "1", "w", "i", "r")
"""The symbols that the codes of a string stand for."""
WRITE, IGNORE, READ = 2, 3, 4
BLANK = 5
"""The symbol behind a read where the answer is hidden."""

Strings = Int[Tensor, "string symbol"]


def draw_strings(
    count: int,
    length: int,
    ignore: float,
    *,
    generator: torch.Generator | None = None,
    device: torch.device | str = "cpu",
) -> Strings:
    """`count` strings of codes (see `SYMBOLS`); without a generator, torch's own is drawn from."""
    if length < 4 or length % 2:
        raise SettingsError(f"A flip-flop string of {length} symbols is none; it has an even number of at least 4.")
    if not 0 <= ignore <= 1:
        raise SettingsError(f"ignore is {ignore}; it is a probability, from 0 to 1.")
    chance = torch.rand(count, length // 2, generator=generator, device=device)
    instructions = torch.full_like(chance, READ, dtype=torch.int64)
    instructions = torch.where(chance < (1 + ignore) / 2, WRITE, instructions)
    instructions = torch.where(chance < ignore, IGNORE, instructions)
    instructions[:, 0] = WRITE
    instructions[:, -1] = READ
    bits = torch.randint(0, 2, instructions.shape, generator=generator, device=device)
    bits = torch.where(instructions == READ, bits.gather(1, find_last_writes(instructions)), bits)
    return torch.stack((instructions, bits), dim=-1).flatten(1)


def hide_answers(text: Strings) -> Strings:
    """The strings with a blank behind every read."""
    hidden = text.clone()
    hidden[:, 1::2] = torch.where(text[:, 0::2] == READ, BLANK, text[:, 1::2])
    return hidden


def find_last_writes(instructions: Int[Tensor, "string pair"]) -> Int[Tensor, "string pair"]:
    """For every pair of an instruction and a bit, the pair in which the bit that counts there was written."""
    pairs = torch.arange(instructions.shape[1], device=instructions.device)
    return torch.where(instructions == WRITE, pairs, 0).cummax(dim=1).values
