"""Tests of the contracts, for parts of other packages: the same promises that rearview's own parts keep.

    from rearview.testing import check_attention, check_model

    def test_fading() -> None:
        check_attention("fading")

    def test_patches() -> None:
        check_model({"name": "patches", "attention": "fading"})

It is imported by this name alone, and asks for no test runner: a broken promise is an AssertionError.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rearview import attention
from rearview.core.random_state import keep_caller_state
from rearview.core.registry import split_spec
from rearview.testing.attention_promises import ATTENTION_PROMISES
from rearview.testing.model_promises import MODEL_PROMISES

__all__ = ["ATTENTION_PROMISES", "MODEL_PROMISES", "check_attention", "check_model"]


def check_attention(spec: attention.Spec) -> None:
    """Try every promise of an attention layer on a mechanism: a name, or a mapping with a name and settings.

    All that are broken are named in one AssertionError, whose cause has a traceback for each.
    """
    _check(attention.split(spec)[0], spec, ATTENTION_PROMISES, "an attention layer")


def check_model(spec: str | Mapping[str, Any]) -> None:
    """Try every promise of a network on one: a name, or a mapping with a name, settings and attention.

    All that are broken are named in one AssertionError, whose cause has a traceback for each.
    """
    _check(split_spec("A network", "patchtst", spec)[0], spec, MODEL_PROMISES, "a network")


def _check(name: str, spec: Any, promises: Sequence[Callable[[Any], None]], kind: str) -> None:
    broken: dict[str, Exception] = {}
    with keep_caller_state():
        for promise in promises:
            try:
                promise(spec)
            except Exception as problem:
                broken[promise.__name__] = problem
    if broken:
        lines = [f"- {promise}: {_say(problem)}" for promise, problem in broken.items()]
        raise AssertionError(
            "\n".join([f"{name} breaks {len(broken)} of {len(promises)} promises of {kind}:", *lines])
        ) from ExceptionGroup(f"promises that {name} breaks", list(broken.values()))


def _say(problem: Exception) -> str:
    return str(problem) if isinstance(problem, AssertionError) else f"{type(problem).__name__}: {problem}"
