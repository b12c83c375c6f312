"""Decorrelation: the network sees the principal components of the channels, and its forecasts are turned back.

    z = V^T (x - m);  yhat = V network(z) + m          V: eigenvectors of the channels' covariance, m: their means

This is the MICA paper's comparison for networks that read each channel by itself: principal components as a transform
of the training data, all of them kept, forecasts turned back. V and m are fitted in `prepare`, on training windows
only, and stay as they are; until then the channels pass as they came. Components are not brought to one size: V is a
rotation, so squared errors are the same on both sides of it.

`method="ica"` has independent components instead (FastICA, Hyvarinen, 1999, which the paper's table 1 names beside
principal ones): z = W (x - m), yhat = W^-1 network(z) + m, W the rotation of whitened channels whose components are as
little Gaussian as can be by log cosh, all at once, from a fixed start. A direction without variance stays as it is.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from rearview.attention.contract import Weights
from rearview.attention.shared.execution import full_precision
from rearview.models.adapters.contract import AdapterBase, refuse_unsuitable
from rearview.models.contract import Axes, Marks, Model, Past, Real, Steps, Token

MOST_TURNS, STILL = 200, 1e-6
"""Steps of FastICA, and the turn of the components at which it ends."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the decorrelation."""

    method: Literal["pca", "ica"] = "pca"
    """Principal or independent components."""


class Adapter(AdapterBase):
    """A network on principal components."""

    rotation: Float[Tensor, "channel component"]
    mean: Float[Tensor, "channel 1"]

    def __init__(self, network: Model, settings: Settings, within: str) -> None:
        super().__init__(network, replace(network.claims, mixes_channels=True, equivariant_to_channels=False))
        does = "turns channels that go together into ones that don't"
        because = "stands in for what a network can't learn between channels"
        refuse_unsuitable(network, "decorrelate", within, does, because)
        channels = network.shape.channels
        self.method = settings.method
        self.register_buffer("rotation", torch.eye(channels))
        self.unmix: Tensor | None
        self.register_buffer("unmix", torch.eye(channels) if settings.method == "ica" else None)
        self.register_buffer("mean", torch.zeros(channels, 1))

    def forward(self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None) -> Steps:
        components = self.network(self._turn(past), past_marks, future_marks, mask=mask).to(past.dtype)
        with full_precision(past.device):
            return self.rotation @ components + self.mean

    def weights(
        self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None
    ) -> list[Weights]:
        return self.network.weights(self._turn(past), past_marks, future_marks, mask=mask)

    def axes(self) -> list[Axes]:
        return [
            replace(each, groups=_components(each.groups), tokens=_components(each.tokens)) for each in super().axes()
        ]

    @torch.no_grad()
    def prepare(self, windows: Past) -> None:
        """Fit the rotation, then let the network learn from the windows it will see."""
        steps = windows.double().transpose(0, 1).flatten(1)
        mean = steps.mean(1, keepdim=True)
        centred = steps - mean
        _, vectors = torch.linalg.eigh(centred @ centred.T / steps.shape[1])
        vectors = vectors.flip(1)  # largest variance first
        # An eigenvector has no sign of its own: its largest entry is made positive, so that equal data fits equally.
        largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
        vectors = vectors * largest.sign()
        self.mean.copy_(mean)
        if self.unmix is not None:
            unmix = find_independent(centred, vectors)
            self.unmix.copy_(unmix)
            vectors = torch.linalg.inv(unmix)
        self.rotation.copy_(vectors)
        super().prepare(self._turn(windows))

    def _turn(self, past: Past) -> Past:
        # A rotation and its inverse cancel only as far as both are exact: under autocast too they run as they are.
        with full_precision(past.device):
            return (self.rotation.T if self.unmix is None else self.unmix) @ (past - self.mean)


def find_independent(
    centred: Float[Tensor, "channel step"], vectors: Float[Tensor, "channel component"]
) -> Float[Tensor, "component channel"]:
    """FastICA's W for channels with mean 0, from their principal directions: symmetric, with log cosh."""
    spread = (vectors.T @ centred).square().mean(1).sqrt()
    size = torch.where(spread > 1e-6 * spread.max(), spread, 1.0)
    whitening = vectors.T / size[:, None]
    white = whitening @ centred
    turned = torch.linalg.qr(
        torch.randn(len(white), len(white), generator=torch.Generator().manual_seed(0), dtype=centred.dtype)
    ).Q.to(centred)
    for _ in range(MOST_TURNS):
        outputs = torch.tanh(turned @ white)
        moved = outputs @ white.T / white.shape[1] - (1 - outputs.square()).mean(1, keepdim=True) * turned
        left, _, right = torch.linalg.svd(moved)
        new = left @ right  # the nearest rotation, (M M^T)^(-1/2) M
        change = ((new * turned).sum(1).abs() - 1).abs().max()
        turned = new
        if change < STILL:
            break
    return turned @ whitening


def _components(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """The labels, with components in place of channels."""
    return tuple(replace(token, of="component") if token.of == "channel" else token for token in tokens)
