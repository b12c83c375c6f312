"""Which mechanism goes into which network: every pair is built once; a refusal is the constructor's own sentence."""

from dataclasses import dataclass

from rearview import attention as mechanisms
from rearview import models
from rearview.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Pair:
    """A network and a mechanism."""

    model: str
    attention: str
    reason: str
    """Why they do not go together; empty where they do."""


def matrix() -> list[Pair]:
    """Every pair of a network with attention and a mechanism."""
    networks = [name for name in models.names() if models.claims(name).attention]
    return [Pair(model, name, refusal(model, name)) for model in networks for name in mechanisms.names()]


def refusal(model: str, name: str) -> str:
    """Why a network and a mechanism do not go together; empty where they do."""
    import torch

    with torch.random.fork_rng(devices=[]):
        try:
            models.create(model, channels=3, lookback=48, steps=12, attention=name)
        except SettingsError as problem:
            return str(problem)
    return ""
