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

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError
from rearview.data.cases.case_set import Cases

MISSING = "?"
_YES = {"true": True, "false": False}


@dataclass(slots=True)
class Header:
    """What the @ lines say, or the first case where they are silent; None where nothing is known."""

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
    if not path.exists():
        raise InputError(f"{path} does not exist; check the path and the spelling.")
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as problem:
        raise InputError(f"{path} can't be read ({problem.strerror}).") from problem
    lines = ((f"{path}, line {number}", line) for number, line in enumerate(text.splitlines(), start=1))
    header = _read_header(path, lines)
    series, labels, names = [], [], []
    for where, line in lines:
        if line.strip() and not line.startswith("#"):
            values, label = _read_case(where, line.strip(), header)
            _check_case(where, values, header)
            series.append(values)
            labels.append(label)
            names.append(where.rpartition(", ")[2])
    if not series:
        raise InputError(f"{path} holds no case behind @data; is it cut off?")
    return Cases(
        series=tuple(series),
        labels=None if header.classes is None else np.array(labels),
        names=tuple(names),
        source=path.name,
        classes=header.classes or (),
    )


def _read_header(path: Path, lines: Iterator[tuple[str, str]]) -> Header:
    """Everything up to @data, which must be there; a name and other @ lines change nothing and are passed over."""
    header, tags = Header(), 0
    for where, line in lines:
        words = line.split()
        if not words or line.startswith("#"):
            continue
        tag, rest = words[0].casefold(), words[1:]
        if tag == "@data":
            return header
        if not tag.startswith("@") and not tags:
            raise InputError(
                f"{path} is no .ts file, which begins with @ lines: its {where.rpartition(', ')[2]} is {line[:40]!r}. "
                "Write the cases as .ts (@classLabel true and the classes, @data, then a case a line, such as "
                "0.1,0.2:0.5,0.6:walking, its channels and its class apart by colons), or a table of ids, times, "
                "classes and channels as .csv or .parquet."
            )
        if not tag.startswith("@"):
            raise InputError(f"{where}: {line[:40]!r} stands before @data, where @ lines are expected.")
        tags += 1
        if tag == "@univariate":
            header.univariate = _flag(where, "@univariate", rest)
        elif tag == "@dimensions":
            header.dimensions = _whole_number(where, "@dimensions", rest)
        elif tag == "@equallength":
            header.equal = _flag(where, "@equalLength", rest)
        elif tag == "@serieslength":
            header.length = _whole_number(where, "@seriesLength", rest)
        elif tag == "@timestamps" and _flag(where, "@timeStamps", rest):
            raise InputError(
                f"{where}: its values come with time stamps, which this reader does not take; "
                "write the values alone, at equal steps, or read the file into a long frame."
            )
        elif tag == "@targetlabel" and _flag(where, "@targetLabel", rest):
            raise InputError(
                f"{where}: its cases have a number to predict (@targetLabel), not a class; "
                "a classifier needs @classLabel."
            )
        elif tag == "@classlabel" and _flag(where, "@classLabel", rest):
            if len(rest) < 2:
                raise InputError(f"{where}: @classLabel true must be followed by the classes.")
            header.classes = tuple(rest[1:])
    raise InputError(f"{path} has no line @data, so it is no .ts file, or it is cut off.")


def _flag(where: str, tag: str, words: list[str]) -> bool:
    word = words[0].casefold() if words else ""
    if word not in _YES:
        raise InputError(f"{where}: {tag} must say true or false, not {' '.join(words)!r}.")
    return _YES[word]


def _whole_number(where: str, tag: str, words: list[str]) -> int:
    if len(words) != 1 or not words[0].isdigit() or int(words[0]) < 1:
        raise InputError(f"{where}: {tag} must say a whole number, not {' '.join(words)!r}.")
    return int(words[0])


def _read_case(where: str, line: str, header: Header) -> tuple[NDArray[np.float64], str]:
    """The values [channel, time] and the class of a line."""
    parts = line.split(":")
    channels = len(parts) - (header.classes is not None and parts[-1].strip() in header.classes)
    # Too few channels come before anything else, because they spoil what is read behind them.
    if header.dimensions is not None and channels < header.dimensions:
        raise InputError(f"{where} has {channels} of {header.dimensions} channels; is the file cut off?")
    label = ""
    if header.classes is not None:
        label = parts.pop().strip()
        if label not in header.classes:
            known = f"({', '.join(header.classes[:8])}{' ...' if len(header.classes) > 8 else ''})"
            if "," in label:
                raise InputError(
                    f"{where} ends with values where a class of @classLabel {known} is expected; is the class missing, "
                    "or the file cut off?"
                )
            raise InputError(f"{where}: the class {label!r} is not among those of @classLabel {known}.")
    if not parts:
        raise InputError(f"{where} has a class but no values.")
    values = [_read_channel(where, channel, part) for channel, part in enumerate(parts, start=1)]
    lengths = [len(channel) for channel in values]
    if len(set(lengths)) > 1:
        other = next(place for place, length in enumerate(lengths) if length != lengths[0])
        raise InputError(
            f"{where}: channel {other + 1} has {lengths[other]} values, but channel 1 has {lengths[0]}; "
            "the channels of a case must be equally long (mark missing values with ?)."
        )
    return np.array(values), label


def _read_channel(where: str, channel: int, part: str) -> list[float]:
    cells = [cell.strip() for cell in part.split(",")]
    if cells[0].startswith("("):
        raise InputError(
            f"{where}: values come with time stamps, as in {cells[0]}..., which this reader does not take; "
            "write the values alone, at equal steps."
        )
    values = []
    for place, cell in enumerate(cells, start=1):
        try:
            values.append(np.nan if cell == MISSING else float(cell))
        except ValueError:
            raise InputError(
                f"{where}: channel {channel}, value {place} is {cell!r}, which is no number; "
                f"write {MISSING} for a missing value."
            ) from None
    return values


def _check_case(where: str, values: NDArray[np.float64], header: Header) -> None:
    """Refuse a case that contradicts the header; what the header leaves open, the first case settles."""
    channels, length = values.shape
    if header.univariate and channels > 1:
        raise InputError(f"{where} has {channels} channels, but @univariate says there is one.")
    if header.dimensions is not None and channels != header.dimensions:
        raise InputError(
            f"{where} has {channels} channels where {header.dimensions} are expected; is there a colon too many?"
        )
    if header.equal and header.length is not None and length != header.length:
        raise InputError(
            f"{where} has {length} steps where {header.length} are expected; "
            "if lengths differ, the header must say @equalLength false."
        )
    header.dimensions = channels
    if header.equal:
        header.length = length
