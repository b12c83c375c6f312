"""Every mechanism in places and with settings that nobody chose: sizes drawn at random, settings from their own types.

Settings that are numbers, sequences or mappings keep their defaults; the others take every value their type allows,
alone and together. Places and settings that a mechanism refuses are drawn again.
"""

import dataclasses
import itertools
import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import hypothesis
import pytest
import torch
from hypothesis import strategies
from torch import Tensor

from rearview import attention
from rearview.attention.contract import Attention, Site
from rearview.core.errors import SettingsError
from rearview.testing.places import operated

NAMES = attention.names()
LOOKBACK = 13
EXAMPLES = 20
LEAST = 10
"""How many drawn layers of each mechanism must have been built and tried."""
BY_CHANCE = ("drawn",)
"""Values with which no two calls are alike."""
EVERY = hypothesis.settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.filter_too_much, hypothesis.HealthCheck.too_slow],
)


def choices(kind: Any) -> list[Any]:
    """The values that a type lists, or none where it does not."""
    if kind is bool:
        return [False, True]
    if kind is type(None):
        return [None]
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    if get_origin(kind) is tuple:
        listed = choices(get_args(kind)[0])
        return [some for count in range(1, len(listed) + 1) for some in itertools.combinations(listed, count)]
    if get_origin(kind) in (Union, types.UnionType):
        return [value for part in get_args(kind) for value in choices(part)]
    return []


def settings_of(name: str) -> dict[str, list[Any]]:
    """The settings of a mechanism that have more than one value to draw."""
    kind = attention.settings_of(name)
    hints = get_type_hints(kind)
    listed = {field.name: choices(hints[field.name]) for field in dataclasses.fields(kind)}
    listed = {field: [value for value in values if value not in BY_CHANCE] for field, values in listed.items()}
    return {field: values for field, values in listed.items() if len(values) > 1}


@strategies.composite
def places(draw: strategies.DrawFn) -> dict[str, Any]:
    """What a Site is made of."""
    heads, head_width = draw(strategies.integers(1, 4)), draw(strategies.integers(1, 5))
    narrow = draw(strategies.booleans())
    return {
        "groups": draw(strategies.integers(1, 9)),
        "tokens": draw(strategies.integers(1, 13)),
        "width": draw(strategies.integers(1, 11)) if narrow else heads * head_width,
        "heads": heads,
        "head_width": head_width if narrow else None,
        "value_width": draw(strategies.sampled_from([None, 1, 3])),
        "time_ordered": draw(strategies.booleans()),
        "causal": draw(strategies.booleans()),
    }


def built(name: str, site: Site, settings: dict[str, Any]) -> Attention | None:
    """The layer, every parameter moved away from where it starts; None where the mechanism refuses."""
    torch.manual_seed(17)
    try:
        layer = attention.create(name, site, **settings)
    except SettingsError:
        return None
    layer.prepare(torch.randn(5, site.groups if site.time_ordered else site.tokens, LOOKBACK))
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return layer.double().eval()


class Drawn:
    """A layer with tokens for it, and the windows they were made from where it asks for them."""

    def __init__(self, layer: Attention, batch: int) -> None:
        site = layer.site
        draw = torch.Generator().manual_seed(29)
        self.layer = layer
        self.x = torch.randn(batch, site.groups, site.tokens, site.width, generator=draw, dtype=torch.float64)
        self.windows = torch.randn(batch, site.tokens, LOOKBACK, generator=draw, dtype=torch.float64)

    def run(self, x: Tensor, rows: slice = slice(None), order: Tensor | None = None) -> Tensor:
        """The layer's output; `order` is that of the tokens, whose windows go with them."""
        given = self._given(rows)
        return self.layer(x, **given if order is None else {key: part[:, order] for key, part in given.items()})

    def by_operator(self) -> Tensor:
        """What the operator makes of the values, or of the values that each window or each query has of its own."""
        layer, x = self.layer, self.x
        weights = layer.weights(x, **self._given())
        if layer.claims.reads_windows:
            primed = torch.einsum("bqkhe,bghke->bghqke", layer.primers(self.windows), layer.values(x))
        elif hasattr(layer, "modulators"):
            primed = torch.stack([layer.values(x * seen) for seen in layer.modulators()], dim=3)
        else:
            return operated(layer, weights, x)
        return layer.project(torch.einsum("bghqk,bghqke->bghqe", weights, primed))

    def _given(self, rows: slice = slice(None)) -> dict[str, Tensor]:
        return {"windows": self.windows[rows]} if self.layer.claims.reads_windows else {}


def near(one: Tensor, other: Tensor) -> bool:
    """Equal in float64, up to the rounding of a few hundred operations."""
    return torch.allclose(one, other, rtol=1e-9, atol=1e-9)


def broken(drawn: Drawn) -> Iterator[str]:
    """What does not hold of a drawn layer, in words."""
    x, claims = drawn.x, drawn.layer.claims
    y = drawn.run(x)
    if y.shape != x.shape or not y.isfinite().all():
        yield "tokens come out as they went in, and finite"
    if not near(drawn.by_operator(), y):
        yield "the operator applied to the values is the output"
    if not all(near(drawn.run(x[row : row + 1], slice(row, row + 1)), y[row : row + 1]) for row in range(len(x))):
        yield "rows of a batch do not see one another"
    half = x.shape[2] // 2
    late = torch.cat([x[:, :, :half], 1 - x[:, :, half:]], dim=2)
    if claims.causal and not near(drawn.run(late)[:, :, :half], y[:, :, :half]):
        yield "no later token moves an earlier output"
    turned = torch.arange(x.shape[1]).roll(1)
    if claims.equivariant_to_groups and not near(drawn.run(x[:, turned]), y[:, turned]):
        yield "permuting groups permutes the output"
    order = torch.arange(x.shape[2]).roll(1)
    if claims.equivariant_to_tokens and not near(drawn.run(x[:, :, order], order=order), y[:, :, order]):
        yield "permuting tokens permutes the output"
    last = torch.cat([x[:, :-1], 1 - x[:, -1:]], dim=1)
    if not claims.mixes_groups and not near(drawn.run(last)[:, :-1], y[:, :-1]):
        yield "groups stay apart"
    yield from lost_gradients(drawn, y)


def lost_gradients(drawn: Drawn, y: Tensor) -> Iterator[str]:
    named = dict(drawn.layer.named_parameters())
    if not named:
        return
    cotangent = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    found = torch.autograd.grad(y, list(named.values()), cotangent, allow_unused=True)
    for name, gradient in zip(named, found, strict=True):
        if gradient is None or not gradient.isfinite().all():
            yield f"{name} has a finite gradient"


def test_the_suite_met_every_mechanism_and_its_settings() -> None:
    assert len(NAMES) >= 11
    drawn = {name: set(settings_of(name)) for name in NAMES}
    assert drawn["caps"] == {"paths", "normaliser", "rotation", "numerics"}
    assert {"kind", "score_norm", "half_width"} <= drawn["toa"]
    assert {"bias", "order", "window", "residual_mask"} <= drawn["rbca"]
    assert {"gate", "weighting", "exclude_self"} <= drawn["mica"]
    assert {"primer", "features", "free", "per_window"} <= drawn["prime"]


@pytest.mark.parametrize("name", NAMES)
def test_drawn_layers_keep_every_promise(name: str) -> None:
    listed = {field: strategies.sampled_from(values) for field, values in settings_of(name).items()}
    met = 0

    @EVERY
    @hypothesis.given(places(), strategies.fixed_dictionaries({}, optional=listed), strategies.integers(1, 3))
    def keeps(place: dict[str, Any], settings: dict[str, Any], batch: int) -> None:
        nonlocal met
        layer = built(name, Site(**place, lookback=LOOKBACK), settings)
        hypothesis.assume(layer is not None)
        met += 1
        assert list(broken(Drawn(layer, batch))) == []

    keeps()
    assert met >= LEAST
