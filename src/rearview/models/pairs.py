"""Compatibility of networks and mechanisms: each pair is built once; the reason is the constructor's sentence."""

import warnings
from dataclasses import dataclass, fields
from typing import Any

from rearview import attention as mechanisms
from rearview import models
from rearview.core.errors import RearviewWarning, SettingsError


@dataclass(frozen=True, slots=True)
class Pair:
    """A network and a mechanism."""

    model: str
    attention: str
    reason: str
    """Why they do not go together; empty where they do."""
    caution: str = ""
    """A warning about training them together; empty where there is none."""


def matrix() -> list[Pair]:
    """Every pair of a network with attention and a mechanism; those of a plug-in that can't be used have the reason."""
    networks = [name for name in models.names() if _may_attend(name)]
    return [try_pair(model, name) for model in networks for name in mechanisms.names()]


def _may_attend(model: str) -> bool:
    try:
        return models.claims(model).attention
    except SettingsError:
        return True  # a plug-in that can't be used; its pairs say why


def try_pair(model: str, name: str) -> Pair:
    """A network and a mechanism, built together at their defaults, but for one block: further ones are alike."""
    from rearview.core.random_state import keep_caller_state

    with keep_caller_state(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RearviewWarning)
        try:
            deep = any(field.name == "depth" for field in fields(models.settings_of(model)))
            depth: dict[str, Any] = {"depth": 1} if deep else {}
            models.create(model, channels=3, lookback=48, steps=12, attention=name, **depth)
        except SettingsError as problem:
            return Pair(model, name, str(problem))
        except Exception as problem:
            classes = models.settings_of(model), mechanisms.settings_of(name)
            if all(one.__module__.startswith("rearview.") for one in classes):
                raise
            return Pair(model, name, f"a plug-in failed when it was built ({type(problem).__name__}: {problem}).")
    cautions = [str(one.message) for one in caught if issubclass(one.category, RearviewWarning)]
    return Pair(model, name, "", " ".join(cautions))
