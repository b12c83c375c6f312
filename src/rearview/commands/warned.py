"""What rearview warned of while a job was made, kept with its outcome: a line in a terminal is soon gone."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from rearview.core.errors import collect_warnings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Given = ParamSpec("Given")
Outcome = TypeVar("Outcome", bound="DataclassInstance")


def warned(run: Callable[Given, Outcome]) -> Callable[Given, Outcome]:
    """A job whose outcome has a field `warnings`, filled with what was warned of on the way; it is shown as ever."""

    @wraps(run)
    def told(*args: Given.args, **kwargs: Given.kwargs) -> Outcome:
        with collect_warnings() as sentences:
            outcome = run(*args, **kwargs)
        return replace(outcome, warnings=tuple(sentences))

    return told
