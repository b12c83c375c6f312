"""How commands are declared: each takes, beside its own options, those that say what is printed."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter

from rearview.cli.options import PRINTING
from rearview.cli.parse import app
from rearview.commands.console import Output, output
from rearview.core.errors import UsageError
from rearview.core.settings import field_docs

Command = TypeVar("Command", bound=Callable[..., int])

FLAGS = {"json": ("--json",), "quiet": ("--quiet", "-q"), "verbose": ("--verbose", "-v"), "dry_run": ("--dry-run",)}
"""Option -> its names."""
EVERY_FLAG = frozenset(flag for flags in FLAGS.values() for flag in flags)


def command(*, name: str | None = None, json: bool = True, dry_run: bool = False) -> Callable[[Command], Command]:
    """Declare a command; `json`: it can answer a program, `dry_run`: it can say what it would do."""
    without = {*(() if json else ("json",)), *(() if dry_run else ("dry_run",))}
    taken = [each.name for each in fields(Output) if each.name not in without]
    meanings = field_docs(Output)

    def declare(function: Command) -> Command:
        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> int:
            asked = Output(**{option: kwargs.pop(option, False) for option in taken})
            if asked.quiet and asked.verbose:
                raise UsageError("--quiet and --verbose contradict each other; leave one of them out.")
            before = output.set(asked)
            try:
                return function(*args, **kwargs)
            finally:
                output.reset(before)

        shown = {
            option: Annotated[bool, Parameter(name=FLAGS[option], help=meanings[option], group=PRINTING)]
            for option in taken
        }
        own = inspect.signature(function, eval_str=True).parameters.values()
        added = [
            inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
            for option, kind in shown.items()
        ]
        built: Any = run
        built.__signature__ = inspect.Signature([*own, *added])
        built.__annotations__ = {each.name: each.annotation for each in built.__signature__.parameters.values()}
        del built.__wrapped__
        app.command(run, name=name)
        return function

    return declare
