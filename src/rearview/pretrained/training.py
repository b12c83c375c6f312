"""Train a zero-shot network on synthetic series alone, in parts of some minutes, resumable to the bit.

The generator draws a pool of series on the device, batches are cut from their ends, and a whole update (forward,
backward, clipping, optimisers) is replayed from a CUDA graph, one for each shape of batch; so is the generator, one for
each length of series. Batches have about as many tokens each, whatever their shape. Nothing waits for the device
between two points of the loss curve. Learning rates warm up, stay, and fall to zero over the last part of the updates.
"""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rearview.attention import kernels
from rearview.core.errors import SettingsError
from rearview.core.settings import settings_from
from rearview.data.synthetic import prior
from rearview.models.contract import Shape
from rearview.models.patch_hosts.glance import Grain, Network, Settings, standardise
from rearview.pretrained import weights
from rearview.pretrained.optimiser import make_optimisers

STATE, FACTS = "state-{:02d}.safetensors", "training.json"
MOST_BYTES = 15_000_000
"""Of one file of the state, if no single tensor is larger: parts are easier to move than the whole."""
NOTED = 200
"""Updates between two points of the loss curve."""
SHAPE = Shape(channels=1, lookback=512, steps=64)
LARGEST = 8.0
"""Targets are cut off here on the asinh scale: some 1,500 standard deviations."""

FINE = (
    (2, 2), (3, 2), (5, 2), (8, 3), (12, 4), (16, 4), (21, 3), (25, 6), (32, 8), (36, 5), (48, 4), (48, 12), (64, 4),
    (64, 16),
)  # fmt: skip
COARSE = (
    (16, 3), (24, 4), (32, 3), (40, 16), (48, 3), (64, 8), (64, 30), (96, 3), (96, 45), (128, 3), (128, 3), (128, 8),
    (128, 16), (128, 30), (128, 45), (128, 48),
)  # fmt: skip
"""Tokens of the past and tokens ahead, from 8 steps to 2,048 and from 8 ahead to 768."""
LENGTHS = (80, 320, 1152, 2816)
TWO_GRAINS: Mapping[str, object] = {"patches": (4, 16), "context": (64, 128), "ahead": (16, 48)}
"""The settings that these shapes are for."""
SHAPES = (*((0, *shape) for shape in FINE), *((1, *shape) for shape in COARSE))
COUPLED = (
    (0, 16, 4, 4), (0, 32, 8, 3), (0, 64, 4, 8), (0, 64, 16, 8), (1, 32, 3, 5), (1, 64, 8, 5), (1, 128, 3, 12),
    (1, 128, 16, 12),
)  # fmt: skip
"""Grain, tokens of the past, tokens ahead and channels of batches of coupled channels."""
SHIPPED = "shipped"
NEW = (".attend.gate.", ".decay.alpha")
"""Names of what softmax attention does not have: MICA's way to the other channels, rbca's rate."""

DrawCoupled = Callable[[int, int, int, torch.Generator], prior.Sample]
"""Draws so many panels of so many channels and steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a network is trained."""

    updates: int
    """Of the weights, in all."""
    seed: int = 0
    attention: str | dict[str, object] = "softmax"
    settings: dict[str, object] = field(default_factory=lambda: dict(TWO_GRAINS))
    """Of the network; the rest are its defaults."""
    tokens: int = 1 << 15
    """Of a batch, at most."""
    series: int = 2048
    """Of a batch, at most."""
    pool: int = 16
    """Batches that are drawn at a time."""
    shapes: tuple[tuple[int, int, int], ...] = SHAPES
    """Grain, tokens of the past and tokens ahead of each kind of batch, all equally frequent."""
    lengths: tuple[int, ...] = LENGTHS
    """Steps of the series that are drawn; a batch is cut from the shortest that are long enough."""
    coupled: float = 0.0
    """The share of pools whose series are coupled channels, read together where the attention mixes channels."""
    coupled_shapes: tuple[tuple[int, int, int, int], ...] = COUPLED
    """As `shapes`, with the number of channels."""
    distinct: int = 0
    """Pools of series that differ, after which the same ones are drawn again; 0: all differ."""
    start: str = ""
    """A training folder whose weights are the first ones, or `shipped`; empty: random ones."""
    matrix_rate: float = 0.01
    rate: float = 1e-3
    warm_up: int = 300
    """Updates until the rates are whole."""
    fall: float = 0.25
    """The last part of the updates, in which the rates fall to zero."""
    clip: float = 1.0
    device: str = "cuda"
    compile: bool = True
    long_kernels: bool = False
    """Whether a compiled update has our kernels for long axes, by which rbca reads its decay as a vector."""


class Cell(NamedTuple):
    """One kind of batch: a grain, how many patches back and how many ahead, and how many channels a series has."""

    grain: int
    context: int
    ahead: int
    channels: int = 1


class Trainer:
    """A network, its optimisers and one compiled update for each kind of batch."""

    def __init__(self, plan: Plan, draw_coupled: DrawCoupled = prior.draw_coupled) -> None:
        self.plan = plan
        self.draw_coupled = draw_coupled
        torch.manual_seed(plan.seed)
        network = Network(SHAPE, settings_from(Settings, "glance", plan.settings), plan.attention)
        if plan.start:
            adopt_weights(network, _read_start(plan.start))
        self.network = network.to(plan.device)
        self.quantiles = torch.tensor(network.settings.quantiles, device=plan.device)
        self.rates = torch.zeros(2, device=plan.device)
        self.optimisers = make_optimisers(self.network, self.network.stack, self.rates[0], self.rates[1])
        self.generator = torch.Generator(plan.device).manual_seed(plan.seed)
        self.choices = torch.Generator().manual_seed(plan.seed)
        self.cells = tuple(Cell(*shape) for shape in plan.shapes)
        self.coupled_cells = tuple(Cell(*shape) for shape in plan.coupled_shapes) if plan.coupled else ()
        self._touch_moments()
        self.step_count = 0
        self.seconds = 0.0
        self.curve: list[dict[str, float]] = []
        self._updates: dict[Cell, Callable[[Tensor, Tensor], Tensor]] = {}
        self._draws: dict[tuple[int, int], Callable[[], prior.Sample]] = {}
        self._memory: Any = None
        if plan.compile:
            # A block at a time, for any number of tokens: compiled once, used in every layer and shape.
            for block in self.network.stack.blocks:
                block.compile(dynamic=True)

    def run(self, seconds: float = math.inf, most: int | None = None) -> None:
        """Train to the end of the plan, to so many updates, or for about so many seconds, the setting up aside."""
        self.set_up()
        started, before = time.monotonic(), self.seconds
        losses: list[Tensor] = []
        last = self.plan.updates if most is None else min(most, self.plan.updates)
        while self.step_count < last and time.monotonic() - started < seconds:
            if self.plan.distinct and self.step_count // self.plan.pool % self.plan.distinct == 0:
                self.generator.manual_seed(self.plan.seed)
                self.choices.manual_seed(self.plan.seed)
            for cell, values, observed in self.batches():
                self._set_rates()
                losses.append(self._update(cell)(values, observed).clone())
                self.step_count += 1
            if len(losses) >= NOTED:
                self._sync()
                self.seconds = before + time.monotonic() - started
                self._note(losses)
                losses = []
        self._sync()
        self.seconds = before + time.monotonic() - started

    def anneal(self, updates: int) -> Network:
        """The network after so many more updates with rates that fall to zero; the training stays where it is."""
        state = {name: tensor.clone() for name, tensor in self._state().items()}
        plan, facts = self.plan, (self.step_count, self.seconds, list(self.curve))
        total = self.step_count + updates
        self.plan = replace(plan, updates=total, fall=updates / total)
        self.run()
        made = Network(SHAPE, self.network.settings, plan.attention).to(plan.device)
        made.load_state_dict(self.network.state_dict())
        self._restore(state)
        self.plan, (self.step_count, self.seconds, self.curve) = plan, facts
        return made.eval()

    @torch.no_grad()
    def validate(
        self, network: Network, pools: int = 8, seed: int = 1_000_003, coupled: bool | None = None, apart: bool = False
    ) -> float:
        """Mean loss of a network on pools of series that belong to a seed, whatever was trained on.

        `coupled` asks for pools of that kind alone, `apart` for channels that are read one by one.
        """
        states = self.generator.get_state(), self.choices.get_state()
        self.generator.manual_seed(seed)
        self.choices.manual_seed(seed)
        losses = []
        for cell, values, observed in (batch for _ in range(pools) for batch in self.batches(coupled)):
            if apart:
                values, observed = values.flatten(0, 1)[:, None], observed.flatten(0, 1)[:, None]
            losses.append(self.loss(values, observed, cell, network))
        self.generator.set_state(states[0])
        self.choices.set_state(states[1])
        return torch.stack(losses).mean().item()

    def set_up(self) -> None:
        """Compile and capture whatever is not captured yet."""
        # The largest first: the others find room in the memory that it took.
        cells = {*self.cells, *self.coupled_cells}
        for cell in sorted(cells, key=lambda cell: -self.count_series(cell) * cell.channels * sum(self._lengths(cell))):
            self._update(cell)
        for channels, length in sorted({self.drawn_kind(cell) for cell in cells}, key=lambda kind: (kind[0], -kind[1])):
            self._draw(channels, length)

    def batches(self, coupled: bool | None = None) -> Iterator[tuple[Cell, Tensor, Tensor]]:
        """Batches of several shapes, cut from one pool of series: values, and which of them are observed.

        Both are [series, channel, step]. Whether the channels are coupled ones is left to chance unless it is given.
        """
        if coupled is None:
            coupled = bool(self.coupled_cells) and float(torch.rand(1, generator=self.choices)) < self.plan.coupled
        cells = self.coupled_cells if coupled else self.cells
        kind = self.drawn_kind(cells[self._choose(len(cells))])
        alike = [cell for cell in cells if self.drawn_kind(cell) == kind]
        sample = self._draw(*kind)()
        start = 0
        for _ in range(self.plan.pool):
            cell = alike[self._choose(len(alike))]
            steps, count, patch = sum(self._lengths(cell)), self.count_series(cell), self._grain(cell).patch
            rows = slice(start, start + count)
            start += count
            # A series may begin within its first patch.
            draw = prior.Draw(count * cell.channels, steps, self.generator)
            begun = (draw.time >= torch.floor(draw.uniform(1 - patch, patch))).unflatten(0, (count, cell.channels))
            yield cell, sample.values[rows, :, -steps:], sample.observed[rows, :, -steps:] & begun

    def count_series(self, cell: Cell) -> int:
        """Series of a batch, each with all of its channels."""
        tokens = (cell.context + cell.ahead) * cell.channels
        return min(self.plan.series, max(1, self.plan.tokens // tokens))

    def drawn_kind(self, cell: Cell) -> tuple[int, int]:
        """Channels and steps of the series that the batches of a cell are cut from."""
        needed = sum(self._lengths(cell))
        return cell.channels, min((length for length in self.plan.lengths if length >= needed), default=needed)

    def loss(self, values: Tensor, observed: Tensor, cell: Cell, network: Network | None = None) -> Tensor:
        """Twice the mean quantile loss of the observed steps ahead, on the asinh scale; by default of what trains."""
        network = self.network if network is None else network
        context, _ = self._lengths(cell)
        grain = cast(Grain, network.grains[cell.grain])
        past, seen = values[..., :context], observed[..., :context]
        z, centre, scale = standardise(past, seen)
        # Constant pasts, whose scale is 0, have no weight below.
        wanted = (values[..., context:] - centre[..., 0]) / scale[..., 0].clamp(min=1e-30)
        y = torch.asinh(wanted).clamp(-LARGEST, LARGEST)
        autocast = torch.autocast(values.device.type, torch.bfloat16, enabled=values.is_cuda)
        left: AbstractContextManager[None] = nullcontext()
        if self.plan.compile:
            left = kernels.leave("long" if self.plan.long_kernels else "none")
        with autocast, left:
            forecast = network.read(z, seen, cell.ahead, grain)
        error = y[..., None] - forecast.float()
        loss = torch.maximum(self.quantiles * error, (self.quantiles - 1) * error).mean(-1)
        varies = z.std(-1, keepdim=True) > 1e-3
        weight = observed[..., context:] & varies
        return 2 * (loss * weight).sum() / weight.sum().clamp(min=1)

    def finish_within(self, seconds: float) -> None:
        """Plan the end: rates that fall to zero about so many seconds of training from now, at the pace so far."""
        if not self.step_count:
            raise SettingsError("A training that has not begun has no pace to plan by; give its number of updates.")
        left = max(1, int(seconds * self.step_count / self.seconds))
        updates, fall = self.step_count + left, self.plan.fall
        if self.step_count <= (1 - fall) * self.plan.updates:
            # Rates that have not fallen yet start from where they are.
            fall = min(fall, left / updates)
        self.plan = replace(self.plan, updates=updates, fall=fall)

    def save(self, folder: Path, *, half: bool = False) -> None:
        """Keep everything that resuming needs: numbers as safetensors, facts as JSON.

        `half` keeps what the optimisers remember in bfloat16, in half the bytes; then resuming is not exact to the bit.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(STATE.replace("{:02d}", "*")):
            old.unlink()
        state = self._state()
        if half:
            moments = {name: part.bfloat16() for name, part in self._moments() if part.numel() > 1}
            state = {**state, **moments}
        for number, part in enumerate(_split_tensors(state)):
            save_file(part, folder / STATE.format(number))
        facts = {"plan": asdict(self.plan), "updates": self.step_count, "seconds": self.seconds, "curve": self.curve}
        (folder / FACTS).write_text(json.dumps(facts, indent=1), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, plan: Plan) -> "Trainer":
        """Go on where `save` left off, under the same plan."""
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        if facts["plan"] != json.loads(json.dumps(asdict(plan))):
            raise SettingsError(f"{folder} was trained under another plan; give the same one, or another folder.")
        trainer = cls(plan)
        trainer._restore(_read_state(folder))
        trainer.step_count, trainer.seconds, trainer.curve = facts["updates"], facts["seconds"], facts["curve"]
        return trainer

    def _state(self) -> dict[str, Tensor]:
        """All numbers that the next update depends on."""
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        random = {"generator": self.generator.get_state(), "choices": self.choices.get_state()}
        return {**tensors, **dict(self._moments()), **random}

    def _restore(self, state: Mapping[str, Tensor]) -> None:
        self.network.load_state_dict(_select_weights(state))
        with torch.no_grad():
            for name, moment in self._moments():
                moment.copy_(state[name])
        self.generator.set_state(state["generator"].cpu())
        self.choices.set_state(state["choices"].cpu())

    def _moments(self) -> Iterator[tuple[str, Tensor]]:
        """What the optimisers remember, by a name of its own."""
        for which, optimiser in enumerate(self.optimisers):
            for place, parameter in enumerate(p for group in optimiser.param_groups for p in group["params"]):
                for name, value in optimiser.state[parameter].items():
                    if isinstance(value, Tensor):
                        yield f"optimiser.{which}.{place}.{name}", value

    def _touch_moments(self) -> None:
        """Let the optimisers make the tensors that they keep, by an update at a rate of zero, and set them to zero."""
        for parameter in self.network.parameters():
            parameter.grad = torch.zeros_like(parameter)
        self.rates.zero_()
        for optimiser in self.optimisers:
            optimiser.step()
        for _, moment in self._moments():
            moment.zero_()

    def _update(self, cell: Cell) -> Callable[[Tensor, Tensor], Tensor]:
        if cell not in self._updates:
            self._updates[cell] = self._capture(cell) if self.plan.device.startswith("cuda") else self._plain(cell)
        return self._updates[cell]

    def _draw(self, channels: int, length: int) -> Callable[[], prior.Sample]:
        """Draws pools of series [series, channel, step], from which batches of all shapes of that kind can be cut."""
        kind = channels, length
        if kind not in self._draws:
            cells = (*self.cells, *self.coupled_cells)
            count = self.plan.pool * max(self.count_series(cell) for cell in cells if self.drawn_kind(cell) == kind)
            coarser = prior.COARSER[len(self._draws) % len(prior.COARSER)]

            def draw() -> prior.Sample:
                if channels > 1:
                    return self.draw_coupled(count, channels, length, self.generator)
                sample = prior.draw(count, length, self.generator, coarser=coarser)
                return prior.Sample(sample.values[:, None], sample.observed[:, None])

            self._draws[kind] = self._capture_draw(draw) if self.plan.device.startswith("cuda") else draw
        return self._draws[kind]

    def _capture_draw(self, draw: Callable[[], prior.Sample]) -> Callable[[], prior.Sample]:
        """The generator as one CUDA graph; its random state is as before once it is captured."""
        before = self.generator.get_state()
        warm_up(draw)
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.generator)
        with torch.cuda.graph(graph, pool=self._memory):
            sample = draw()
        self.generator.set_state(before)

        def replay() -> prior.Sample:
            graph.replay()
            return prior.Sample(sample.values.clone(), sample.observed.clone())

        return replay

    def _plain(self, cell: Cell) -> Callable[[Tensor, Tensor], Tensor]:
        def update(values: Tensor, observed: Tensor) -> Tensor:
            loss = self.loss(values, observed, cell)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.plan.clip, foreach=True)
            for optimiser in self.optimisers:
                optimiser.step()
            self.network.zero_grad(set_to_none=False)
            return loss.detach()

        return update

    def _capture(self, cell: Cell) -> Callable[[Tensor, Tensor], Tensor]:
        """The update as one CUDA graph over fixed buffers; weights and generator are as before once it is captured."""
        context, ahead = self._lengths(cell)
        shape = (self.count_series(cell), cell.channels, context + ahead)
        values = torch.randn(shape, device=self.plan.device)
        observed = torch.ones(shape, dtype=torch.bool, device=self.plan.device)
        update = self._plain(cell)
        changing = [*self.network.parameters(), *(moment for _, moment in self._moments())]
        before = [tensor.detach().clone() for tensor in changing]
        self.rates.zero_()
        warm_up(lambda: update(values, observed))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._memory):
            loss = update(values, observed)
        self._memory = graph.pool()
        with torch.no_grad():
            for tensor, kept in zip(changing, before, strict=True):
                tensor.copy_(kept)

        def replay(new_values: Tensor, new_observed: Tensor) -> Tensor:
            values.copy_(new_values)
            observed.copy_(new_observed)
            graph.replay()
            return loss

        return replay

    def _set_rates(self) -> None:
        up = min(1.0, (self.step_count + 1) / self.plan.warm_up)
        down = min(1.0, max(0.0, (1 - self.step_count / self.plan.updates) / self.plan.fall))
        wanted = torch.tensor([self.plan.matrix_rate, self.plan.rate]) * up * down
        self.rates.copy_(wanted, non_blocking=True)

    def _choose(self, count: int) -> int:
        return int(torch.randint(count, (1,), generator=self.choices))

    def _lengths(self, cell: Cell) -> tuple[int, int]:
        """Steps of the past and steps ahead."""
        patch = self._grain(cell).patch
        return cell.context * patch, cell.ahead * patch

    def _grain(self, cell: Cell) -> Grain:
        return cast(Grain, self.network.grains[cell.grain])

    def _sync(self) -> None:
        if self.plan.device.startswith("cuda"):
            torch.cuda.synchronize()

    def _note(self, losses: list[Tensor]) -> None:
        mean = torch.stack(losses).mean().item()
        if not math.isfinite(mean):
            raise RuntimeError(f"The loss is {mean} after {self.step_count} updates.")
        self.curve.append({"step": self.step_count, "seconds": round(self.seconds, 1), "loss": round(mean, 5)})


def warm_up(function: Callable[[], object], times: int = 3) -> None:
    """Call a function on a stream of its own before it is captured."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(times):
            function()
    torch.cuda.current_stream().wait_stream(side)


def read_network(folder: Path) -> tuple[Network, dict[str, Any]]:
    """The network of a training folder, in evaluation mode, and the facts of its training."""
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    settings = {
        name: tuple(value) if isinstance(value, list) else value for name, value in facts["plan"]["settings"].items()
    }
    network = Network(SHAPE, settings_from(Settings, "glance", settings), facts["plan"]["attention"])
    network.load_state_dict(_select_weights(_read_state(folder)))
    return network.eval(), facts


def adopt_weights(network: Network, given: Mapping[str, Tensor]) -> None:
    """Start from weights of a network with softmax; what only another attention has stays as it starts."""
    own = network.state_dict()
    renamed = {
        name if name in own else name.replace(".attend.", ".attend.local."): part for name, part in given.items()
    }
    lacking = [name for name in own if name not in renamed and not any(part in name for part in NEW)]
    other = [name for name, part in renamed.items() if name not in own or own[name].shape != part.shape]
    if lacking or other:
        names = ", ".join([*lacking, *other][:3])
        raise SettingsError(f"The weights to start from are of another network ({names}); give its settings.")
    network.load_state_dict({**own, **renamed})


def _read_start(start: str) -> dict[str, Tensor]:
    """The weights of a training folder, or those of the package."""
    if start == SHIPPED:
        return weights.load(weights.read_card()).state_dict()
    return read_network(Path(start))[0].state_dict()


def _read_state(folder: Path) -> dict[str, Tensor]:
    """All tensors that `save` kept."""
    files = sorted(folder.glob(STATE.replace("{:02d}", "*")))
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def _select_weights(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix("network."): state[name] for name in state if name.startswith("network.")}


def _split_tensors(tensors: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """The tensors on the CPU, in parts of at most `MOST_BYTES` where a tensor alone is not larger."""
    part: dict[str, Tensor] = {}
    size = 0
    for name, tensor in tensors.items():
        if part and size + tensor.nbytes > MOST_BYTES:
            yield part
            part, size = {}, 0
        part[name] = tensor.detach().cpu().contiguous()
        size += tensor.nbytes
    yield part
