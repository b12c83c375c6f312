"""Harmonic demixing (TOA, section 4.1): take the noise off three tones whose time axis may be bent.

Every step is a token; two layers of two heads; the target is the clean signal. Arms: softmax attention, and TOA with
the softmax, relu and gated activations. At the full size each TOA arm also runs with its operators regularised
(`_sor`): samples are drawn afresh, so there is nothing to overfit, and what regularising costs shows.

The paper leaves open width, norm, optimiser and steps; ours are in the rows. Blocks are post-norm: relu weights are not
normalised, and a norm after the residual absorbs their scale.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from rearview.attention import Spec
from rearview.attention.contract import Site
from rearview.attention.toa import Layer as OperatorAttention
from rearview.bench.papers import published
from rearview.bench.rows.row import Facts
from rearview.bench.synthetic.study import Arrays, Measurement, Size, Study, SyntheticRow, Trial, fixed_generator
from rearview.core.errors import SettingsError
from rearview.data.synthetic.harmonic import LENGTH, REGIMES, NoisySignals, draw_signals, linear_floor
from rearview.embed import Learned
from rearview.models.blocks.stack import BlockSettings, Stack
from rearview.train.evaluation import evaluation_mode

DRAWN = 112
"""Rows and columns of an operator that are kept for its figure, evenly spaced."""
LOOKED_AT = 24
"""Signals over which operators are averaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HarmonicRow(SyntheticRow):
    """The result of an arm of the harmonic study: mean squared errors against the clean signal, on fixed signals."""

    mse: float
    mse_stationary: float
    mse_vibrato: float
    mse_chirp: float
    linear_floor: float
    """About the error of the best linear operator that is the same for every signal."""
    negative: float
    """Share of the effective operators' absolute weight that is negative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HarmonicSize(Size):
    """Sizes of the harmonic study."""

    length: int = LENGTH
    width: int
    heads: int = 2
    depth: int = 2
    tested: int = 512
    """Signals in the test set."""


class Restorer(nn.Module):
    """Steps and absolute positions, a stack, and the clean value of every step."""

    def __init__(self, size: HarmonicSize, attention: Spec) -> None:
        super().__init__()
        self.values = nn.Linear(1, size.width)
        self.positions = Learned(size.length, size.width)
        # As wide as the signal: with a narrow table no arm tells one step from another, and all of them stay at the
        # error of shrinking each step by itself.
        nn.init.normal_(self.positions.table)
        site = Site(groups=1, tokens=size.length, width=size.width, heads=size.heads, host="the harmonic restorer")
        self.stack = Stack(site, size.depth, BlockSettings(feed_forward=4 * size.width), attention)
        self.clean = nn.Linear(size.width, 1)

    def forward(self, noisy: Float[Tensor, "signal time"]) -> Float[Tensor, "signal time"]:
        return self.clean(self.stack(self._tokens(noisy)))[:, 0, :, 0]

    def operators(self, noisy: Float[Tensor, "signal time"]) -> Float[Tensor, "layer signal head query key"]:
        """The effective operators of every layer."""
        layers = self.stack.weights(self._tokens(noisy))
        return torch.stack([weights[:, 0] for weights in layers if isinstance(weights, Tensor)])

    def offsets(self) -> Float[Tensor, "layer head query key"] | None:
        """M2 of every layer, the learned part that does not depend on the signal; None for arms without one."""
        offsets = [layer.value_offset for layer in self.stack.layers if isinstance(layer, OperatorAttention)]
        return torch.stack(offsets).detach() if offsets else None

    def _tokens(self, noisy: Float[Tensor, "signal time"]) -> Float[Tensor, "signal 1 time width"]:
        return self.positions(self.values(noisy[:, None, :, None]))


class HarmonicTrial(Trial[NoisySignals]):
    """A restorer that learns the clean signal, and its test signals."""

    network: Restorer

    def __init__(self, size: HarmonicSize, arm: str, device: str) -> None:
        self.size, self.device = size, device
        self.network = Restorer(size, STUDY.spec(arm)).to(device)
        drawn = draw_signals(size.tested, size.length, generator=fixed_generator(0))
        if len(drawn.regime.unique()) < len(REGIMES):
            raise SettingsError(
                f"tested is {size.tested}; so few signals are not of all regimes ({', '.join(REGIMES)}): test more."
            )
        self.tested = NoisySignals(*(part.to(device) for part in (drawn.noisy, drawn.clean, drawn.regime)))

    def batch(self, index: Int[Tensor, " window"], /) -> NoisySignals:
        return draw_signals(len(index), self.size.length, device=self.device)

    def loss(self, model: nn.Module, batch: NoisySignals, /) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        errors = (model(batch.noisy).float() - batch.clean).square()
        return errors.sum(), torch.full((), errors.numel(), dtype=torch.float32, device=errors.device)

    def measure(self) -> dict[str, float]:
        """Mean squared errors against the clean signal, over all signals and regime by regime."""
        restored = torch.cat([self.network(part) for part in self.tested.noisy.split(self.size.batch)])
        each = (restored.double() - self.tested.clean.double()).square().mean(1)
        by_regime = {
            f"mse_{regime}": each[self.tested.regime == number].mean().item() for number, regime in enumerate(REGIMES)
        }
        return {"mse": each.mean().item(), **by_regime}

    def report(self, measured: Sequence[Measurement]) -> tuple[Facts, Arrays]:
        arrays, negative = read_operators(self.network, self.tested)
        return {"linear_floor": linear_floor(self.size.length), "negative": negative}, arrays


def read_operators(network: Restorer, tested: NoisySignals) -> tuple[Arrays, float]:
    """The numbers behind figure 3, and the share of the operators' absolute weight that is negative.

    `operators` [layer, head, query, key] of one stationary signal and `offsets` (M2) are thinned; `responses` [layer,
    head, frequency] say by how much an operator, row by row and over several signals, passes a wave on:
    sqrt(mean_t |sum_j W_tj exp(2 pi i f j / L)|^2), f = 0 .. L / 2. `noisy`, `clean`, `restored` [regime, time] are one
    signal each.
    """
    first = [int((tested.regime == number).nonzero()[0]) for number in range(len(REGIMES))]
    with evaluation_mode(network):
        restored = network(tested.noisy[first])
        several = [network.operators(part).float() for part in tested.noisy[:LOOKED_AT].split(4)]
        operators = network.operators(tested.noisy[first[:1]])[:, 0].float()
    squares = torch.cat([torch.fft.rfft(part).abs().square().mean(-2) for part in several], dim=1)
    negative = sum(part.clamp(max=0).abs().sum().item() for part in several)
    total = sum(part.abs().sum().item() for part in several)
    arrays = {
        "operators": thin(operators),
        "responses": squares.mean(1).sqrt().cpu().numpy(),
        "noisy": tested.noisy[first].cpu().numpy(),
        "clean": tested.clean[first].cpu().numpy(),
        "restored": restored.float().cpu().numpy(),
    }
    offsets = network.offsets()
    if offsets is not None:
        arrays["offsets"] = thin(offsets)
    return arrays, negative / total


def thin(operators: Float[Tensor, "layer head query key"]) -> NDArray[np.float16]:
    """Evenly spaced rows and columns of operators, few enough and exact enough to draw."""
    every = -(-operators.shape[-1] // DRAWN)
    return operators[..., ::every, ::every].half().cpu().numpy().astype(np.float16, copy=False)


STUDY = Study.declare(
    "harmonic",
    HarmonicRow,
    HarmonicSize,
    HarmonicTrial,
    published={number.variant: f"{number.value:g}" for number in published.select("toa", "text4.1")},
)
