"""Fourier transforms of real series; of empty batches and half precision too, which torch's own refuse."""

import torch
from torch import Tensor


def rfft(series: Tensor, n: int | None = None, dim: int = -1) -> Tensor:
    """torch.fft.rfft, in float32 at least, and of nothing a spectrum of nothing that carries gradients."""
    series = series.to(torch.promote_types(series.dtype, torch.float32))
    if series.numel():
        return torch.fft.rfft(series, n, dim)
    length = series.shape[dim] if n is None else n
    return _stretch(series, length // 2 + 1, dim).to(series.dtype.to_complex())


def irfft(spectrum: Tensor, n: int, dim: int = -1) -> Tensor:
    """torch.fft.irfft, and of nothing a series of nothing that carries gradients."""
    return torch.fft.irfft(spectrum, n, dim) if spectrum.numel() else _stretch(spectrum.real, n, dim)


def _stretch(empty: Tensor, length: int, dim: int) -> Tensor:
    sizes = list(empty.shape)
    sizes[dim] = length
    return empty.sum(dim, keepdim=True).expand(sizes)
