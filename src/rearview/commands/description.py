"""The `describe` command: one part of the library in full, a network with its cost."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rearview.commands.console import print_answer
from rearview.core.errors import SettingsError, did_you_mean
from rearview.core.settings import Description, settings_table

TRAINING = "training"
"""The name under which the settings of the training loop are described."""
DATA = "As data:"


@dataclass(frozen=True, slots=True)
class CostSizes:
    """The sizes at which the cost of a network is counted."""

    channels: int = 7
    lookback: int = 336
    steps: int = 96
    attention: str | Mapping[str, Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


PartKind = tuple[str, Iterable[str], Callable[[str], list[str]]]
"""One kind of thing that can be described: its heading where two kinds share a name, its names, what is said of one."""


def describe_command(name: str, sizes: CostSizes | None = None) -> int:
    """Print all there is to say about a name."""
    lines = _with_prefix(name) or _without_prefix(name, sizes or CostSizes())
    print_answer(lines, lambda: {"name": name, "text": lines, "parts": _parts(name)})
    return 0


def _parts(name: str) -> list[dict[str, object]]:
    """The attention, model and adapter of a name, for a program."""
    from rearview import attention, models
    from rearview.models import adapters

    shelves = {
        "attention": (attention.names(), attention.describe),
        "model": ([*models.names(), *models.external_names()], models.describe),
        "adapter": (adapters.names(), adapters.describe),
    }
    return [{"kind": kind, **asdict(describe(name))} for kind, (names, describe) in shelves.items() if name in names]


def _with_prefix(name: str) -> list[str]:
    """A protocol, presets or an experiment, such as protocol:clean or rbca:S5; nothing where `name` is none of them."""
    from rearview.bench import presets, protocols
    from rearview.bench.papers import catalogue
    from rearview.commands.experiments import describe_experiment

    prefix, _, rest = name.removeprefix("experiment:").partition(":")
    if prefix == "protocol":
        return protocols.get(rest).lines()
    if prefix == "presets" and rest:
        return presets.lines(rest)
    if rest and (prefix in catalogue.papers() or name.startswith("experiment:")):
        exhibit = next((one for one in catalogue.exhibits() if one.name == f"{prefix}:{rest}"), None)
        return (
            [f"{exhibit.name}: {exhibit.title}: {exhibit.source}"]
            if exhibit
            else describe_experiment(catalogue.get(prefix, rest))
        )
    return []


def _without_prefix(name: str, sizes: CostSizes) -> list[str]:
    from rearview.bench import protocols

    entries: dict[str, list[str]] = {}
    every: list[str] = []
    for heading, names, describe in _kinds(sizes):
        # Data sets go by their names in any case.
        known = {each.casefold() if heading == DATA else each: each for each in names}
        every += known.values()
        if (key := name.casefold() if heading == DATA else name) in known:
            entries[heading] = describe(known[key])
    if not entries and (dataset := _forecasting_set(name)):
        return dataset
    if len(entries) > 1:
        return "\n\n".join("\n".join([heading, *lines]) for heading, lines in entries.items()).split("\n")
    if entries:
        return next(iter(entries.values()))
    near = did_you_mean(name, every)
    if name in protocols.names():
        near = f" The protocol is described by `rearview describe protocol:{name}`."
    raise SettingsError(
        f"There is nothing called {name!r}.{near} See `rearview list attentions`, `list models`, `list adapters`, "
        "`list datasets`, `list experiments`, `list protocols` and `list presets`, or `describe training`."
    )


def _kinds(sizes: CostSizes) -> list[PartKind]:
    from rearview import attention, models
    from rearview.bench import synthetic
    from rearview.commands.benchmark_sets import archive_names
    from rearview.commands.experiments import describe_study
    from rearview.data.datasets import catalogue, detection_sets
    from rearview.models import adapters

    return [
        ("As settings:", [TRAINING], lambda name: _training()),
        ("As an attention:", attention.names(), lambda name: _part(attention.describe(name))),
        ("As a model:", [*models.names(), *models.external_names()], lambda name: _model(name, sizes)),
        ("As an adapter:", adapters.names(), lambda name: _part(adapters.describe(name), f"--set adapters={name}")),
        (DATA, catalogue.names(), _forecasting_set),
        (DATA, detection_sets.names(), _detection_set),
        (DATA, archive_names(), _archive_set),
        ("As a synthetic study:", synthetic.NAMES, describe_study),
    ]


def _training() -> list[str]:
    """Every setting of the training but the seed, which is an option of its own."""
    from rearview import train

    settings = tuple(one for one in settings_table(train.Settings) if one.name != "seed")
    return [
        str(Description(TRAINING, "how a network is trained, whatever the task.", "", settings)),
        "",
        "given by: --train epochs=30,learning_rate=1e-4, or training={'epochs': 30} in Python; the seed by --seed",
        "Forecasts, detections and classifications choose anything you omit from the data and print the reason;",
        "benchmark runs take what was published for network and data set.",
    ]


def _part(about: Description, flag: str = "") -> list[str]:
    lines = [str(about), *(["", about.details] if about.details else [])]
    return [*lines, "", f"put around a model by: {flag}"] if flag else lines


def _model(name: str, sizes: CostSizes) -> list[str]:
    """A network with the settings given in place of its defaults, and its cost."""
    from rearview import models

    about = models.describe(name)
    settings = tuple(
        replace(one, default=repr(sizes.settings[one.name]), kind=f"{one.kind}, by default {one.default}")
        if one.name in sizes.settings
        else one
        for one in about.settings
    )
    return [*_part(replace(about, settings=settings)), "", *_cost(name, sizes)]


def _cost(name: str, sizes: CostSizes) -> list[str]:
    from rearview import models
    from rearview.bench.runs.request import spell
    from rearview.core.installation import install_command
    from rearview.core.wording import quantity
    from rearview.models.costs import cost

    if name in models.external_names() and name not in models.external_names(installed=True):
        where = install_command("baselines")
        return [f"cost: it is another package's network, counted where that is installed: {where}"]
    if name in models.external_names() and not models.claims(name).trains:
        return ["cost: not counted, as another package fits it to each window"]
    shape = {"channels": sizes.channels, "lookback": sizes.lookback, "steps": sizes.steps}
    counted = cost(name, **shape, attention=sizes.attention, **sizes.settings)
    attention = {"name": sizes.attention} if isinstance(sizes.attention, str) else sizes.attention
    given = ", ".join(spell(spec) for spec in (attention, sizes.settings) if spec)
    return [
        f"cost for {quantity(sizes.channels, 'channel')}, {quantity(sizes.lookback, 'step')} of look-back and "
        f"{quantity(sizes.steps, 'step')} ahead{f', built with {given}' if given else ''}:",
        *(f"  {line}" for line in counted.lines()),
    ]


def _forecasting_set(name: str) -> list[str]:
    """A data set under any of its names; nothing where `name` is none."""
    from rearview.data.datasets import borders, catalogue, readers

    try:
        dataset = catalogue.get(name)
    except SettingsError:
        return []
    prepared = "" if dataset.make else readers.describe(dataset.read)
    return [
        f"{dataset.name}: {dataset.rows} rows of {dataset.channels} channels, {dataset.step.words()}",
        f"files: {', '.join(dataset.files) or 'none, it is generated'}",
        f"source: {dataset.source}",
        *([f"preparation: {prepared}"] if prepared else []),
        f"horizons: {', '.join(map(str, dataset.horizons))}",
        f"borders: {borders.describe(dataset.rule)}",
    ]


def _detection_set(name: str) -> list[str]:
    from rearview.data.datasets import detection_sets

    dataset = detection_sets.get(name)
    return [
        f"{dataset.name}: {dataset.train_rows} training rows and {dataset.test_rows} labelled test rows of "
        f"{dataset.channels} channels",
        f"files: {' or '.join(dataset.files)}",
        f"source: {dataset.source}",
    ]


def _archive_set(name: str) -> list[str]:
    from rearview.data.datasets import archives

    return [
        f"{name}: cases with classes, for classification",
        f"files: {name}_TRAIN.ts and {name}_TEST.ts",
        f"source: {archives.SOURCE}",
    ]
