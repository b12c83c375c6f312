"""The command line: parse, call one function, print.

Only the parser is imported here; torch and the rest come with the command that needs them.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import cyclopts

from rearview.cli import bench, catalogue, classify, detect, forecast, report
from rearview.cli.parse import app, called
from rearview.commands.console import say
from rearview.core.errors import RearviewError, UsageError, collect_warnings

__all__ = ["app", "bench", "catalogue", "classify", "detect", "forecast", "main", "report", "run"]


@collect_warnings(say)
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1 for bad input, 2 for usage, 130 for Ctrl-C."""
    tokens = list(sys.argv[1:] if argv is None else argv)
    called.set(tuple(token for token in tokens if token != "--resume"))
    try:
        code = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except (cyclopts.CycloptsError, RearviewError) as problem:
        return _refuse(problem, tokens)
    except KeyboardInterrupt:
        return _print_problem("Interrupted.", 130)
    except BrokenPipeError:
        return 0
    except OSError as problem:
        place = f": {problem.filename}" if problem.filename else ""
        return _print_problem(f"{problem.strerror or problem}{place}.", RearviewError.exit_code)
    return code if isinstance(code, int) else 0


def run() -> None:
    """The console script."""
    sys.exit(main())


def _refuse(problem: Exception, tokens: Sequence[str]) -> int:
    """Print what is wrong with the arguments or the input, with a way on."""
    command: Sequence[str] = tokens[:1]
    sentence = str(problem)
    code = problem.exit_code if isinstance(problem, RearviewError) else UsageError.exit_code
    if isinstance(problem, cyclopts.CycloptsError):
        command = problem.command_chain or ()
    if isinstance(problem, cyclopts.MissingArgumentError):
        from rearview.commands.benchmark_sets import hint

        hints = [hint(word) for word in tokens[1:] if not Path(word).exists()]
        sentence = " ".join([sentence, *filter(None, hints)])
    if code == UsageError.exit_code:
        sentence += f"\nTry: {' '.join(['rearview', *command, '--help'])}"
    return _print_problem(sentence, code)


def _print_problem(sentence: str, code: int) -> int:
    sys.stderr.write(f"rearview: {sentence}\n")
    return code
