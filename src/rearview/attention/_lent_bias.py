"""The bias that one mechanism lends to another: RBCA's decay under TOA's softmax kind or prime attention."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from rearview.attention import split
from rearview.attention.contract import Site
from rearview.core.errors import SettingsError
from rearview.core.settings import settings_from


def lent_bias(owner: str, site: Site, spec: str | Mapping[str, Any] | None) -> nn.Module | None:
    """What `owner`'s setting `bias` asks for, called as `bias(tokens, like, ages)`; None for none."""
    if spec is None:
        return None
    name, chosen = split(spec)
    if name != "rbca":
        raise SettingsError(
            f"{owner}'s bias is {name!r}, which has no bias to lend; the only one there is to add is rbca."
        )
    if not site.time_ordered:
        raise SettingsError(
            f"rbca fades keys by age, but {site.host}'s tokens have none, since they are not ordered in time; "
            f"leave {owner}'s bias out."
        )
    from rearview.attention import rbca

    return rbca.Decay(site, settings_from(rbca.Settings, name, chosen))
