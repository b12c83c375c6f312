"""What is on the shelf, printed without importing torch where that can be helped."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rearview.errors import SettingsError, did_you_mean


def list_command(what: str, data_dir: Path | None) -> int:
    """Names with a line each."""
    if what == "datasets":
        return _list_datasets(data_dir)
    if what == "experiments":
        from rearview.jobs.reproduce import list_experiments

        return list_experiments(data_dir)
    if what == "protocols":
        from rearview.bench import protocols

        _print([f"{name}: {protocols.get(name).summary}" for name in protocols.names()])
        return 0
    if what == "pairs":
        return _list_pairs()
    shelf = _shelf(what)
    lines = _summaries(shelf, shelf.names())
    if what == "models":
        lines += ["", "networks of other packages (pip install 'rearview[baselines]'):"]
        lines += _summaries(shelf, shelf.borrowed())
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
    from rearview import attention, models
    from rearview.data import catalogue, labelled

    if name.startswith("protocol:"):
        from rearview.bench import protocols

        _print(protocols.get(name.removeprefix("protocol:")).lines())
        return 0
    found: list[list[str]] = []
    if name in attention.names():
        found.append(_part_lines(attention.describe(name)))
    if name in models.names():
        found.append([*_part_lines(models.describe(name)), "", *_cost_lines(name, sizes or Sizes())])
    elif name in models.borrowed():
        found.append(_part_lines(models.describe(name)))
    if found:
        _print(found[0] if len(found) == 1 else ["As an attention:", *found[0], "", "As a model:", *found[1]])
        return 0
    folded = {known.casefold(): known for known in catalogue.names()}
    if name.casefold() in folded or _is_alias(name):
        _print(_dataset_lines(catalogue.get(name)))
        return 0
    if name.casefold() in (known.casefold() for known in labelled.names()):
        _print(_labelled_lines(labelled.get(name)))
        return 0
    known_names = [*attention.names(), *models.names(), *models.borrowed(), *catalogue.names(), *labelled.names()]
    raise SettingsError(
        f"There is nothing called {name!r}.{did_you_mean(name, known_names)} "
        "See `rearview list attentions`, `list models` and `list datasets`."
    )


def _part_lines(about: Any) -> list[str]:
    return [str(about), *(["", about.details] if about.details else [])]


def _cost_lines(name: str, sizes: Sizes) -> list[str]:
    from rearview.models.costs import cost

    counted = cost(
        name,
        channels=sizes.channels,
        lookback=sizes.lookback,
        steps=sizes.steps,
        attention=sizes.attention,
        **sizes.settings,
    )
    size = f"{sizes.channels} {'channel' if sizes.channels == 1 else 'channels'}, {sizes.lookback} steps of look-back"
    return [f"cost for {size} and {sizes.steps} steps ahead:", *(f"  {line}" for line in counted.lines())]


def _list_pairs() -> int:
    from rearview.models import pairs

    found = pairs.matrix()
    names = list(dict.fromkeys(pair.attention for pair in found))
    width = max(len(pair.model) for pair in found)
    lines = [" " * width + "  " + "  ".join(names)]
    for model in dict.fromkeys(pair.model for pair in found):
        marks = {pair.attention: "-" if pair.reason else "yes" for pair in found if pair.model == model}
        lines.append(f"{model:<{width}}  " + "  ".join(marks[name].ljust(len(name)) for name in names).rstrip())
    reasons = dict.fromkeys(f"{pair.model} with {pair.attention}: {pair.reason}" for pair in found if pair.reason)
    _print([*lines, "", *reasons])
    return 0


def _shelf(what: str) -> Any:
    from rearview import attention, models

    return attention if what == "attentions" else models


def _is_alias(name: str) -> bool:
    from rearview.data import catalogue

    try:
        catalogue.get(name)
    except SettingsError:
        return False
    return True


def _list_datasets(data_dir: Path | None) -> int:
    from rearview.data import catalogue, labelled

    folder = data_dir or os.environ.get("REARVIEW_DATA") or "data"
    here = catalogue.available(data_dir)
    rows = [catalogue.get(name) for name in catalogue.names()]
    marked = [labelled.get(name) for name in labelled.names()]
    marked_here = labelled.available(data_dir)
    width = max(len(name) for name in (*catalogue.names(), *labelled.names()))
    shown = [_found(row.name, width, f"{row.rows:>6} x {row.channels:<4}", row.name in here) for row in rows]
    shown += ["", "With labelled anomalies, training rows + test rows:"]
    for row in marked:
        size = f"{row.train_rows:>6} + {row.test_rows:>6} x {row.channels:<4}"
        shown.append(_found(row.name, width, size, row.name in marked_here))
    count = f"{len(here) + len(marked_here)} of {len(rows) + len(marked)}"
    _print([*shown, "", f"{count} found in {folder}; --data-dir or REARVIEW_DATA names another folder."])
    return 0


def _found(name: str, width: int, size: str, here: bool) -> str:
    return f"{name:<{width}}  {size} {'found' if here else 'missing'}"


def _dataset_lines(dataset: Any) -> list[str]:
    return [
        f"{dataset.name}: {dataset.rows} rows of {dataset.channels} channels, {dataset.step.words()}",
        f"files: {', '.join(dataset.files)}",
        f"where the world gets it: {dataset.source}",
        f"horizons: {', '.join(map(str, dataset.horizons))}",
        f"borders: {dataset.rule}",
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
