"""What a name that the catalogue does not hold may stand for: a file of one's own, or a set of another task.

A file of one's own is a data set like any other: its first 70 % of rows train, the next 10 % select and the last 20 %
test. It is called by its name and the beginning of its checksum, so that results of a file that has changed since are
never taken for those of the new one.
"""

from functools import lru_cache
from pathlib import Path

from rearview.core.errors import InputError, SettingsError
from rearview.data.datasets import detection_sets
from rearview.data.datasets.catalogue import Dataset, checksum, repaired
from rearview.data.panel import Panel
from rearview.data.panel_checks import forecastable
from rearview.data.panel_reader import load
from rearview.data.step import Step


def found(name: str) -> Dataset | None:
    """The data set in a file of that name; None where there is no such file. A set of anomalies is refused."""
    for known in map(detection_sets.get, detection_sets.names()):
        if known.name.casefold() == name.casefold():
            raise SettingsError(
                f"{known.name} is a set of labelled anomalies, not one to forecast; give its file ({known.files[0]}) "
                "to `rearview detect`."
            )
    path = Path(name)
    return _of_file(path.resolve(), path.stat().st_mtime_ns) if path.is_file() else None


@lru_cache(maxsize=16)
def _of_file(path: Path, changed: int) -> Dataset:
    """The data set in a file that was last `changed` then."""
    panel = load(path)
    if panel.series > 1:
        raise InputError(
            f"{path.name} holds {panel.series} series, but a benchmark runs on one series of one or several columns; "
            "bring a wide file, with a column for each of them."
        )
    if set(panel.target_names) <= set(panel.empty_names):
        raise InputError(f"{path.name} has no value to forecast in any row; bring rows with values.")
    rows, channels = forecastable(panel).values.shape
    return Dataset(
        name=f"{path.name}@{checksum(path)[:8]}",
        files=(path.name,),
        rows=rows,
        channels=channels,
        step=panel.step,
        rule="custom",
        source="a file of your own",
        calendar=None if panel.step.unit == "int" else str(panel.step),
        read=_read,
        path=path,
    )


def _read(path: Path, step: Step) -> Panel:
    """The file put on a regular grid, without the columns that have no value in any row; a finding names them."""
    return forecastable(repaired(path, step))
