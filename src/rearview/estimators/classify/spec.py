"""The options of a classifier: network and training, and how tables of cases are read."""

from dataclasses import dataclass, field
from numbers import Integral, Real

from rearview.core.errors import SettingsError
from rearview.data.read_options import Fill, Sentinels, check_fill
from rearview.estimators.options import EstimatorOptions, NetworkSpec

AUTO = "auto"
NETWORK = "patchtst"
"""The network where none is named but its attention, settings or training are."""


@dataclass(frozen=True)
class ClassifySpec(NetworkSpec):
    """A classification request; None leaves the choice to the plan."""

    model: str = AUTO
    """auto: several simple classifiers and a network, weighed by cross-validation; or one network (see `rearview list
    models`). With attention, settings or training given, auto is patchtst."""
    lookback: int | None = field(default=None, kw_only=True)
    """Steps of a case that are read; default: the longest training case. Of longer cases the last steps count."""
    fill: Fill = field(default="linear", kw_only=True)
    """What stands where a value is missing: the last one, a linear bridge, the training mean or zero."""
    validation: float = field(default=0.2, kw_only=True)
    """Share of each class held out of a network's training to pick the best epoch; 0: none, and every epoch is run.
    auto holds out folds of its own."""

    def __post_init__(self) -> None:
        check_fill(self.fill)
        lookback: object = self.lookback
        if lookback is not None and (
            isinstance(lookback, bool) or not isinstance(lookback, Integral) or int(lookback) < 1
        ):
            raise SettingsError(f"lookback is {lookback!r}; it must be a whole number of steps, at least 1, or None.")
        share: object = self.validation
        if isinstance(share, bool) or not isinstance(share, Real) or not 0 <= float(share) < 1:
            raise SettingsError(f"validation is {share!r}; it is the share of cases to hold out, from 0 up to 1.")
        super().__post_init__()
        if self.model == AUTO and (self.attention is not None or self.settings or self.training):
            object.__setattr__(self, "model", NETWORK)


@dataclass(frozen=True, kw_only=True)
class CaseColumns:
    """How cases are read: which columns of a long table are what, and which values stand for missing."""

    id_col: str | None = None
    """Column of a long table that names the case; default: unique_id, id, case or case_id."""
    time_col: str | None = None
    """Column of a long table with the time; default: ds, time, date, timestamp, step or t."""
    sentinels: Sentinels | None = "auto"
    """Values that stand for missing; auto looks for isolated ones such as -9999 or 1e20, None keeps all."""


@dataclass(frozen=True)
class ClassifierOptions(EstimatorOptions, CaseColumns, ClassifySpec):
    """All arguments of a classifier."""
