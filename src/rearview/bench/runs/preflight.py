"""What can be told wrong of a run before it is begun: too few rows for a window, a network that can't be built.

Nothing is read for it: a data set has the rows and channels that the catalogue says, or is refused as it is read. Our
networks are built of tensors that have shapes and no values, so one of 800 channels takes no longer than one of 7.
"""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode

from rearview import models
from rearview.bench.rows.failed_row import asked_of
from rearview.bench.runs import search
from rearview.bench.runs.forecasting import built
from rearview.bench.runs.run_spec import Asked
from rearview.bench.runs.splits import borders_for
from rearview.core.errors import RearviewError
from rearview.data import calendar


def check(run: Mapping[str, Any]) -> None:
    """Refuse a run of a sweep that could not be made, in the sentence that its row would tell."""
    asked = asked_of(run)
    borders_for(asked.dataset, asked.dataset.rows, asked.lookback, asked.horizon)
    # Of settings drawn, those that don't go together lose the search; of settings listed, each must be possible.
    if run["tuning"] is None or not _at_hand(asked.model):
        listed: Sequence[Mapping[str, Any]] = run["candidates"] or ({},)
        for candidate in listed:
            _build(search.with_candidate(asked, candidate))


def _at_hand(model: str) -> bool:
    return model in models.names() or model in models.borrowed(installed=True)


def _build(asked: Asked) -> None:
    """Build the network of a run and let it go; a mistake that is no refusal is left to the run."""
    marks = 0 if asked.calendar is None else len(calendar.names(asked.calendar))
    # Some networks look at values as they are built (a graph's edges), and those of other packages may.
    modes = (FakeTensorMode, nullcontext) if asked.model in models.names() else (nullcontext,)
    for mode in modes:
        try:
            with warnings.catch_warnings(), mode():
                warnings.simplefilter("ignore")  # the run itself will warn
                built(asked, asked.dataset.channels, marks)
        except RearviewError:
            raise
        except Exception:
            continue
        return
