"""Instance normalisation: its statistics, its own inverse, and windows with padding."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from rearview.core.errors import SettingsError
from rearview.embed import Normalise

BATCH, CHANNELS, STEPS, TIME = 2, 3, 5, 17
EPS = 1e-5


def windows() -> Tensor:
    torch.manual_seed(3)
    return 50 + 7 * torch.randn(BATCH, CHANNELS, TIME, dtype=torch.float64)


def padding() -> Tensor:
    return torch.arange(TIME) >= torch.tensor([[0], [11]])


def normaliser(kind: str) -> Normalise:
    torch.manual_seed(5)
    if kind != "affine":
        return Normalise(kind)
    made = Normalise("revin", CHANNELS, affine=True).double()
    torch.nn.init.uniform_(made.weight, 0.5, 1.5)
    torch.nn.init.normal_(made.bias)
    return made


every = pytest.mark.parametrize("kind", ["revin", "affine", "last", "none"])


@every
@pytest.mark.parametrize("masked", [False, True])
def test_the_inverse_undoes_the_normalisation(kind: str, masked: bool) -> None:
    past, mask = windows(), padding() if masked else None
    z, denormalise = normaliser(kind)(past, mask)
    back = denormalise(z)
    real = torch.ones_like(past, dtype=torch.bool) if mask is None else mask[:, None].expand_as(past)
    assert_close(back[real], past[real], rtol=1e-9, atol=1e-9)


@every
def test_the_inverse_takes_any_number_of_steps(kind: str) -> None:
    past = windows()
    z, denormalise = normaliser(kind)(past)
    assert_close(denormalise(z[..., :STEPS]), past[..., :STEPS], rtol=1e-9, atol=1e-9)


def test_revin_has_mean_0_and_biased_variance_1() -> None:
    past = windows()
    z, _ = Normalise("revin")(past)
    mean = past.mean(-1, keepdim=True)
    variance = (past - mean).square().sum(-1, keepdim=True) / TIME
    assert_close(z, (past - mean) / (variance + EPS).sqrt())


def test_an_affine_map_follows_and_is_undone_as_its_authors_do() -> None:
    made, past = normaliser("affine"), windows()
    plain, back = Normalise("revin")(past)
    z, denormalise = made(past)
    weight, bias = made.weight[:, None], made.bias[:, None]
    assert_close(z, plain * weight + bias)
    y = torch.randn(BATCH, CHANNELS, STEPS, dtype=torch.float64)
    assert_close(denormalise(y), back((y - bias) / (weight + EPS * EPS)))


def test_kind_last_subtracts_the_last_value() -> None:
    past = windows()
    z, _ = Normalise("last")(past)
    assert torch.equal(z, past - past[..., -1:])


def test_kind_none_changes_nothing() -> None:
    past = windows()
    z, denormalise = Normalise("none")(past)
    assert z is past
    assert denormalise(z) is past


@every
@pytest.mark.parametrize("garbage", [1e9, float("nan"), float("inf")])
def test_padding_becomes_0_and_moves_nothing(kind: str, garbage: float) -> None:
    past, mask = windows(), padding()
    made = normaliser(kind)
    z, denormalise = made(torch.where(mask[:, None], past, garbage), mask)
    assert not z[~mask[:, None].expand_as(z)].any()
    expected, denormalise_expected = made(past, mask)
    assert torch.equal(z, expected)
    assert torch.equal(denormalise(z), denormalise_expected(expected))


@pytest.mark.parametrize("kind", ["revin", "affine", "last"])
def test_statistics_are_those_of_the_real_steps(kind: str) -> None:
    past, mask = windows(), padding()
    z, denormalise = normaliser(kind)(past, mask)
    short, denormalise_short = normaliser(kind)(past[1:, :, 11:])
    assert_close(z[1:, :, 11:], short)
    y = torch.randn(BATCH, CHANNELS, STEPS, dtype=torch.float64)
    assert_close(denormalise(y)[1:], denormalise_short(y[1:]))


@every
def test_constant_and_wholly_padded_windows_stay_finite(kind: str) -> None:
    past = torch.full((BATCH, CHANNELS, TIME), 7.0, dtype=torch.float64)
    for mask in (None, torch.zeros(BATCH, TIME, dtype=torch.bool)):
        z, denormalise = normaliser(kind)(past, mask)
        assert z.isfinite().all()
        assert denormalise(z).isfinite().all()


def test_statistics_are_constants_for_the_gradient() -> None:
    past = windows().requires_grad_()
    z, _ = Normalise("revin")(past)
    (gradient,) = torch.autograd.grad(z.sum(), past)
    _, std = Normalise("revin").statistics(past, None)
    assert_close(gradient, (1 / std).expand_as(past))


@pytest.mark.usefixtures("unchecked")
def test_impossible_normalisations_are_refused() -> None:
    with pytest.raises(SettingsError, match="normalise is 'first'; it can be one of revin, last, none"):
        Normalise("first")
    for wrong in ({"kind": "last", "channels": 3}, {"kind": "revin"}):
        with pytest.raises(SettingsError, match="needs kind 'revin' and the number of channels"):
            Normalise(**wrong, affine=True)
