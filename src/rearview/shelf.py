"""The folder is the registry: every module of a package is a part on the shelf, under its file name.

A leading underscore, or a place in `aside`, keeps a file off the shelf. Nothing is imported until it is asked for, so
that listing what is there costs no torch. Third parties add parts through an entry point or by registering a module.
"""

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from rearview.errors import SettingsError, did_you_mean

T = TypeVar("T")


class Shelf:
    """The parts of one package by name."""

    def __init__(self, package: str, kind: str, aside: tuple[str, ...] = ()) -> None:
        self.package = package
        self.kind = kind
        self.aside = aside
        self._added: dict[str, ModuleType] = {}

    def names(self) -> list[str]:
        """Every part on the shelf, sorted: the package's own, registered ones and those of installed plug-ins."""
        path = importlib.import_module(self.package).__path__
        own = {m.name for m in pkgutil.iter_modules(path) if m.name[0] != "_" and m.name not in self.aside}
        return sorted(own | set(self._added) | set(self._entry_points()))

    def module(self, name: str) -> ModuleType:
        """The module behind a name; an unknown one is refused with its nearest neighbour."""
        if name in self._added:
            return self._added[name]
        known = self.names()
        if name not in known:
            raise SettingsError(
                f"There is no {self.kind} called {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}."
            )
        if name in (plug_ins := self._entry_points()):
            loaded: ModuleType = plug_ins[name].load()
            return loaded
        return importlib.import_module(f"{self.package}.{name}")

    def register(self, name: str, module: ModuleType) -> None:
        """Put a third party's module on the shelf for this process."""
        if name in self.names():
            raise SettingsError(f"There is a {self.kind} called {name!r} already; choose another name.")
        self._added[name] = module

    def summary(self, name: str) -> str:
        """The first line of a part's docstring, read without importing it."""
        if name in self._added:
            return (inspect.getdoc(self._added[name]) or "").partition("\n")[0]
        spec = importlib.util.find_spec(f"{self.package}.{name}")
        if spec is None or spec.origin is None:
            return (inspect.getdoc(self.module(name)) or "").partition("\n")[0]
        return (ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or "").partition("\n")[0]

    def _entry_points(self) -> dict[str, Any]:
        from importlib.metadata import entry_points

        return {point.name: point for point in entry_points(group=self.package)}


def settings_from(cls: type[T], owner: str, given: Mapping[str, Any]) -> T:
    """The settings of a part from keyword arguments; an unknown key names its neighbour."""
    known = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    for key in given:
        if key not in known:
            listing = f" It has: {', '.join(known)}." if known else " It has none."
            raise SettingsError(f"{owner} has no setting {key!r}.{did_you_mean(key, known)}{listing}")
    return cls(**given)


def field_docs(cls: type[Any]) -> dict[str, str]:
    """The string under each field of a dataclass, so that a setting's meaning is written once, beside it."""
    docs: dict[str, str] = {}
    for base in [base for base in reversed(cls.__mro__) if dataclasses.is_dataclass(base)]:
        body = ast.parse(inspect.cleandoc(inspect.getsource(base))).body[0]
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
        kind = f.type if isinstance(f.type, str) else getattr(f.type, "__name__", str(f.type))
        if not isinstance(f.type, type):
            kind = str(f.type).replace("typing.", "")
        default = "required" if f.default is dataclasses.MISSING else repr(f.default)
        rows.append(Setting(f.name, kind, default, " ".join(docs.get(f.name, "").split())))
    return tuple(rows)
