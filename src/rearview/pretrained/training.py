"""Train a zero-shot network on synthetic series alone, in parts of some minutes, resumable to the bit.

The generator draws a pool of series on the device, batches are cut from it, and a whole update (forward, backward,
clipping, optimisers) is replayed from a CUDA graph, one for each grain and number of patches ahead. Learning rates warm
up, stay, and fall to zero over the last part of the updates.
"""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rearview.core.errors import SettingsError
from rearview.core.settings import settings_from
from rearview.data.synthetic import prior
from rearview.models.contract import Shape
from rearview.models.patch_hosts.glance import Grain, Network, Settings, standardise
from rearview.pretrained.optimiser import make_optimisers

STATE, FACTS = "state-{:02d}.safetensors", "training.json"
MOST_BYTES = 15_000_000
"""Of one file of the state, if no single tensor is larger: parts are easier to move than the whole."""
NOTED = 200
"""Updates between two points of the loss curve."""
SHAPE = Shape(channels=1, lookback=512, steps=64)
LARGEST = 8.0
"""Targets are cut off here on the asinh scale: some 1,500 standard deviations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a network is trained."""

    updates: int
    """Of the weights, in all."""
    seed: int = 0
    attention: str | dict[str, object] = "softmax"
    settings: dict[str, object] = field(default_factory=dict)
    """Of the network; the rest are its defaults."""
    batch: int = 1024
    pool: int = 8192
    """Series drawn at a time."""
    ahead: tuple[tuple[int, ...], ...] = ((4, 12, 48), (4, 16, 48))
    """Patches ahead that are trained, for each grain; one of them is drawn for each pool."""
    matrix_rate: float = 0.02
    rate: float = 1.5e-3
    warm_up: int = 300
    """Updates until the rates are whole."""
    fall: float = 0.25
    """The last part of the updates, in which the rates fall to zero."""
    clip: float = 1.0
    device: str = "cuda"
    compile: bool = True


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of batch: a grain, and how many patches ahead."""

    grain: int
    ahead: int


class Trainer:
    """A network, its optimisers and one compiled update for each kind of batch."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        torch.manual_seed(plan.seed)
        network = Network(SHAPE, settings_from(Settings, "glance", plan.settings), plan.attention)
        self.network = network.to(plan.device)
        self.quantiles = torch.tensor(network.settings.quantiles, device=plan.device)
        self.rates = torch.zeros(2, device=plan.device)
        self.optimisers = make_optimisers(self.network, self.network.stack, self.rates[0], self.rates[1])
        self.generator = torch.Generator(plan.device).manual_seed(plan.seed)
        self._touch_moments()
        self.step_count = 0
        self.seconds = 0.0
        self.curve: list[dict[str, float]] = []
        self._updates: dict[Cell, Callable[[Tensor, Tensor], Tensor]] = {}

    @property
    def cells(self) -> list[Cell]:
        return [Cell(grain, ahead) for grain, several in enumerate(self.plan.ahead) for ahead in several]

    def run(self, seconds: float = math.inf) -> None:
        """Train to the end of the plan, or for about so many seconds, the setting up aside."""
        for cell in self.cells:
            self._update(cell)
        started, before = time.monotonic(), self.seconds
        losses: list[Tensor] = []
        while self.step_count < self.plan.updates and time.monotonic() - started < seconds:
            cell = self._pick_cell()
            for values, observed in self.batches(cell):
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

    def batches(self, cell: Cell) -> Iterator[tuple[Tensor, Tensor]]:
        """A pool of series, cut into batches: values, and what of their past is observed."""
        context, ahead = self._lengths(cell)
        sample = prior.draw(self.plan.pool, context + ahead, self.generator)
        observed = sample.observed & self._seen(self.plan.pool, context, ahead)
        for start in range(0, self.plan.pool - self.plan.batch + 1, self.plan.batch):
            part = slice(start, start + self.plan.batch)
            yield sample.values[part], observed[part]

    def loss(self, values: Tensor, observed: Tensor, cell: Cell) -> Tensor:
        """Twice the mean quantile loss of the observed steps ahead, on the asinh scale."""
        context, _ = self._lengths(cell)
        grain = self._grain(cell)
        past, seen = values[:, None, :context], observed[:, None, :context]
        z, seen, centre, scale = standardise(past, seen)
        y = torch.asinh((values[:, None, context:] - centre[..., 0]) / scale[..., 0]).clamp(-LARGEST, LARGEST)
        with torch.autocast(values.device.type, torch.bfloat16, enabled=values.is_cuda):
            forecast = self.network.read(z, seen, cell.ahead, grain)
        error = y[..., None] - forecast.float()
        loss = torch.maximum(self.quantiles * error, (self.quantiles - 1) * error).mean(-1)
        varies = z.std(-1, keepdim=True) > 1e-3
        weight = observed[:, None, context:] & varies
        return 2 * (loss * weight).sum() / weight.sum().clamp(min=1)

    def save(self, folder: Path) -> None:
        """Keep everything that resuming needs: numbers as safetensors, facts as JSON."""
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        tensors |= dict(self._moments())
        tensors["generator"] = self.generator.get_state()
        for old in folder.glob(STATE.replace("{:02d}", "*")):
            old.unlink()
        for number, part in enumerate(_split_tensors(tensors)):
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
        held = _read_state(folder)
        trainer.network.load_state_dict(_select_weights(held))
        for name, moment in trainer._moments():
            moment.copy_(held[name])
        trainer.generator.set_state(held["generator"])
        trainer.step_count, trainer.seconds, trainer.curve = facts["updates"], facts["seconds"], facts["curve"]
        return trainer

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

    def _plain(self, cell: Cell) -> Callable[[Tensor, Tensor], Tensor]:
        loss_of = torch.compile(self.loss, dynamic=False) if self.plan.compile else self.loss

        def update(values: Tensor, observed: Tensor) -> Tensor:
            loss: Tensor = loss_of(values, observed, cell)
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
        shape = (self.plan.batch, context + ahead)
        values = torch.randn(shape, device=self.plan.device)
        observed = torch.ones(shape, dtype=torch.bool, device=self.plan.device)
        update = self._plain(cell)
        changing = [*self.network.parameters(), *(moment for _, moment in self._moments())]
        before = [tensor.detach().clone() for tensor in changing]
        self.rates.zero_()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                update(values, observed)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = update(values, observed)
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

    def _seen(self, count: int, context: int, ahead: int) -> Tensor:
        """Which steps a series has: all, or the newest of a past that began later, from 8 steps on."""
        draw = prior.Draw(count, context + ahead, self.generator)
        length = torch.where(draw.chance(0.45), draw.log_uniform(8, context), float(context))
        return draw.time >= context - length.round()

    def _pick_cell(self) -> Cell:
        draw = torch.randint(len(self.cells), (1,), generator=self.generator, device=self.generator.device)
        return self.cells[int(draw)]

    def _lengths(self, cell: Cell) -> tuple[int, int]:
        patch = self._grain(cell).patch
        return self.network.settings.context * patch, cell.ahead * patch

    def _grain(self, cell: Cell) -> Grain:
        grain = self.network.grains[cell.grain]
        assert isinstance(grain, Grain)
        return grain

    def _sync(self) -> None:
        if self.plan.device.startswith("cuda"):
            torch.cuda.synchronize()

    def _note(self, losses: list[Tensor]) -> None:
        mean = torch.stack(losses).mean().item()
        if not math.isfinite(mean):
            raise RuntimeError(f"The loss is {mean} after {self.step_count} updates.")
        self.curve.append({"step": self.step_count, "seconds": round(self.seconds, 1), "loss": round(mean, 5)})


def read_network(folder: Path) -> tuple[Network, dict[str, Any]]:
    """The network of a training folder, in evaluation mode, and the facts of its training."""
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    settings = {
        name: tuple(value) if isinstance(value, list) else value for name, value in facts["plan"]["settings"].items()
    }
    network = Network(SHAPE, settings_from(Settings, "glance", settings), facts["plan"]["attention"])
    network.load_state_dict(_select_weights(_read_state(folder)))
    return network.eval(), facts


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
