"""What is on the shelf, printed without importing torch where that can be helped."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rearview.core.errors import SettingsError, did_you_mean

TRAINING = "training"
"""What the settings of the training loop are described as."""


def list_command(what: str, data_dir: Path | None) -> int:
    """Names with a line each."""
    if what == "datasets":
        return _list_datasets(data_dir)
    if what == "experiments":
        from rearview.commands.reproduce.command import list_experiments

        return list_experiments(data_dir)
    if what == "protocols":
        from rearview.bench import protocols

        _print([f"{name}: {protocols.get(name).summary}" for name in protocols.names()])
        return 0
    if what == "presets":
        from rearview.bench import presets

        _print(_summaries(presets, presets.names()))
        return 0
    if what == "pairs":
        return _list_pairs()
    shelf = _shelf(what)
    lines = _summaries(shelf, shelf.names())
    if what == "models":
        lines += ["", "networks of other packages (pip install 'rearview[baselines]'):"]
        lines += _summaries(shelf, shelf.borrowed())
        lines += ["", f"inputs known in the future (--known) go into: {', '.join(shelf.KNOWN_INPUTS)}"]
    _print(lines)
    return 0


def _summaries(shelf: Any, names: list[str]) -> list[str]:
    width = max(map(len, names))
    return [f"{name:<{width}}  {shelf.summary(name)}" for name in names]


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a network is built for, where its cost is told."""

    channels: int = 7
    lookback: int = 336
    steps: int = 96
    attention: Any = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def describe_command(name: str, sizes: Sizes | None = None) -> int:
    """One part of the library, in full; a network with its cost at these sizes."""
    lines = _training_lines() if name == TRAINING else []
    lines = lines or _measured_lines(name) or _part_or_both(name, sizes or Sizes()) or _data_lines(name)
    if not lines:
        raise _unknown(name)
    _print(lines)
    return 0


def _training_lines() -> list[str]:
    """How to train: every setting but the seed, which has a place of its own."""
    from rearview import train
    from rearview.core.settings import format_part, settings_table

    settings = tuple(one for one in settings_table(train.Settings) if one.name != "seed")
    summary = "how a network is trained, whatever it is asked for."
    return [
        format_part(TRAINING, summary, settings),
        "",
        "given by: --train epochs=30,learning_rate=1e-4, or training={'epochs': 30} in Python; the seed by --seed",
        "What is left out, forecasts, detections and classifications choose from the data, and tell why; benchmark",
        "runs take what was published for network and data set.",
    ]


def _measured_lines(name: str) -> list[str]:
    """A protocol, presets or an experiment; nothing where `name` is none of them."""
    kind, colon, rest = name.partition(":")
    if not colon:
        return []
    if kind == "protocol":
        from rearview.bench import protocols

        return protocols.get(rest).lines()
    if kind == "presets":
        from rearview.bench import presets

        return presets.lines(rest)
    from rearview.bench.papers import catalogue as experiments

    if kind == "experiment":
        kind, _, rest = rest.partition(":")
        return _experiment_lines(experiments.get(kind, rest))
    return _experiment_lines(experiments.get(kind, rest)) if kind in experiments.papers() else []


def _part_or_both(name: str, sizes: Sizes) -> list[str]:
    """An attention, a network, or both where they share a name; an adapter; nothing where `name` is none of them."""
    from rearview import attention, models
    from rearview.models import adapters

    found: list[list[str]] = []
    if name in attention.names():
        found.append(_part_lines(attention.describe(name)))
    if name in (*models.names(), *models.borrowed()):
        found.append([*_part_lines(_as_set(models.describe(name), sizes)), "", *_cost_lines(name, sizes)])
    if len(found) == 2:
        return ["As an attention:", *found[0], "", "As a model:", *found[1]]
    if not found and name in adapters.names():
        return [*_part_lines(adapters.describe(name)), "", f"put around a model by: --set adapters={name}"]
    return found[0] if found else []


def _data_lines(name: str) -> list[str]:
    """A data set of any task; nothing where `name` is none."""
    from rearview.data.datasets import catalogue, detection_sets

    if name.casefold() in (known.casefold() for known in detection_sets.names()):
        return _labelled_lines(detection_sets.get(name))
    if name.casefold() in (classes := {known.casefold(): known for known in _archive_sets()}):
        return _archive_lines(classes[name.casefold()])
    return _dataset_lines(catalogue.get(name)) if _is_dataset(name) else []


def _unknown(name: str) -> SettingsError:
    from rearview import attention, models
    from rearview.bench import protocols
    from rearview.data.datasets import catalogue, detection_sets
    from rearview.models import adapters

    parts = [*attention.names(), *models.names(), *models.borrowed(), *adapters.names()]
    near = did_you_mean(name, [TRAINING, *parts, *catalogue.names(), *detection_sets.names(), *_archive_sets()])
    if name in protocols.names():
        near = f" The protocol is described by `rearview describe protocol:{name}`."
    return SettingsError(
        f"There is nothing called {name!r}.{near} See `rearview list attentions`, `list models`, `list adapters`, "
        "`list datasets`, `list experiments`, `list protocols` and `list presets`, or `describe training`."
    )


def _as_set(about: Any, sizes: Sizes) -> Any:
    """A network's description with the values that are given in place of its defaults."""
    settings = [
        replace(one, default=repr(sizes.settings[one.name]), kind=f"{one.kind}, by default {one.default}")
        if one.name in sizes.settings
        else one
        for one in about.settings
    ]
    return replace(about, settings=tuple(settings))


def _experiment_lines(experiment: Any) -> list[str]:
    """What an experiment asks and what there is to run."""
    from rearview.bench.papers import cost_tables
    from rearview.commands.reproduce.command import training_lines

    if experiment.task == cost_tables.COST:
        return _counted_lines(experiment)
    lines = [
        f"{experiment.name}: {experiment.title}",
        f"protocol: {experiment.protocol} (`rearview describe protocol:{experiment.protocol}`)",
        *([f"presets: {experiment.settings()} (`rearview list presets`)"] if experiment.cells else []),
        *training_lines(experiment),
        f"task: {experiment.task}",
        f"published numbers: {', '.join(f'{count} {kind}' for kind, count in experiment.kinds.items()) or 'none'}",
    ]
    if not experiment.runs:
        return [*lines, "runs: none that `rearview reproduce` makes; see `rearview list experiments`"]
    for what, of in (("data sets", "dataset"), ("look-backs", "lookback"), ("horizons", "horizon"), ("arms", "label")):
        listed = dict.fromkeys(str(getattr(cell, of)) for cell in experiment.runs if hasattr(cell, of))
        lines += [f"{what}: {', '.join(listed)}"] if listed else []
    command = f"rearview reproduce {experiment.paper} --table {experiment.table}"
    return [*lines, f"runs: {len(experiment.runs)} a seed, made by `{command}`"]


def _counted_lines(experiment: Any) -> list[str]:
    """What a table of costs holds; nothing of it is run."""
    from rearview.bench.papers import cost_tables
    from rearview.commands.reproduce.costs import in_short

    cells = cost_tables.parts(experiment)
    return [
        f"{experiment.name}: {experiment.title}",
        f"task: {experiment.task}; no data are needed",
        f"published numbers: {sum(len(cell.numbers) for cell in cells)}",
        f"arms: {', '.join(dict.fromkeys(cell.label for cell in cells))}",
        f"networks: {in_short(experiment)}, made by `rearview reproduce {experiment.paper} --table {experiment.table}`",
    ]


def _part_lines(about: Any) -> list[str]:
    return [str(about), *(["", about.details] if about.details else [])]


def _cost_lines(name: str, sizes: Sizes) -> list[str]:
    from rearview import models
    from rearview.bench.papers.catalogue import spoken
    from rearview.models.costs import cost
    from rearview.report.common.text import count

    if name in models.borrowed() and name not in models.borrowed(installed=True):
        return [
            "cost: it is another package's network, counted where that is installed: pip install 'rearview[baselines]'"
        ]
    if not models.claims(name).trains and name in models.borrowed():
        return ["cost: not counted, as another package fits it to each window"]
    found = cost(
        name,
        channels=sizes.channels,
        lookback=sizes.lookback,
        steps=sizes.steps,
        attention=sizes.attention,
        **sizes.settings,
    )
    size = f"{count(sizes.channels, 'channel')}, {count(sizes.lookback, 'step')} of look-back"
    attention = {"name": sizes.attention} if isinstance(sizes.attention, str) else sizes.attention
    given = ", ".join(spoken(spec) for spec in (attention, sizes.settings) if spec)
    built = f", built with {given}" if given else ""
    ahead = f"{count(sizes.steps, 'step')} ahead"
    return [f"cost for {size} and {ahead}{built}:", *(f"  {line}" for line in found.lines())]


def _list_pairs() -> int:
    from rearview.models import pairs

    found = pairs.matrix()
    names = list(dict.fromkeys(pair.attention for pair in found))
    width = max(len(pair.model) for pair in found)
    lines = [" " * width + "  " + "  ".join(names)]
    for model in dict.fromkeys(pair.model for pair in found):
        marks = {pair.attention: "-" if pair.reason else "yes" for pair in found if pair.model == model}
        lines.append(f"{model:<{width}}  " + "  ".join(marks[name].ljust(len(name)) for name in names).rstrip())
    for heading, words in (
        ("Refused, and why:", {pair: pair.reason for pair in found}),
        ("Possible, with a caution:", {pair: pair.caution for pair in found}),
    ):
        told = [f"{pair.model} with {pair.attention}: {sentence}" for pair, sentence in words.items() if sentence]
        lines += ["", heading, *told] if told else []
    _print(lines)
    return 0


def _shelf(what: str) -> Any:
    from rearview import attention, models
    from rearview.models import adapters

    return {"attentions": attention, "models": models, "adapters": adapters}[what]


def _is_dataset(name: str) -> bool:
    from rearview.data.datasets import catalogue

    try:
        catalogue.get(name)
    except SettingsError:
        return False
    return True


def _archive_sets() -> list[str]:
    """The sets of the classification archive that experiments ask for."""
    from rearview.bench.papers import catalogue as experiments

    asked = [one for one in experiments.every() if one.task == "classification"]
    return sorted({cell.dataset for one in asked for cell in one.labelled}, key=str.casefold)


def _list_datasets(data_dir: Path | None) -> int:
    from rearview.data.datasets import archives, catalogue, detection_sets

    folder = data_dir or os.environ.get("REARVIEW_DATA") or "data"
    here = catalogue.available(data_dir)
    known = [catalogue.get(name) for name in catalogue.names()]
    rows, generated = [one for one in known if not one.make], [one for one in known if one.make]
    marked = [detection_sets.get(name) for name in detection_sets.names()]
    marked_here = detection_sets.available(data_dir)
    classes = _archive_sets()
    classes_here = archives.available(classes, data_dir)
    width = max(len(name) for name in (*catalogue.names(), *detection_sets.names(), *classes))
    shown = ["Forecasting, rows x channels:"]
    shown += [_found(row.name, width, f"{row.rows:>6} x {row.channels:<4}", row.name in here) for row in rows]
    shown += [
        "",
        "Forecasting, generated, of the width of the set they are named after; fewer rows: Traffic-standin:2000",
    ]
    shown += [f"{row.name:<{width}}  {row.rows:>6} x {row.channels:<4}" for row in generated]
    shown += ["", "Detection, training rows + labelled test rows x channels:"]
    for row in marked:
        size = f"{row.train_rows:>6} + {row.test_rows:>6} x {row.channels:<4}"
        shown.append(_found(row.name, width, size, row.name in marked_here))
    shown += [
        "",
        "Classification, the sets of the UEA archive that experiments ask for; others are found in the same way:",
    ]
    shown += [f"{name:<{width}}  {_at_hand(name in classes_here)}" for name in classes]
    count = f"{len(here) + len(marked_here) + len(classes_here)} of {len(rows) + len(marked) + len(classes)}"
    _print([*shown, "", f"{count} found in {folder}; --data-dir or REARVIEW_DATA names another folder."])
    return 0


def _found(name: str, width: int, size: str, here: bool) -> str:
    return f"{name:<{width}}  {size} {_at_hand(here)}"


def _at_hand(here: bool) -> str:
    return "found" if here else "missing"


def _dataset_lines(dataset: Any) -> list[str]:
    return [
        f"{dataset.name}: {dataset.rows} rows of {dataset.channels} channels, {dataset.step.words()}",
        f"files: {', '.join(dataset.files) or 'none, it is generated'}",
        f"where the world gets it: {dataset.source}",
        f"horizons: {', '.join(map(str, dataset.horizons))}",
        f"borders: {dataset.rule}",
    ]


def _archive_lines(name: str) -> list[str]:
    from rearview.data.datasets import archives

    return [
        f"{name}: cases with classes, for classification",
        f"files: {name}_TRAIN.ts and {name}_TEST.ts",
        f"where the world gets it: {archives.SOURCE}",
    ]


def _labelled_lines(dataset: Any) -> list[str]:
    return [
        f"{dataset.name}: {dataset.train_rows} training rows and {dataset.test_rows} labelled test rows of "
        f"{dataset.channels} channels",
        f"files: {' or '.join(dataset.files)}",
        f"where the world gets it: {dataset.source}",
    ]


def _print(lines: list[str]) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
