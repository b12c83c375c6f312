"""Options that several commands share, each declared once: its flag with the aliases of the field, and its help."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rearview.commands.runs import RunOptions

HORIZON = ("--horizon", "--pred-len", "--h")
LOOKBACK = ("--lookback", "--seq-len", "--input-size")

Horizon = Annotated[int, Parameter(name=HORIZON)]
Horizons = Annotated[str, Parameter(name=HORIZON, help="Steps to forecast; several, separated by commas.")]
Lookback = Annotated[int | None, Parameter(name=LOOKBACK)]
Lookbacks = Annotated[str, Parameter(name=LOOKBACK, help="Steps the model sees; several, separated by commas.")]
NetworkSettings = Annotated[str, Parameter(name="--set")]
TrainingSettings = Annotated[
    str,
    Parameter(
        name="--train",
        help="Settings of the training, such as epochs=10; default: as published. See `rearview describe training`.",
    ),
]
DataDir = Annotated[
    Path | None, Parameter(help="Folder of the data sets; default: the one that REARVIEW_DATA names, or ./data.")
]
Runs = Annotated[RunOptions | None, Parameter(name="*")]
"""The options of benchmark runs, each a flag."""
