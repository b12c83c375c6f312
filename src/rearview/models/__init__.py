"""Networks by name, each built from the same parts and with attention as one setting.

model = models.create("patchtst", channels=7, lookback=336, steps=96, attention="softmax", width=128, heads=16)
yhat = model(past)               # [batch, channel, time] -> [batch, channel, steps]

Networks that other packages keep (`external_names()`) are created the same way, where the package is installed; they
are not among `names()`. `adapters` stand around a network.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rearview.attention import Spec
from rearview.core.errors import SettingsError
from rearview.core.registry import Shelf, import_lazily, refuse_unfinished
from rearview.core.settings import Description, check_least, describe_part, settings_from
from rearview.models import adapters as _adapters

if TYPE_CHECKING:
    from rearview.models.blocks.stack import BlockSettings, Stack
    from rearview.models.contract import Asks, Axes, Model, ModelClaims, Shape, Token


def _refuse(name: str, module: ModuleType) -> None:
    from rearview.models.contract import Model

    refuse_unfinished(f"The Network of the model {name!r}", module.Network, Model)
    if not hasattr(module.Network, "claims"):
        raise SettingsError(
            f"The Network of the model {name!r} has no claims; give its class some, such as "
            "claims = ModelClaims(attention=False) (rearview.models.ModelClaims)."
        )


_SHELF = Shelf(
    "rearview.models",
    "model",
    needs=("Settings", "Network"),
    aside=("adapters", "baselines", "blocks", "contract", "costs", "features", "kernels", "outline", "pairs"),
    families=("attention_free", "channel_hosts", "patch_hosts", "step_hosts"),
    refuse=_refuse,
)
_BASELINES = Shelf("rearview.models.baselines", "model", needs=("Settings", "Network"))
KNOWN_INPUTS = (
    "caps_net", "gat", "itransformer", "itransformer_t5", "transformer",
    "autoformer", "fedformer", "informer", "timesnet"
)  # fmt: skip
"""Our networks, then other packages', that have a place for inputs known in the future: those whose claims say
`uses_marks`, written here too so that listing them imports none."""
_SIZES = ("width", "heads", "feed_forward", "router")
"""Settings of networks that no map can be built with below 1."""
_COUNTS = ("depth", "decoder_depth", "mlp_layers", "experts", "used")
"""Settings of networks and mechanisms that count parts which are built one by one."""
MOST_PARTS, MOST_SIZE = 1_000, 10_000_000
"""More than these is a slip or a damaged model, and building it would take all time or memory."""


names, register, distribution = _SHELF.names, _SHELF.register, _SHELF.distribution


def external_names(*, installed: bool = False) -> list[str]:
    """Every network that another package keeps, or those whose package is installed here."""
    return [name for name in _BASELINES.names() if not installed or find_spec(_module(name).Network.package)]


def summary(name: str) -> str:
    """A network in one line, without importing it."""
    return _shelf(name).summary(name)


def claims(name: str) -> "ModelClaims":
    """The claims of a network."""
    return _module(name).Network.claims


def settings_of(name: str) -> type[Any]:
    """The settings class of a network."""
    return _shelf(name).settings_of(name)


def attention_of(name: str, settings: object, attention: Spec = None) -> Spec:
    """The attention that a network of these settings is built with, where `attention` is given.

    None stands for the network's own. A network without attention has None and refuses any other.
    """
    network = _module(name).Network
    if network.claims.attention:
        return network.attention_of(settings, attention)
    if attention is not None:
        raise SettingsError(f"{name} has no attention to replace; leave out attention={attention!r} or use patchtst.")
    return None


def create(
    name: str,
    *,
    channels: int,
    lookback: int,
    steps: int | None = None,
    attention: Spec = None,
    marks: int = 0,
    future: int = 0,
    asks: "Asks" = "steps",
    classes: int = 0,
    statics: int = 0,
    adapters: _adapters.Spec | Sequence[_adapters.Spec] = (),
    **settings: Any,
) -> "Model":
    """The network `name` for windows of `channels` x `lookback`, asked for `steps`; unknown settings are refused.

    `marks` calendar features or known inputs come with each window, known `future` steps ahead (0: past only); the last
    `statics` of them describe the series. With `asks="window"` the network gives the window back, with `asks="classes"`
    logits of `classes` classes. `adapters` stand around the network, one or several, the outermost first: names
    (`rearview.models.adapters.names()`), or mappings with a name and settings.
    """
    from rearview.models.contract import Shape, claims_as_built

    module = _module(name)
    if steps is None and asks == "steps":
        raise SettingsError(f"{name} is asked for steps: say how many, for example steps=96.")
    if asks == "classes" and steps is not None:
        raise SettingsError(f"A class has no steps; leave out steps={steps}.")
    if steps is None:
        steps = lookback if asks == "window" else 1
    shape = Shape(channels, lookback, steps, marks, future, asks, classes, statics)
    can = {"steps": None, "window": "reconstructs", "classes": "classifies"}
    if asks not in can:
        raise SettingsError(f"asks is {asks!r}; it can be one of {', '.join(can)}.")
    claim = can[asks]
    if claim is not None and not getattr(claims(name), claim):
        able = ", ".join(other for other in names() if getattr(claims(other), claim))
        what = "give a window back" if asks == "window" else "classify"
        raise SettingsError(f"{name} forecasts and can't {what}; use one of {able}.")
    built = settings_from(module.Settings, name, settings)
    check_least(built, f"{name}: ", **{size: 1 for size in _SIZES if hasattr(built, size)})
    mechanism = attention_of(name, built, attention)
    _refuse_giants(name, {**asdict(shape), **settings})
    if isinstance(mechanism, Mapping):
        _refuse_giants(str(mechanism.get("name", "attention")), mechanism)
    network = module.Network(shape, built) if mechanism is None else module.Network(shape, built, mechanism)
    network.claims = claims_as_built(network)
    return _adapters.wrap(network, name, adapters)


def _shelf(name: str) -> Shelf:
    """The shelf that holds a name; unknown names are left to our own shelf, which refuses them."""
    return _BASELINES if name in _BASELINES.names() and name not in _SHELF.names() else _SHELF


def _module(name: str) -> ModuleType:
    return _shelf(name).module(name)


def _refuse_giants(name: str, sizes: Mapping[str, Any]) -> None:
    for size, value in sizes.items():
        most = MOST_PARTS if size in _COUNTS else MOST_SIZE
        if isinstance(value, int) and value > most:
            raise SettingsError(f"{name}: {size} is {value:,}; it can be {most:,} at most.")


def describe(name: str) -> Description:
    """One line, the module's text, the settings with defaults and meaning, and the claims."""
    module = _module(name)
    return describe_part(name, module, module.Network.claims)


_HOMES = {"contract": ("Axes", "Model", "ModelClaims", "Shape", "Token"), "blocks.stack": ("BlockSettings", "Stack")}
__getattr__ = import_lazily(__name__, _HOMES)
__all__ = [
    "KNOWN_INPUTS", "Axes", "BlockSettings", "Description", "Model", "ModelClaims", "Shape", "Stack", "Token",
    "attention_of", "claims", "create", "describe", "distribution", "external_names", "names", "register",
    "settings_of", "summary",
]  # fmt: skip
