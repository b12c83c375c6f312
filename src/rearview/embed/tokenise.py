"""From windows [batch, channel, time] to tokens [batch, group, token, width]: patches, variates, points.

| tokeniser | group | token |
|---|---|---|
| `Patches` | channel | a piece of `patch` steps, every `stride` steps |
| `Variates` | 1 | a whole channel (and, if there are any, a whole calendar feature) |
| `Points` | 1 | a time step: all channels of one instant |
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from rearview.errors import SettingsError


class Patches(nn.Module):
    """Overlapping pieces of each channel, each mapped to `width` by one shared linear map.

    With `pad_end` the last value is repeated `stride` times first, so the newest steps stand in two patches.
    A look-back shorter than the patch shortens the patch: one patch is then the whole look-back. A stride longer than
    the patch is shortened to it, so that every step stands in some patch.
    """

    def __init__(self, lookback: int, patch: int, stride: int, width: int, *, pad_end: bool = True, bias: bool = True):
        super().__init__()
        if patch < 1 or stride < 1:
            raise SettingsError(f"patch is {patch} and stride is {stride}; both must be at least 1.")
        self.patch = min(patch, lookback)
        self.stride = min(stride, self.patch)
        self.padding = self.stride if pad_end else 0
        self.tokens = (lookback + self.padding - self.patch) // self.stride + 1
        self.project = nn.Linear(self.patch, width, bias=bias)

    def forward(self, x: Float[Tensor, "batch channel time"]) -> Float[Tensor, "batch channel token width"]:
        return self.project(self._pieces(x))

    def mask(self, mask: Bool[Tensor, "batch time"]) -> Bool[Tensor, "batch token"]:
        """A patch is real when any of its steps is."""
        return self._pieces(mask[:, None].to(torch.float32)).amax(-1)[:, 0] > 0

    def _pieces(self, x: Tensor) -> Tensor:
        if self.padding:
            x = functional.pad(x, (0, self.padding), mode="replicate")
        return x.unfold(-1, self.patch, self.stride)


class Variates(nn.Module):
    """Each channel's whole look-back as one token; calendar features and known inputs follow as tokens of their own.

    Without a known future, marks share the channels' map (the official form). With `future` steps of known marks, a
    mark's token is made from past and future together by a map of its own.
    """

    def __init__(self, lookback: int, width: int, *, marks: int = 0, future: int = 0) -> None:
        super().__init__()
        self.marks = marks
        self.future = future
        self.project = nn.Linear(lookback, width)
        self.project_marks = nn.Linear(lookback + future, width) if marks and future else None

    def forward(
        self,
        x: Float[Tensor, "batch channel time"],
        past_marks: Float[Tensor, "batch mark time"] | None = None,
        future_marks: Float[Tensor, "batch mark ahead"] | None = None,
    ) -> Float[Tensor, "batch 1 token width"]:
        if not self.marks:
            return self.project(x)[:, None]
        if past_marks is None or past_marks.shape[1] != self.marks:
            got = "none" if past_marks is None else past_marks.shape[1]
            raise SettingsError(f"This model was built for {self.marks} marks and got {got}.")
        if self.project_marks is None:
            return self.project(torch.cat([x, past_marks], dim=1))[:, None]
        if future_marks is None or future_marks.shape[1:] != (self.marks, self.future):
            got = "none" if future_marks is None else " x ".join(str(size) for size in future_marks.shape[1:])
            raise SettingsError(
                f"This model was built for {self.marks} marks known {self.future} steps ahead; "
                f"of future marks x steps it got {got}."
            )
        marks = self.project_marks(torch.cat([past_marks, future_marks], dim=2))
        return torch.cat([self.project(x), marks], dim=1)[:, None]


class Points(nn.Module):
    """All channels of one instant as one token: a convolution over three neighbouring steps, wrapped around."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.convolve = nn.Conv1d(channels, width, 3, padding=1, padding_mode="circular", bias=False)
        nn.init.kaiming_normal_(self.convolve.weight, mode="fan_in", nonlinearity="leaky_relu")

    def forward(self, x: Float[Tensor, "batch channel time"]) -> Float[Tensor, "batch 1 time width"]:
        return self.convolve(x).transpose(1, 2)[:, None]
