"""Options that several commands share, each declared once: its flag with the aliases of the field, and its help."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from rearview.commands.sweep import RunOptions

if TYPE_CHECKING:
    from cyclopts import Token

MOST_USED = Group.create_ordered("Most used")
IN_DETAIL = Group.create_ordered("In detail")
THE_RUN = Group.create_ordered("The run")
NETWORK = Group.create_ordered("Network and training")
READING = Group.create_ordered("Reading the file")
PRINTING = Group.create_ordered("What is printed")
"""Groups of options, in the order in which help shows them."""

HORIZON = ("--horizon", "--pred-len", "--h")
LOOKBACK = ("--lookback", "--seq-len", "--input-size")

Horizon = Annotated[int, Parameter(name=HORIZON)]
Horizons = Annotated[str, Parameter(name=HORIZON, help="Steps to forecast; several, separated by commas.")]
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


def _read_path(_: object, tokens: "Sequence[Token]") -> Path:
    """A path as it is written; an empty one is no place, although a Path takes it for the folder one stands in."""
    if not tokens[0].value.strip():
        raise ValueError("it is empty; name a place, or leave the option out")
    return Path(tokens[0].value)


Out = Annotated[Path | None, Parameter(converter=_read_path)]
Overwrite = Annotated[
    bool,
    Parameter(
        help="Write to an out folder that holds other things: files with the names of the run's are replaced, the rest "
        "stays."
    ),
]
Runs = Annotated[RunOptions | None, Parameter(name="*")]
"""The options of benchmark runs, each a flag."""
