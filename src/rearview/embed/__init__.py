"""From windows to tokens and back: normalisation, tokenisers, positions, dropout."""

from rearview.embed.dropout import Dropout, dropout
from rearview.embed.dual import Dual
from rearview.embed.normalisation import Normalise
from rearview.embed.positions import Learned, RelativeBias, Sinusoidal, sinusoids
from rearview.embed.tokenisers import Patches, Points, Variates

__all__ = [
    "Dropout", "Dual", "Learned", "Normalise", "Patches", "Points", "RelativeBias", "Sinusoidal", "Variates",
    "dropout", "sinusoids",
]  # fmt: skip
