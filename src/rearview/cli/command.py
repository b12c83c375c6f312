"""Declaration of commands: each takes its own options and those that control what is printed."""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

from cyclopts import Group, Parameter

from rearview.cli.options import PRINTING
from rearview.cli.parse import app
from rearview.commands.console import Output, output
from rearview.core.errors import UsageError
from rearview.core.settings import field_docs

if TYPE_CHECKING:
    from cyclopts import Token

Command = TypeVar("Command", bound=Callable[..., int])

FLAGS = {"json": ("--json",), "quiet": ("--quiet", "-q"), "verbose": ("--verbose", "-v"), "dry_run": ("--dry-run",)}
"""Option -> its names."""
FILES = ("file", "more", "train", "test", "fit", "future", "results")
"""Arguments that name files to read, which a shell completes."""
GROUPS = {
    Group.create_ordered("Your data"): ("forecast", "predict", "detect", "classify", "check"),
    Group.create_ordered("Runs and shell"): ("runs", "open", "demo", "completion"),
    Group.create_ordered("Networks and papers"): (
        "list", "describe", "bench", "report", "ablate", "reproduce", "figure",
    ),
}  # fmt: skip
"""Commands in the order in which help shows them, the most used first."""
app["--help"].group = app["--version"].group = Group.create_ordered("Help")
EVERY_FLAG = frozenset(flag for flags in FLAGS.values() for flag in flags)


def command(*, name: str | None = None, json: bool = True, dry_run: bool = False) -> Callable[[Command], Command]:
    """Declare a command; `json`: it can answer a program, `dry_run`: it can say what it would do."""
    without = {*(() if json else ("json",)), *(() if dry_run else ("dry_run",))}
    taken = [each.name for each in fields(Output) if each.name not in without]
    meanings = field_docs(Output)

    def declare(function: Command) -> Command:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> int:
            options = Output(**{option: kwargs.pop(option, False) for option in taken})
            if options.quiet and options.verbose:
                raise UsageError("--quiet and --verbose contradict each other; leave one of them out.")
            before = output.set(options)
            try:
                return function(*args, **kwargs)
            finally:
                output.reset(before)

        shown = {
            option: Annotated[bool, Parameter(name=FLAGS[option], help=meanings[option], group=PRINTING)]
            for option in taken
        }
        own = map(_complete_files, inspect.signature(function, eval_str=True).parameters.values())
        added = [
            inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
            for option, kind in shown.items()
        ]
        declare_parameters(run, [*own, *added])
        called = name or function.__name__
        group, names = next((group, names) for group, names in GROUPS.items() if called in names)
        app.command(run, name=name, group=group, sort_key=names.index(called))
        return function

    return declare


def declare_parameters(command: Callable[..., int], parameters: Sequence[inspect.Parameter]) -> None:
    """Let the parser see these parameters in place of those of the function that a command wraps."""
    built: Any = command
    built.__signature__ = inspect.Signature(parameters)
    built.__annotations__ = {each.name: each.annotation for each in parameters}
    del built.__wrapped__


def _complete_files(argument: inspect.Parameter) -> inspect.Parameter:
    """A file as a path, which is what shells complete; the command gets the text as it was typed."""
    if argument.name not in FILES:
        return argument
    several = list[str] in (argument.annotation, *get_args(argument.annotation))
    kind: Any = list[Path] if several else Path
    if argument.default is not inspect.Parameter.empty:
        kind = kind | None
    others = getattr(argument.annotation, "__metadata__", ())
    shown = functools.reduce(lambda one, other: Annotated[one, other], (*others, Parameter(converter=_as_typed)), kind)
    return argument.replace(annotation=shown)


def _as_typed(kind: Any, tokens: "Sequence[Token]") -> Any:
    words = [token.value for token in tokens]
    return words[0] if kind in (Path, Path | None) else words
