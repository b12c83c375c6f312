"""Common parts of CAPS and the linear attention it is measured against: maps, their start, the places they fit."""

import math
from dataclasses import replace

from torch import nn

from rearview.attention.contract import Projected, Site
from rearview.core.errors import SettingsError

SPREAD = 0.02


class Bare(Projected):
    """Maps without biases, drawn from N(0, 0.02^2); the output map is narrower by sqrt(2 layers) (appendix A.2).

    The mechanism brings its maps along: a site's `projection_bias` is not used, whatever the network around it has.
    """

    def __init__(self, site: Site) -> None:
        super().__init__(replace(site, projection_bias=False))
        start(self.qkv)
        start(self.out, SPREAD / math.sqrt(2 * site.layers))


def start(linear: nn.Linear, spread: float = SPREAD) -> None:
    """Draw a map's weights from N(0, spread^2)."""
    nn.init.normal_(linear.weight, std=spread)


def need_one_time_axis(name: str, site: Site) -> None:
    """Refuse a place where token after token is not moment after moment."""
    if not site.time_ordered:
        raise SettingsError(
            f"{name} sums over earlier tokens, but {site.host}'s tokens have no order in time; use prime or toa."
        )
    if site.times is not None and any(a >= b for a, b in zip(site.times, site.times[1:], strict=False)):
        raise SettingsError(
            f"{name} runs from token to token along one time axis, but several of {site.host}'s tokens share a moment; "
            "use rbca, toa or prime."
        )
