"""Which inputs a fitted forecaster uses, by the names that the caller's data has for them."""

from collections.abc import Iterable

import numpy as np

from rearview.data.infer.categories import name_origin
from rearview.data.panel import Layout
from rearview.estimators.auto.effects import WithEffects
from rearview.estimators.auto.ensemble import Ensemble
from rearview.estimators.auto.linear import Linear
from rearview.estimators.forecast.prediction import Fitted
from rearview.estimators.forecast.predictor import Predictor


def list_used_inputs(fitted: Predictor, layout: Layout) -> tuple[str, ...]:
    """Inputs that its forecasts depend on: known ones that have an effect, past ones, what describes the series."""
    return tuple(dict.fromkeys(name_origin(name, layout) for name in _columns(fitted)))


def _columns(fitted: Predictor) -> Iterable[str]:
    if isinstance(fitted, Ensemble):
        for member in fitted.members:
            yield from _columns(member)
    elif isinstance(fitted, WithEffects):
        moved = np.abs(fitted.effects.coefficients).max(axis=(0, 1)) > 0
        names = fitted.columns[len(fitted.columns) - fitted.known :]
        yield from (name for name, has_effect in zip(names, moved, strict=True) if has_effect)
        yield from _columns(fitted.inner)
    elif isinstance(fitted, (Fitted, Linear)):
        yield from fitted.columns[fitted.targets :]
        yield from () if fitted.statics is None else fitted.statics.names
