"""The command line: parse, call one function, print.

Only the parser is imported here; torch and the rest come with the command that needs them.
"""

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

import cyclopts

from rearview.cli import bench, classify, detect, forecast, report, shelves
from rearview.cli.parse import app, called
from rearview.errors import RearviewError, RearviewWarning, UsageError

__all__ = ["app", "bench", "classify", "detect", "forecast", "main", "report", "run", "shelves"]


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """rearview's own warnings as plain lines, each text once; those of other packages as Python shows them."""
    with warnings.catch_warnings():
        others, said = warnings.showwarning, set[str]()

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if not issubclass(category, RearviewWarning):
                others(message, category, filename, lineno, file, line)
            elif str(message) not in said:
                said.add(str(message))
                sys.stderr.write(f"{message}\n")

        warnings.showwarning = show
        yield


@_warnings_as_notes()
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1 for bad input, 2 for usage, 130 for Ctrl-C."""
    tokens = list(sys.argv[1:] if argv is None else argv)
    called.set(tuple(token for token in tokens if token != "--resume"))
    try:
        code = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except cyclopts.CycloptsError as problem:
        return _refused(f"{problem}\n{_help(problem.command_chain)}", UsageError.exit_code)
    except UsageError as problem:
        return _refused(f"{problem}\n{_help(tokens[:1])}", problem.exit_code)
    except RearviewError as problem:
        return _refused(str(problem), problem.exit_code)
    except KeyboardInterrupt:
        return _refused("Interrupted.", 130)
    except BrokenPipeError:
        return 0
    except OSError as problem:
        place = f": {problem.filename}" if problem.filename else ""
        return _refused(f"{problem.strerror or problem}{place}.", RearviewError.exit_code)
    return code if isinstance(code, int) else 0


def run() -> None:
    """The console script."""
    sys.exit(main())


def _help(command: Sequence[str] | None) -> str:
    return f"Try: {' '.join(['rearview', *(command or ()), '--help'])}"


def _refused(sentence: str, code: int) -> int:
    sys.stderr.write(f"rearview: {sentence}\n")
    return code
