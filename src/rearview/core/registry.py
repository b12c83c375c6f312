"""The folder is the registry: every module or package in a folder is a part on its shelf, under its file name.

Names with a leading underscore and those in `aside` stay off the shelf; a folder named in `families` only groups parts,
and its modules are on the shelf too. Nothing is imported until a part is asked for, so listing costs no torch. Third
parties add parts through an entry point or by registering a module.
"""

import ast
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rearview.core.errors import SettingsError, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@dataclass(slots=True)
class Shelf:
    """The parts of one folder by name; each is a module or package that defines what `needs` names."""

    package: str
    kind: str
    needs: tuple[str, ...]
    aside: tuple[str, ...] = ()
    """Modules and packages that are no parts, wherever they stand."""
    families: tuple[str, ...] = ()
    """Packages whose modules are parts."""
    refuse: Callable[[str, ModuleType], None] = lambda name, module: None
    """Checks further what a third party's module, under this name, must be."""
    _added: dict[str, ModuleType] = field(default_factory=dict, init=False)

    def names(self) -> list[str]:
        """Every part on the shelf, sorted: the package's own, registered ones and those of installed plug-ins."""
        return sorted({*self.own(), *self._added, *(point.name for point in _find_plug_ins(self.package))})

    def own(self) -> dict[str, str]:
        """The dotted module name of every part that comes with the package, by its name on the shelf."""
        folders = [Path(path) for path in importlib.import_module(self.package).__path__]
        parts = {}
        for family in ("", *self.families):
            prefix = f"{self.package}.{family}." if family else f"{self.package}."
            for part in pkgutil.iter_modules([str(folder / family) for folder in folders]):
                if part.name[0] != "_" and part.name not in (*self.aside, *self.families):
                    parts[part.name] = prefix + part.name
        return parts

    def module(self, name: str) -> ModuleType:
        """The module behind a name; an unknown one is refused with its nearest neighbour."""
        if not isinstance(name, str):
            raise SettingsError(
                f"The name of the {self.kind} is {name!r}; give a text, such as {self.names()[0]!r}, and settings by "
                "keyword."
            )
        if name in self._added:
            return self._added[name]
        own = self.own().get(name)
        plugged = [point for point in _find_plug_ins(self.package) if point.name == name]
        places = ([own] if own else []) + [point.value for point in plugged]
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
        return importlib.import_module(own) if own else self._complete(name, self._load(plugged[0]))

    def settings_of(self, name: str) -> type[Any]:
        """The settings of a part: a dataclass with their defaults."""
        settings: type[Any] = self.module(name).Settings
        return settings

    def register(self, name: str, module: ModuleType) -> None:
        """Put a third party's module, which defines what the shelf `needs`, under a name for this process."""
        if name in self.names():
            raise SettingsError(f"There is a {self.kind} called {name!r} already; choose another name.")
        self._added[name] = self._complete(name, module)

    def distribution(self, name: str) -> str:
        """Name and version of the package that brings a part as a plug-in, as in 'fading 1.2'; else empty."""
        points = [] if name in self._added else [one for one in _find_plug_ins(self.package) if one.name == name]
        found = points[0].dist if points else None
        return "" if found is None else f"{found.name} {found.version}"

    def summary(self, name: str) -> str:
        """The first line of a part's docstring; the package's own parts are read without importing them.

        Of a plug-in that can't be used it is the reason, so that a list of all parts has the others.
        """
        own = None if name in self._added else self.own().get(name)
        spec = importlib.util.find_spec(own) if own else None
        if spec is None or spec.origin is None:
            text = self._plug_in_text(name)
        else:
            text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8")))
        return (text or "").partition("\n")[0]

    def _plug_in_text(self, name: str) -> str | None:
        try:
            return inspect.getdoc(self.module(name))
        except SettingsError as problem:
            if name not in self.names():
                raise
            return str(problem)

    def _load(self, point: "EntryPoint") -> ModuleType:
        """The module of a plug-in; its errors are somebody else's, and the sentence names whose."""
        try:
            module: ModuleType = point.load()
        except Exception as problem:
            raise SettingsError(
                f"The plug-in {point.value}, which brings the {self.kind} {point.name!r}, can't be imported "
                f"({type(problem).__name__}: {problem}); mend or uninstall it."
            ) from problem
        return module

    def _complete(self, name: str, module: ModuleType) -> ModuleType:
        missing = [part for part in self.needs if not hasattr(module, part)]
        if missing:
            raise SettingsError(
                f"The module of the {self.kind} {name!r} must define {' and '.join(self.needs)}; "
                f"it lacks {' and '.join(missing)}."
            )
        self.refuse(name, module)
        return module


def import_lazily(package: str, sources: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """A package's `__getattr__` that imports names when they are first used: module in it -> the names it defines."""

    def find(name: str) -> Any:
        for module, names in sources.items():
            if name in names:
                return getattr(importlib.import_module(f"{package}.{module}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find


@cache
def _find_plug_ins(package: str) -> "tuple[EntryPoint, ...]":
    """The plug-ins for a package; looked up once, since that reads the metadata of every installed distribution."""
    from importlib.metadata import entry_points

    return tuple(entry_points(group=package))


def refuse_unfinished(what: str, part: object, base: type) -> None:
    """Refuse a third party's class that is no subclass of `base`, or leaves abstract methods of it undefined."""
    where = f"{base.__module__.removesuffix('.contract')}.{base.__name__}"
    if not (isinstance(part, type) and issubclass(part, base)):
        raise SettingsError(f"{what} must be a subclass of {where}, whose methods networks and tasks call.")
    unwritten = sorted(getattr(part, "__abstractmethods__", ()))
    if unwritten:
        raise SettingsError(
            f"{what} must define {' and '.join(unwritten)}, which {part.__mro__[1].__name__} leaves open; "
            "docs/plugin.md shows how."
        )


def split_spec(what: str, example: str, spec: str | Mapping[str, object]) -> tuple[str, dict[str, object]]:
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
