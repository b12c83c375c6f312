"""Trend, season and shocks (CAPS, equation 6), and which of the mechanism's three paths carries which.

CAPS's network forecasts signals of one part, or of all three, with one path, two (at the full size) or all of them.
Its first guess of the steps ahead, a linear map of the past that solves trend and season by itself, is held at the last
value, so that attention has to carry everything. The paper gives riemann the trend, prefix the shocks, and leaves
season to the rotation that all paths share; the clock weighs time. Three readings of "what a path carries":

- the error of networks that were trained with some paths only;
- the error of the trained whole when a path falls silent, the others as they are;
- a path's share of the absolute weight that steps ahead put on earlier steps, and how it fades with age.

An arm is called after parts and paths: "shocks/prefix", "all/riemann+clock".
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from rearview import models
from rearview.attention import Spec
from rearview.attention.caps import Layer as PathAttention
from rearview.attention.caps.paths import PATHS, PathName
from rearview.attention.shared.execution import full_precision
from rearview.bench.rows.row import Facts
from rearview.bench.synthetic.study import Arrays, Measurement, Size, Study, SyntheticRow, Trial, fixed_generator
from rearview.data.synthetic.components import PARTS, Recipe, draw_windows
from rearview.data.windows import Batch
from rearview.models.contract import Model
from rearview.models.step_hosts.caps_net import Network
from rearview.tasks.objectives import Forecast
from rearview.train.evaluation import evaluation_mode

ALL = "all"
LOOKED_AT = 64
"""Windows over which weights are averaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentsRow(SyntheticRow):
    """The result of a choice of CAPS's paths on some parts of a signal."""

    parts: str
    """The parts of the signal, joined by +."""
    paths: str
    """The paths the network had, joined by +."""
    mse: float
    """Of the forecast, on fixed windows."""
    last_value_mse: float
    """Of repeating the last value."""
    share_riemann: float | None
    """Path's share of the absolute weight that steps ahead put on earlier ones; None: the network lacks the path."""
    share_prefix: float | None
    share_clock: float | None
    without_riemann: float | None
    """The trained network's error with the path silenced, others as they are; None: it is absent, or the only one."""
    without_prefix: float | None
    without_clock: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentsSize(Size):
    """Sizes of the components study."""

    lookback: int
    horizon: int
    width: int
    heads: int = 2
    depth: int = 2
    noise: float = 0.02
    tested: int = 512
    """Windows in the test set."""


class ComponentsTrial(Trial[Batch]):
    """A network of some of CAPS's paths that learns to forecast signals of some parts, and its test windows."""

    network: Model

    def __init__(self, size: ComponentsSize, arm: str, device: str) -> None:
        parts, _, paths = arm.partition("/")
        self.parts = tuple(part for part in PARTS if parts in (part, ALL))
        self.paths = _paths(paths)
        self.recipe = Recipe(size.lookback, size.horizon, self.parts, size.noise)
        self.device, self.task = device, Forecast(size.horizon)
        self.network = models.create(
            "caps_net", channels=1, lookback=size.lookback, steps=size.horizon, attention=STUDY.spec(arm),
            width=size.width, heads=size.heads, depth=size.depth, channel_dropout=False,
        )  # fmt: skip
        assert isinstance(self.network, Network)
        assert self.network.dual.extend is not None
        # The steps ahead start at the last value, without the linear map that makes a first guess of them.
        nn.init.zeros_(self.network.dual.extend.weight).requires_grad_(False)
        self.network.to(device)
        self.tested = self._split(draw_windows(size.tested, self.recipe, generator=fixed_generator(0)).to(device))

    def batch(self, index: Int[Tensor, " window"], /) -> Batch:
        return self._split(draw_windows(len(index), self.recipe, device=self.device))

    def loss(self, model: nn.Module, batch: Batch, /) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        return self.task.loss(model, batch)

    def measure(self) -> dict[str, float]:
        """The mean squared error of the forecast."""
        with full_precision(self.tested.past.device):
            forecast = self.network(self.tested.past)
        return {"mse": (forecast.double() - self.tested.future.double()).square().mean().item()}

    def report(self, measured: Sequence[Measurement]) -> tuple[Facts, Arrays]:
        columns: dict[str, object] = {"parts": "+".join(self.parts), "paths": "+".join(self.paths)}
        columns |= {f"{what}_{path}": None for what in ("share", "without") for path in PATHS}
        last = self.tested.past[..., -1:]
        columns["last_value_mse"] = (last - self.tested.future).double().square().mean().item()
        if len(self.paths) > 1:
            for path in self.paths:
                with evaluation_mode(self.network), silence(self.network, path):
                    columns[f"without_{path}"] = self.measure()["mse"]
        arrays = read_attention(self.network, self.tested, self.paths)
        shares = arrays["by_age"].sum(1) / arrays["by_age"].sum()
        columns |= {f"share_{path}": float(share) for path, share in zip(self.paths, shares, strict=True)}
        return columns, arrays

    def _split(self, both: Float[Tensor, "window 1 time"]) -> Batch:
        past, future = both[..., : self.recipe.lookback], both[..., self.recipe.lookback :]
        series = torch.zeros(len(both), dtype=torch.int64, device=both.device)
        return Batch(past, future, None, None, None, None, series)


def read_attention(network: Model, tested: Batch, paths: tuple[PathName, ...]) -> Arrays:
    """Weights of each path: `by_age` [path, age], the mean absolute weight of steps ahead on steps so long before.

    Over layers, heads and windows; `paths` names the rows. `past`, `future` and `said` are the first window.
    """
    past = tested.past[:LOOKED_AT]
    marks = tuple(None if part is None else part[:LOOKED_AT] for part in (tested.past_marks, tested.future_marks))
    with evaluation_mode(network):
        forecast = network(past[:1], *(None if part is None else part[:1] for part in marks))
        layers = network.weights(past, *marks)
    ahead = tested.future.shape[-1]
    by_age = np.zeros((len(paths), past.shape[-1] + ahead))
    for layer in layers:
        assert isinstance(layer, dict)
        for row, path in enumerate(paths):
            size = layer[path].abs().mean((0, 1, 2)).double().cpu().numpy()
            for query in range(len(size) - ahead, len(size)):
                by_age[row, : query + 1] += size[query, query::-1] / (ahead * len(layers))
    return {
        "by_age": by_age,
        "paths": np.array(paths),
        "past": past[0, 0].cpu().numpy(),
        "future": tested.future[0, 0].cpu().numpy(),
        "said": forecast[0, 0].float().cpu().numpy(),
    }


@contextmanager
def silence(network: Model, path: PathName) -> Iterator[None]:
    """The network with one of its paths left out, and whole again afterwards."""
    layers = [layer for layer in network.modules() if isinstance(layer, PathAttention)]
    whole = [layer.settings for layer in layers]
    try:
        for layer, settings in zip(layers, whole, strict=True):
            rest = tuple(other for other in settings.paths if other != path)
            layer.settings = replace(settings, paths=rest)
        yield
    finally:
        for layer, settings in zip(layers, whole, strict=True):
            layer.settings = settings


def _paths(words: str) -> tuple[PathName, ...]:
    return tuple(path for path in PATHS if words == ALL or path in words.split("+"))


def _arms(full: bool) -> Mapping[str, Spec]:
    counts = (1, 2) if full else (1,)
    choices = ["+".join(some) for count in counts for some in combinations(PATHS, count)]
    return {
        f"{parts}/{paths}": {"name": "caps", "paths": _paths(paths)}
        for parts in (*PARTS, ALL)
        for paths in (*choices, ALL)
    }


STUDY = Study.declare("components", ComponentsRow, ComponentsSize, ComponentsTrial, _arms)
