"""The part of a paper's experiments that a command is about."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rearview.bench import synthetic
from rearview.bench.papers import catalogue
from rearview.bench.papers.catalogue import Experiment
from rearview.bench.papers.costs import parts
from rearview.commands.experiments import AnyCell
from rearview.core.errors import SettingsError, did_you_mean


@dataclass(frozen=True, slots=True)
class Selection:
    """One part of a paper: a table, a data set, a horizon, a mechanism, a network, or several of these together."""

    paper: str
    table: str | None = None
    dataset: str | None = None
    horizon: int | None = None
    attention: str | None = None
    model: str | None = None

    def matches(self, cell: AnyCell) -> bool:
        """Whether a cell is of the part; runs of classification and detection have no horizon."""
        return (
            (self.dataset is None or cell.dataset.casefold() == self.dataset.casefold())
            and (self.horizon is None or cell.horizon == self.horizon)
            and (self.model is None or cell.model == self.model)
            and (self.attention is None or cell.mechanism == self.attention)
        )

    def tables(self) -> list[Experiment]:
        """The tables of the paper that have runs of their own, or the one that is named."""
        papers = [*catalogue.papers(), *synthetic.NAMES]
        if self.paper not in papers:
            raise SettingsError(
                f"There is no paper or synthetic study {self.paper!r}.{did_you_mean(self.paper, papers)} "
                f"Known: {', '.join(papers)}."
            )
        if self.table is not None:
            return [catalogue.get(self.paper, self.table)]
        every = [catalogue.get(self.paper, table) for table in catalogue.tables(self.paper)]
        # A table of averages is a view of another one's cells: run those once.
        return [experiment for experiment in every if not experiment.source] or every

    def filter(self, experiments: Sequence[Experiment]) -> list[Experiment]:
        """The experiments that hold a cell of the part; a part that none of them holds is refused."""
        if self == Selection(self.paper, self.table):
            return list(experiments)
        having = [experiment for experiment in experiments if any(map(self.matches, parts(experiment)))]
        if not having:
            self._refuse([cell for experiment in experiments for cell in parts(experiment)])
        return having

    def _refuse(self, cells: Sequence[AnyCell]) -> None:
        """Name the word that no cell has, or say that no cell has all of them."""
        where = self.paper if self.table is None else f"{self.paper}:{self.table}"
        names = ("dataset", "horizon", "attention", "model")
        words = {name: value for name in names if (value := getattr(self, name)) is not None}
        for name, value in words.items():
            if not any(map(replace(Selection(self.paper), **{name: value}).matches, cells)):
                values = [cell.mechanism if name == "attention" else getattr(cell, name, None) for cell in cells]
                known = list(dict.fromkeys(str(each) for each in values if each))
                raise SettingsError(
                    f"{where} has no run with --{name} {value}.{did_you_mean(str(value), known)} "
                    f"Known: {', '.join(known) or 'none'}."
                )
        flags = " ".join(f"--{name} {value}" for name, value in words.items())
        raise SettingsError(
            f"{where} has no run with {flags} together, though it has each of them; leave one of them out."
        )
