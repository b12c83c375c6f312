"""Parts that the synthetic studies share: rows, sizes, arms, and the training and measuring of an arm.

Samples are drawn afresh for every step and training pauses now and then to measure on fixed test sets. The one training
loop does the work: an epoch is a stretch of steps between two measurements, and its "windows" are only counted. Where
steps are replayed from a CUDA graph, the draws are part of the graph, since they come from the device's own generator.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from rearview import train
from rearview.attention import Spec
from rearview.bench.rows.row import Facts, MadeRow, as_json, declared_columns
from rearview.bench.runs import provenance
from rearview.bench.runs.run_spec import LEFT_OUT, complete_mechanism
from rearview.core.errors import SettingsError, unknown
from rearview.core.files import read_yaml
from rearview.core.random_state import RandomState
from rearview.core.settings import settings_from
from rearview.train.contract import Batch
from rearview.train.evaluation import autocast, evaluation_mode

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticRow(MadeRow):
    """One arm of one study with one seed."""

    SCHEMA, EARLIER, CONFIGURATION, ORDER = declared_columns("synthetic")

    schema: int = 1
    study: str
    arm: str
    size: str
    """reduced, full, or changed: neither of the two as declared."""
    steps: int
    """Updates done."""
    ended: str
    """steps: all that were asked for; seconds: time ran out before, and the schedule was cut."""
    train_loss: float
    """Mean over the last stretch between two measurements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of a run; a study adds the sizes of its data and network."""

    steps: int
    """Updates of the weights."""
    stretch: int
    """Updates between two measurements on the test sets."""
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
        """The settings of the training loop at this size."""
        names = ("batch", "learning_rate", "weight_decay", "schedule", "warmup", "clip", "precision")
        chosen = {name: getattr(self, name) for name in names}
        if device == "cpu":
            chosen["precision"] = "float32"
        return settings_from(train.Settings, "training", {**chosen, "epochs": self.steps // self.stretch, "seed": seed})


@dataclass(frozen=True, slots=True)
class StudyRun:
    """One arm of a study, to be trained with one seed."""

    study: str
    arm: str
    size: Size
    seed: int
    device: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """Scores on the test sets after some steps."""

    step: int
    seconds: float
    train_loss: float
    values: Mapping[str, float]


Keep = Callable[[Measurement], None]


class Trial(ABC, Generic[Batch]):
    """A network of a study with its samples, loss and test sets: what the training loop takes for source and task."""

    network: nn.Module

    @abstractmethod
    def batch(self, index: Int[Tensor, " window"], /) -> Batch:
        """As many new samples as `index` has places."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch, /) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """The sum of the losses and how many there are."""

    @abstractmethod
    def measure(self) -> Mapping[str, float]:
        """The network's scores on the test sets."""

    @abstractmethod
    def report(self, measured: Sequence[Measurement]) -> tuple[Facts, Arrays]:
        """The study's own columns after training, scores aside, and the numbers behind its figures."""


@dataclass(frozen=True, slots=True)
class Study:
    """A synthetic study: what is compared, at which sizes, and how an arm becomes a row."""

    name: str
    title: str
    row: type[SyntheticRow]
    reduced: Size
    full: Size
    arms: Callable[[bool], Mapping[str, Spec]]
    """Arm -> mechanism; True: those of the full size."""
    metric: str
    """The column that tells how well an arm did."""
    shown: Mapping[str, str]
    """Columns of the table: column -> heading."""
    published: Mapping[str, str]
    """The paper's words or number for an arm, where it has any."""
    trial: Callable[[Any, str, str], Trial[Any]]
    """Builds an arm of a size, by name, on a device."""
    more_is_better: bool = False

    @classmethod
    def declare(
        cls, name: str, row: type[SyntheticRow], size: type[Size], trial: Callable[[Any, str, str], Trial[Any]],
        arms: Callable[[bool], Mapping[str, Spec]] | None = None, published: Mapping[str, str] | None = None,
    ) -> "Study":  # fmt: skip
        """The study that studies.yaml has under a name; `arms` and `published` where they are computed."""
        facts = dict(read_yaml("rearview.bench.synthetic", "studies")[name])
        few, more, said, _ = (facts.pop(key, {}) for key in ("arms", "full_arms", "published", "figures"))
        facts.pop("mechanisms", None)
        facts |= {key: size(**facts[key]) for key in ("reduced", "full")}
        listed = arms or (lambda full: {**few, **more} if full else few)
        return cls(name=name, row=row, trial=trial, arms=listed, published=published or said, **facts)

    def resize(self, full: bool, changes: Facts | None = None) -> Size:
        """The full or the reduced size, with changes by name."""
        declared = self.full if full else self.reduced
        return settings_from(type(declared), self.name, {**asdict(declared), **(changes or {})})

    def spec(self, arm: str) -> Spec:
        """The mechanism of an arm."""
        known = {**self.arms(False), **self.arms(True)}
        if arm not in known:
            raise unknown(f"{self.name} arm", arm, list(known))
        return known[arm]

    def configuration(self, run: StudyRun) -> dict[str, object]:
        """The columns that describe a run."""
        name, settings = complete_mechanism(self.spec(run.arm))
        training = run.size.training(run.seed, run.device).to_dict()
        of_training = Size.__dataclass_fields__.keys() - {"stretch"}
        sizes = {key: value for key, value in asdict(run.size).items() if key not in of_training}
        return {
            "study": self.name,
            "arm": run.arm,
            "attention": name,
            "attention_settings": as_json(settings),
            "settings": as_json(sizes),
            "training": as_json({key: value for key, value in training.items() if key not in LEFT_OUT}),
            "seed": run.seed,
        }

    def make(
        self, run: StudyRun, *, seconds: float | None = None, keep: Keep = lambda _: None
    ) -> tuple[SyntheticRow, Arrays]:
        """Train an arm for `seconds` at most and measure it: its row, and the numbers behind its figures."""
        started = time.perf_counter()
        settings = run.size.training(run.seed, run.device)
        # First weights depend on the seed alone, and torch's generator is left as it was.
        with RandomState(run.seed).drawing():
            trial = self.trial(run.size, run.arm, run.device)
        watch = _Watch(trial, autocast(torch.device(run.device), settings.precision), run.size.stretch, seconds, keep)
        samples = torch.arange(run.size.stretch * settings.windows_per_update)
        history = train.fit(trial.network, trial, trial, samples, None, settings, progress=watch)
        if history.ended == "interrupted" and not watch.late:
            # Ctrl-C: a row of a run cut short by hand would pass for a whole one.
            raise KeyboardInterrupt
        own, arrays = trial.report(watch.measured)
        columns = {
            **self.configuration(run),
            "size": {self.reduced: "reduced", self.full: "full"}.get(run.size, "changed"),
            "steps": history.steps,
            "ended": "steps" if len(history.epochs) == settings.epochs else "seconds",
            "parameters": provenance.count_parameters(trial.network),
            **provenance.columns(torch.device(run.device)),
            "train_loss": watch.measured[-1].train_loss,
            "train_seconds": history.seconds,
            "total_seconds": time.perf_counter() - started,
            "loop": "captured" if history.captured else "eager",
        }
        return self.row.build({**columns, **watch.measured[-1].values, **own}), arrays


class _Watch(train.Silent):
    """Measures at the end of every stretch, and ends training once its time is up."""

    def __init__(
        self, trial: Trial[Any], precision: torch.autocast, stretch: int, seconds: float | None, keep: Keep
    ) -> None:
        self.trial, self.precision, self.stretch, self.keep = trial, precision, stretch, keep
        self.started = time.perf_counter()
        self.until = None if seconds is None else self.started + seconds
        self.measured: list[Measurement] = []
        self.late = False

    def epoch(self, epoch: train.Epoch) -> None:
        with evaluation_mode(self.trial.network), self.precision:
            values = dict(self.trial.measure())
        now = time.perf_counter()
        self.measured.append(Measurement(epoch.number * self.stretch, now - self.started, epoch.train_loss, values))
        self.keep(self.measured[-1])
        self.late = self.until is not None and now + epoch.seconds > self.until
        if self.late:
            # The loop ends in good order on an interrupt, whoever makes it.
            raise KeyboardInterrupt


def fixed_generator(number: int) -> torch.Generator:
    """The generator of a study's test set: the same on every device and for every arm."""
    return torch.Generator().manual_seed(int(np.random.SeedSequence([0, number]).generate_state(1)[0]))
