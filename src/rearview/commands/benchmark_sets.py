"""The data sets of each task: their names, which of them are at hand, where to get them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from rearview.core.errors import InputError


@dataclass(frozen=True, slots=True)
class Collection:
    """The data sets of one task."""

    names: Callable[[], Iterable[str]]
    available: Callable[[Path | None], Iterable[str]]
    source: Callable[[str], str]
    """The source of a set."""


def collection(task: str) -> Collection:
    """The data sets of forecasting, classification or detection."""
    from rearview.data.datasets import archives, catalogue, detection_sets

    if task == "classification":
        names = archive_names()
        return Collection(lambda: names, lambda folder: archives.available(names, folder), lambda name: archives.SOURCE)
    if task == "detection":
        return Collection(detection_sets.names, detection_sets.available, lambda name: detection_sets.get(name).source)
    return Collection(catalogue.names, catalogue.available, lambda name: catalogue.get(name).source)


def archive_names() -> list[str]:
    """The sets of the classification archive that experiments use."""
    from rearview.bench.papers import catalogue

    runs = [cell for one in catalogue.every() if one.task == "classification" for cell in one.cells]
    return sorted({cell.dataset for cell in runs}, key=str.casefold)


def describe_set(name: str) -> str:
    """A sentence on the commands that take a benchmark set of classification or detection; empty for any other name."""
    from rearview.bench.papers import catalogue
    from rearview.data.datasets import detection_sets

    for experiment in catalogue.every():
        for cell in experiment.cells if experiment.task in ("classification", "detection") else ():
            known = cell.dataset
            if known.casefold() == name.casefold():
                run = f"rearview reproduce {experiment.paper} --table {experiment.table} --dataset {known}"
                files = f"`rearview classify` takes its files ({known}_TRAIN.ts and {known}_TEST.ts)"
                if known in detection_sets.names():
                    files = f"`rearview detect` takes its file ({detection_sets.get(known).files[0]})"
                return f"{known} is a benchmark set of {experiment.task}: `{run}` runs it, and {files}."
    return ""


def refuse_set_names(*files: str | None) -> None:
    """Refuse the name of a benchmark set where a file is expected and there is none of that name."""
    for file in files:
        if file and not Path(file).exists() and (words := describe_set(file)):
            raise InputError(f"There is no file {file}. {words}")
