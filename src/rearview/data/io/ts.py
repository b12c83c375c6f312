"""The .ts files of the UEA and UCR archives: a header of @ lines, then a case a line.

    @problemName BasicMotions
    @timeStamps false
    @univariate false
    @classLabel true Standing Running
    @data
    0.1,0.2,?:5.0,6.0,7.0:Standing          channels apart by colons, the class behind the last

Lengths may differ from case to case; "?" and "NaN" mark missing values. What the header says is held against the data:
a file that contradicts itself is refused with its line. Time stamps in the data, which no archive file of equal steps
has, are refused.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.cases.case_set import Cases

MISSING = "?"
YES = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Header:
    """What the @ lines say; None where they are silent."""

    univariate: bool | None = None
    dimensions: int | None = None
    equal: bool | None = None
    length: int | None = None
    classes: tuple[str, ...] | None = None
    """None: the cases have no class."""


def read(path: Path | str) -> Cases:
    """The cases of a .ts file, classes as text."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; name the .ts file in it.")
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as problem:
        raise InputError(f"{path} can't be read ({problem.strerror}); check its name.") from problem
    lines = enumerate(text.splitlines(), start=1)
    header = _header(path, lines)
    series, labels, numbers = [], [], []
    for number, line in lines:
        if line.strip() and not line.startswith("#"):
            values, label = _case(path, number, line.strip(), header)
            header = _checked(path, number, values, header)
            series.append(values)
            labels.append(label)
            numbers.append(number)
    if not series:
        raise InputError(f"{path} holds no case behind @data; is it cut off?")
    return Cases(
        series=tuple(series),
        labels=None if header.classes is None else np.array(labels),
        names=tuple(f"line {number}" for number in numbers),
        source=path.name,
        classes=header.classes or (),
    )


def _header(path: Path, lines: Iterator[tuple[int, str]]) -> Header:
    """Everything up to @data, which must be there."""
    header, tags = Header(), 0
    for number, line in lines:
        words = line.split()
        if not words or line.startswith("#"):
            continue
        tag = words[0].casefold()
        if tag == "@data":
            return header
        if not tag.startswith("@") and not tags:
            raise InputError(
                f"{path} is no .ts file, which begins with @ lines: its line {number} is {line[:40]!r}. Write the "
                "cases as .ts (@classLabel true and the classes, @data, then a case a line, such as "
                "0.1,0.2:0.5,0.6:walking, its channels and its class apart by colons), or a table of ids, times, "
                "classes and channels as .csv or .parquet."
            )
        if not tag.startswith("@"):
            raise InputError(f"{path}, line {number}: {line[:40]!r} stands before @data, where @ lines are expected.")
        tags += 1
        if tag in _READERS:
            header = _READERS[tag](path, number, words[1:], header)
    raise InputError(f"{path} has no line @data, so it is no .ts file, or it is cut off.")


def _time_stamps(path: Path, number: int, words: list[str], header: Header) -> Header:
    if _flag(path, number, "@timeStamps", words):
        raise InputError(
            f"{path}, line {number}: its values come with time stamps, which this reader does not take; "
            "write the values alone, at equal steps, or read the file into a long frame."
        )
    return header


def _class_label(path: Path, number: int, words: list[str], header: Header) -> Header:
    if not _flag(path, number, "@classLabel", words):
        return header
    if len(words) < 2:
        raise InputError(f"{path}, line {number}: @classLabel true must be followed by the classes.")
    return replace(header, classes=tuple(words[1:]))


def _target_label(path: Path, number: int, words: list[str], header: Header) -> Header:
    if _flag(path, number, "@targetLabel", words):
        raise InputError(
            f"{path}, line {number}: its cases have a number to predict (@targetLabel), not a class; "
            "a classifier needs @classLabel."
        )
    return header


def _flag(path: Path, number: int, tag: str, words: list[str]) -> bool:
    word = words[0].casefold() if words else ""
    if word not in YES:
        raise InputError(f"{path}, line {number}: {tag} must say true or false, not {' '.join(words)!r}.")
    return YES[word]


def _whole(path: Path, number: int, tag: str, words: list[str]) -> int:
    if len(words) != 1 or not words[0].isdigit() or int(words[0]) < 1:
        raise InputError(f"{path}, line {number}: {tag} must say a whole number, not {' '.join(words)!r}.")
    return int(words[0])


_READERS: dict[str, Callable[[Path, int, list[str], Header], Header]] = {
    "@timestamps": _time_stamps,
    "@univariate": lambda path, number, words, header: replace(
        header, univariate=_flag(path, number, "@univariate", words)
    ),
    "@dimensions": lambda path, number, words, header: replace(
        header, dimensions=_whole(path, number, "@dimensions", words)
    ),
    "@equallength": lambda path, number, words, header: replace(
        header, equal=_flag(path, number, "@equalLength", words)
    ),
    "@serieslength": lambda path, number, words, header: replace(
        header, length=_whole(path, number, "@seriesLength", words)
    ),
    "@classlabel": _class_label,
    "@targetlabel": _target_label,
}
"""Other @ lines are passed over: a name changes nothing, and the data itself shows what is missing."""


def _case(path: Path, number: int, line: str, header: Header) -> tuple[NDArray[np.float64], str]:
    parts = line.split(":")
    _refuse_cut_off(path, number, parts, header)
    label = ""
    if header.classes is not None:
        label = parts.pop().strip()
        if label not in header.classes:
            known = f"({', '.join(header.classes[:8])}{' ...' if len(header.classes) > 8 else ''})"
            if "," in label:
                raise InputError(
                    f"{path}, line {number} ends with values where a class of @classLabel {known} is expected; is the "
                    "class missing, or the file cut off?"
                )
            raise InputError(f"{path}, line {number}: the class {label!r} is not among those of @classLabel {known}.")
    if not parts:
        raise InputError(f"{path}, line {number} has a class but no values.")
    channels = [_values(path, number, place, part) for place, part in enumerate(parts, start=1)]
    lengths = [len(channel) for channel in channels]
    if len(set(lengths)) > 1:
        other = next(place for place, length in enumerate(lengths) if length != lengths[0])
        raise InputError(
            f"{path}, line {number}: channel {other + 1} has {lengths[other]} values, but channel 1 has {lengths[0]}; "
            "the channels of a case must be equally long (mark missing values with ?)."
        )
    return np.array(channels), label


def _refuse_cut_off(path: Path, number: int, parts: list[str], header: Header) -> None:
    """Too few channels are told before anything else, because they spoil what is read behind them."""
    labelled = header.classes is not None and parts[-1].strip() in header.classes
    channels = len(parts) - labelled
    if header.dimensions is not None and channels < header.dimensions:
        raise InputError(f"{path}, line {number} has {channels} of {header.dimensions} channels; is the file cut off?")


def _values(path: Path, number: int, channel: int, part: str) -> list[float]:
    cells = [cell.strip() for cell in part.split(",")]
    if cells[0].startswith("("):
        raise InputError(
            f"{path}, line {number}: values come with time stamps, as in {cells[0]}..., which this reader does not "
            "take; write the values alone, at equal steps."
        )
    try:
        return [np.nan if cell == MISSING else float(cell) for cell in cells]
    except ValueError:
        wrong = next(place for place, cell in enumerate(cells, start=1) if not _is_number(cell))
        raise InputError(
            f"{path}, line {number}: channel {channel}, value {wrong} is {cells[wrong - 1]!r}, which is no number; "
            f"write {MISSING} for a missing value."
        ) from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell == MISSING
    return True


def _checked(path: Path, number: int, values: NDArray[np.float64], header: Header) -> Header:
    """The header with what the first case settles; a case that contradicts it is refused."""
    channels, length = values.shape
    if header.univariate and channels > 1:
        raise InputError(f"{path}, line {number} has {channels} channels, but @univariate says there is one.")
    if header.dimensions is not None and channels != header.dimensions:
        raise InputError(
            f"{path}, line {number} has {channels} channels where {header.dimensions} are expected; "
            "is there a colon too many?"
        )
    if header.equal and header.length is not None and length != header.length:
        raise InputError(
            f"{path}, line {number} has {length} steps where {header.length} are expected; "
            "if lengths differ, the header must say @equalLength false."
        )
    return replace(header, dimensions=channels, length=length if header.equal else header.length)
