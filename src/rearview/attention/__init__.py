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
from rearview.core.registry import Shelf, import_lazily, refuse_unfinished, split_spec
from rearview.core.settings import Description, describe_part, settings_from

if TYPE_CHECKING:
    from rearview.attention.contract import Attention, Claims, Inputs, Projected, Site


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
names, summary, register, settings_of = _SHELF.names, _SHELF.summary, _SHELF.register, _SHELF.settings_of
distribution = _SHELF.distribution

Spec = str | Mapping[str, Any] | None


def create(name: str, site: "Site", **settings: Any) -> "Attention":
    """A layer of the mechanism `name` for one place in a network; unknown settings are refused."""
    from rearview.attention.contract import Site

    module = _SHELF.module(name)
    if not isinstance(site, Site):
        raise SettingsError(
            f"A layer is made for a place in a network, such as attention.Site(groups=7, tokens=42, width=128, "
            f"heads=16), and not for {site!r}."
        )
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


__getattr__ = import_lazily(__name__, {"contract": ("Attention", "Claims", "Inputs", "Projected", "Site")})
__all__ = [
    "Attention", "Claims", "Description", "Inputs", "Projected", "Site", "Spec",
    "create", "describe", "distribution", "names", "register", "settings_of", "split", "summary",
]  # fmt: skip
