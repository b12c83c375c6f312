"""The data sets of each task: their names, which of them are at hand, where to get them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from rearview.bench.protocols import CLASSIFICATION, DETECTION, FORECASTING
from rearview.core.errors import InputError, SettingsError, did_you_mean


@dataclass(frozen=True, slots=True)
class Collection:
    """The data sets of one task."""

    names: Callable[[], Iterable[str]]
    available: Callable[[Path | None], Iterable[str]]
    source: Callable[[str], str]
    """The source of a set."""
    find: Callable[[str, Path | None], object]
    """The files of a set; missing ones are refused with the places looked at."""


def collection(task: str) -> Collection:
    """The data sets of forecasting, classification or detection."""
    from rearview.data.datasets import archives, catalogue, detection_sets

    if task == CLASSIFICATION:
        names = archive_names()
        return Collection(
            lambda: names,
            lambda folder: archives.available(names, folder),
            lambda name: archives.SOURCE,
            archives.find,
        )
    if task == DETECTION:
        return Collection(
            detection_sets.names,
            detection_sets.available,
            lambda name: detection_sets.get(name).source,
            detection_sets.find,
        )
    return Collection(catalogue.names, catalogue.available, lambda name: catalogue.get(name).source, catalogue.find)


def find_task(name: str, data_dir: Path | None) -> tuple[str, str]:
    """(the task of a data set, its name) of a set in any case, or of a file to forecast by its path; a name that no
    task has is refused."""
    from rearview.data.datasets import archives, catalogue, detection_sets

    labelled = {known.casefold(): known for known in detection_sets.names()}
    if known := labelled.get(name.casefold()):
        return DETECTION, known
    try:
        catalogue.get(name)
    except SettingsError:
        if archives.available([name], data_dir):
            return CLASSIFICATION, archives.find(name, data_dir).name
        archive = {known.casefold(): known for known in archive_names()}
        if known := archive.get(name.casefold()):
            return CLASSIFICATION, known
        if near := did_you_mean(name, [*archive.values(), *labelled.values()]):
            raise SettingsError(f"There is no data set {name!r}, and no such file.{near}") from None
        raise
    return FORECASTING, name


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
