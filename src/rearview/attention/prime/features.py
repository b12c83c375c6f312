"""Features of each pair of channels, known before training: the lead-lag and instantaneous ones of prime attention.

Lead-lag (eq. 13), on windows z-scored over their L steps, circular, tau = 0 .. L - 1:

    R_ij(tau) = (1/L) irfft( rfft(x_j) * conj(rfft(x_i)) )[tau]          large where channel i leads channel j by tau

Instantaneous (the paper names the ingredients, not the formula): Pearson's correlation, Pearson's correlation of the
rolling standard deviations over 12 steps, Spearman's rank correlation. All are averaged over windows; the lead-lag
coefficients are squashed by tanh. Averages commute with the inverse transform, so spectra are averaged first and one
inverse transform serves all windows.

Two kinds are those of public code, for `form="released"`, on z-scored windows:

- "spectral": of the spectra X of Hann windows, C_ij = X_i conj(X_j) in four bands cut at 0, 15, 20, 60 and 80 % of the
  frequencies; with the coherence g = |C_ij|^2 / (C_ii C_jj + 1e-8), at most 1, each band has the mean of the phase
  weighed by g, log(1 + the mean of |C_ij| weighed by g), and the mean of g. Of one window without smoothing g is 1
  wherever there is power. Three correlations follow: of the values, of their rolling standard deviations over
  min(10, L/4) steps, and of their ranks.
- "bins": phase and log(1 + magnitude) of C_ij at every frequency but 0.
"""

from itertools import pairwise

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from rearview.attention.shared.spectrum import irfft, rfft
from rearview.core.errors import SettingsError

ROLLING = 12
RELEASED_ROLLING = 10
INSTANTANEOUS = 3
BANDS = (0.0, 0.15, 0.2, 0.6, 0.8)
EPS = 1e-8

Windows = Float[Tensor, "window channel time"]


def check_windows(owner: str, windows: Windows, kind: str, channels: int, lookback: int | None) -> None:
    """Refuse windows that have other features than the pairs of a layer with these channels were made for."""
    if lookback is None and kind in ("full", "lead_lag", "bins"):
        raise SettingsError(
            f"{owner}: features={kind!r} has numbers for every step of a window, but the layer's place does not say "
            "how long windows are; give Site.lookback, or use features='instantaneous'."
        )
    found, wanted = tuple(windows.shape[1:]), (channels, windows.shape[2] if lookback is None else lookback)
    if found != wanted:
        raise SettingsError(
            f"{owner}: the windows have {found[0]} channels of {found[1]} steps, but the layer was built for "
            f"{wanted[0]} channels of {wanted[1]}."
        )


def standardise(x: Tensor) -> Tensor:
    """z-scores along the last axis (biased variance + 1e-8, as in LIFT); a constant row becomes 0."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-8).sqrt()


def lead_lag(windows: Windows) -> Float[Tensor, "channel channel time"]:
    """R_ij(tau), averaged over windows."""
    length = windows.shape[-1]
    spectrum = rfft(standardise(windows))
    crossed = torch.einsum("wjf,wif->ijf", spectrum, spectrum.conj()) / len(windows)
    return irfft(crossed, n=length) / length


def lead_lag_each(windows: Windows) -> Float[Tensor, "window channel channel time"]:
    """R_ij(tau) of every window by itself."""
    length = windows.shape[-1]
    spectrum = rfft(standardise(windows))
    return irfft(spectrum[:, None] * spectrum[:, :, None].conj(), n=length) / length


def instantaneous_each(windows: Windows, rolling: int = ROLLING) -> Float[Tensor, "window channel channel 3"]:
    """Pearson, Pearson of standard deviations over `rolling` steps, Spearman, of every window by itself."""
    spans = windows.unfold(-1, min(rolling, windows.shape[-1]), 1)
    rolled = spans.std(-1, correction=0) if spans.numel() else spans.mean(-1)  # torch warns of a spread of nothing
    scores = [standardise(part) for part in (windows, rolled, _ranks(windows))]
    return torch.stack([z @ z.transpose(-1, -2) / z.shape[-1] for z in scores], dim=-1)


def crossed_spectra(windows: Windows) -> Complex[Tensor, "window channel channel frequency"]:
    """C_ij = X_i conj(X_j) of z-scored windows under a Hann window, complex."""
    hann = torch.hann_window(windows.shape[-1], dtype=windows.dtype, device=windows.device)
    spectrum = rfft(standardise(windows) * hann)
    return spectrum[:, :, None] * spectrum[:, None].conj()


def spectral_each(windows: Windows) -> Float[Tensor, "window channel channel 15"]:
    """Phase, magnitude and coherence in four bands, and three correlations, of every window by itself."""
    crossed = crossed_spectra(windows)
    power = crossed.diagonal(dim1=1, dim2=2).real.transpose(1, 2)
    magnitude, phase = crossed.abs(), crossed.angle()
    coherence = (magnitude.square() / (power[:, :, None] * power[:, None] + EPS)).clamp(0, 1)
    bins = crossed.shape[-1]
    cuts = [int(share * bins) for share in BANDS]
    parts = []
    for first, last in pairwise(cuts):
        g = coherence[..., first:last]
        total = g.sum(-1) + EPS
        mean = (g * magnitude[..., first:last]).sum(-1) / total
        parts += [(g * phase[..., first:last]).sum(-1) / total, mean.log1p(), g.sum(-1) / max(1, last - first)]
    rolling = max(1, min(RELEASED_ROLLING, windows.shape[-1] // 4))
    return torch.cat([torch.stack(parts, dim=-1), instantaneous_each(windows, rolling)], dim=-1)


def bins_each(windows: Windows) -> Float[Tensor, "window channel channel feature"]:
    """Phase and log(1 + magnitude) of every frequency but 0, of every window by itself."""
    crossed = crossed_spectra(windows)[..., 1:]
    return torch.cat([crossed.angle(), crossed.abs().log1p()], dim=-1)


def average_features(windows: Windows, kind: str) -> Float[Tensor, "channel channel feature"]:
    """The features of a kind, averaged over windows."""
    if kind in ("spectral", "bins"):
        total = sum(window_features(part, kind).sum(0) for part in torch.split(windows, 64))
        return torch.as_tensor(total) / len(windows)
    parts = []
    if kind in ("lead_lag", "full"):
        parts.append(torch.tanh(lead_lag(windows)))
    if kind in ("instantaneous", "full"):
        total = sum(instantaneous_each(part).sum(0) for part in torch.split(windows, 64))
        parts.append(torch.as_tensor(total) / len(windows))
    return torch.cat(parts, dim=-1)


def window_features(windows: Windows, kind: str) -> Float[Tensor, "window channel channel feature"]:
    """The features of every window by itself, computed in float32 at least."""
    wide = windows.to(torch.promote_types(windows.dtype, torch.float32))
    parts = []
    if kind == "spectral":
        parts.append(spectral_each(wide))
    if kind == "bins":
        parts.append(bins_each(wide))
    if kind in ("lead_lag", "full"):
        parts.append(torch.tanh(lead_lag_each(wide)))
    if kind in ("instantaneous", "full"):
        parts.append(instantaneous_each(wide))
    return torch.cat(parts, dim=-1).to(windows.dtype)


def feature_width(kind: str, lookback: int) -> int:
    """The number of features of a pair."""
    spectral = 3 * (len(BANDS) - 1) + INSTANTANEOUS
    widths = {
        "lead_lag": lookback,
        "instantaneous": INSTANTANEOUS,
        "full": lookback + INSTANTANEOUS,
        "spectral": spectral,
        "bins": 2 * (lookback // 2),
        "drawn": spectral,
    }
    return widths.get(kind, 0)


def _ranks(x: Tensor) -> Tensor:
    """Ranks along time, the mean rank for ties, so that a constant series has no order."""
    ordered, order = x.sort(-1)
    place = torch.arange(x.shape[-1], dtype=x.dtype, device=x.device).expand_as(x)
    new = torch.cat([torch.ones_like(ordered[..., :1]), (ordered[..., 1:] != ordered[..., :-1]).to(x.dtype)], -1)
    run = (new.cumsum(-1) - 1).long()
    total = torch.zeros_like(x).scatter_add_(-1, run, place)
    count = torch.zeros_like(x).scatter_add_(-1, run, torch.ones_like(place))
    mean = (total / count.clamp(min=1)).gather(-1, run)
    return torch.zeros_like(x).scatter_(-1, order, mean)
