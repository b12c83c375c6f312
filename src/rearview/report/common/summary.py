"""The content of every page: verdict, data, training, settings, notes, the command to run it again.

A command builds the summary of a finished run out of plain Python and numpy, so that a page knows no model, no panel
and no training loop, and can be made again from stored numbers.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from rearview import __version__
from rearview.data.panel import Finding
from rearview.report.common import text
from rearview.report.common.tables import Table

Values = NDArray[np.floating]
Stamps = NDArray[np.generic]
BUDGET = 180_000
"""The most numbers that a page draws: beside the plotting library they fill it to about 3 MB."""
Tile = tuple[str, str, str]
"""A number of the headline: its name, the number, a note."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The training of a model, epoch by epoch."""

    train: Values
    validation: Values
    """Empty when nothing was held out."""
    best_epoch: int | None
    """Counted from 1; the epoch whose weights were kept."""
    ended: str
    """Why training ended: "epochs", "patience", "interrupted", or a reason of the caller's."""


@dataclass(frozen=True, slots=True)
class FactList:
    """Facts about the data, as a page lists them: names and values."""

    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DataFacts(FactList):
    """The data of a forecast or a detection."""

    series: int
    columns: int
    step: str
    """The step in words, such as "1 hour"."""
    time_name: str = "time"
    """The name of the time axis, with its zone where there is one."""
    value_name: str = ""
    """What the series of a long table measure; empty where each variable has a name of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The additions of one kind of page to the shell that all share."""

    template: str
    """Its body, a file among the assets."""
    parts: Mapping[str, str | bool]
    """Texts for the places of the template; True becomes the attribute that hides a section, as does an empty text."""
    lead: str = ""
    """HTML that goes before the tiles."""
    tiles: Sequence[Tile]
    plotly: bool = True
    """Whether the scripts draw with plotly, which is most of a page's size."""
    scripts: tuple[str, ...]
    data: object
    """Input of the scripts, as plain data for JSON."""
    left_off: tuple[str, ...] = ()
    """Sentences about what was left off to keep the page small."""
    skip: str
    """The section that the first link of the page leads to."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Summary(ABC):
    """Fields that pages of every kind have in common; each kind adds its own fields, and lays them out in `content`."""

    title: str
    outlook: str = ""
    """The result in words for readers who need no method; it stands first, before the verdict. Empty: none."""
    verdict: str
    """How good the result is, in a sentence or two."""
    command: str
    """The exact shell command that repeats the run."""
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    """When, as ISO text."""
    version: str = __version__
    device: str
    seconds: float
    data: FactList
    curves: Mapping[str, Curve] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    settings: Mapping[str, Mapping[str, tuple[object, str]]] = field(default_factory=dict)
    """Section -> name -> (value, why it was chosen, or nothing)."""
    notes: tuple[str, ...] = ()

    @abstractmethod
    def content(self, budget: int = BUDGET) -> Content:
        """The part of the page between the headline and the data, which draws at most so many numbers."""

    def tables(self) -> Sequence[Table]:
        """The tables of the summary in Markdown, the most telling first."""
        return ()

    @property
    def run_time(self) -> Tile:
        return "Run time", text.duration(self.seconds), f"on {self.device}"
