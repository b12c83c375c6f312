"""Benchmark sets of detection and classification by name: what whoever gives one in place of a file is told."""

from pathlib import Path

from rearview.core.errors import InputError


def about(name: str) -> str:
    """What a set is and which commands take it; nothing where no experiment of the two tasks asks for one."""
    from rearview.bench import protocols
    from rearview.bench.papers import catalogue

    labelled = (one for one in catalogue.every() if one.task in (protocols.DETECTION, protocols.CLASSIFICATION))
    for experiment in labelled:
        for known in dict.fromkeys(cell.dataset for cell in experiment.labelled):
            if known.casefold() == name.casefold():
                run = f"rearview reproduce {experiment.paper} --table {experiment.table} --dataset {known}"
                return f"{known} is a benchmark set of {experiment.task}: `{run}` runs it, and {_taken(known)}."
    return ""


def refuse(*files: str | None) -> None:
    """Refuses the name of a benchmark set where a file is asked for and there is none of that name."""
    for file in files:
        if file and not Path(file).exists() and (told := about(file)):
            raise InputError(f"There is no file {file}. {told}")


def _taken(name: str) -> str:
    """Which command takes the files of a set."""
    from rearview.data.datasets import detection_sets as labelled

    if name in labelled.names():
        return f"`rearview detect` takes its file ({labelled.get(name).files[0]})"
    return f"`rearview classify` takes its files ({name}_TRAIN.ts and {name}_TEST.ts)"
