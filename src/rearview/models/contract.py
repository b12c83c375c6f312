"""The contract of a model: windows in, what was asked for out.

    yhat = model(past, past_marks=None, future_marks=None)     past [batch, channel, time] -> [batch, channel, steps]

A model knows no task. It is asked for steps (whoever asks decides what they are: the horizon, the horizon times the
quantiles), for the window itself (a reconstruction, [batch, channel, lookback]) or for classes (logits
[batch, classes]); tokens and attention are the same, only the head differs. It says in its claims what it can be asked
for and what it can use; marks it has no use for are ignored, so every model is called the same way. Targets are all
channels, unless a model has a setting that says which ones are.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from rearview.attention import Spec
from rearview.attention.contract import Attention, Weights
from rearview.core.errors import SettingsError
from rearview.core.settings import check_whole
from rearview.embed import Normalise

Past = Float[Tensor, "batch channel time"]
Marks = Float[Tensor, "batch mark _"] | None
"""Calendar features and known inputs of the look-back or of the steps ahead, where there are any."""
RealSteps = Bool[Tensor, "batch time"]
Real = RealSteps | None
"""False where a window reaches back before its series began; None: nowhere."""
Steps = Float[Tensor, "batch target steps"]
Logits = Float[Tensor, "batch classes"]
Output = Steps | Logits
Asks = Literal["steps", "window", "classes"]
_LEAST = {"channels": 1, "lookback": 1, "steps": 1, "marks": 0, "future": 0, "classes": 0, "statics": 0}
"""The sizes of a shape, and the least that each can be."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model's input, and the output asked for."""

    channels: int
    lookback: int
    steps: int
    marks: int = 0
    """Calendar features and known inputs that come with each window."""
    future: int = 0
    """Steps for which marks are known ahead; 0: past marks only."""
    asks: Asks = "steps"
    """The output: steps after the window, the window itself, or its class."""
    classes: int = 0
    """Number of classes, where the output is a class."""
    statics: int = 0
    """How many of the marks, the last ones, describe a series and never change in it."""

    def __post_init__(self) -> None:
        check_whole(self, "", **_LEAST)
        if self.statics > self.marks:
            raise SettingsError(f"statics is {self.statics}, but there are {self.marks} marks for them to be among.")
        if self.asks == "window" and self.steps != self.lookback:
            raise SettingsError(
                f"A window of {self.lookback} steps can't be reconstructed as {self.steps}; leave out steps."
            )
        if (self.asks == "classes") != (self.classes > 0) or self.classes == 1:
            raise SettingsError(
                f"asks is {self.asks!r} and classes is {self.classes}; a classifier is asked for 'classes' and has at "
                "least 2, anything else has 0."
            )

    def refuse_marks(self, name: str, because: str = "reads each channel by itself") -> None:
        """For models without tokens that a mark could be; most of them read each channel alone."""
        if self.marks:
            raise SettingsError(
                f"{name} {because} and has no place for {self.marks} calendar features or inputs; "
                "use itransformer, or leave them out."
            )


@dataclass(frozen=True, slots=True)
class ModelClaims:
    """Properties of a model, which steer defaults, tests and refusals."""

    attention: bool = True
    """Has attention layers, so the `attention` setting means something."""
    mixes_channels: bool = False
    """A channel's forecast can depend on other channels; in any network where its attention mixes groups."""
    uses_marks: bool = False
    """Has a place for calendar features and for inputs known in the future (known=..., --known)."""
    reads_ahead: bool = False
    """Its published form is fed calendar features of the steps ahead, not of the look-back alone."""
    trains: bool = True
    """Has parameters to train."""
    scale_free: bool = True
    """Affine in, affine out: a * x + b gives a * yhat + b."""
    equivariant_to_channels: bool = True
    """Permuting the channels permutes the forecast: no parameter belongs to one channel. A network makes this claim
    for attention that tells channels apart by their contents alone; built with another, it takes it back."""
    reconstructs: bool = False
    """Can be asked for the window itself."""
    classifies: bool = False
    """Can be asked for a class."""


@dataclass(frozen=True, slots=True)
class Token:
    """The input that one place on an axis of the weights was made from."""

    of: Literal["all", "channel", "mark", "component"] = "all"
    """All channels together, one of them, a mark, or a mixture of channels that has no column of its own."""
    index: int = 0
    """The number of the channel, mark or component."""
    steps: tuple[int, int] | None = None
    """The first step and the one after the last, counted from the first step after the look-back: (-2, 0) are the last
    two observed ones. Where steps are asked for several times over (quantiles), each counts. None: the whole look-back.
    """


@dataclass(frozen=True, slots=True)
class Axes:
    """Labels of the axes of one attention layer's weights: [batch, group, head, query, key]."""

    groups: tuple[Token, ...]
    """One for each group that attention keeps apart; a single one where it keeps nothing apart."""
    tokens: tuple[Token, ...]
    """Queries and keys alike, since a layer mixes tokens among themselves."""
    stage: str = "layer"
    """The part of the network that the layer stands in, within which layers are counted: "encoder" or "decoder", say;
    "layer" where there is one part alone."""


def layer_names(axes: Sequence[Axes]) -> list[str]:
    """The names of attention layers, each with its number within its stage: "encoder 1", "encoder 2", "decoder 1"."""
    counts = Counter[str]()
    names = []
    for each in axes:
        counts[each.stage] += 1
        names.append(f"{each.stage} {counts[each.stage]}")
    return names


def layer_weights(network: nn.Module, *arguments: object, **named: object) -> list[Weights]:
    """Call the network with these arguments and return the operator of each attention layer that is called on the way.

    A layer within another one (MICA's local part) is part of that one's operator.
    """
    layers = [part for part in network.modules() if isinstance(part, Attention)]
    inner = {id(part) for layer in layers for part in layer.modules() if part is not layer}
    weights: list[Weights] = []

    def add(layer: Attention, given: tuple[Tensor], named: dict[str, Any]) -> None:
        weights.append(layer.weights(*given, **named))

    hooks = [layer.register_forward_pre_hook(add, with_kwargs=True) for layer in layers if id(layer) not in inner]
    try:
        network(*arguments, **named)
    finally:
        for hook in hooks:
            hook.remove()
    return weights


def claims_as_built(network: "Model") -> ModelClaims:
    """The claims of a network as its attention, or scales of single channels, leave them."""
    claims, parts = network.claims, list(network.modules())
    layers = [part for part in parts if isinstance(part, Attention)]
    scaled = any(isinstance(part, Normalise) and part.weight is not None for part in parts)
    alike = not scaled and all(map(_takes_channels_alike, layers))
    mixed = any(layer.claims.mixes_groups for layer in layers)
    return replace(
        claims,
        mixes_channels=claims.mixes_channels or mixed,
        equivariant_to_channels=claims.equivariant_to_channels and alike,
    )


def _takes_channels_alike(layer: Attention) -> bool:
    """Whether permuted channels come out permuted: they are groups of tokens in time, or tokens without an order."""
    claims = layer.claims
    return claims.equivariant_to_groups if layer.site.time_ordered else claims.equivariant_to_tokens


class Model(nn.Module, ABC):
    """Base of every network."""

    claims: ModelClaims
    own_attention: ClassVar[Spec] = "softmax"
    """The attention that stands in it where none is asked for."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    def __call__(self, past: Tensor, *args: Any, **others: Any) -> Any:
        """Run `forward` on windows of the size that the network was built for; refuse others."""
        self.check(past)
        self._check_beside(past, args[0] if args else others.get("past_marks"), others.get("mask"))
        return super().__call__(past, *args, **others)

    def __getstate__(self) -> dict[str, Any]:
        """Without tensors of the last pass's graph, such as a penalty, which no copy can take along."""
        return {
            name: None if isinstance(part, Tensor) and not part.is_leaf else part
            for name, part in self.__dict__.items()
        }

    def check(self, past: Tensor) -> None:
        """Refuse windows that this network was not built for."""
        if not isinstance(past, Tensor) or not past.is_floating_point():
            got = past.dtype if isinstance(past, Tensor) else type(past).__name__
            raise SettingsError(
                f"This network takes windows as a tensor of floating point and got {got}; "
                "torch.as_tensor(past).float() makes one."
            )
        wanted = (self.shape.channels, self.shape.lookback)
        if past.dim() == 3 and tuple(past.shape[1:]) == wanted:
            return
        swapped = past.dim() == 3 and tuple(past.shape[:0:-1]) == wanted
        hint = "; channels come before time: past.transpose(1, 2)" if swapped else ""
        raise SettingsError(
            f"This network takes windows [batch, channel, time] of {wanted[0]} channels and {wanted[1]} steps and got "
            f"{list(past.shape)}{hint}."
        )

    def _check_beside(self, past: Tensor, past_marks: Marks, mask: Real) -> None:
        """Refuse marks and a mask of other steps than the windows they come with."""
        if self.shape.marks and past_marks is not None and past_marks.shape[-1] != past.shape[-1]:
            raise SettingsError(
                f"Past marks are [batch, mark, time], of the {past.shape[-1]} steps of the windows; these are "
                f"{list(past_marks.shape)}."
            )
        if mask is not None and (mask.dtype != torch.bool or mask.shape != past[:, 0].shape):
            raise SettingsError(
                f"A mask is boolean, [batch, time], here {list(past[:, 0].shape)}, and False where a window begins "
                f"before its series; this one is {mask.dtype}, {list(mask.shape)}."
            )

    @classmethod
    def attention_of(cls, settings: object, attention: Spec = None) -> Spec:
        """The attention that stands in the network where `attention` is asked for; None asks for its own."""
        return cls.own_attention if attention is None else attention

    @abstractmethod
    def forward(self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None) -> Output:
        """The steps, window or logits asked for; `mask` is False where a window begins before its series."""

    def weights(
        self, past: Past, past_marks: Marks = None, future_marks: Marks = None, *, mask: Real = None
    ) -> list[Weights]:
        """The effective mixing operator of each attention layer, in order; a model without attention has none."""
        return layer_weights(self, past, past_marks, future_marks, mask=mask)

    def axes(self) -> list[Axes]:
        """Labels for the axes of `weights`, one entry per attention layer; a model without attention has none."""
        return []

    def penalty(self) -> Float[Tensor, ""] | None:
        """A term that training adds to the mean loss of the last forward pass, returned once; None: nothing to add."""
        return None

    def remark(self) -> str:
        """A remark on the forecasts made since the last call, for their reader, returned once; empty: none."""
        return ""

    def prepare(self, windows: Past) -> None:
        """Let mechanisms that learn from training windows before training do so."""
