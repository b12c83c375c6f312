"""The command line's parser, and how its arguments are read."""

import ast
import shlex
from contextvars import ContextVar
from typing import Annotated, Any

from cyclopts import App, Parameter

from rearview import __version__
from rearview.errors import SettingsError, UsageError


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


def words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


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
    """width=64,dropout=0.1 as a mapping with numbers, True, False and None read as such."""
    pairs: dict[str, Any] = {}
    for word in words(text):
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"{flag} takes name=value pairs separated by commas; got {word!r}.")
        try:
            pairs[name.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            pairs[name.strip()] = {"true": True, "false": False, "none": None}.get(value.lower(), value.strip())
    return pairs


def mechanism(text: str) -> dict[str, Any] | str | None:
    name, colon, settings = text.partition(":")
    if not text:
        return None
    if colon and not name:
        raise SettingsError(f"--attention needs a name before the colon; got {text!r}.")
    return {"name": name, **pairs(settings, "--attention")} if colon else name


def mechanisms(text: str) -> tuple[dict[str, Any] | str | None, ...]:
    """softmax,rbca or, with settings, softmax; rbca:alpha=0.5; nothing is the network's own choice."""
    parts = text.split(";") if ";" in text or ":" in text else text.split(",")
    return tuple(mechanism(part.strip()) for part in parts if part.strip()) or (None,)


def whole_numbers(text: str, flag: str) -> tuple[int, ...]:
    """96,192 as numbers."""
    found = numbers(text, flag)
    if not found or any(number != int(number) for number in found):
        raise UsageError(f"{flag} takes whole numbers separated by commas, such as 96,192; got {text!r}.")
    return tuple(int(number) for number in found)
