"""Windows: a gather equals a literal loop, never crosses a series, and costs nothing per window."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_panels import panel_of

from rearview.data.calendar import features
from rearview.data.panel import Panel
from rearview.data.scale import Scaler
from rearview.data.windows import Batch, Source, Windows, final_windows, list_windows, rows_of_past

LOOKBACK, HORIZON = 7, 3


def literal(panel: Panel, scaler: Scaler, which: Windows, window: int, calendar: str | None) -> dict[str, np.ndarray]:
    """One window, cell by cell, in float64."""
    start, s = int(which.starts[window]), int(which.series[window])
    begin, end = int(panel.offsets[s]), int(panel.offsets[s + 1])
    marks = features(panel.stamps, calendar) if calendar else np.zeros((0, len(panel.stamps)))
    channels = len(panel.columns) - panel.known
    cells = np.zeros((len(panel.columns), LOOKBACK + HORIZON))
    clock = np.zeros((len(marks), LOOKBACK + HORIZON))
    mask = np.ones(LOOKBACK, dtype=bool)
    for t in range(LOOKBACK + HORIZON):
        row = start - LOOKBACK + t
        assert row < end
        if row < begin:
            mask[t] = False
            clock[:, t] = marks[:, begin]
            continue
        clock[:, t] = marks[:, row]
        for c in range(len(panel.columns)):
            if row >= panel.first[s, c]:
                cells[c, t] = (float(panel.values[row, c]) - scaler.mean[s, c]) / scaler.std[s, c]
    future = slice(start, start + HORIZON)
    seen = (
        np.ones((HORIZON, panel.targets), bool) if panel.observed is None else panel.observed[future, : panel.targets]
    )
    both = np.concatenate([clock, cells[channels:]])
    return {
        "past": cells[:channels, :LOOKBACK],
        "future": cells[: panel.targets, LOOKBACK:],
        "mask": mask,
        "observed": seen.T,
        "past_marks": both[:, :LOOKBACK],
        "future_marks": both[:, LOOKBACK:],
    }


def assert_equal(batch: Batch, expected: list[dict[str, np.ndarray]]) -> None:
    for name in ("past", "future", "mask", "observed", "past_marks", "future_marks"):
        wanted = np.stack([one[name] for one in expected])
        got = getattr(batch, name)
        if got is None:
            assert (name in ("mask", "observed") and wanted.all()) or wanted.size == 0
            continue
        np.testing.assert_allclose(got.numpy(), wanted, atol=2e-6, err_msg=name)


@pytest.mark.parametrize(
    ("panel", "calendar"),
    [
        (panel_of(), None),
        (panel_of(inputs=1), "h"),
        (panel_of(known=2), None),
        (panel_of((31, 17, 23), targets=1), None),
        (panel_of((31, 5, 23, 4), targets=1, inputs=1, known=1), "h"),
        (panel_of(missing=0.3), None),
        (panel_of((19, 6, 13), targets=1, inputs=1, known=1, missing=0.4), "h"),
    ],
    ids=["wide", "inputs and calendar", "known", "long", "padded", "missing", "everything"],
)
def test_a_gather_equals_a_literal_loop(panel: Panel, calendar: str | None) -> None:
    scaler = Scaler.fit(panel)
    which = list_windows(panel, LOOKBACK, HORIZON)
    source = Source(panel, scaler, which, LOOKBACK, HORIZON, calendar=calendar)
    index = torch.randperm(len(which), generator=torch.Generator().manual_seed(3))
    batch = source.batch(index)
    assert_equal(batch, [literal(panel, scaler, which, int(w), calendar) for w in index])
    assert batch.series.tolist() == which.series[index.numpy()].tolist()
    assert source.mark_count == (4 if calendar else 0) + panel.known


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    lookback=st.integers(1, 20),
    horizon=st.integers(1, 9),
    stride=st.integers(1, 4),
)
def test_no_window_crosses_a_series(lengths: list[int], lookback: int, horizon: int, stride: int) -> None:
    panel = panel_of(tuple(lengths), targets=1)
    found = list_windows(panel, lookback, horizon, stride=stride)
    for start, s in zip(found.starts, found.series, strict=True):
        begin, end = panel.offsets[s], panel.offsets[s + 1]
        assert begin + rows_of_past(lengths[s], lookback, horizon) <= start <= end - horizon
    every = {
        (begin + place, s)
        for s, (begin, length) in enumerate(zip(panel.offsets, lengths, strict=False))
        for place in range(rows_of_past(length, lookback, horizon), length - horizon + 1)
        if (length - horizon - place) % stride == 0
    }
    assert set(zip(found.starts.tolist(), found.series.tolist(), strict=True)) == every


def test_windows_end_within_their_borders() -> None:
    panel = panel_of((31, 20), targets=1)
    found = list_windows(panel, LOOKBACK, HORIZON, np.array([12, 9]), np.array([18, 15]))
    inside = found.starts - panel.offsets[found.series]
    assert inside[found.series == 0].tolist() == [12, 13, 14, 15]
    assert inside[found.series == 1].tolist() == [9, 10, 11, 12]


def test_what_lies_before_a_short_series_never_matters() -> None:
    panel = panel_of((31, 4, 23), targets=1)
    scaler = Scaler.fit(panel)
    which = Windows(panel.offsets[2:3].copy(), np.array([1]))
    plain = Source(panel, scaler, which, LOOKBACK, HORIZON).pasts(torch.arange(1))
    panel.values[:31] = 1e6
    poisoned = Source(panel, scaler, which, LOOKBACK, HORIZON).pasts(torch.arange(1))
    assert torch.equal(plain.past, poisoned.past)
    assert plain.mask is not None
    assert plain.mask.tolist() == [[False] * 3 + [True] * 4]
    assert (plain.past[0, 0, :3] == 0).all()


def test_a_forecast_starts_after_the_last_row() -> None:
    panel = panel_of((31, 12), targets=1)
    scaler = Scaler.fit(panel)
    batch = Source(panel, scaler, final_windows(panel), LOOKBACK, HORIZON).pasts(torch.arange(2))
    for s in range(2):
        last = panel.values[panel.offsets[s + 1] - LOOKBACK : panel.offsets[s + 1], 0]
        np.testing.assert_allclose(batch.past[s, 0], (last - scaler.mean[s, 0]) / scaler.std[s, 0], atol=2e-6)
    assert batch.future.shape == (2, 1, 0)


def test_inputs_can_be_left_out() -> None:
    panel = panel_of(targets=2, inputs=1, known=2)
    source = Source(panel, Scaler.fit(panel), list_windows(panel, LOOKBACK, HORIZON), LOOKBACK, HORIZON, inputs=False)
    batch = source.batch(torch.arange(5))
    assert batch.past.shape == (5, 2, LOOKBACK)
    assert batch.past_marks is None
    assert source.mark_count == 0


def test_memory_is_bounded_by_the_panel_and_not_by_the_number_of_windows() -> None:
    panel = panel_of((5000,), targets=3)
    which = list_windows(panel, 512, 96)
    source = Source(panel, Scaler.fit(panel), which, 512, 96)
    held = [value for value in vars(source).values() if isinstance(value, torch.Tensor)]
    cells = sum(tensor.numel() for tensor in held)
    assert source.values.data_ptr() == panel.values.ctypes.data
    # The values, a start and a series for each window, and what the look-back needs: nothing of size windows x past.
    assert cells < panel.values.size + 2 * len(which) + 10 * (512 + 96)


def test_windows_add_up_and_can_be_taken_apart() -> None:
    panel = panel_of((31, 12), targets=1)
    every = list_windows(panel, LOOKBACK, HORIZON)
    both = every.take(slice(0, 4)) + every.take(np.arange(4, len(every)))
    assert both.starts.tolist() == every.starts.tolist()
    assert both.series.tolist() == every.series.tolist()
