"""Experiments as data: each table of a paper, and our own questions, as cells that can be run.

One YAML file a paper names its protocol, its presets and its tables, some of which rest on other presets. The cells of
a table are read off the paper's own numbers, so every number has the run that it compares with; one that is quoted from
another paper is compared with a run that has the settings of the network's own authors. What a paper shows only in a
figure is a grid in the file, and so are questions of our own, with their training. Tables of what networks cost are not
run: the file says at which sizes their networks are built (`bench.papers.costs`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from typing import Any

from rearview.bench import presets, protocols
from rearview.bench.papers import published
from rearview.bench.papers.published import Kind, Number
from rearview.bench.rows.row import Facts
from rearview.bench.runs.request import Part, Request, spell
from rearview.bench.runs.tuning import Tuning
from rearview.core.errors import SettingsError, did_you_mean, unknown
from rearview.core.files import list_yaml, read_yaml
from rearview.core.grouping import group_by

_FOLDER = "rearview.bench.papers.experiments"
_FEW = 6
"""So many candidates can be listed in a label."""


@dataclass(frozen=True, slots=True)
class Cell(Request):
    """One run of an experiment, seed and protocol aside, and the published numbers it is compared with."""

    among: tuple["Cell", ...] = field(default=(), compare=False)
    """The same run at other look-backs, where a paper's number is that of the best: ours is the best on validation, one
    for a data set over all its horizons where runs at every look-back say which."""
    only_under: str = ""
    """The protocol under which its options mean something; empty: any."""
    numbers: tuple[Number, ...] = field(default=(), compare=False)
    variant: tuple[str, ...] = field(default=(), compare=False)
    """Settings in words that tell it from the other runs of a forecasting grid; empty: its label does."""

    @property
    def label(self) -> str:
        """Network and mechanism in short."""
        parts = [self.model]
        if self.attention is not None:
            parts.append(self.attention if isinstance(self.attention, str) else spell(self.attention))
        if self.task != protocols.FORECASTING:
            given = {**self.detection, **self.settings}
            return " + ".join(parts) + (f", {spell(given)}" if given else "")
        if self.candidates:
            few = len(self.candidates) <= _FEW
            listed = "/".join(spell(candidate) for candidate in self.candidates)
            parts.append(f"best of {listed}" if few else f"best of {len(self.candidates)} settings")
        if self.tuning is not None:
            parts.append(self.tuning.name)
        return " + ".join([*parts, *map(str, self.adapters), *([self.loss_name] if self.loss else [])])

    @property
    def title(self) -> str:
        """Network, mechanism and data set, with look-back and horizon of a forecast."""
        sizes = "" if self.horizon is None else f" {self.lookback}-{self.horizon}"
        return ", ".join([self.label, *self.variant, f"{self.dataset}{sizes}"])

    @property
    def loss_name(self) -> str:
        """The loss without its settings; empty: the protocol's."""
        return self.loss if isinstance(self.loss, str) else "" if self.loss is None else str(self.loss["name"])

    @property
    def mechanism(self) -> str:
        """The name of its mechanism; empty for a network that is run as it is."""
        if self.attention is None or isinstance(self.attention, str):
            return self.attention or ""
        return str(self.attention["name"])


@dataclass(frozen=True, slots=True)
class Experiment:
    """One table of a paper, or one question of our own."""

    paper: str
    table: str
    title: str
    protocol: str
    presets: str
    """Whose published settings its runs have, except for runs compared with numbers quoted from another paper."""
    cells: tuple[Cell, ...]
    kinds: Mapping[Kind, int]
    """The number of printed numbers of each kind."""
    task: str = protocols.FORECASTING
    first_seed: int = 0
    source: str = ""
    """The table that it is a view of, in means; empty: it has runs of its own."""
    training: Facts = field(default_factory=dict)
    """Settings of the forecasting runs of a grid on top of the presets' training."""

    @property
    def name(self) -> str:
        return f"{self.paper}:{self.table}"

    def settings(self) -> str:
        """Whose published settings which of its forecasting runs have, in words."""
        sources: dict[str, dict[str, None]] = {self.presets: {}}
        for cell in self.cells:
            quoted = cell.presets != self.presets
            source = presets.source_of(cell.model, cell.presets or presets.OFFICIAL)
            sources.setdefault(source, {})[f"{cell.label} (quoted)" if quoted else cell.model] = None
        return "; ".join(f"{source} for {', '.join(arms)}" for source, arms in sources.items() if arms)


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A figure or table of a paper that is no experiment by itself, and what stands for it."""

    paper: str
    label: str
    """F4 is figure 4, FS4 figure S4, T4 and S4 are tables."""
    title: str
    of: str = ""
    """The experiment or synthetic study that makes its numbers; empty: none does."""
    command: str = ""
    """The command that shows the like."""
    why: str = ""
    """Why nothing of ours stands for it."""
    draw: Mapping[str, Any] = field(default_factory=dict)
    """The input of `rearview figure`: kind, data sets and networks; empty: it does not draw it."""

    @property
    def name(self) -> str:
        return f"{self.paper}:{self.label}"

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets that its drawing needs."""
        return tuple(self.draw.get("datasets", [self.draw["dataset"]] if "dataset" in self.draw else []))

    @property
    def source(self) -> str:
        """The command that makes the like of it, or the reason why nothing does."""
        origin = f"see {self.of}" if self.of else f"`{self.command}`" if self.command else self.why
        return f"{f'{origin}, then ' if self.of else ''}`rearview figure {self.name}`" if self.draw else origin


def exhibits() -> list[Exhibit]:
    """Every figure and table of the papers that is no experiment by itself."""
    listed = read_yaml("rearview.bench.papers", "exhibits")
    return [Exhibit(paper, label, **facts) for paper, parts in listed.items() for label, facts in parts.items()]


def papers() -> list[str]:
    """Every file of experiments."""
    return list_yaml(_FOLDER)


def tables(paper: str) -> list[str]:
    """The tables of a paper."""
    return list(_file(paper)["tables"])


def every() -> Iterator[Experiment]:
    """Every experiment there is."""
    for paper in papers():
        for table in tables(paper):
            yield get(paper, table)


@cache
def get(paper: str, table: str) -> Experiment:
    """One experiment; an unknown one is refused with its nearest neighbour."""
    facts = _file(paper)
    known = facts["tables"]
    if table not in known:
        raise SettingsError(
            f"{paper} has no table {table!r}.{did_you_mean(table, list(known))} Known: {', '.join(known)}."
        )
    chosen = known[table]
    numbers = published.select(paper, chosen.get("of", table))
    task = chosen.get("task", protocols.FORECASTING)
    protocol, source = (chosen.get(key, facts[key]) for key in ("protocol", "presets"))
    training = chosen.get("training", {})
    if task not in (protocols.FORECASTING, protocols.CLASSIFICATION, protocols.DETECTION):
        cells: Iterable[Cell] = ()
    elif "grid" in chosen:
        cells = _grid_cells(chosen["grid"], task, protocol, source, training)
    elif task == protocols.FORECASTING:
        cells = _forecasting_cells(numbers, facts, source, chosen.get("search", ()))
    else:
        cells = _labelled_cells(numbers, task)
    return Experiment(
        paper,
        table,
        chosen["title"],
        protocol,
        source,
        tuple(cells),
        {kind: sum(n.kind == kind for n in numbers) for kind in dict.fromkeys(n.kind for n in numbers)},
        task,
        chosen.get("first_seed", 0),
        chosen.get("of", ""),
        training,
    )


def tune(experiment: Experiment) -> Experiment:
    """An experiment whose runs search the settings that the paper's authors searched; refused where they did not."""
    facts = _file(experiment.paper).get("tuning")
    where = facts["where"] if facts else {}

    def fits(cell: Cell) -> bool:
        spec = cell.attention if isinstance(cell.attention, Mapping) else {}
        return bool(where) and all(spec.get(name) in values for name, values in where.items())

    if not facts or not any(map(fits, experiment.cells)):
        raise SettingsError(f"{experiment.name} has nothing that its authors tuned by chance; leave out --tune.")
    search = Tuning(facts["trials"], {name: tuple(values) for name, values in facts["space"].items()})
    return replace(
        experiment, cells=tuple(replace(cell, tuning=search) if fits(cell) else cell for cell in experiment.cells)
    )


def costs(paper: str) -> Mapping[str, Any]:
    """At which sizes the networks of a paper's tables of cost are built (for `bench.papers.costs`)."""
    costs: Mapping[str, Any] = _file(paper).get("costs", {})
    return costs


def combinations(values: Mapping[str, Sequence[object]]) -> tuple[Facts, ...]:
    """Every combination of the values listed for each setting, as candidates of a search."""
    return tuple(dict(zip(values, each, strict=True)) for each in product(*values.values()))


def _file(paper: str) -> Mapping[str, Any]:
    if paper not in papers():
        raise unknown("paper", paper, papers())
    facts: Mapping[str, Any] = read_yaml(_FOLDER, paper)
    return facts


def _forecasting_cells(
    numbers: list[Number], facts: Mapping[str, Any], source: str, search: Sequence[Mapping[str, Any]]
) -> Iterator[Cell]:
    """A cell for each run that some of the numbers compare with, in the order of the paper."""
    lookbacks = facts.get("lookbacks", {})

    def place(number: Number) -> tuple[object, ...]:
        network = number.backbone, repr(number.attention), repr(number.needs), number.variant
        return number.dataset, number.lookback, number.horizon, *network, _is_best_of_several(number)

    wanted = (number for number in numbers if number.kind == "forecast" and number.horizon is not None)
    for same in group_by(wanted, place).values():
        first = same[0]
        cell = Cell(
            dataset=first.dataset,
            model=first.model,
            attention=_trained_form(first, facts.get("forms", ())),
            lookback=first.lookback or lookbacks.get(first.model, 96),
            horizon=first.horizon,
            loss=_loss(first, facts.get("losses", {})),
            adapters=tuple(first.needs.get("adapters", ())),
            presets=presets.OFFICIAL if all(number.quoted for number in same) else source,
            numbers=tuple(same),
        )
        yield from _search_cells(cell, search) if _is_best_of_several(first) else (cell,)


def _trained_form(number: Number, forms: Sequence[Mapping[str, Any]]) -> Facts | None:
    """The mechanism that a number names, with the settings that its network can't train it without."""
    spec = number.attention
    for form in forms:
        if spec is not None and form["model"] == number.model and form["where"].items() <= spec.items():
            return {**spec, **form["settings"]}
    return spec


def _search_cells(cell: Cell, search: Sequence[Mapping[str, Any]]) -> Iterator[Cell]:
    """A cell whose number is the best of a search, at each look-back that was tried; the first holds the number."""
    stated = cell.numbers[0].lookback
    tried = dict.fromkeys(lookback for part in search for lookback in part.get("lookbacks", (cell.lookback,)))
    first, *others = (
        replace(cell, lookback=lookback, candidates=_candidates(search, cell.dataset, lookback))
        for lookback in ([stated] if stated else tried or [cell.lookback])
    )
    among = tuple(replace(other, numbers=()) for other in others)
    yield replace(first, among=among)
    yield from among


def _candidates(search: Sequence[Mapping[str, Any]], dataset: str, lookback: int | None) -> tuple[Facts, ...]:
    """The candidates of a search on a data set at a look-back; some are for some data sets or look-backs alone."""
    parts = [
        part["settings"]
        for part in search
        if dataset in part.get("datasets", [dataset]) and lookback in part.get("lookbacks", [lookback])
    ]
    return tuple(candidate for settings in parts for candidate in combinations(settings))


def _loss(number: Number, losses: Mapping[str, Mapping[str, float]]) -> Part | None:
    """The loss of a run, with the share that its authors use on the data set where they say so."""
    name = number.needs.get("loss")
    share = losses.get(str(name), {}).get(number.dataset)
    return name if share is None else {"name": name, "time_share": share}


def _is_best_of_several(number: Number) -> bool:
    """Whether a number is the best of several settings."""
    return number.variant == "rbca_best" or ("best of" in number.setting and number.variant.startswith("rbca"))


def _grid_cells(
    grid: Mapping[str, list[Any]], task: str, protocol: str, source: str, training: Facts
) -> Iterator[Cell]:
    """Every combination of what a grid lists; options may be for some networks, mechanisms or data sets alone."""
    axes = [grid.get(axis, [None]) for axis in ("dataset", "horizon", "lookback", "model", "attention", "options")]
    forecasts = task == protocols.FORECASTING
    for dataset, horizon, lookback, model, attention, options in product(*axes):
        given = dict(options or {})
        spec = {"name": attention} if isinstance(attention, str) else attention
        mechanism = spec and spec["name"]
        own = {"models": model, "attentions": mechanism, "datasets": dataset}
        if all(value in given.pop(axis, [value]) for axis, value in own.items()):
            cell = Cell(dataset, model, spec, lookback, horizon, task, **given)
            if given.keys() - {"settings", "loss"}:
                cell = replace(cell, only_under=protocol)
            variant = tuple(spell({name: value}) for name, value in cell.settings.items())
            yield replace(cell, training=training, presets=source, variant=variant) if forecasts else cell


def _labelled_cells(numbers: list[Number], task: str) -> Iterator[Cell]:
    """A cell for each run of classification or detection that some of the numbers compare with."""
    wanted = (number for number in numbers if number.kind == task)
    for same in group_by(wanted, lambda number: (number.dataset, number.model, repr(number.attention))).values():
        yield Cell(same[0].dataset, same[0].model, same[0].attention, task=task, numbers=tuple(same))
