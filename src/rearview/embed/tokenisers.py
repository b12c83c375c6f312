"""From windows [batch, channel, time] to tokens [batch, group, token, width]: patches, variates, points.

| tokeniser | group | token |
|---|---|---|
| `Patches` | channel | a piece of `patch` steps, every `stride` steps |
| `Variates` | 1 | a whole channel (and, if there are any, a whole calendar feature) |
| `Points` | 1 | a time step: all channels of one instant |
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from rearview.core.errors import SettingsError


class Patches(nn.Module):
    """Overlapping pieces of each channel, each mapped to `width` by one shared linear map.

    With `pad_end` the last value is repeated `stride` times first, so the newest steps stand in two patches. With
    `fill` the first value is repeated in front, or the last one at the end, until the patches come out even.
    A look-back shorter than the patch shortens the patch: one patch is then the whole look-back. A stride longer than
    the patch is shortened to it, so that every step stands in some patch.
    """

    def __init__(
        self, lookback: int, patch: int, stride: int, width: int, *, pad_end: bool = True,
        fill: Literal["front", "end"] | None = None, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if patch < 1 or stride < 1:
            raise SettingsError(f"patch is {patch} and stride is {stride}; both must be at least 1.")
        self.patch = min(patch, lookback)
        self.stride = min(stride, self.patch)
        missing = (self.patch - lookback) % self.stride if fill else 0
        front = missing if fill == "front" else 0
        self.padding = (front, missing - front + (self.stride if pad_end else 0))
        self.tokens = (lookback + sum(self.padding) - self.patch) // self.stride + 1
        self.project = nn.Linear(self.patch, width, bias=bias)

    def forward(self, x: Float[Tensor, "batch channel time"]) -> Float[Tensor, "batch channel token width"]:
        return self.project(self._pieces(x))

    def mask(self, mask: Bool[Tensor, "batch time"]) -> Bool[Tensor, "batch token"]:
        """A patch is real when any of its steps is."""
        return self._pieces(mask[:, None].to(torch.float32)).amax(-1)[:, 0] > 0

    def _pieces(self, x: Tensor) -> Tensor:
        if any(self.padding):
            x = functional.pad(x, self.padding, mode="replicate")
        return x.unfold(-1, self.patch, self.stride)


def check_marks(
    marks: int, future: int, past_marks: Tensor | None, future_marks: Tensor | None
) -> tuple[Float[Tensor, "batch mark time"], Float[Tensor, "batch mark ahead"] | None]:
    """The marks of a model for `marks` of them, known `future` steps ahead (0: past only); others are refused."""
    if past_marks is None or past_marks.shape[1] != marks:
        got = "none" if past_marks is None else past_marks.shape[1]
        raise SettingsError(f"This model was built for {marks} marks and got {got}.")
    if not future:
        return past_marks, None
    if future_marks is None or future_marks.shape[1:] != (marks, future):
        given = "none" if future_marks is None else " x ".join(str(size) for size in future_marks.shape[1:])
        raise SettingsError(
            f"This model was built for {marks} marks known {future} steps ahead; "
            f"of future marks x steps it got {given}."
        )
    return past_marks, future_marks


class Variates(nn.Module):
    """Each channel's whole look-back as one token; calendar features and known inputs follow as tokens of their own.

    Without a known future, marks share the channels' map (the official form). With `future` steps of known marks, a
    mark's token is made from past and future together by a map of its own. Each of the last `statics` marks, which
    never change in a series, is embedded: its value times a learned vector. By the common map the tokens of two
    categories would be the same but for their frequency, and attention, which knows no order, could not tell them
    apart.
    """

    def __init__(self, lookback: int, width: int, *, marks: int = 0, future: int = 0, statics: int = 0) -> None:
        super().__init__()
        self.marks = marks
        self.statics = statics
        self.future = future
        self.project = nn.Linear(lookback, width)
        self.project_marks = nn.Linear(lookback + future, width) if marks and future else None
        # As large as what a linear map makes of a look-back of unit variance.
        self.embedding = nn.Parameter(torch.randn(statics, width) * 3**-0.5) if statics else None

    def forward(
        self,
        x: Float[Tensor, "batch channel time"],
        past_marks: Float[Tensor, "batch mark time"] | None = None,
        future_marks: Float[Tensor, "batch mark ahead"] | None = None,
    ) -> Float[Tensor, "batch 1 token width"]:
        if not self.marks:
            return self.project(x)[:, None]
        past_marks, future_marks = check_marks(self.marks, self.future, past_marks, future_marks)
        moving, described = self.marks - self.statics, []
        if self.embedding is not None:
            described = [past_marks[:, moving:, -1:] * self.embedding]
        if self.project_marks is None or future_marks is None:
            return torch.cat([self.project(torch.cat([x, past_marks[:, :moving]], dim=1)), *described], dim=1)[:, None]
        marks = self.project_marks(torch.cat([past_marks, future_marks], dim=2)[:, :moving])
        return torch.cat([self.project(x), marks, *described], dim=1)[:, None]


class Points(nn.Module):
    """All channels of one instant as one token: a convolution over three neighbouring steps, wrapped around.

    Marks of the instant are added by a linear map.
    """

    def __init__(self, channels: int, width: int, *, marks: int = 0) -> None:
        super().__init__()
        self.project_marks = nn.Linear(marks, width, bias=False) if marks else None
        self.convolve = nn.Conv1d(channels, width, 3, padding=1, padding_mode="circular", bias=False)
        nn.init.kaiming_normal_(self.convolve.weight, mode="fan_in", nonlinearity="leaky_relu")

    def forward(
        self, x: Float[Tensor, "batch channel time"], marks: Float[Tensor, "batch mark time"] | None = None
    ) -> Float[Tensor, "batch 1 time width"]:
        tokens: Tensor = self.convolve(x).transpose(1, 2)
        if self.project_marks is not None:
            assert marks is not None, "a model that has marks checks that it was given them"
            tokens = tokens + self.project_marks(marks.transpose(1, 2))
        return tokens[:, None]
