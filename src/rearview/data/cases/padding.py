"""Cases as one tensor: scaled by training statistics, gaps filled, brought to one length, padding marked.

Padding stands at the front, so that the newest steps of every case stand at the same places; a case that is too long
keeps its newest steps. The published protocol of the Time-Series-Library pads at the end and marks nothing: that is
`side="end"`.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from rearview.core.errors import InputError
from rearview.data.cases.case_set import Cases, Series
from rearview.data.read_options import Fill, check_fill

Side = Literal["front", "end"]
FURTHEST = 1e6
"""Standard deviations from the mean that a network is shown, at most: beyond, its layers overflow."""


@dataclass(frozen=True, slots=True)
class ChannelScaler:
    """z = (value - mean) / std, a channel at a time."""

    mean: NDArray[np.float64]
    """[channel]."""
    std: NDArray[np.float64]
    """[channel]: 1 where a channel does not vary."""

    @staticmethod
    def fit(cases: Cases) -> "ChannelScaler":
        """Statistics over every observed step of every case; a channel without any is refused."""
        steps = np.concatenate(cases.series, axis=1)
        seen = ~np.isnan(steps)
        empty = np.flatnonzero(~seen.any(axis=1))
        if len(empty):
            listed = ", ".join(str(channel + 1) for channel in empty[:5])
            raise InputError(
                f"{cases.source}: channel {listed} has no value in any of the {len(cases)} cases to train on; "
                "leave it out."
            )
        count = seen.sum(axis=1)
        # About the first value seen, so that a small spread around a high level keeps its digits.
        about = steps[np.arange(len(steps)), seen.argmax(axis=1)]
        apart = np.where(seen, steps - about[:, None], 0.0)
        mean = apart.sum(axis=1) / count
        std = np.sqrt((np.where(seen, apart - mean[:, None], 0.0) ** 2).sum(axis=1) / count)
        return ChannelScaler(mean + about, np.where(std > 0, std, 1.0))


class CaseBatch(NamedTuple):
    """Some cases, as a network takes them."""

    past: Float[Tensor, "batch channel time"]
    mask: Bool[Tensor, "batch time"] | None
    """True on real steps; None where nothing is padded."""
    labels: Int[Tensor, " batch"]
    """Class codes."""


@dataclass(frozen=True, slots=True, eq=False)
class CaseTensors:
    """Cases on a device; a batch of them is one gather."""

    values: Float[Tensor, "case channel time"]
    mask: Bool[Tensor, "case time"] | None
    labels: Int[Tensor, " case"]

    def batch(self, index: Int[Tensor, " window"]) -> CaseBatch:
        """The cases of `index`."""
        index = index.to(self.values.device)
        return CaseBatch(self.values[index], None if self.mask is None else self.mask[index], self.labels[index])

    def __len__(self) -> int:
        return len(self.values)


def pad_cases(
    cases: Cases,
    scaler: ChannelScaler,
    codes: NDArray[np.int64],
    length: int,
    *,
    fill: Fill = "linear",
    side: Side = "front",
    masked: bool = True,
    device: torch.device | str = "cpu",
) -> CaseTensors:
    """The cases as tensors of `length` steps; without `masked` padding passes for values of 0."""
    check_fill(fill)
    values = np.zeros((len(cases), cases.channels, length), dtype=np.float32)
    real = np.zeros((len(cases), length), dtype=bool)
    for row, one in enumerate(cases.series):
        scaled = fill_gaps(one, scaler, fill, f"{cases.source}, {cases.names[row]}")[:, -length:].clip(
            -FURTHEST, FURTHEST
        )
        taken = slice(length - scaled.shape[1], length) if side == "front" else slice(0, scaled.shape[1])
        values[row, :, taken] = scaled
        real[row, taken] = True
    mask = torch.from_numpy(real).to(device) if masked and not real.all() else None
    return CaseTensors(torch.from_numpy(values).to(device), mask, torch.from_numpy(codes).to(device))


def stretch_cases(
    cases: Cases,
    scaler: ChannelScaler,
    length: int,
    *,
    longest: int,
    fill: Fill = "linear",
    device: torch.device | str = "cpu",
) -> Float[Tensor, "case channel time"]:
    """The cases as one tensor without padding: the last `longest` steps of each, stretched or shrunk to `length`."""
    values = np.empty((len(cases), cases.channels, length), dtype=np.float32)
    for row, one in enumerate(cases.series):
        scaled = fill_gaps(one, scaler, fill, f"{cases.source}, {cases.names[row]}")[:, -longest:]
        if scaled.shape[1] != length:
            places = np.linspace(0, scaled.shape[1] - 1, length)
            scaled = np.stack([np.interp(places, np.arange(len(channel)), channel) for channel in scaled])
        values[row] = scaled.clip(-FURTHEST, FURTHEST)
    return torch.from_numpy(values).to(device)


def fill_gaps(one: Series, scaler: ChannelScaler, fill: Fill, where: str) -> Series:
    """A case scaled, without gaps: a channel that has no value at all holds the training mean throughout."""
    missing = np.isnan(one)
    if missing.all():
        raise InputError(f"{where} has no value at all, so nothing can be said about it; leave it out.")
    scaled = (one - scaler.mean[:, None]) / scaler.std[:, None]
    if not missing.any():
        return scaled
    for channel in np.flatnonzero(missing.any(axis=1)):
        values, gaps = scaled[channel], missing[channel]
        known, wanted = np.flatnonzero(~gaps), np.flatnonzero(gaps)
        if fill == "mean" or gaps.all():
            values[gaps] = 0.0
        elif fill == "zero":
            values[gaps] = -scaler.mean[channel] / scaler.std[channel]
        elif fill == "linear":
            # The line between the neighbours of a gap; at an end the nearest value.
            values[gaps] = np.interp(wanted, known, values[known])
        else:
            values[gaps] = values[known[np.maximum(np.searchsorted(known, wanted) - 1, 0)]]
    return scaled
