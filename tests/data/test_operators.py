"""The operator cases: what is wanted of each, and the error that the best fixed linear operator leaves."""

import pytest
import torch
from torch.testing import assert_close

from rearview.core.errors import SettingsError
from rearview.data.synthetic import operators
from rearview.data.synthetic.operators import CASES, NOISE, draw_samples, linear_floor

LENGTH, MANY = 56, 6000


def drawn(case: str, count: int = MANY) -> operators.Samples:
    return draw_samples(case, count, LENGTH, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("case", CASES)
def test_the_floor_is_the_error_of_the_least_squares_operator(case: str) -> None:
    seen, wanted = (part.double() for part in drawn(case))
    assert seen.shape == wanted.shape == (MANY, LENGTH)
    train, test = slice(MANY // 2), slice(MANY // 2, None)
    fitted = torch.linalg.lstsq(seen[train], wanted[train]).solution
    left = (seen[test] @ fitted - wanted[test]).square().mean().item()
    if case == "residual":
        assert left < 1e-10
    else:  # fitted to 3,000 samples it is a few per cent above the best; the floor of warped tones is approximate
        assert left == pytest.approx(linear_floor(case, LENGTH), rel=0.25 if case == "warping" else 0.08)


def test_tones_go_on_as_they_were() -> None:
    """All periods fit the sample, so that what comes L steps later is the clean past; and rows sum to 0 (lemma 1)."""
    assert_close(operators.waves(LENGTH, LENGTH), operators.waves(LENGTH, 0), rtol=0, atol=1e-4)
    operator = operators.waves(LENGTH, LENGTH).double() @ torch.linalg.pinv(operators.waves(LENGTH, 0).double())
    assert operator.sum(-1).abs().max() < 1e-5


def test_a_residual_is_a_step_less_its_neighbours() -> None:
    seen, wanted = drawn("residual", 2)
    assert_close(wanted[0, 7], seen[0, 7] - seen[0, 5:10].mean())
    assert_close(wanted[1, 0], seen[1, 0] - seen[1, :3].mean())


def test_channels_share_few_factors() -> None:
    clean = drawn("demixing").wanted.double()
    assert torch.linalg.matrix_rank(clean, rtol=1e-4) == LENGTH // operators.FACTORS
    assert clean.var().item() == pytest.approx(1, abs=0.25)


def test_transients_are_short_and_sum_to_nothing() -> None:
    for scale in operators.SCALES:
        for wave in operators._atoms(LENGTH, scale):
            assert (wave[LENGTH // 2] != 0).sum() <= LENGTH / scale + 1
    clean = drawn("transients").wanted.double()
    assert_close(clean.T @ clean / MANY, operators.covariance("transients", LENGTH), rtol=0, atol=0.06)


@pytest.mark.parametrize("case", [case for case in CASES if case != "residual"])
def test_noise_is_what_sets_seen_and_wanted_apart(case: str) -> None:
    seen, wanted = drawn(case)
    assert (seen - wanted).std().item() == pytest.approx(NOISE, abs=0.01)


def test_what_there_is_not_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"no operator case 'drift'\. Known: continuation, residual"):
        draw_samples("drift", 3, LENGTH)
    with pytest.raises(SettingsError, match="length is 9; an operator case needs at least 16"):
        draw_samples("residual", 3, 9)
