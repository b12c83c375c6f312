"""The folder is the registry: every module of a package is a part on the shelf, under its file name.

A part is one file: folders, a leading underscore, and a place in `aside` keep things off the shelf. Nothing is imported
until it is asked for, so that listing what is there costs no torch. Third parties add parts through an entry point or
by registering a module.
"""

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import math
import pkgutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin

from rearview.core.errors import SettingsError, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class Shelf:
    """The parts of one package by name; each module on it defines what `needs` names.

    `refuse(name, module)` says more of what a third party's module must be.
    """

    def __init__(
        self,
        package: str,
        kind: str,
        needs: tuple[str, ...],
        aside: tuple[str, ...] = (),
        refuse: Callable[[str, ModuleType], None] = lambda name, module: None,
    ) -> None:
        self.package = package
        self.kind = kind
        self.needs = needs
        self.aside = aside
        self.refuse = refuse
        self._added: dict[str, ModuleType] = {}

    def names(self) -> list[str]:
        """Every part on the shelf, sorted: the package's own, registered ones and those of installed plug-ins."""
        return sorted(self._own() | set(self._added) | {point.name for point in self._plug_ins()})

    def module(self, name: str) -> ModuleType:
        """The module behind a name; an unknown one is refused with its nearest neighbour."""
        if name in self._added:
            return self._added[name]
        own = [f"{self.package}.{name}"] if name in self._own() else []
        plugged = [point for point in self._plug_ins() if point.name == name]
        places = own + [point.value for point in plugged]
        if not places:
            known = self.names()
            raise SettingsError(
                f"There is no {self.kind} called {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}."
            )
        if len(places) > 1:
            raise SettingsError(
                f"There are {len(places)} parts for the {self.kind} {name!r} ({', '.join(places)}), and nothing says "
                "which one is meant; uninstall the plug-in or give it another name."
            )
        return importlib.import_module(own[0]) if own else self._complete(name, plugged[0].load())

    def register(self, name: str, module: ModuleType) -> None:
        """Put a third party's module on the shelf for this process."""
        if name in self.names():
            raise SettingsError(f"There is a {self.kind} called {name!r} already; choose another name.")
        self._added[name] = self._complete(name, module)

    def summary(self, name: str) -> str:
        """The first line of a part's docstring, read without importing it."""
        if name in self._added:
            return (inspect.getdoc(self._added[name]) or "").partition("\n")[0]
        spec = importlib.util.find_spec(f"{self.package}.{name}")
        if spec is None or spec.origin is None:
            return (inspect.getdoc(self.module(name)) or "").partition("\n")[0]
        return (ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or "").partition("\n")[0]

    def _own(self) -> set[str]:
        path = importlib.import_module(self.package).__path__
        files = (m.name for m in pkgutil.iter_modules(path) if not m.ispkg)
        return {name for name in files if name[0] != "_" and name not in self.aside}

    def _plug_ins(self) -> "tuple[EntryPoint, ...]":
        return _installed(self.package)

    def _complete(self, name: str, module: ModuleType) -> ModuleType:
        missing = [part for part in self.needs if not hasattr(module, part)]
        if missing:
            raise SettingsError(
                f"The module of the {self.kind} {name!r} must define {' and '.join(self.needs)}; "
                f"it lacks {' and '.join(missing)}."
            )
        self.refuse(name, module)
        return module


@cache
def _installed(package: str) -> "tuple[EntryPoint, ...]":
    """The plug-ins for a package; looked up once, since that reads what every installed distribution says of itself."""
    from importlib.metadata import entry_points

    return tuple(entry_points(group=package))


def refuse_unfinished(what: str, part: Any, base: type) -> None:
    """Refuse a third party's class that is not of the kind `base`, or has methods of it yet to write."""
    where = f"{base.__module__.removesuffix('.contract')}.{base.__name__}"
    if not (isinstance(part, type) and issubclass(part, base)):
        raise SettingsError(f"{what} must be a subclass of {where}, whose methods networks and tasks call.")
    unwritten = sorted(getattr(part, "__abstractmethods__", ()))
    if unwritten:
        raise SettingsError(
            f"{what} must define {' and '.join(unwritten)}, which {part.__mro__[1].__name__} leaves open; "
            "docs/plugin.md shows how."
        )


def split_spec(what: str, example: str, spec: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and settings of a part that is asked for by name, or by a mapping with a name and settings."""
    if isinstance(spec, str):
        return spec, {}
    if not isinstance(spec, Mapping):
        raise SettingsError(
            f"{what} is a name, such as {example!r}, or a mapping with a name and settings, not {spec!r}."
        )
    settings = dict(spec)
    if "name" not in settings:
        raise SettingsError(f"{what} given as a mapping needs a 'name'; got the keys {', '.join(settings)}.")
    return str(settings.pop("name")), settings


def settings_from(cls: type[T], owner: str, given: Mapping[str, Any]) -> T:
    """The settings of a part from keyword arguments; an unknown key names its neighbour, a wrong value what it can be.

    What a part says of its values itself comes first.
    """
    known = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    for key in given:
        if key not in known:
            listing = f" It has: {', '.join(known)}." if known else " It has none."
            raise SettingsError(f"{owner} has no setting {key!r}.{did_you_mean(key, known)}{listing}")
    try:
        made = cls(**given)
    except SettingsError:
        raise
    except (TypeError, ValueError):
        # A word that can't be compared with a number, say: whoever gave it needs to know which.
        _refuse_other_kinds(cls, owner, given)
        raise
    # As they are kept, since a part may take a list, say, for a tuple.
    _refuse_other_kinds(cls, owner, {key: getattr(made, key) for key in given})
    return made


def _refuse_other_kinds(cls: type[Any], owner: str, given: Mapping[str, Any]) -> None:
    """Refuse a value that is not of the type of its setting."""
    kinds = {field.name: field.type for field in dataclasses.fields(cls)}
    for name, value in given.items():
        if not _is_of(value, kinds[name]):
            near = did_you_mean(value, _choices(kinds[name])) if isinstance(value, str) else ""
            raise SettingsError(f"{owner}: {name} is {value!r}; it must be {_in_words(kinds[name])}.{near}")


def _is_of(value: Any, kind: Any) -> bool:
    """Whether a value is of a type, a whole number being a number too; other types than those in words are let pass."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return any(isinstance(value, type(part)) and value == part for part in parts)
    if origin in (Union, UnionType):
        return any(_is_of(value, part) for part in parts)
    if kind in (int, float):
        number = isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
        return number and math.isfinite(value)
    if kind in _WORDS:
        return isinstance(value, kind)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        several = isinstance(value, Sequence) and not isinstance(value, str)
        return several and all(_is_of(one, parts[0]) for one in value)
    return True


_WORDS: dict[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a word",
    NoneType: "None",
}


def _in_words(kind: Any) -> str:
    """A type as an error names it: a whole number or None, one of 'revin', 'last', 'none'."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"one of {', '.join(map(repr, parts))}" if len(parts) > 1 else repr(parts[0])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_in_words, parts)))
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return f"a list, each {_in_words(parts[0])}"
    return _WORDS.get(kind, "a mapping")


def _choices(kind: Any) -> list[str]:
    """The words that a type names."""
    if get_origin(kind) is Literal:
        return [part for part in get_args(kind) if isinstance(part, str)]
    return [word for part in get_args(kind) for word in _choices(part)]


def field_docs(cls: type[Any]) -> dict[str, str]:
    """The string under each field of a dataclass, so that a setting's meaning is written once, beside it."""
    docs: dict[str, str] = {}
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
                docs[field.target.id] = inspect.cleandoc(str(below.value.value))
    return docs


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a part, as `describe` prints it."""

    name: str
    kind: str
    default: str
    meaning: str


def settings_table(cls: type[Any]) -> tuple[Setting, ...]:
    """Name, type, default and meaning of every setting of a dataclass."""
    docs = field_docs(cls)
    rows = []
    for f in dataclasses.fields(cls):
        rows.append(Setting(f.name, spelled(f.type), _default(f), " ".join(docs.get(f.name, "").split())))
    return tuple(rows)


def spelled(kind: Any) -> str:
    """A type as a person writes it: int | None, 'revin' | 'last', [float, ...]."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " | ".join(map(repr, parts))
    if origin in (Union, UnionType):
        return " | ".join(map(spelled, parts))
    if kind is NoneType:
        return "None"
    if origin is not None and issubclass(origin, Mapping):
        return "mapping"
    if origin is not None and issubclass(origin, Sequence) and parts:
        return f"[{spelled(parts[0])}, ...]"
    return str(getattr(kind, "__name__", kind)).removeprefix("typing.")


def _default(field: "dataclasses.Field[Any]") -> str:
    if field.default_factory is not dataclasses.MISSING:
        return repr(field.default_factory())
    return "required" if field.default is dataclasses.MISSING else repr(field.default)


def claimed(claims: Any) -> list[str]:
    """What a part says of itself, a sentence each: the text under every claim that holds, with its value if it has one.

    `claims` is a dataclass; what is False or None is not claimed.
    """
    docs = field_docs(type(claims))
    found = []
    for field in dataclasses.fields(claims):
        value = getattr(claims, field.name)
        sentence = " ".join(docs.get(field.name, field.name).split())
        if value is True:
            found.append(sentence)
        elif value not in (False, None):
            found.append(f"{sentence.rstrip('.')}: {value}.")
    return found


def explained(name: str, summary: str, settings: tuple[Setting, ...], claims: Any = None) -> str:
    """A part in full, for a person to read; None: it claims nothing by itself."""
    lines = [f"{name}: {summary}", "", "settings:"]
    lines += [f"  {s.name} = {s.default}  ({s.kind})  {s.meaning}" for s in settings] or ["  none"]
    if claims is not None:
        lines += ["", "claims:", *(f"  {sentence}" for sentence in claimed(claims) or ["none"])]
    return "\n".join(lines)
