"""Refuse a run that could not be made before it begins: too few rows for a window, a network that can't be built.

No data is read for it: a data set has the rows and channels that the catalogue says, or is refused when it is read. Our
networks are built of tensors that have shapes and no values, so one of 800 channels takes no longer than one of 7.
"""

import warnings
from contextlib import nullcontext

from torch._subclasses.fake_tensor import FakeTensorMode

from rearview import models
from rearview.bench.runs import search
from rearview.bench.runs.forecasting import build
from rearview.bench.runs.run_spec import ForecastingSpec
from rearview.bench.runs.splits import borders_for
from rearview.core.errors import RearviewError
from rearview.data import calendar


def check(spec: ForecastingSpec) -> None:
    """Refuse a run that could not be made, in the sentence that its failed row would state."""
    borders_for(spec.data, spec.data.rows, spec.lookback, spec.horizon)
    # Drawn settings that don't go together lose the search; of listed settings each must be possible.
    installed = spec.model in models.names() or spec.model in models.borrowed(installed=True)
    if spec.tuning is None or not installed:
        for candidate in spec.candidates or ({},):
            _try_build(search.apply_candidate(spec, candidate))


def _try_build(spec: ForecastingSpec) -> None:
    """Build the network of a run and let it go; an error that is no refusal is left to the run."""
    marks = 0 if spec.calendar is None else len(calendar.names(spec.calendar))
    # Some networks look at values as they are built (a graph's edges), and those of other packages may.
    modes = (FakeTensorMode, nullcontext) if spec.model in models.names() else (nullcontext,)
    for mode in modes:
        try:
            with warnings.catch_warnings(), mode():
                warnings.simplefilter("ignore")  # the run itself will warn
                build(spec, spec.data.channels, marks)
        except RearviewError:
            raise
        except Exception:
            continue
        return
