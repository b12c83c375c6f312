"""The settings of a part: a dataclass, built from what the user gives, checked by its types, described by its texts."""

import ast
import dataclasses
import inspect
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from numbers import Integral, Real
from types import ModuleType, NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Literal, TypeGuard, TypeVar, Union, get_args, get_origin

from rearview.core.errors import SettingsError, did_you_mean

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


def settings_from(cls: type[T], owner: str, given: Mapping[str, object]) -> T:
    """The settings of a part from keyword arguments; an unknown key names its neighbour, a wrong value what it can be.

    A part's own checks of its values come first.
    """
    known = [field.name for field in dataclasses.fields(cls)]
    for key in given:
        if key not in known:
            listing = f" It has: {', '.join(known)}." if known else " It has none."
            raise SettingsError(f"{owner} has no setting {key!r}.{did_you_mean(key, known)}{listing}")
    # JSON and YAML have no tuples.
    tuples = {field.name for field in dataclasses.fields(cls) if get_origin(_bare(field.type)) is tuple}
    given = {key: tuple(value) if key in tuples and isinstance(value, list) else value for key, value in given.items()}
    given = with_floats(cls, given)
    build: Callable[..., T] = cls
    try:
        settings = build(**given)
    except SettingsError:
        raise
    except (TypeError, ValueError):
        # Such as a word compared with a number: name the setting it was given for.
        _refuse_wrong_types(cls, owner, given)
        raise
    # As stored, since a part may turn a list into a tuple.
    _refuse_wrong_types(cls, owner, {key: getattr(settings, key) for key in given})
    return settings


def with_floats(cls: "type[DataclassInstance]", given: Mapping[str, object]) -> dict[str, object]:
    """The same settings with 1.0 for 1 where a number is wanted that need not be whole: both are one setting."""
    fractional = _fractional(cls)
    return {key: float(value) if key in fractional and _is_whole(value) else value for key, value in given.items()}


@cache
def _fractional(cls: "type[DataclassInstance]") -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(cls) if _takes_fractions(_bare(field.type)))


def _takes_fractions(kind: object) -> bool:
    """Whether a type is float, or float among others."""
    return float in (get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,))


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= 2**53


def check_least(settings: object, owner: str = "", **least: float) -> None:
    """Refuse a setting below the least that it can be; one that is None may stay so."""
    for name, bound in least.items():
        value = getattr(settings, name)
        if value is not None and not value >= bound:
            raise SettingsError(f"{owner}{name} is {value}; it must be at least {bound}.")


def check_whole(settings: object, owner: str = "", **least: int) -> None:
    """Refuse a size that is no whole number or below the least that it can be; numpy's are kept as Python's."""
    for name, bound in least.items():
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < bound:
            raise SettingsError(f"{owner}{name} is {value!r}; it must be a whole number of at least {bound}.")
        object.__setattr__(settings, name, int(value))


def _refuse_wrong_types(cls: "type[DataclassInstance]", owner: str, given: Mapping[str, object]) -> None:
    types = {field.name: _bare(field.type) for field in dataclasses.fields(cls)}
    for name, value in given.items():
        if not matches_type(value, types[name]):
            near = did_you_mean(value, words_of_type(types[name])) if isinstance(value, str) else ""
            raise SettingsError(f"{owner}: {name} is {value!r}; it must be {type_in_words(types[name])}.{near}")


def _bare(kind: object) -> object:
    """A type without its meaning."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def matches_type(value: object, kind: object) -> bool:
    """Whether a value is of a type, a whole number being a number too; types without words for them always match."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return any(isinstance(value, type(part)) and value == part for part in parts)
    if origin in (Union, UnionType):
        return any(matches_type(value, part) for part in parts)
    if kind is int or kind is float:
        if isinstance(value, bool) or not isinstance(value, Real):
            return False
        return math.isfinite(value) and (kind is float or isinstance(value, Integral))
    if isinstance(kind, type) and kind in _WORDS:
        return isinstance(value, kind)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        if not isinstance(value, Sequence) or isinstance(value, str):
            return False
        return all(matches_type(one, parts[0]) for one in value)
    return True


_WORDS: dict[object, str] = {
    bool: "True or False", int: "a whole number", float: "a number", str: "a word", NoneType: "None"
}  # fmt: skip


def type_in_words(kind: object) -> str:
    """A type as an error names it: a whole number or None, one of 'revin', 'last', 'none'."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"one of {', '.join(map(repr, parts))}" if len(parts) > 1 else repr(parts[0])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(type_in_words, parts)))
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return f"a list, each {type_in_words(parts[0])}"
    return _WORDS.get(kind, "a mapping")


def words_of_type(kind: object) -> list[str]:
    """The words that a type names."""
    if get_origin(kind) is Literal:
        return [part for part in get_args(kind) if isinstance(part, str)]
    return [word for part in get_args(kind) for word in words_of_type(part)]


def field_docs(cls: type) -> dict[str, str]:
    """The string under each field of a dataclass, on one line, so that its meaning is written once, beside it.

    A setting that several parts have in common carries its meaning in its type: `Annotated[int, "Width of a token."]`.
    """
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    docs = {field.name: get_args(field.type)[1] for field in fields if get_origin(field.type) is Annotated}
    for base in [base for base in reversed(cls.__mro__) if dataclasses.is_dataclass(base)]:
        try:
            source = textwrap.dedent(inspect.getsource(base))
        except (OSError, TypeError):  # typed at a prompt or made at run time: there is no text to read
            continue
        body = ast.parse(source).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, below in zip(body.body, body.body[1:], strict=False):
            if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
                continue
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                docs[field.target.id] = " ".join(str(below.value.value).split())
    return docs


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a part, as `describe` prints it."""

    name: str
    kind: str
    default: str
    meaning: str


def settings_table(cls: "type[DataclassInstance]") -> tuple[Setting, ...]:
    """Name, type, default and meaning of every setting of a dataclass."""
    docs = field_docs(cls)
    rows = []
    for field in dataclasses.fields(cls):
        default = "required" if field.default is dataclasses.MISSING else repr(field.default)
        if field.default_factory is not dataclasses.MISSING:
            default = repr(field.default_factory())
        rows.append(Setting(field.name, spell_type(_bare(field.type)), default, docs.get(field.name, "")))
    return tuple(rows)


def spell_type(kind: object) -> str:
    """A type as a person writes it: int | None, 'revin' | 'last', [float, ...]."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " | ".join(map(repr, parts))
    if origin in (Union, UnionType):
        return " | ".join(map(spell_type, parts))
    if kind is NoneType:
        return "None"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "mapping"
    if isinstance(origin, type) and issubclass(origin, Sequence) and parts:
        return f"[{spell_type(parts[0])}, ...]"
    return str(getattr(kind, "__name__", kind)).removeprefix("typing.")


@dataclasses.dataclass(frozen=True, slots=True)
class Description:
    """A part for a person to read; as text, everything but the details."""

    name: str
    summary: str
    details: str
    settings: tuple[Setting, ...]
    claims: "DataclassInstance | None" = None

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.summary}", "", "settings:"]
        lines += [f"  {s.name} = {s.default}  ({s.kind})  {s.meaning}" for s in self.settings] or ["  none"]
        if self.claims is not None:
            docs = field_docs(type(self.claims))
            values = {field.name: getattr(self.claims, field.name) for field in dataclasses.fields(self.claims)}
            sentences = [
                f"  {docs.get(name, name)}" if value is True else f"  {docs.get(name, name).rstrip('.')}: {value}."
                for name, value in values.items()
                if value not in (False, None)
            ]
            lines += ["", "claims:", *(sentences or ["  none"])]
        return "\n".join(lines)


def describe_part(name: str, module: ModuleType, claims: "DataclassInstance | None" = None) -> Description:
    """A part as its module documents it."""
    head, _, details = (module.__doc__ or "").strip().partition("\n")
    return Description(name, head, details.strip("\n"), settings_table(module.Settings), claims)
