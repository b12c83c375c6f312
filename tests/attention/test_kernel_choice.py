"""Which sizes are sent to the kernels of our own; asked where they can run, and answered without running them."""

import pytest
import torch
from kernel_parts import needs_kernels

from rearview.attention import kernels
from rearview.attention.shared import fused

pytestmark = needs_kernels


@pytest.mark.parametrize(
    ("tokens", "width", "dtype", "large", "small"),
    [
        (128, 64, torch.bfloat16, True, False),
        (64, 128, torch.bfloat16, True, True),
        (64, 64, torch.float32, True, False),
        (64, 32, torch.float32, True, True),
        (32, 128, torch.float32, True, True),
    ],
)
def test_smaller_chips_get_half_of_a_short_axis(tokens, width, dtype, large, small, monkeypatch):
    from rearview.attention.kernels import tiles

    part = torch.empty(1, 1, tokens, width, dtype=dtype)
    for roomy, fits in ((True, large), (False, small)):
        monkeypatch.setattr(tiles, "roomy", lambda device, answer=roomy: answer)
        assert fused.fits_short_kernel(part, part) is fits


@pytest.mark.parametrize(
    ("tokens", "width", "large", "small"), [(64, 64, False, False), (42, 32, True, False), (42, 8, True, True)]
)
def test_twice_as_many_tiles_want_smaller_ones(tokens, width, large, small, monkeypatch):
    from rearview.attention.kernels import short

    part = torch.empty(1, 1, tokens, width)
    for roomy, fits in ((True, large), (False, small)):
        monkeypatch.setattr(short, "roomy", lambda device, answer=roomy: answer)
        assert short.spacious(part, part) is fits


def test_an_mlp_gate_is_left_to_torch_on_smaller_chips(monkeypatch):
    from rearview.attention.kernels import perceptron

    part = torch.empty(1, 1, 1, 12, 32)
    for roomy in (True, False):
        monkeypatch.setattr(perceptron, "roomy", lambda device, answer=roomy: answer)
        assert perceptron.fits(part, part, part, 128) is roomy
    monkeypatch.setattr(perceptron, "roomy", lambda device: True)
    assert not perceptron.fits(part, part, part, 129)


def test_what_32_bits_can_not_count_is_left_to_torch(monkeypatch):
    monkeypatch.setattr(kernels, "available", lambda device: True)
    for tokens, fits in ((1 << 20, True), (1 << 21, False)):
        part = torch.empty(1, tokens, 8, 128, device="meta").transpose(1, 2)
        assert fused.own_kernels_run(part, part, part) is fits
