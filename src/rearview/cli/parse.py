"""The command line's parser, and how its arguments are read."""

import ast
import math
import shlex
from contextvars import ContextVar
from typing import Annotated, Any

from cyclopts import App, Parameter

from rearview import __version__
from rearview.core.errors import SettingsError, UsageError


def _shown(default: object) -> str | None:
    """Defaults that say something; what is left open is explained in words."""
    return None if default is None or default is False or default == "" else str(default)


app = App(
    name="rearview",
    default_parameter=Parameter(negative="", show_default=_shown),
    version=__version__,
    help="Time series with attention: from a CSV to a forecast in one command.",
    suppress_keyboard_interrupt=False,
    help_epilogue="Examples: rearview demo; rearview forecast sales.csv --horizon 28; rearview describe patchtst",
)

called: ContextVar[tuple[str, ...]] = ContextVar("called", default=())
"""The arguments of the command that is running."""

Horizon = Annotated[int, Parameter(name=["--horizon", "--pred-len", "--h"])]
Lookback = Annotated[int | None, Parameter(name=["--lookback", "--seq-len", "--input-size"])]


def again() -> str:
    """The command that makes this run again."""
    return shlex.join(["rearview", *called.get()])


def words(text: str, separator: str = ",") -> tuple[str, ...]:
    """What stands between separators; those inside brackets or quotes belong to what stands there."""
    return tuple(word.strip() for word in _split(text, separator) if word.strip())


def _split(text: str, separator: str) -> list[str]:
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"" and depth:
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
        if letter == separator and depth <= 0 and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    # A bracket that is never closed is a letter like any other, as in the name of a column.
    return parts if depth <= 0 else text.split(separator)


def numbers(text: str, flag: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in words(text))
    except ValueError:
        raise UsageError(f"{flag} takes numbers separated by commas, such as 80,95; got {text!r}.") from None


def missing_marks(text: str) -> tuple[float, ...] | None:
    """None leaves the reader's own way; an empty list keeps every value."""
    if text == "auto":
        return None
    return () if text == "none" else numbers(text, "--sentinels")


def pairs(text: str, flag: str) -> dict[str, Any]:
    """width=64,dropout=0.1 as a mapping with numbers, True, False, None and lists read as such."""
    pairs: dict[str, Any] = {}
    for word in words(text):
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"{flag} takes name=value pairs separated by commas; got {word!r}.")
        pairs[name.strip()] = _value(value.strip())
    return pairs


def choices(text: str, flag: str) -> dict[str, Any]:
    """alpha=0.25|0.5,dropout=0..0.5 as settings, each with the values to try or the range to draw from."""
    found: dict[str, Any] = {}
    for word in words(text):
        name, equals, values = word.partition("=")
        listed = words(values, "|")
        if not equals or not listed:
            raise UsageError(f"{flag} takes settings with values separated by |, such as alpha=0.5|1; got {word!r}.")
        drawn = _range(listed[0], flag) if len(listed) == 1 else None
        found[name.strip()] = drawn or tuple({repr(value): value for value in map(_value, listed)}.values())
    return found


def _range(text: str, flag: str) -> Any:
    """1e-5..1e-3:log or 64..256:32 as a range; None for what has no dots between two ends."""
    from rearview.bench.runs.tuning import Range

    ends, colon, manner = text.partition(":")
    low, dots, high = ends.partition("..")
    if not dots:
        return None
    log = manner == "log"
    try:
        first, last = float(low), float(high)
        step = float(manner) if colon and not log else None
    except ValueError:
        first, last, step = 1.0, 0.0, None
    if not first < last or not math.isfinite(last - first) or (step is not None and not math.isfinite(step)):
        raise UsageError(
            f"{flag} takes a range as its least and its greatest number, such as 0..0.5, 1e-5..1e-3:log on the "
            f"logarithmic scale, or 64..256:32 in steps; got {text!r}."
        )
    return Range(first, last, log=log, step=step)


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        if text[:1] == "[" and text[-1:] == "]":  # a list of words, which have no quotes here
            return [_value(word) for word in words(text[1:-1])]
        return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def part(text: str, flag: str) -> dict[str, Any] | str | None:
    """rbca or, with settings, rbca:alpha=0.5; nothing is nothing."""
    name, colon, settings = text.partition(":")
    if not text:
        return None
    if colon and not name:
        raise SettingsError(f"{flag} needs a name before the colon; got {text!r}.")
    return {"name": name, **pairs(settings, flag)} if colon else name


def mechanism(text: str) -> dict[str, Any] | str | None:
    return part(text, "--attention")


def loss(text: str) -> Any:
    """mse or, with settings, fredf:time_share=0.3; what there is none of is refused before anything is read."""
    from rearview.tasks import losses

    try:
        return losses.chosen(part(text, "--loss") or "mse")
    except SettingsError as problem:
        raise UsageError(f"--loss: {problem}") from None


def mechanisms(text: str) -> tuple[dict[str, Any] | str | None, ...]:
    """softmax,rbca or, with settings, softmax; rbca:alpha=0.5; nothing is the network's own choice."""
    plain = ";" not in text and ":" not in text
    parts = words(text) if plain else words(text, ";")
    if any(_several(part) for part in parts):
        raise UsageError(
            "--attention separates mechanisms by semicolons where one has settings, which commas separate, such "
            f"as 'softmax; rbca:alpha=1'; got {text!r}."
        )
    return tuple(mechanism(part) for part in parts) or (None,)


def _several(text: str) -> bool:
    """Whether what should be one mechanism with its settings is more than one."""
    first, *others = words(text)
    return bool(others) and (":" not in first or any(_names_a_mechanism(other) for other in others))


def _names_a_mechanism(word: str) -> bool:
    """softmax or rbca:alpha=1, where name=value is expected."""
    return not word.partition("=")[0].strip().isidentifier() or "=" not in word


def whole_numbers(text: str, flag: str) -> tuple[int, ...]:
    """96,192 as numbers."""
    found = numbers(text, flag)
    if not found or not all(number.is_integer() for number in found):
        raise UsageError(f"{flag} takes whole numbers separated by commas, such as 96,192; got {text!r}.")
    return tuple(int(number) for number in found)
