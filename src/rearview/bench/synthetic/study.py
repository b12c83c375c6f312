"""What the synthetic studies have in common: arms, sizes, and how a run becomes a row with its figures."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rearview import __version__, train
from rearview.attention import Spec
from rearview.bench.rows.row import as_json
from rearview.bench.runs import provenance
from rearview.bench.runs.run_spec import complete_mechanism
from rearview.bench.synthetic.row import SyntheticRow
from rearview.bench.synthetic.training import Keep, Taught
from rearview.core.errors import SettingsError, did_you_mean
from rearview.core.settings import settings_from

Arrays = Mapping[str, NDArray[Any]]
BESIDE_THE_POINT = ("checkpoint_every", "seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large a run is; a study adds the sizes of its data and network."""

    steps: int
    """Updates of the weights."""
    stretch: int
    """Updates between two looks at the test sets."""
    batch: int
    """Samples an update."""
    learning_rate: float
    weight_decay: float = 0.0
    schedule: str = "constant"
    warmup: float = 0.0
    clip: float | None = None
    precision: str = "float32"
    """On a GPU; a CPU computes in float32."""

    def __post_init__(self) -> None:
        if self.stretch < 1 or self.steps < self.stretch or self.steps % self.stretch:
            raise SettingsError(
                f"steps is {self.steps} and stretch is {self.stretch}; steps must be a multiple of it, both above 0."
            )

    def training(self, seed: int, device: str) -> train.Settings:
        """How the loop trains at this size."""
        names = ("batch", "learning_rate", "weight_decay", "schedule", "warmup", "clip", "precision")
        chosen = {name: getattr(self, name) for name in names}
        if device == "cpu":
            chosen["precision"] = "float32"
        return settings_from(train.Settings, "training", {**chosen, "epochs": self.steps // self.stretch, "seed": seed})

    def sizes(self) -> dict[str, Any]:
        """The sizes of data and network, for a row."""
        training = {name for name in Size.__dataclass_fields__ if name != "stretch"}
        return {name: value for name, value in asdict(self).items() if name not in training}


@dataclass(frozen=True, slots=True)
class Asked:
    """One run, ready to be made."""

    arm: str
    size: Size
    seed: int
    device: str
    seconds: float | None
    keep: Keep


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to: a row, and the numbers behind its figures."""

    row: SyntheticRow
    arrays: Arrays


class Make(Protocol):
    """Makes a run of a study; `columns` are those a row has by what was asked for."""

    def __call__(self, asked: Asked, columns: Mapping[str, Any], started: float) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class Study:
    """A synthetic study: what is compared, at which sizes, and how a run is made."""

    name: str
    title: str
    row: type[SyntheticRow]
    reduced: Size
    full: Size
    arms: Callable[[bool], Mapping[str, Spec]]
    """Arm -> mechanism; True: those of the full size."""
    metric: str
    """The column that tells how well an arm did."""
    more_is_better: bool
    shown: Mapping[str, str]
    """Columns of the table: column -> heading."""
    published: Callable[[], Mapping[str, str]]
    """What the paper says of an arm, where it does."""
    make: Make

    def sized(self, full: bool, changes: Mapping[str, Any] | None = None) -> Size:
        """The size asked for, with changes by name."""
        declared = self.full if full else self.reduced
        return settings_from(type(declared), self.name, {**asdict(declared), **(changes or {})})

    def spec(self, arm: str) -> Spec:
        """The mechanism of an arm."""
        known = {**self.arms(False), **self.arms(True)}
        if arm not in known:
            raise SettingsError(
                f"{self.name} has no arm {arm!r}.{did_you_mean(arm, list(known))} Known: {', '.join(known)}."
            )
        return known[arm]

    def columns(self, asked: Asked) -> dict[str, Any]:
        """The columns that say what was asked for."""
        name, settings = complete_mechanism(self.spec(asked.arm))
        training = asked.size.training(asked.seed, asked.device).to_dict()
        sizes = (("reduced", self.reduced), ("full", self.full))
        return {
            "study": self.name,
            "arm": asked.arm,
            "attention": name,
            "attention_settings": as_json(settings),
            "settings": as_json(asked.size.sizes()),
            "training": as_json({key: value for key, value in training.items() if key not in BESIDE_THE_POINT}),
            "seed": asked.seed,
            "size": next((word for word, size in sizes if size == asked.size), "changed"),
        }

    def run(self, asked: Asked) -> Outcome:
        """Train an arm and measure it."""
        return self.make(asked, self.columns(asked), perf_counter())


def facts(network: nn.Module, taught: Taught, device: str, started: float) -> dict[str, Any]:
    """The columns that every study fills alike once training is over, and what the last look showed."""
    return {
        "steps": taught.steps,
        "ended": "steps" if taught.in_time else "seconds",
        "parameters": sum(weight.numel() for weight in network.parameters() if weight.requires_grad),
        "version": __version__,
        "commit": provenance.commit(),
        "device": provenance.device_words(torch.device(device)),
        "torch": str(torch.__version__),
        "threads": torch.get_num_threads(),
        "train_loss": taught.looks[-1].train_loss,
        "train_seconds": taught.seconds,
        "total_seconds": perf_counter() - started,
        "loop": "captured" if taught.captured else "eager",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        **taught.looks[-1].values,
    }


def seeded(seed: int, purpose: int) -> torch.Generator:
    """A generator of its own for one purpose: test sets are the same on every device and for every arm."""
    return torch.Generator().manual_seed(int(np.random.SeedSequence([seed, purpose]).generate_state(1)[0]))


def late(looks: Taught, metric: str) -> list[float]:
    """A metric at the looks of the last quarter of training."""
    values = [look.values[metric] for look in looks.looks]
    return values[-max(1, len(values) // 4) :]


@contextmanager
def first_weights(seed: int) -> Iterator[None]:
    """Weights that are drawn within depend on the seed alone; torch's generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
