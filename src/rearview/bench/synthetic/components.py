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

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from rearview import models
from rearview.attention import Spec
from rearview.attention.caps import Layer as PathAttention
from rearview.attention.caps.paths import PATHS, PathName
from rearview.bench.rows.row import Facts
from rearview.bench.synthetic.row import ComponentsRow
from rearview.bench.synthetic.study import Size, Study, StudyRun, first_weights, seeded
from rearview.bench.synthetic.training import Keep, Training, train_stretches
from rearview.data.synthetic.components import PARTS, Part, Recipe, draw_windows
from rearview.data.windows import Batch
from rearview.models.contract import Model
from rearview.models.step_hosts.caps_net import Network
from rearview.tasks.forecast import Forecast
from rearview.train.evaluation import evaluation_mode

ALL = "all"
LOOKED_AT = 64
"""Windows over which weights are averaged."""


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


REDUCED = ComponentsSize(
    lookback=36, horizon=12, width=16, depth=1, steps=300, stretch=50, batch=32, learning_rate=5e-3,
    schedule="cosine", warmup=0.05, clip=1.0, tested=256,
)  # fmt: skip
FULL = ComponentsSize(
    lookback=96, horizon=24, width=32, steps=3000, stretch=250, batch=64, learning_rate=2e-3, schedule="cosine",
    warmup=0.05, clip=1.0,
)  # fmt: skip


class Fresh:
    """Windows drawn when they are asked for."""

    def __init__(self, recipe: Recipe, device: str) -> None:
        self.recipe, self.device = recipe, device

    def batch(self, index: Int[Tensor, " window"], /) -> Batch:
        return self.split(draw_windows(len(index), self.recipe, device=self.device))

    def split(self, both: Float[Tensor, "window 1 time"]) -> Batch:
        """Look-back and future of windows as a batch."""
        past, future = both[..., : self.recipe.lookback], both[..., self.recipe.lookback :]
        series = torch.zeros(len(both), dtype=torch.int64, device=both.device)
        return Batch(past, future, None, None, None, None, series)


def fit(
    run: StudyRun, spec: Spec, keep: Keep, seconds: float | None
) -> tuple[Model, Training, Facts, dict[str, NDArray[np.generic]]]:
    """Train one choice of paths on one choice of parts, and see what each path carries."""
    size = run.size
    assert isinstance(size, ComponentsSize)
    parts, paths = _parts(run.arm), _paths(run.arm)
    recipe = Recipe(size.lookback, size.horizon, parts, size.noise)
    source = Fresh(recipe, run.device)
    with first_weights(run.seed):
        network = models.create(
            "caps_net", channels=1, lookback=size.lookback, steps=size.horizon, attention=spec,
            width=size.width, heads=size.heads, depth=size.depth, channel_dropout=False,
        )  # fmt: skip
    _hold_extension(network)
    network.to(run.device)
    tested = source.split(draw_windows(size.tested, recipe, generator=seeded(0, 0)).to(run.device))
    training = train_stretches(
        network, Forecast(size.horizon), source, run.training(),
        stretch=size.stretch, measure=lambda: {"mse": _error(network, tested)}, seconds=seconds, keep=keep,
    )  # fmt: skip
    with evaluation_mode(network):
        silenced = {}
        for path in paths if len(paths) > 1 else ():
            with silence(network, path):
                silenced[path] = _error(network, tested)
    arrays = read_attention(network, tested, paths)
    shares = arrays["by_age"].sum(1) / arrays["by_age"].sum()
    carried: dict[str, object] = {f"{what}_{path}": None for what in ("share", "without") for path in PATHS}
    carried |= {f"share_{path}": float(share) for path, share in zip(paths, shares, strict=True)}
    carried |= {f"without_{path}": error for path, error in silenced.items()}
    columns = {
        "parts": "+".join(parts),
        "paths": "+".join(paths),
        "last_value_mse": (tested.past[..., -1:] - tested.future).double().square().mean().item(),
        **carried,
    }
    return network, training, columns, arrays


def read_attention(network: Model, tested: Batch, paths: tuple[PathName, ...]) -> dict[str, NDArray[np.generic]]:
    """What each path weighs: `by_age` [path, age], the mean absolute weight of steps ahead on steps so long before.

    Over layers, heads and windows; `paths` names the rows. `past`, `future` and `said` are the first window.
    """
    past = tested.past[:LOOKED_AT]
    with evaluation_mode(network):
        forecast = network(past[:1])
        weights = network.weights(past)
    ahead = tested.future.shape[-1]
    by_age = np.zeros((len(paths), past.shape[-1] + ahead))
    for layer in weights:
        assert isinstance(layer, dict)
        for row, path in enumerate(paths):
            size = layer[path].abs().mean((0, 1, 2)).double().cpu().numpy()
            for query in range(len(size) - ahead, len(size)):
                by_age[row, : query + 1] += size[query, query::-1] / (ahead * len(weights))
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


def _hold_extension(network: Model) -> None:
    """Let the steps ahead start at the last value, without the linear map that makes a first guess of them."""
    assert isinstance(network, Network)
    assert network.dual.extend is not None
    nn.init.zeros_(network.dual.extend.weight).requires_grad_(False)


def _error(network: Model, tested: Batch) -> float:
    return (network(tested.past).double() - tested.future.double()).square().mean().item()


def _parts(arm: str) -> tuple[Part, ...]:
    word = arm.partition("/")[0]
    return tuple(part for part in PARTS if word in (part, ALL))


def _paths(arm: str) -> tuple[PathName, ...]:
    word = arm.partition("/")[2]
    return tuple(path for path in PATHS if word == ALL or path in word.split("+"))


def _arms(full: bool) -> Mapping[str, Spec]:
    counts = (1, 2) if full else (1,)
    choices: list[str] = ["+".join(some) for count in counts for some in combinations(PATHS, count)]
    arms = [f"{parts}/{paths}" for parts in (*PARTS, ALL) for paths in (*choices, ALL)]
    return {arm: {"name": "caps", "paths": _paths(arm)} for arm in arms}


STUDY = Study(
    name="components",
    title="Components: trend, season and shocks",
    row=ComponentsRow,
    reduced=REDUCED,
    full=FULL,
    arms=_arms,
    metric="mse",
    more_is_better=False,
    shown={
        "mse": "MSE",
        "last_value_mse": "last value",
        "without_riemann": "without riemann",
        "without_prefix": "without prefix",
        "without_clock": "without clock",
        "share_riemann": "riemann's share",
        "share_prefix": "prefix's share",
        "share_clock": "clock's share",
    },
    published=dict,
    fit=fit,
)
