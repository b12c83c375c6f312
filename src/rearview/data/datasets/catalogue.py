"""The benchmark data sets by name: file, shape, step, borders, and where to get the file.

Files are looked for in the data folder and taken as published, row by row, so that numbers compare with those in the
literature; `Weather-repaired` is the one set that is mended. A file of another shape is refused, because a cut of a
benchmark set must not carry its name; a file of another checksum is read and warned of.

Wide sets have stand-ins, which are generated and say so in their names: `Traffic-standin` has the width, length, step
and borders of Traffic and is run with its settings; `Traffic-standin:2000` is its first 2,000 rows.

A data set of your own joins with `register(Dataset(...))`. Where a name is asked for, the path of a file will do too:
its first 70 % of rows train, the next 10 % select and the last 20 % test. It is called by its name and the beginning of
its checksum, so that results of a file that has changed since are never taken for those of the new one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from rearview.core.errors import InputError, SettingsError, did_you_mean
from rearview.data.datasets import borders as published
from rearview.data.datasets import detection_sets, stand_ins
from rearview.data.datasets.borders import Borders, Rule
from rearview.data.datasets.data_folder import checksum, compare_checksum, files_in, locate
from rearview.data.datasets.readers import (
    Reader,
    gift_reader,
    read_as_published,
    read_repaired,
    read_undated_npz,
    read_undated_text,
)
from rearview.data.panel import Panel
from rearview.data.panel_checks import drop_empty_targets
from rearview.data.panel_reader import load as read_file
from rearview.data.step import Step

__all__ = ["Borders", "Dataset", "available", "borders", "checksum", "find", "get", "load", "names", "register"]


@dataclass(frozen=True, slots=True)
class Dataset:
    """One benchmark data set: what is known of it before its file is opened."""

    name: str
    files: tuple[str, ...]
    """File names looked for, in any case; the first is the usual one."""
    rows: int
    channels: int
    step: Step
    rule: str | Rule
    """Where training, validation and test end: a name out of `rearview.data.datasets.borders.RULES`, or a function."""
    source: str
    """Where to get the file, in words."""
    aliases: tuple[str, ...] = ()
    sha256: tuple[str, ...] = ()
    """Checksums of the copies known to be good; empty where none is known."""
    horizons: tuple[int, ...] = (96, 192, 336, 720)
    """The horizons that papers report."""
    calendar: str | None = "h"
    """The step whose calendar features published code feeds (hourly, whatever the data's own step); None: none."""
    read: Reader = read_as_published
    make: Callable[[int, int, Step], Panel] | None = None
    """Makes the panel of a generated set, which has no file, from (rows, channels, step)."""
    like: str = ""
    """The published set that a stand-in is run with the settings of."""
    path: Path | None = None
    """The file itself, where it is the user's own and not looked for in a folder."""

    @property
    def folded_names(self) -> set[str]:
        """Name and aliases as they are compared."""
        return {_fold(name) for name in (self.name, *self.aliases)}


def names() -> tuple[str, ...]:
    """Every data set of the catalogue, in the order in which they joined it."""
    return tuple(_SHELF)


def get(name: str) -> Dataset:
    """The data set of that name or alias, in any case, or in a file of the user's own, by its path.

    Of a generated one, `name:rows` is its first rows.
    """
    wanted, colon, rows = _fold(name).partition(":")
    for dataset in _SHELF.values():
        if wanted in dataset.folded_names:
            return _first_rows(dataset, rows) if colon else dataset
    for labelled in map(detection_sets.get, detection_sets.names()):
        if labelled.name.casefold() == name.casefold():
            raise SettingsError(
                f"{labelled.name} is a set of labelled anomalies, not one to forecast; give its file "
                f"({labelled.files[0]}) to `rearview detect`."
            )
    if (path := Path(name)).is_file():
        return _user_file(path.resolve(), path.stat().st_mtime_ns)
    near = did_you_mean(name, [known for dataset in _SHELF.values() for known in (dataset.name, *dataset.aliases)])
    raise SettingsError(
        f"there is no data set {name!r} in the catalogue, and no such file; it holds {', '.join(names())}.{near}"
    )


def _first_rows(dataset: Dataset, rows: str) -> Dataset:
    """The first rows of a generated data set, under a name that tells how many."""
    if dataset.make is None:
        raise SettingsError(f"{dataset.name} is taken whole, as published; leave out ':{rows}'.")
    if not rows.isdecimal() or not 0 < int(rows) <= dataset.rows:
        raise SettingsError(
            f"{dataset.name} has {dataset.rows:,} rows; write fewer behind a colon, such as {dataset.name}:2000; "
            f"got {rows!r}."
        )
    return replace(dataset, name=f"{dataset.name}:{int(rows)}", rows=int(rows))


@lru_cache(maxsize=16)
def _user_file(path: Path, modified: int) -> Dataset:
    """The data set in a file of the user's own, on a regular grid and without columns that have no value in any row.

    `modified` is the file's time stamp: a file that has changed since is read again.
    """
    panel = read_file(path)
    if panel.series > 1:
        raise InputError(
            f"{path.name} holds {panel.series} series, but a benchmark runs on one series of one or several columns; "
            "bring a wide file, with a column for each of them."
        )
    if set(panel.target_names) <= set(panel.empty_names):
        raise InputError(f"{path.name} has no value to forecast in any row; bring rows with values.")
    rows, channels = drop_empty_targets(panel).values.shape
    return Dataset(
        f"{path.name}@{checksum(path)[:8]}",
        (path.name,),
        rows,
        channels,
        panel.step,
        "custom",
        source="a file of your own",
        calendar=None if panel.step.unit == "int" else str(panel.step),
        read=_read_user_file,
        path=path,
    )


def _read_user_file(path: Path, step: Step) -> Panel:
    return drop_empty_targets(read_repaired(path, step))


def register(dataset: Dataset) -> None:
    """Add a data set to the catalogue, for this process; a name or alias that is taken is refused."""
    for other in _SHELF.values():
        taken = other.folded_names & dataset.folded_names
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


def available(data_dir: Path | str | None = None) -> tuple[str, ...]:
    """The data sets whose file is there."""
    there = files_in(data_dir)
    return tuple(d.name for d in _SHELF.values() if any(file.casefold() in there for file in d.files))


def load(name: str | Dataset, data_dir: Path | str | None = None) -> Panel:
    """The panel of a data set, its shape and checksum compared with what is known of it."""
    dataset = get(name) if isinstance(name, str) else name
    if dataset.make is not None:
        return dataset.make(dataset.rows, dataset.channels, dataset.step)
    path = find(dataset, data_dir)
    assert path is not None
    panel = dataset.read(path, dataset.step)
    rows, channels = panel.values.shape
    if (rows, channels) != (dataset.rows, dataset.channels):
        raise InputError(
            f"{path} gives {rows:,} rows of {channels:,} channels, but {dataset.name} has {dataset.rows:,} rows of "
            f"{dataset.channels:,}; a part of a data set can't go by its name: get the whole from {dataset.source}, "
            "or read the file as one of your own."
        )
    return replace(panel, findings=(*panel.findings, *compare_checksum(path, dataset.name, dataset.sha256)))


def _fold(name: str) -> str:
    return name.casefold().replace("_", "-").replace(" ", "-")


_HOUR, _TEN_MINUTES, _DAY, _WEEK = Step(1, "h"), Step(10, "min"), Step(1, "D"), Step(1, "W")


def _ett(name: str, *sha256: str) -> Dataset:
    source = "the ETT-small folder of zhouhaoyi/ETDataset on GitHub"
    if name.startswith("ETTh"):
        return Dataset(name, (f"{name}.csv",), 17_420, 7, _HOUR, "ett_hourly", source, sha256=sha256)
    return Dataset(name, (f"{name}.csv",), 69_680, 7, Step(15, "min"), "ett_quarter_hourly", source, sha256=sha256)


def _pems(district: int, rows: int, channels: int, start: str) -> Dataset:
    source = (
        "the data folder linked in the README of thuml/iTransformer on GitHub (PEMS), also kept with "
        "guoshnBJTU/ASTGNN on GitHub"
    )
    name, aliases = f"PEMS{district:02}", (f"PEMSD{district}", f"PEMS{district}")
    pems = Dataset(name, (f"{name}.npz",), rows, channels, Step(5, "min"), "pems", source, aliases, calendar=None)
    return replace(pems, horizons=(12, 24, 48, 96), read=partial(read_undated_npz, start=start))


def _gift(name: str, file: str, hours: int, rows: int, channels: int, horizon: int) -> Dataset:
    """A set of GIFT-Eval in the setting that MICA reports: rows of `hours` hours, one horizon."""
    source = "the GIFT-Eval collection of Salesforce on Hugging Face, or the file it was made from"
    step, rule = {1: _HOUR, 24: _DAY, 168: _WEEK}[hours], published.gift_short(horizon)
    gift = Dataset(name, (file,), rows, channels, step, rule, source, horizons=(horizon,), calendar=None)
    return replace(gift, read=gift_reader(file, hours))


def _tslib(
    name: str, file: str, rows: int, channels: int, step: Step, folder: str, *aliases: str, sha256: str = ""
) -> Dataset:
    """A CSV file of the Time-Series-Library's data folder."""
    source = f"the data folder linked in the README of thuml/Time-Series-Library on GitHub ({folder})"
    known = (sha256,) if sha256 else ()
    return Dataset(name, (file,), rows, channels, step, "custom", source, aliases, known)


_WEATHER = _tslib(
    "Weather", "weather.csv", 52_696, 21, _TEN_MINUTES, "weather",
    sha256="34ee981d07313e51da2a50bb600072c8ae4a69cb4b0651f4cb93a069d7a2ba63",
)  # fmt: skip
_ELECTRICITY = _tslib("Electricity", "electricity.csv", 26_304, 321, _HOUR, "electricity", "ECL")
_ILI = _tslib(
    "ILI", "national_illness.csv", 966, 7, _WEEK, "illness", "national_illness", "illness",
    sha256="93601f64d2566dc796ca4305adad8b8560c2db1a1ff04543c3bd813a7263570a",
)  # fmt: skip
_SOLAR = Dataset(
    "Solar",
    ("solar_AL.txt", "solar_AL.txt.gz"),
    52_560,
    137,
    _TEN_MINUTES,
    "solar",
    source="the solar-energy folder of laiguokun/multivariate-time-series-data on GitHub",
    aliases=("Solar-Energy", "solar_AL"),
    calendar=None,
    read=partial(read_undated_text, start="2006-01-01"),
)

_SHELF: dict[str, Dataset] = {}

for _dataset in (
    _ett("ETTh1", "f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066"),
    _ett("ETTh2", "a3dc2c597b9218c7ce1cd55eb77b283fd459a1d09d753063f944967dd6b9218b"),
    _ett("ETTm1", "6ce1759b1a18e3328421d5d75fadcb316c449fcd7cec32820c8dafda71986c9e"),
    _ett("ETTm2"),
    _WEATHER,
    replace(_WEATHER, name="Weather-repaired", rows=52_704, read=read_repaired),
    replace(_ELECTRICITY, files=("electricity.csv", "ECL.csv")),
    _tslib("Traffic", "traffic.csv", 17_544, 862, _HOUR, "traffic"),
    _SOLAR,
    _tslib("Exchange", "exchange_rate.csv", 7_588, 8, _DAY, "exchange_rate", "exchange_rate"),
    replace(_ILI, horizons=(24, 36, 48, 60)),
    _pems(3, 26_208, 358, start="2018-09-01"),
    _pems(4, 16_992, 307, start="2018-01-01"),
    _pems(7, 28_224, 883, start="2017-05-01"),
    _pems(8, 17_856, 170, start="2016-07-01"),
    _gift("ETT1_H", "ETTm1.csv", 1, 17_420, 7, 48),
    _gift("ETT1_D", "ETTm1.csv", 24, 725, 7, 30),
    _gift("ETT1_W", "ETTm1.csv", 168, 103, 7, 8),
    _gift("ETT2_H", "ETTm2.csv", 1, 17_420, 7, 48),
    _gift("ETT2_D", "ETTm2.csv", 24, 725, 7, 30),
    _gift("ETT2_W", "ETTm2.csv", 168, 103, 7, 8),
    _gift("JENA_WEATHER_H", "jena_weather_hourly.csv", 1, 8_784, 21, 48),
    _gift("JENA_WEATHER_D", "jena_weather_hourly.csv", 24, 366, 21, 30),
    _gift("M_DENSE_H", "M_DENSE.csv", 1, 17_520, 30, 48),
    _gift("M_DENSE_D", "M_DENSE.csv", 24, 730, 30, 30),
    _gift("COVID_DEATHS_D", "covid_deaths.csv", 24, 212, 266, 30),
):
    register(_dataset)

for _name in stand_ins.SETS:
    _source, _make = "rearview itself, which generates it", partial(stand_ins.make, of=_name)
    register(
        replace(_SHELF[_name], name=f"{_name}-standin", files=(), aliases=(), source=_source, make=_make, like=_name)
    )
