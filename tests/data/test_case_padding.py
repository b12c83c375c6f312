"""Cases as tensors: training statistics, gaps filled as named, padding at the front and marked."""

import numpy as np
import pytest
import torch

from rearview.core.errors import InputError, SettingsError
from rearview.data.cases.case_reader import as_cases
from rearview.data.cases.case_set import hold_out
from rearview.data.cases.padding import ChannelScaler, fill_gaps, pad_cases


def test_statistics_are_those_of_the_observed_steps():
    cases = as_cases([np.array([[1.0, np.nan, 3.0], [5.0, 5.0, 5.0]]), np.array([[8.0], [5.0]])])
    scaler = ChannelScaler.fit(cases)
    np.testing.assert_allclose(scaler.mean, [4.0, 5.0])
    np.testing.assert_allclose(scaler.std, [np.std([1, 3, 8]), 1.0])


def test_a_small_spread_about_a_high_level_keeps_its_digits():
    cases = as_cases(1e9 + np.array([[[1.0, 2.0, 3.0, 4.0]]]))
    np.testing.assert_allclose(ChannelScaler.fit(cases).std, [np.std([1, 2, 3, 4])], rtol=1e-9)


def test_a_channel_without_any_value_is_refused_by_its_number():
    with pytest.raises(InputError, match="channel 2 has no value in any of the 2 cases"):
        ChannelScaler.fit(as_cases(np.stack([[[1.0, 2.0], [np.nan, np.nan]]] * 2)))


@pytest.mark.parametrize(
    ("fill", "wanted"),
    [
        ("linear", [2, 2, 3, 4, 5, 5]),
        ("last", [2, 2, 2, 2, 5, 5]),
        ("mean", [1, 2, 1, 1, 5, 1]),
        ("zero", [0, 2, 0, 0, 5, 0]),
    ],
)
def test_gaps_are_filled_as_named(fill, wanted):
    scaler = ChannelScaler(np.array([1.0]), np.array([2.0]))
    one = np.array([[np.nan, 2.0, np.nan, np.nan, 5.0, np.nan]])
    np.testing.assert_allclose(fill_gaps(one, scaler, fill, "here") * 2 + 1, [wanted])


def test_a_channel_missing_in_one_case_holds_the_mean_and_an_empty_case_is_refused():
    scaler = ChannelScaler(np.array([1.0, 7.0]), np.array([2.0, 3.0]))
    one = fill_gaps(np.array([[3.0, 5.0], [np.nan, np.nan]]), scaler, "last", "here")
    np.testing.assert_allclose(one, [[1.0, 2.0], [0.0, 0.0]])
    with pytest.raises(InputError, match="here has no value at all"):
        fill_gaps(np.full((2, 2), np.nan), scaler, "last", "here")


def test_padding_stands_at_the_front_and_long_cases_keep_their_newest_steps():
    cases = as_cases([np.array([[1.0, 2.0]]), np.array([[1.0, 2.0, 3.0, 4.0]])])
    plain = ChannelScaler(np.zeros(1), np.ones(1))
    data = pad_cases(cases, plain, np.array([1, 0]), 3)
    torch.testing.assert_close(data.values[:, 0], torch.tensor([[0.0, 1, 2], [2, 3, 4]]))
    assert data.mask.tolist() == [[False, True, True], [True, True, True]]
    end = pad_cases(cases, plain, np.array([1, 0]), 3, side="end", masked=False)
    assert end.mask is None
    assert end.values[0, 0].tolist() == [1, 2, 0]
    batch = data.batch(torch.tensor([1]))
    assert batch.labels.tolist() == [0]
    assert batch.past.shape == (1, 1, 3)


def test_equal_lengths_need_no_mask():
    cases = as_cases(np.ones((2, 1, 3)))
    assert pad_cases(cases, ChannelScaler.fit(cases), np.zeros(2, dtype=np.int64), 3).mask is None


def test_an_unknown_way_of_filling_is_refused():
    cases = as_cases(np.ones((2, 1, 3)))
    with pytest.raises(SettingsError, match="no method 'spline'"):
        pad_cases(cases, ChannelScaler.fit(cases), np.zeros(2, dtype=np.int64), 3, fill="spline")


@pytest.mark.parametrize("seed", [0, 1])
def test_hold_out_takes_the_share_of_each_class(seed):
    codes = np.repeat([0, 1, 2, 3, 4], [50, 10, 4, 2, 1])
    learned, held = hold_out(codes, 0.2, seed)
    assert np.bincount(codes[held], minlength=5).tolist() == [10, 2, 1, 0, 0]
    assert sorted([*learned, *held]) == list(range(len(codes)))
    again = hold_out(codes, 0.2, seed)
    assert again[1].tolist() == held.tolist()


def test_hold_out_depends_on_the_seed():
    codes = np.repeat([0, 1], 50)
    assert hold_out(codes, 0.2, 0)[1].tolist() != hold_out(codes, 0.2, 1)[1].tolist()
