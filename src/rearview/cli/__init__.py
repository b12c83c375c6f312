"""The command line: parse, call one function, print.

Only the parser is imported here; torch and the rest come with the command that needs them.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import cyclopts

from rearview.cli import bench, catalogue, classify, detect, forecast, report
from rearview.cli.parse import app, called
from rearview.core.errors import RearviewError, UsageError, collect_warnings

__all__ = ["app", "bench", "catalogue", "classify", "detect", "forecast", "main", "report", "run"]


def _as_line(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


@collect_warnings(_as_line)
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1 for bad input, 2 for usage, 130 for Ctrl-C."""
    tokens = list(sys.argv[1:] if argv is None else argv)
    called.set(tuple(token for token in tokens if token != "--resume"))
    try:
        code = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except cyclopts.CycloptsError as problem:
        told = _benchmark_sets(tokens[1:]) if isinstance(problem, cyclopts.MissingArgumentError) else ""
        return _refused(f"{problem}{told}\n{_help(problem.command_chain)}", UsageError.exit_code)
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


def _benchmark_sets(words: Sequence[str]) -> str:
    """What to say of benchmark sets that are named in place of files; nothing where none is."""
    from rearview.commands.benchmark_sets import about

    return "".join(f" {told}" for word in words if not Path(word).exists() and (told := about(word)))


def _help(command: Sequence[str] | None) -> str:
    return f"Try: {' '.join(['rearview', *(command or ()), '--help'])}"


def _refused(sentence: str, code: int) -> int:
    sys.stderr.write(f"rearview: {sentence}\n")
    return code
