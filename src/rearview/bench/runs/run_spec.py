"""A run with every choice made: resolved once from a request, before any data is read, and passed on as that value.

Preflight, locks, pools, Ray, the runner, failed rows and rows all take the same spec.
"""

import ast
import hashlib
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from rearview import attention as mechanisms
from rearview import models, train
from rearview.attention import Spec
from rearview.bench import tasks
from rearview.bench.protocols import Protocol
from rearview.bench.rows.row import Facts, as_json
from rearview.bench.runs.request import Request, loss_column
from rearview.bench.runs.tuning import Tuning
from rearview.core.errors import RearviewError
from rearview.core.settings import settings_table, with_floats
from rearview.data.datasets.catalogue import Dataset
from rearview.data.datasets.detection_sets import LabelledSet
from rearview.estimators.base import create_network
from rearview.estimators.detect.spec import DetectSpec
from rearview.models import adapters
from rearview.models.contract import Model
from rearview.tasks import losses
from rearview.train import parallel

LEFT_OUT = ("checkpoint_every", "seed")
"""Training settings that a row leaves out: the first changes no outcome, the second is a column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """The settings that runs of all tasks share; every setting of network and training has its value."""

    task: str
    dataset: str
    """The catalogue's name."""
    protocol: Protocol
    model: str
    attention: Spec
    """The mechanism that the network is built with: its own where none was requested; None: it has no attention."""
    settings: Facts
    """Of the network."""
    training: train.Settings | None
    """None for a network with nothing to train."""
    seed: int

    def __post_init__(self) -> None:
        self.split_attention()  # refuses a mechanism that does not exist

    def columns(self) -> dict[str, object]:
        """The columns of a row that describe the run, checksums of the data aside."""
        mechanism, mechanism_settings = self.split_attention()
        return {
            "dataset": self.dataset,
            "protocol": self.protocol.name,
            "model": self.model,
            "attention": mechanism,
            "attention_settings": as_json(mechanism_settings),
            "settings": as_json(self.settings),
            "training": as_json(self._training_column()),
            "seed": self.seed,
        }

    def split_attention(self) -> tuple[str, Facts]:
        """The name of the mechanism, empty for none, and its settings as a row states them."""
        return complete_mechanism(self.attention)

    def _training_column(self) -> Facts:
        given = {} if self.training is None else self.training.to_dict()
        return {name: value for name, value in given.items() if name not in LEFT_OUT}

    def digest(self, data: Mapping[str, str]) -> str:
        """A short name for the run, fit for a file name; `data`: the columns that only reading the data fills."""
        return hashlib.sha256(as_json({**self.columns(), **data}).encode()).hexdigest()[:16]

    def habits(self) -> str:
        """The protocol's habits, as a row states them."""
        return self.protocol.describe_habits(self.task)

    def build(self, device: torch.device | str, **shape: Any) -> Model:
        """The network with its first weights; `shape` is what `models.create` asks."""
        return create_network(
            self.model, seed=self.seed, device=device, attention=self.attention, settings=self.settings, **shape
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastingSpec(RunSpec):
    """A run of forecasting."""

    data: Dataset
    lookback: int
    horizon: int
    presets: str
    """Whose published settings stand below the requested ones."""
    loss: losses.Spec
    """The loss that training minimises, with those of its settings that are not defaults."""
    adapters: tuple[adapters.Spec, ...]
    """Around the network, the outermost first."""
    calendar: str | None
    """The step whose calendar features the network gets; None: none."""
    candidates: tuple[Facts, ...] = ()
    """Settings tried on validation."""
    tuning: Tuning | None = None
    """Settings drawn instead."""
    budget: Facts = field(default_factory=dict)
    """The search for settings, where several were tried."""

    def columns(self) -> dict[str, object]:
        return {
            # Named, as `super()` does not work in a class with slots.
            **RunSpec.columns(self),
            "lookback": self.lookback,
            "horizon": self.horizon,
            "calendar": self.calendar or "",
            "loss": loss_column(self.loss),
            "adapters": as_json(self.adapters),
            "budget": as_json(self.budget),
        }

    def habits(self) -> str:
        return self.protocol.describe_habits(self.task, self.presets)

    def _training_column(self) -> Facts:
        columns = RunSpec._training_column(self)
        # `batch` is what each of several processes holds.
        return {**columns, "processes": parallel.size()} if columns and parallel.size() > 1 else columns


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionSpec(RunSpec):
    """A run of detection."""

    data: LabelledSet
    estimator: DetectSpec
    """The options of the estimator: look-back, mode, threshold and balance, and the settings as given; it chooses the
    others."""
    stride: int
    """Rows from one scored window to the next."""
    threshold_rule: str
    balance: bool

    def columns(self) -> dict[str, object]:
        return {
            **RunSpec.columns(self),
            "mode": self.estimator.mode,
            "lookback": self.estimator.lookback,
            "stride": self.stride,
            "threshold_rule": self.threshold_rule,
            "balance": int(self.balance),
        }

    def split_attention(self) -> tuple[str, Facts]:
        return ("", {}) if self.attention is None else mechanisms.split(self.attention)

    def _training_column(self) -> Facts:
        return self.estimator.training


@dataclass(frozen=True, slots=True)
class Execution:
    """The circumstances of a run: device, files, threads, progress; they change nothing that comes out of it."""

    data_dir: Path | str | None = None
    device: str = "auto"
    results: Path | None = None
    """The file that keeps the row; None: none does."""
    checkpoint: Path | None = None
    """A folder that keeps the run while it trains, under a name made from its spec; many runs can share it."""
    resume: bool = False
    """Return the row of a run that `results` holds already, and continue one from its checkpoint."""
    threads: int | None = None
    """CPU threads of torch; None: as many as ever."""
    progress: train.Progress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """The data of a run; a task adds what it reads."""

    columns: Mapping[str, str]
    """Those of a run's configuration that only the data fill: checksums, and the name as files spell it."""


SpecT = TypeVar("SpecT", bound=RunSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit(Generic[SpecT]):
    """A trained network; a task adds what it measures it by."""

    spec: SpecT
    """The run, with the settings that a search chose."""
    network: Model
    history: train.History | None = None
    """None: there was nothing to train."""
    earlier_seconds: float = 0.0
    """The time of earlier sessions, if the run was resumed."""


def resolve(request: Request) -> RunSpec:
    """Resolve a request into a complete run spec; a name or setting that does not exist is refused."""
    return tasks.get(request.task).runner.resolve(request)


def try_build(model: str, build: Callable[[], Model]) -> None:
    """Build a network and let it go, ours of tensors that have shapes and no values, so that one of 800 channels takes
    no longer than one of 7; an error that is no refusal is left to the run."""
    # Some networks look at values as they are built (a graph's edges), and those of other packages may.
    modes = (FakeTensorMode, nullcontext) if model in models.names() else (nullcontext,)
    for mode in modes:
        try:
            with warnings.catch_warnings(), mode():
                warnings.simplefilter("ignore")  # the run itself will warn
                build()
        except RearviewError:
            raise
        except Exception:
            continue
        return


def known_settings(model: str, task: str = tasks.FORECASTING.name) -> list[str]:
    """Every setting that can be given for a network: its own, and to forecast calendar where it reads one, and
    adapters."""
    own = [field.name for field in fields(models.settings_of(model))]
    if task != tasks.FORECASTING.name:
        return own
    return [*own, *(["calendar"] if models.claims(model).uses_marks else []), "adapters"]


def complete_mechanism(spec: Spec) -> tuple[str, Facts]:
    """A mechanism's name and all of its settings, those left at their defaults included; None: the network has none."""
    if spec is None:
        return "", {}
    name, given = mechanisms.split(spec)
    settings = mechanisms.settings_of(name)
    defaults = _read_defaults(settings)  # type: ignore[arg-type]  # every class has a hash
    return name, {**defaults, **with_floats(settings, given)}


@cache
def _read_defaults(settings: type) -> Facts:
    """The defaults of a settings class as rows write them: as values where they are literals, else as text."""
    defaults: dict[str, object] = {}
    for setting in settings_table(settings):
        try:
            defaults[setting.name] = ast.literal_eval(setting.default)
        except (ValueError, SyntaxError):
            defaults[setting.name] = setting.default
    return defaults
