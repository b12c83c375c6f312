"""The benchmark data sets by name: which file, which shape, which step, which borders, and where the world gets it.

Files are looked for in a folder given by the caller, else in the folder that REARVIEW_DATA names, else in ./data,
each with two levels of subfolders. They are taken as published, row by row, so that numbers compare with those in the
literature; `Weather-repaired` is the one set that is mended. A file of another shape is refused, because a cut of
a benchmark set must not carry its name; a file of another checksum is read and warned of.

Wide sets have stand-ins, which are generated and say so in their names: `Traffic-standin` has the width, length, step
and borders of Traffic and is run with its settings; `Traffic-standin:2000` is its first 2,000 rows.

A data set of your own joins with `register(Dataset(...))`; where a name is asked for, the path of a file will do too.
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rearview.core.errors import InputError, SettingsError, did_you_mean
from rearview.data import no_time_column
from rearview.data.datasets import borders as published
from rearview.data.datasets import gift, stand_ins
from rearview.data.datasets.borders import Borders, Rule
from rearview.data.panel import Finding, Panel
from rearview.data.step import Step

__all__ = [
    "Borders",
    "Dataset",
    "available",
    "borders",
    "checksum",
    "compared",
    "find",
    "get",
    "load",
    "locate",
    "names",
    "register",
]

Reader = Callable[[Path, Step], Panel]
Maker = Callable[[int, int, Step], Panel]
"""From (rows, channels, step) to a panel."""


def as_published(path: Path, step: Step) -> Panel:
    """Every row of a CSV file as it stands: nothing sorted, dropped, filled or taken for a sentinel."""
    from rearview.data.panel_reader import load as read

    return read(path, freq=step, row_by_row=True)


def repaired(path: Path, step: Step) -> Panel:
    """A CSV file put on a regular grid: sentinels are missing, repeated rows dropped, gaps filled."""
    from rearview.data.panel_reader import load as read

    return read(path, freq=step)


@dataclass(frozen=True, slots=True)
class Dataset:
    """One benchmark data set: what is known of it before its file is opened."""

    name: str
    files: tuple[str, ...]
    """File names looked for, in any case; the first is the one the world uses."""
    rows: int
    channels: int
    step: Step
    rule: str | Rule
    """Where training, validation and test end: a name out of `rearview.data.datasets.borders.RULES`, or a function."""
    source: str
    """Where the world gets the file, in words."""
    aliases: tuple[str, ...] = ()
    sha256: tuple[str, ...] = ()
    """Checksums of the copies known to be good; empty where none is known."""
    horizons: tuple[int, ...] = (96, 192, 336, 720)
    """The horizons that papers report."""
    calendar: str | None = "h"
    """The step whose calendar features published code feeds (hourly, whatever the data's own step); None: none."""
    read: Reader = as_published
    make: Maker | None = None
    """Makes the panel of a set that is generated and has no file."""
    like: str = ""
    """The published set that a stand-in is run with the settings of."""
    path: Path | None = None
    """The file itself, where it is one's own and not looked for in a folder."""


def names() -> tuple[str, ...]:
    """Every data set of the catalogue, in the order in which they joined it."""
    return tuple(_SHELF)


def get(name: str) -> Dataset:
    """The data set of that name or alias, in any case, or in a file of one's own, by its path.

    Of a generated one, `name:rows` is its first rows.
    """
    from rearview.data.datasets import user_file

    wanted, colon, rows = _fold(name).partition(":")
    for dataset in _SHELF.values():
        if wanted in _names_of(dataset):
            return _shortened(dataset, rows) if colon else dataset
    own = user_file.found(name)
    if own is not None:
        return own
    near = did_you_mean(name, [known for dataset in _SHELF.values() for known in (dataset.name, *dataset.aliases)])
    raise SettingsError(
        f"there is no data set {name!r} in the catalogue, and no such file; it holds {', '.join(names())}.{near}"
    )


def register(dataset: Dataset) -> None:
    """Adds a data set to the catalogue, for this process; a name or alias that is taken is refused."""
    for other in _SHELF.values():
        taken = _names_of(other) & _names_of(dataset)
        if taken:
            raise SettingsError(
                f"data set {dataset.name!r} can't join the catalogue: {', '.join(sorted(taken))} already stands for "
                f"{other.name}; choose another name."
            )
    _SHELF[dataset.name] = dataset


def borders(dataset: str | Dataset | Rule, rows: int | None = None, lookback: int = 96) -> Borders:
    """Row ranges of training, validation and test (context included) of a data set, by name, or of a border rule.

    `rows` is the length of the series; a data set of the catalogue knows its own.
    """
    if isinstance(dataset, str) and dataset not in published.RULES:
        dataset = get(dataset)
    if isinstance(dataset, Dataset):
        return published.by_rule(dataset.rule, dataset.rows if rows is None else rows, lookback)
    if rows is None:
        raise SettingsError(f"the border rule {dataset!r} needs the number of rows; give rows=.")
    return published.by_rule(dataset, rows, lookback)


def find(name: str | Dataset, data_dir: Path | str | None = None) -> Path | None:
    """The file of a data set (None: it is generated); a missing one is refused with where to look and to get it."""
    dataset = get(name) if isinstance(name, str) else name
    if dataset.make is not None or dataset.path is not None:
        return dataset.path
    return locate(dataset.name, dataset.files, dataset.source, data_dir)


def locate(name: str, files: tuple[str, ...], source: str, data_dir: Path | str | None = None) -> Path:
    """The first of some files that is there, in any case; where none is, a refusal says what was looked for where."""
    folder, chosen_by = _folder(data_dir)
    held = _files(folder)
    for file in files:
        if file.casefold() in held:
            return held[file.casefold()]
    looked = f"{folder} ({chosen_by})"
    reason = f"in {looked} or its subfolders, two levels down" if folder.is_dir() else f"because {looked} is no folder"
    raise InputError(
        f"{' or '.join(files)}, the file of {name}, was not found {reason}; get it from {source}, and name its folder "
        "with --data-dir (data_dir=) or the variable REARVIEW_DATA."
    )


def available(data_dir: Path | str | None = None) -> tuple[str, ...]:
    """The data sets whose file is there."""
    held = _files(_folder(data_dir)[0])
    return tuple(d.name for d in _SHELF.values() if any(file.casefold() in held for file in d.files))


def load(name: str | Dataset, data_dir: Path | str | None = None) -> Panel:
    """The panel of a data set, its shape and checksum compared with what is known of it."""
    dataset = get(name) if isinstance(name, str) else name
    path = find(dataset, data_dir)
    if path is None:
        assert dataset.make is not None
        return dataset.make(dataset.rows, dataset.channels, dataset.step)
    panel = dataset.read(path, dataset.step)
    rows, channels = panel.values.shape
    if (rows, channels) != (dataset.rows, dataset.channels):
        raise InputError(
            f"{path} gives {rows:,} rows of {channels:,} channels, but {dataset.name} has {dataset.rows:,} rows of "
            f"{dataset.channels:,}; a part of a data set can't go by its name: get the whole from {dataset.source}, "
            "or read the file as one of your own."
        )
    return replace(panel, findings=(*panel.findings, *compared(path, dataset.name, dataset.sha256)))


def checksum(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def compared(path: Path, name: str, good: tuple[str, ...]) -> tuple[Finding, ...]:
    """A warning where copies of a data set are known to be good and the file is none of them."""
    if not good or checksum(path) in good:
        return ()
    message = (
        f"{path.name} differs from the copy of {name} that is known to be good (its checksum is another); "
        "line ends or rounding may be all, but compare scores with care."
    )
    return (Finding("warning", "checksum", 1, message),)


def _folder(data_dir: Path | str | None) -> tuple[Path, str]:
    """The folder to look in, and who chose it."""
    if data_dir is not None:
        return Path(data_dir), "the folder given"
    named = os.environ.get("REARVIEW_DATA")
    return (
        (Path(named), "named by REARVIEW_DATA") if named else (Path("data"), "the default, as REARVIEW_DATA is unset")
    )


def _files(folder: Path) -> dict[str, Path]:
    """Lower-case file name -> path, for a folder and two levels below it; where a name stands twice, the upper wins."""
    held: dict[str, Path] = {}
    for level in ("*", "*/*", "*/*/*"):
        for path in sorted(folder.glob(level)):
            if path.is_file():
                held.setdefault(path.name.casefold(), path)
    return held


def _shortened(dataset: Dataset, rows: str) -> Dataset:
    """The first rows of a generated data set, under a name that tells how many."""
    if dataset.make is None:
        raise SettingsError(f"{dataset.name} is taken whole, as published; leave out ':{rows}'.")
    if not rows.isdecimal() or not 0 < int(rows) <= dataset.rows:
        raise SettingsError(
            f"{dataset.name} has {dataset.rows:,} rows, and as many as are written behind a colon where fewer will do, "
            f"such as {dataset.name}:2000; got {rows!r}."
        )
    return replace(dataset, name=f"{dataset.name}:{int(rows)}", rows=int(rows))


def _fold(name: str) -> str:
    return name.casefold().replace("_", "-").replace(" ", "-")


def _names_of(dataset: Dataset) -> set[str]:
    return {_fold(name) for name in (dataset.name, *dataset.aliases)}


def _ett(name: str, sha256: tuple[str, ...] = ()) -> Dataset:
    hourly = name.startswith("ETTh")
    return Dataset(
        name=name,
        files=(f"{name}.csv",),
        rows=17_420 if hourly else 69_680,
        channels=7,
        step=Step(1, "h") if hourly else Step(15, "min"),
        rule="ett_hourly" if hourly else "ett_quarter_hourly",
        source="the ETT-small folder of zhouhaoyi/ETDataset on GitHub",
        sha256=sha256,
    )


def _pems(district: str, rows: int, channels: int, start: str) -> Dataset:
    return Dataset(
        name=f"PEMS{district}",
        files=(f"PEMS{district}.npz",),
        rows=rows,
        channels=channels,
        step=Step(5, "min"),
        rule="pems",
        source="the data folder linked in the README of thuml/iTransformer on GitHub (PEMS), also kept with "
        "guoshnBJTU/ASTGNN on GitHub",
        aliases=(f"PEMSD{int(district)}", f"PEMS{int(district)}"),
        horizons=(12, 24, 48, 96),
        calendar=None,
        read=partial(no_time_column.array, start=start),
    )


def _gift(name: str, files: tuple[str, ...], hours: int, rows: int, channels: int, horizon: int) -> Dataset:
    """A set of GIFT-Eval in the setting that MICA reports: rows of `hours` hours, one horizon."""
    steps = {1: Step(1, "h"), 24: Step(1, "D"), 168: Step(1, "W")}
    return Dataset(
        name=name,
        files=files,
        rows=rows,
        channels=channels,
        step=steps[hours],
        rule=published.gift_short(horizon),
        source="the GIFT-Eval collection of Salesforce on Hugging Face, or the file it was made from",
        horizons=(horizon,),
        calendar=None,
        read=gift.reader(files[0], hours),
    )


_JENA, _MADRID = ("jena_weather_hourly.csv",), ("M_DENSE.csv",)
_TSLIB = "the data folder linked in the README of thuml/Time-Series-Library on GitHub"

_WEATHER = Dataset(
    name="Weather",
    files=("weather.csv",),
    rows=52_696,
    channels=21,
    step=Step(10, "min"),
    rule="custom",
    source=f"{_TSLIB} (weather)",
    sha256=("34ee981d07313e51da2a50bb600072c8ae4a69cb4b0651f4cb93a069d7a2ba63",),
)

_SHELF: dict[str, Dataset] = {}

for _dataset in (
    _ett("ETTh1", ("f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066",)),
    _ett("ETTh2", ("a3dc2c597b9218c7ce1cd55eb77b283fd459a1d09d753063f944967dd6b9218b",)),
    _ett("ETTm1", ("6ce1759b1a18e3328421d5d75fadcb316c449fcd7cec32820c8dafda71986c9e",)),
    _ett("ETTm2"),
    _WEATHER,
    replace(_WEATHER, name="Weather-repaired", rows=52_704, read=repaired),
    Dataset(
        name="Electricity",
        files=("electricity.csv", "ECL.csv"),
        rows=26_304,
        channels=321,
        step=Step(1, "h"),
        rule="custom",
        source=f"{_TSLIB} (electricity)",
        aliases=("ECL",),
    ),
    Dataset(
        name="Traffic",
        files=("traffic.csv",),
        rows=17_544,
        channels=862,
        step=Step(1, "h"),
        rule="custom",
        source=f"{_TSLIB} (traffic)",
    ),
    Dataset(
        name="Solar",
        files=("solar_AL.txt", "solar_AL.txt.gz"),
        rows=52_560,
        channels=137,
        step=Step(10, "min"),
        rule="solar",
        source="the solar-energy folder of laiguokun/multivariate-time-series-data on GitHub",
        aliases=("Solar-Energy", "solar_AL"),
        calendar=None,
        read=partial(no_time_column.text, start="2006-01-01"),
    ),
    Dataset(
        name="Exchange",
        files=("exchange_rate.csv",),
        rows=7_588,
        channels=8,
        step=Step(1, "D"),
        rule="custom",
        source=f"{_TSLIB} (exchange_rate)",
        aliases=("exchange_rate",),
    ),
    Dataset(
        name="ILI",
        files=("national_illness.csv",),
        rows=966,
        channels=7,
        step=Step(1, "W"),
        rule="custom",
        source=f"{_TSLIB} (illness)",
        aliases=("national_illness", "illness"),
        sha256=("93601f64d2566dc796ca4305adad8b8560c2db1a1ff04543c3bd813a7263570a",),
        horizons=(24, 36, 48, 60),
    ),
    _pems("03", 26_208, 358, start="2018-09-01"),
    _pems("04", 16_992, 307, start="2018-01-01"),
    _pems("07", 28_224, 883, start="2017-05-01"),
    _pems("08", 17_856, 170, start="2016-07-01"),
    _gift("ETT1_H", ("ETTm1.csv",), 1, 17_420, 7, 48),
    _gift("ETT1_D", ("ETTm1.csv",), 24, 725, 7, 30),
    _gift("ETT1_W", ("ETTm1.csv",), 168, 103, 7, 8),
    _gift("ETT2_H", ("ETTm2.csv",), 1, 17_420, 7, 48),
    _gift("ETT2_D", ("ETTm2.csv",), 24, 725, 7, 30),
    _gift("ETT2_W", ("ETTm2.csv",), 168, 103, 7, 8),
    _gift("JENA_WEATHER_H", _JENA, 1, 8_784, 21, 48),
    _gift("JENA_WEATHER_D", _JENA, 24, 366, 21, 30),
    _gift("M_DENSE_H", _MADRID, 1, 17_520, 30, 48),
    _gift("M_DENSE_D", _MADRID, 24, 730, 30, 30),
    _gift("COVID_DEATHS_D", ("covid_deaths.csv",), 24, 212, 266, 30),
):
    register(_dataset)

for _name in stand_ins.SETS:
    _origin = "rearview itself, which generates it"
    _make = partial(stand_ins.make, of=_name)
    register(
        replace(_SHELF[_name], name=f"{_name}-standin", files=(), aliases=(), source=_origin, make=_make, like=_name)
    )
