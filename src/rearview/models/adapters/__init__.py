"""Adapters: models around a model that change what goes in or what comes out.

    models.create("patchtst", channels=7, lookback=336, steps=96, adapters=["decorrelate"])
    models.create("patchtst", channels=7, lookback=336, steps=96, adapters=[{"name": "lift", "leaders": 2}])

The outermost comes first. One file an adapter, with its `Settings` and its `Adapter`.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rearview.core.errors import SettingsError
from rearview.core.registry import Shelf, split_spec
from rearview.core.settings import Description, describe_part, settings_from

if TYPE_CHECKING:
    from rearview.models.contract import Model

Spec = str | Mapping[str, Any]

_SHELF = Shelf("rearview.models.adapters", "adapter", needs=("Settings", "Adapter"), aside=("contract",))


names, summary = _SHELF.names, _SHELF.summary


def describe(name: str) -> Description:
    """One line, the module's text, and the settings with defaults and meaning."""
    return describe_part(name, _SHELF.module(name))


def split(spec: Spec) -> tuple[str, dict[str, Any]]:
    """Name and settings of `"lift"` or `{"name": "lift", "leaders": 2}`."""
    return split_spec("An adapter", "lift", spec)


def resolve(adapters: Spec | Sequence[Spec]) -> tuple[Spec, ...]:
    """One adapter or several, each checked with its settings; one without settings is its name alone."""
    if not isinstance(adapters, str | Mapping | Sequence):
        raise SettingsError(f"adapters is {adapters!r}; it is the name of one, such as 'lift', or a list of names.")
    specs = (adapters,) if isinstance(adapters, str | Mapping) else adapters
    pairs = [split(spec) for spec in specs]
    for name, settings in pairs:
        settings_from(_SHELF.module(name).Settings, name, settings)
    return tuple({"name": name, **settings} if settings else name for name, settings in pairs)


def wrap(network: "Model", name: str, adapters: Spec | Sequence[Spec]) -> "Model":
    """The network called `name` with one adapter or several around it, the outermost first."""
    within = name
    for spec in reversed(resolve(adapters)):
        adapter, settings = split(spec)
        module = _SHELF.module(adapter)
        network = module.Adapter(network, settings_from(module.Settings, adapter, settings), within)
        within = f"{adapter} around {within}"
    return network
