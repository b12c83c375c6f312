"""Tests of the contracts, for parts of other packages: the same promises that rearview's own parts keep.

    from rearview.testing import check_attention

    def test_fading() -> None:
        check_attention("fading")

It is imported by this name alone, and asks for no test runner: a broken promise is an AssertionError.
"""

from rearview import attention
from rearview.attention import Spec
from rearview.core.random_state import keep_caller_state
from rearview.testing.attention_promises import ATTENTION_PROMISES

__all__ = ["ATTENTION_PROMISES", "check_attention"]


def check_attention(spec: Spec) -> None:
    """Try every promise of an attention layer on a mechanism: a name, or a mapping with a name and settings.

    All that are broken are named in one AssertionError, whose cause has a traceback for each.
    """
    name, broken = attention.split(spec)[0], list[Exception]()
    with keep_caller_state():
        for promise in ATTENTION_PROMISES:
            try:
                promise(spec)
            except Exception as problem:
                kind = "" if isinstance(problem, AssertionError) else f"{type(problem).__name__}: "
                problem.add_note(f"{promise.__name__}: {kind}{problem}")
                broken.append(problem)
    if broken:
        sentences = "\n".join(f"- {problem.__notes__[-1]}" for problem in broken)
        raise AssertionError(
            f"{name} breaks {len(broken)} of {len(ATTENTION_PROMISES)} promises of an attention layer:\n{sentences}"
        ) from ExceptionGroup(f"promises that {name} breaks", broken)
