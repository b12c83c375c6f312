"""Time series with attention: how a model looks back decides how far it sees.

    import rearview as rv

    forecaster = rv.Forecaster(model="patchtst", horizon=96).fit(frame)
    future = forecaster.predict(level=[80, 95])
    flags, segments = rv.Detector().fit(ordinary).predict(frame)
    labels = rv.Classifier().fit(X, y).predict(X_new)

Nothing heavy is imported until it is used: `import rearview` costs neither torch nor a data frame library.
"""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rearview import attention, data, models
    from rearview.estimators.classify.classifier import Classifier
    from rearview.estimators.detect.detector import Detector
    from rearview.estimators.forecast.forecaster import Forecaster, forecast

__version__ = "0.1.0"

# Threads that wait must not spin: on a busy machine that takes ten times as long. Read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("KMP_BLOCKTIME", "0")

_MODULES = ("attention", "data", "models")
_ESTIMATORS = {
    "Classifier": "estimators.classify.classifier",
    "Detector": "estimators.detect.detector",
    "Forecaster": "estimators.forecast.forecaster",
    "forecast": "estimators.forecast.forecaster",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"rearview.{name}")
    if name in _ESTIMATORS:
        return getattr(import_module(f"rearview.{_ESTIMATORS[name]}"), name)
    raise AttributeError(f"module 'rearview' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES, *_ESTIMATORS])


__all__ = ["Classifier", "Detector", "Forecaster", "__version__", "attention", "data", "forecast", "models"]
