"""From windows to tokens and back: normalisation, tokenisers, positions, dropout."""

from rearview.embed.dropout import Dropout, dropout
from rearview.embed.normalise import Normalise
from rearview.embed.positions import Learned, Sinusoidal, sinusoids
from rearview.embed.tokenise import Patches, Points, Variates

__all__ = ["Dropout", "Learned", "Normalise", "Patches", "Points", "Sinusoidal", "Variates", "dropout", "sinusoids"]
