"""The command line: parse, call one function, print.

Only the parser is imported here; torch and the rest come with the command that needs them.
"""

import codecs
import errno
import io
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import cyclopts

from rearview.cli import bench, catalogue, check, classify, detect, forecast, report, runs
from rearview.cli.command import EVERY_FLAG
from rearview.cli.parse import app, called, describe_unused
from rearview.commands.console import Output, output, print_json, warn
from rearview.core.errors import RearviewError, UsageError, collect_warnings, describe_unforeseen

__all__ = ["app", "bench", "catalogue", "check", "classify", "detect", "forecast", "main", "report", "run", "runs"]


DEBUG = "--debug"


@collect_warnings(warn)
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1 for bad input, 2 for usage, 130 for Ctrl-C.

    Whatever goes wrong is told in a sentence; with --debug, which every command takes, the traceback comes before it.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    tokens = [token for token in given if token != DEBUG]
    called.set(tuple(token for token in tokens if token not in {"--resume", *EVERY_FLAG}))
    try:
        # The parser takes a dash for an option; as a path it stands for standard input, and for output behind --out.
        streams = ("/dev/stdout" if before == "--out" else "/dev/stdin" for before in ("", *tokens))
        words = [stream if token == "-" else token for token, stream in zip(tokens, streams, strict=False)]
        code = app(words, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()  # a full disk is told here, not by the interpreter at its end
    except BrokenPipeError:
        return 0
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as problem:  # a panic in a library's own language is no Exception
        if DEBUG in given:
            traceback.print_exc()
        before = output.set(Output(json="--json" in tokens))  # a program is told in the form that it asked for
        try:
            return _answer(problem, tokens)
        finally:
            output.reset(before)
    return code if isinstance(code, int) else 0


def run() -> None:
    """The console script: works with closed streams, and ends on SIGTERM as on Ctrl-C, with the best model so far."""
    _open_streams()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())


def _open_streams() -> None:
    """Open closed streams, which lead nowhere, and let the others take every letter.

    Else a file that is opened later takes the number of a closed one, and what is said goes there.
    """
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A letter that a locale does not have ends no run; a locale without any but those of English means UTF-8.
        if isinstance(stream, io.TextIOWrapper):
            plain = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding="utf-8" if plain else stream.encoding, errors="backslashreplace")


def _answer(problem: BaseException, tokens: Sequence[str]) -> int:
    """Print in a sentence what went wrong, and return the exit code."""
    if isinstance(problem, KeyboardInterrupt):
        return _print_problem("Interrupted.", 130)
    if isinstance(problem, cyclopts.CycloptsError | RearviewError):
        return _refuse(problem, tokens)
    if isinstance(problem, OSError):
        place, sentence = problem.filename or "standard output", problem.strerror or str(problem)
        full = f"No space is left for {place}; free some, or write elsewhere"
        named = f"{sentence}: {place}" if problem.filename else sentence
        return _print_problem(
            f"{full if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else named}.", RearviewError.exit_code
        )
    return _print_problem(describe_unforeseen(problem, shlex.join(["rearview", *tokens[:1]])), RearviewError.exit_code)


def _refuse(problem: Exception, tokens: Sequence[str]) -> int:
    """Print what is wrong with the arguments or the input, with a way on."""
    command: Sequence[str] = tokens[:1]
    sentence = str(problem)
    code = problem.exit_code if isinstance(problem, RearviewError) else UsageError.exit_code
    if isinstance(problem, cyclopts.CycloptsError):
        command = problem.command_chain or ()
    if isinstance(problem, cyclopts.UnusedCliTokensError):
        sentence = describe_unused(command, problem.unused_tokens or (), tokens)
    if isinstance(problem, cyclopts.MissingArgumentError):
        from rearview.commands.benchmark_sets import describe_set

        hints = [describe_set(word) for word in tokens[1:] if not Path(word).exists()]
        sentence = " ".join([sentence, *filter(None, hints)])
    if code == UsageError.exit_code:
        sentence += f"\nTry: {' '.join(['rearview', *command, '--help'])}"
    return _print_problem(sentence, code)


def _print_problem(sentence: str, code: int) -> int:
    sys.stderr.write(f"rearview: {sentence}\n")
    print_json({"error": sentence, "exit_code": code})
    return code
