"""What an estimator was made with, kept as it was given: to look at, to copy and to change by name.

scikit-learn copies an estimator by making another one of `get_params()`, and compares that what it gave is what it
finds there; so nothing is converted here, whatever the estimator makes of it.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Self, TypeVar, cast

Init = TypeVar("Init", bound=Callable[..., None])


def kept(init: Init) -> Init:
    """A constructor that keeps what it is given before it makes anything of it."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def keeping(self: "Parameters", /, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        _, *named = given.arguments.items()
        self._given = {}
        for name, value in named:
            several = signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            self._given |= value if several else {name: value}

    return cast(Init, keeping)


class Parameters:
    """Base of estimators whose constructor is `kept`."""

    _given: dict[str, Any]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every setting by name as it was given, reading options included, as scikit-learn asks for it."""
        return dict(self._given)

    def set_params(self, **params: Any) -> Self:
        """Change settings by name; what was fitted with the old ones is forgotten."""
        if params:
            # Another one first: a setting that is refused must change nothing here.
            self.__dict__ = type(self)(**{**self._given, **params}).__dict__
        return self

    def __repr__(self) -> str:
        known = inspect.signature(type(self)).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self._given.items()
            if name not in known or value is not known[name].default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"
