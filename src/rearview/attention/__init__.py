"""Attention mechanisms by name: one module or package each, one contract, a drop-in part of every network they fit.

site = attention.Site(groups=7, tokens=42, width=128, heads=16)
layer = attention.create("softmax", site)
y = layer(x)                     # [batch, group, token, width] -> the same shape
w = layer.weights(x)             # the effective operator
"""

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rearview.core.errors import SettingsError
from rearview.core.registry import Shelf, refuse_unfinished, split_spec
from rearview.core.settings import Description, describe_part, settings_from

if TYPE_CHECKING:
    from rearview.attention.contract import Attention as Attention
    from rearview.attention.contract import Claims as Claims
    from rearview.attention.contract import Inputs as Inputs
    from rearview.attention.contract import Projected as Projected
    from rearview.attention.contract import Site as Site


def _refuse(name: str, module: ModuleType) -> None:
    from rearview.attention.contract import Attention

    what = f"The Layer of the attention {name!r}"
    refuse_unfinished(what, module.Layer, Attention)
    for method, instead in (("attend", "forward"), ("weigh", "weights")):
        if all(getattr(module.Layer, one) is getattr(Attention, one) for one in (method, instead)):
            raise SettingsError(f"{what} must define {method}, or {instead} itself; docs/plugin.md shows how.")


_SHELF = Shelf(
    "rearview.attention",
    "attention",
    needs=("Settings", "Layer"),
    aside=("contract", "kernels", "shared", "site"),
    families=("controls",),
    refuse=_refuse,
)
_CONTRACT = ("Attention", "Claims", "Inputs", "Projected", "Site")

Spec = str | Mapping[str, Any] | None


def names() -> list[str]:
    """Every mechanism on the shelf."""
    return _SHELF.names()


def summary(name: str) -> str:
    """A mechanism in one line, without importing it."""
    return _SHELF.summary(name)


def register(name: str, module: ModuleType) -> None:
    """Put a module with `Settings` and `Layer` on the shelf under a name, for this process."""
    _SHELF.register(name, module)


def settings_of(name: str) -> type[Any]:
    """The settings of a mechanism: a dataclass with their defaults."""
    settings: type[Any] = _SHELF.module(name).Settings
    return settings


def create(name: str, site: "Site", **settings: Any) -> "Attention":
    """A layer of the mechanism `name` for one place in a network; unknown settings are refused."""
    module = _SHELF.module(name)
    layer: Attention = module.Layer(site, settings_from(module.Settings, name, settings))
    if not hasattr(layer, "claims"):
        raise SettingsError(
            f"The Layer of the attention {name!r} says nothing of itself; give it claims, such as "
            "self.claims = Claims(causal=site.causal) in its constructor (rearview.attention.Claims)."
        )
    return layer


def split(spec: Spec) -> tuple[str, dict[str, Any]]:
    """Name and settings of `"rbca"` or `{"name": "rbca", "alpha": 0.5}`; None means softmax."""
    return ("softmax", {}) if spec is None else split_spec("An attention", "rbca", spec)


def describe(name: str) -> Description:
    """One line, the module's text, the settings with defaults and meaning, and the claims at the defaults."""
    from rearview.attention.contract import Site

    layer = create(name, Site(groups=3, tokens=5, width=8, heads=2))
    return describe_part(name, _SHELF.module(name), layer.claims)


def __getattr__(name: str) -> Any:
    if name in _CONTRACT:
        from rearview.attention import contract

        return getattr(contract, name)
    raise AttributeError(f"module 'rearview.attention' has no attribute {name!r}")


__all__ = [
    "Attention", "Claims", "Description", "Inputs", "Projected", "Site", "Spec",
    "create", "describe", "names", "register", "settings_of", "split", "summary",
]  # fmt: skip
