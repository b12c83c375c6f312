"""What the synthetic studies have in common: arms, sizes, and how a run becomes a row with its figures."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rearview import __version__, train
from rearview.attention import Spec
from rearview.bench.rows.row import Facts, as_json
from rearview.bench.runs import provenance
from rearview.bench.runs.run_spec import LEFT_OUT, complete_mechanism
from rearview.bench.synthetic.row import SyntheticRow
from rearview.bench.synthetic.training import Keep, Training
from rearview.core.errors import SettingsError, did_you_mean
from rearview.core.settings import settings_from

Arrays = Mapping[str, NDArray[Any]]


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

    def sizes(self) -> dict[str, object]:
        """The sizes of data and network, for a row."""
        training = {name for name in Size.__dataclass_fields__ if name != "stretch"}
        return {name: value for name, value in asdict(self).items() if name not in training}


@dataclass(frozen=True, slots=True)
class StudyRun:
    """One arm of a study at one size with one seed, as another process understands it."""

    study: str
    arm: str
    size: Size
    seed: int
    device: str

    def training(self) -> train.Settings:
        """How the loop trains it."""
        return self.size.training(self.seed, self.device)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run: a row, and the numbers behind its figures."""

    row: SyntheticRow
    arrays: Arrays


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
    """The column that says how well an arm did."""
    more_is_better: bool
    shown: Mapping[str, str]
    """Columns of the table: column -> heading."""
    published: Callable[[], Mapping[str, str]]
    """What the paper says of an arm, where it does."""
    fit: Callable[[StudyRun, Spec, Keep, float | None], tuple[nn.Module, Training, Facts, Arrays]]
    """Train an arm within some seconds: network, training, the columns of this study alone, and arrays."""

    def resize(self, full: bool, changes: Facts | None = None) -> Size:
        """The reduced or the full size, with changes by name."""
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

    def columns(self, run: StudyRun) -> dict[str, object]:
        """The columns that describe a run."""
        name, settings = complete_mechanism(self.spec(run.arm))
        sizes = (("reduced", self.reduced), ("full", self.full))
        return {
            "study": self.name,
            "arm": run.arm,
            "attention": name,
            "attention_settings": as_json(settings),
            "settings": as_json(run.size.sizes()),
            "training": as_json({key: v for key, v in run.training().to_dict().items() if key not in LEFT_OUT}),
            "seed": run.seed,
            "size": next((word for word, size in sizes if size == run.size), "changed"),
        }

    def make(self, run: StudyRun, keep: Keep = lambda measured: None, seconds: float | None = None) -> Outcome:
        """Train an arm, `seconds` at most, and measure it."""
        started = perf_counter()
        network, training, own, arrays = self.fit(run, self.spec(run.arm), keep, seconds)
        last = training.looks[-1]
        row = self.row.build(
            {
                **self.columns(run),
                "steps": training.steps,
                "ended": "steps" if training.in_time else "seconds",
                "parameters": sum(weight.numel() for weight in network.parameters() if weight.requires_grad),
                "version": __version__,
                "commit": provenance.commit(),
                "device": provenance.device_words(torch.device(run.device)),
                "torch": str(torch.__version__),
                "threads": torch.get_num_threads(),
                "train_loss": last.train_loss,
                "train_seconds": training.seconds,
                "total_seconds": perf_counter() - started,
                "loop": "captured" if training.captured else "eager",
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
                **last.values,
                **own,
            }
        )
        return Outcome(row, arrays)


def seeded(seed: int, purpose: int) -> torch.Generator:
    """A generator of its own for one purpose: test sets are the same on every device and for every arm."""
    return torch.Generator().manual_seed(int(np.random.SeedSequence([seed, purpose]).generate_state(1)[0]))


@contextmanager
def first_weights(seed: int) -> Iterator[None]:
    """Weights that are drawn within depend on the seed alone; torch's generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
