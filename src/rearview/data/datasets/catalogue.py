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

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from rearview.core.errors import InputError, SettingsError, did_you_mean
from rearview.core.files import freeze, read_yaml
from rearview.data.datasets import borders as published
from rearview.data.datasets import detection_sets, stand_ins
from rearview.data.datasets.borders import Borders, Rule
from rearview.data.datasets.data_folder import checksum as checksum
from rearview.data.datasets.data_folder import compare_checksum, files_in, locate
from rearview.data.datasets.readers import READERS, Reader, gift_reader, read_as_published, read_repaired
from rearview.data.panel import Panel
from rearview.data.panel_checks import drop_empty_targets
from rearview.data.panel_reader import load as read_file
from rearview.data.step import Step


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
    """The borders of training, validation and test: a name out of `borders.RULES`, or a function."""
    source: str
    """The source of the file, in words."""
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
    recording: str = ""
    """The recording that it holds, where other sets hold the same at another step or repaired; empty: its own."""
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
    """The data set of that name or alias, in any case, or in a file of the user's own, by its path, and from then on by
    the name that its rows have.

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
        own = _user_file(path.resolve(), path.stat().st_mtime_ns)
        _OWN_FILES[own.name] = own
        return own
    if name in _OWN_FILES:
        return _OWN_FILES[name]
    near = did_you_mean(name, [known for dataset in _SHELF.values() for known in (dataset.name, *dataset.aliases)])
    raise SettingsError(
        f"there is no data set {name!r} in the catalogue, and no such file; it holds {', '.join(names())}.{near}"
    )


def recording_of(name: str) -> str:
    """The recording that a data set holds, whatever its step, its number of rows or the version of its file."""
    plain = name.partition(" (")[0].partition(":")[0]
    return _SHELF[plain].recording or plain if plain in _SHELF else plain


def _first_rows(dataset: Dataset, rows: str) -> Dataset:
    """The first rows of a generated data set, under a name that tells how many."""
    if dataset.make is None:
        raise SettingsError(f"{dataset.name} is taken whole, as published; leave out ':{rows}'.")
    if not rows.isdecimal() or not 0 < int(rows) <= dataset.rows:
        raise SettingsError(
            f"{dataset.name} has {dataset.rows:,} rows; write fewer behind a colon, such as "
            f"{dataset.name}:{min(2_000, dataset.rows // 2)}; got {rows!r}."
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


def _read_catalogue() -> Iterator[Dataset]:
    """The sets that catalogue.yaml declares, then their stand-ins."""
    declared = read_yaml("rearview.data.datasets", "catalogue")
    shelf: dict[str, Dataset] = {}
    for name, own in declared["forecasting"].items():
        facts = freeze({**declared["families"].get(own.get("family"), {}), **own})
        _, folder, reader, start = (facts.pop(key, "") for key in ("family", "folder", "reader", "start"))
        facts |= {"step": Step.parse(facts["step"]), "source": facts["source"].format(folder=folder)}
        if reader == "gift":
            facts["rule"] = published.gift_short(facts["horizons"][0])
            facts["read"] = gift_reader(facts["files"][0], facts["step"])
        elif reader:
            facts["read"] = partial(READERS[reader], start=start) if start else READERS[reader]
        shelf[name] = Dataset(name, **facts)
    yield from shelf.values()
    for name in stand_ins.SETS:
        source, make = "rearview itself, which generates it", partial(stand_ins.make, of=name)
        yield replace(
            shelf[name], name=f"{name}-standin", files=(), aliases=(), source=source, make=make, like=name, recording=""
        )


_SHELF: dict[str, Dataset] = {dataset.name: dataset for dataset in _read_catalogue()}
_OWN_FILES: dict[str, Dataset] = {}
"""Files of the user's own that were read in this process, by the names that rows of results give them."""
