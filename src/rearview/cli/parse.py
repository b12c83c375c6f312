"""The command line's parser, and how lists, settings and mechanisms are read from text."""

import ast
import math
import shlex
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from rearview import __version__
from rearview.core.errors import SettingsError, UsageError

if TYPE_CHECKING:
    from rearview.bench.runs.tuning import Range, Values


def _show_default(default: object) -> str | None:
    """Defaults that say something; an empty one is explained in words."""
    return None if default is None or default is False or default == "" else str(default)


app = App(
    name="rearview",
    default_parameter=Parameter(negative="", show_default=_show_default),
    version=__version__,
    help="Time series with attention: from a CSV to a forecast in one command.",
    suppress_keyboard_interrupt=False,
    help_epilogue="Examples: rearview demo; rearview forecast sales.csv --horizon 28; rearview describe patchtst. "
    "Every command takes --debug, for the traceback of what went wrong.",
)

called: ContextVar[tuple[str, ...]] = ContextVar("called", default=())
"""The arguments of the command that is running."""
FilesOfPattern = Annotated[str, Parameter(show=False)]
"""Words behind the first file of --results: a shell turns an unquoted pattern into all the files that match."""
_MOST_NAMED = 3
"""Words without use that a refusal names."""


def command_line() -> str:
    """The command line that repeats this run."""
    return shlex.join(["rearview", *called.get()])


def describe_unused(command: Sequence[str], unused: Sequence[str], given: Sequence[str]) -> str:
    """A sentence on words that no argument of a command takes, with a way on."""
    named = ", ".join(unused[:_MOST_NAMED])
    rest = f" and {len(unused) - _MOST_NAMED} more" if len(unused) > _MOST_NAMED else ""
    name = " ".join(["rearview", *command])
    if "--results" in given:
        return (
            f"`{name}` keeps its rows in one file, so --results takes one, and {named}{rest} cannot be used; name one "
            "file (a shell turns a pattern such as *.csv into all the files that match)."
        )
    return (
        f"`{name}` has no use for {named}{rest}; leave out what is too much, and quote a value that has spaces in it, "
        'such as "softmax, rbca".'
    )


def gather_files(command: str, results: Sequence[str] | None, more: Sequence[str]) -> tuple[str, ...]:
    """The files of --results with those that follow them, which a shell made of a pattern."""
    if more and not results:
        raise UsageError(describe_unused([command], more, ()))
    return (*(results or ()), *more)


def words(text: str, separator: str = ",") -> tuple[str, ...]:
    """The words between separators; a separator inside brackets or quotes belongs to its word."""
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
    if depth > 0:  # a bracket that is never closed is a letter like any other, as in the name of a column
        parts = text.split(separator)
    return tuple(word.strip() for word in parts if word.strip())


def names(text: str, flag: str) -> tuple[str, ...]:
    """One name, or several separated by commas."""
    if not (found := words(text)):
        raise UsageError(f"{flag} is {text!r}; it takes one name, or several separated by commas.")
    return found


def numbers(text: str, flag: str) -> tuple[float, ...]:
    """80,95 as numbers."""
    try:
        return tuple(float(word) for word in words(text))
    except ValueError:
        raise UsageError(f"{flag} takes numbers separated by commas; got {text!r}.") from None


def missing_marks(text: str) -> tuple[float, ...] | None:
    """The numbers that stand for missing values; None: found by the reader, empty: none."""
    if text == "auto":
        return None
    return () if text == "none" else numbers(text, "--sentinels")


def number_or_word(text: str) -> str | float:
    """A number where the text is one, or else the text."""
    try:
        return float(text)
    except ValueError:
        return text


def pairs(text: str, flag: str) -> dict[str, Any]:
    """width=64,dropout=0.1 as a mapping with numbers, True, False, None and lists read as such."""
    settings: dict[str, Any] = {}
    for word in words(text):
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"{flag} takes name=value pairs separated by commas; got {word!r}.")
        settings[name.strip()] = _value(value.strip())
    return settings


def choices(text: str, flag: str) -> dict[str, "Values"]:
    """alpha=0.25|0.5,dropout=0..0.5 as settings, each with the values to try or the range to draw from."""
    settings: dict[str, Values] = {}
    for word in words(text):
        name, equals, values = word.partition("=")
        listed = words(values, "|")
        if not equals or not listed:
            raise UsageError(f"{flag} takes settings with values separated by |, such as alpha=0.5|1; got {word!r}.")
        drawn = _range(listed[0], flag) if len(listed) == 1 else None
        settings[name.strip()] = drawn or tuple({repr(value): value for value in map(_value, listed)}.values())
    return settings


def _range(text: str, flag: str) -> "Range | None":
    """1e-5..1e-3:log or 64..256:32 as a range; None without two dots."""
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


def part(text: str, flag: str) -> Mapping[str, Any] | str | None:
    """rbca or, with settings, rbca:alpha=0.5; None for an empty text."""
    name, colon, settings = text.partition(":")
    if not text:
        return None
    if colon and not name:
        raise SettingsError(f"{flag} needs a name before the colon; got {text!r}.")
    return {"name": name, **pairs(settings, flag)} if colon else name


def mechanism(text: str) -> Mapping[str, Any] | str | None:
    """A mechanism with its settings."""
    return part(text, "--attention")


def loss(text: str) -> Any:
    """mse or, with settings, fredf:time_share=0.3; an unknown one is refused before anything is read."""
    from rearview.tasks import losses

    try:
        return losses.simplify(part(text, "--loss") or "mse")
    except SettingsError as problem:
        raise UsageError(f"--loss: {problem}") from None


def mechanisms(text: str) -> tuple[Mapping[str, Any] | str | None, ...]:
    """softmax,rbca or, with settings, softmax; rbca:alpha=0.5; for an empty text the network's own choice."""
    plain = ";" not in text and ":" not in text
    parts = words(text) if plain else words(text, ";")
    for one in parts:
        first, *others = words(one)
        # Where name=value is expected after a comma, there may be another mechanism: softmax or rbca:alpha=1.
        second = any("=" not in word or not word.partition("=")[0].strip().isidentifier() for word in others)
        if others and (":" not in first or second):
            raise UsageError(
                "--attention separates mechanisms by semicolons where one has settings, which commas separate, such "
                f"as 'softmax; rbca:alpha=1'; got {text!r}."
            )
    return tuple(mechanism(one) for one in parts) or (None,)


def whole_numbers(text: str, flag: str) -> tuple[int, ...]:
    """96,192 as numbers."""
    values = numbers(text, flag)
    if not values or not all(number.is_integer() for number in values):
        raise UsageError(f"{flag} takes whole numbers separated by commas, such as 96,192; got {text!r}.")
    return tuple(int(number) for number in values)
