"""What every estimator shares: settings kept as given, a device, a seeded network, its training, its folder."""

import hashlib
import inspect
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rearview import models, train
from rearview.core.display import html_fold, html_table
from rearview.core.errors import SettingsError, did_you_mean
from rearview.core.random_state import RandomState
from rearview.core.settings import field_docs, settings_from
from rearview.data.panel import Finding, Panel
from rearview.data.read_options import ReadOptions
from rearview.data.scale import Scaler
from rearview.estimators.options import Attention, NetworkSpec
from rearview.models.contract import Model
from rearview.models.outline import COPIES, check_memory, outline
from rearview.tasks.plan import Choices, Plan

PREPARING = 256
"""Training windows that a network draws from before it trains on them, about."""
LEAST_STOPPING = 1_000
"""Windows that early stopping uses at least, where there are as many."""
_OTHER_NAMES = {"train": "training", "set": "settings", "input_size": "lookback", "seq_len": "lookback"}
"""Names of settings on the command line and in other libraries."""
_LOGGER = logging.getLogger("rearview")

Given = ParamSpec("Given")
Options = TypeVar("Options")
Owner = TypeVar("Owner", bound="Estimator[Any]")


def takes(
    options: Callable[Given, Options],
) -> Callable[[Callable[[Owner, Options], None]], Callable[Concatenate[Owner, Given], None]]:
    """Let a constructor take the fields of a dataclass as its arguments; it is handed them as one value.

    The arguments are also kept unchanged, because scikit-learn's `clone` compares them.
    """
    shared = {each.name for each in fields(NetworkSpec) if each.kw_only}
    own_first = sorted(fields(cast(Any, options)), key=lambda each: bool(each.kw_only) + (each.name in shared))
    declared = {each.name: each for each in own_first}
    places = [_parameter(each) for each in declared.values()]
    signature = inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD), *places])

    def decorate(init: Callable[[Owner, Options], None]) -> Callable[Concatenate[Owner, Given], None]:
        @wraps(init)
        def construct(self: Owner, *args: Given.args, **kwargs: Given.kwargs) -> None:
            for name in kwargs:
                if name not in declared:
                    here = _OTHER_NAMES.get(name)
                    near = f" It is called {here!r}." if here else did_you_mean(name, list(declared))
                    raise SettingsError(f"{type(self).__name__} has no setting {name!r}.{near}")
            bound = signature.bind(self, *args, **kwargs)
            named = {name: value for name, value in bound.arguments.items() if name != "self"}
            bound.apply_defaults()
            self._given = {name: bound.arguments[name] for name in declared}
            init(self, cast(Callable[..., Options], options)(**named))

        built: Any = construct
        built.__signature__ = signature
        meanings = {**ReadOptions.meanings(), **field_docs(cast(Any, options))}
        listed = "".join(f"\n    {name}: {' '.join(meanings.get(name, '').split())}" for name in declared)
        built.__doc__ = f"{inspect.getdoc(init)}\n\nArgs:{listed}"
        return cast(Callable[Concatenate[Owner, Given], None], built)

    return decorate


def _parameter(field: "Field[object]") -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY if field.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
    default = field.default if field.default is not MISSING else inspect.Parameter.empty
    if field.default_factory is not MISSING:
        default = None
    return inspect.Parameter(field.name, kind, default=default, annotation=field.type)


FittedT = TypeVar("FittedT")


def load_views(task: str) -> ModuleType:
    """The module that draws an estimator of a task and writes its page.

    It belongs to a later stage, which is known here by its name alone and imported when a picture is asked for.
    """
    return import_module(f"rearview.commands.{task}.notebook")


class Estimator(Generic[FittedT]):
    """Base of the forecaster, the detector and the classifier; a constructor `takes` their options."""

    _given: dict[str, object]
    _fitted: FittedT | None = None
    _origin: str | None = None
    _seconds: float = 0.0

    @property
    def fitted(self) -> FittedT:
        """The trained network and how it was made."""
        if self._fitted is None:
            raise SettingsError(
                f"This {type(self).__name__.lower()} has not been fitted; call fit(frame) or load(folder) first."
            )
        return self._fitted

    @property
    def seconds(self) -> float:
        """Seconds that `fit` took; 0 for a loaded estimator."""
        return self._seconds

    @property
    def origin(self) -> str:
        """Python code that makes this estimator again; data that are no file appear as `frame`, `X` and `y`."""
        return self._origin or f"rv.{self!r}"

    def remember_fit(self, started: float, *data: object, **options: object) -> None:
        """Record how long a fit took and the call that made it."""
        words = [repr(str(one)) if isinstance(one, str | Path) else name for name, one in zip("Xy", data, strict=False)]
        words = ["frame" if one == "X" and len(data) == 1 else one for one in words]
        words += [f"{name}={value!r}" for name, value in options.items() if value]
        self._seconds, self._origin = time.perf_counter() - started, f"rv.{self!r}.fit({', '.join(words)})"

    def _repr_html_(self) -> str:
        """Settings, what was fitted, and the leaderboard where there is one, for notebooks."""
        name, facts = type(self).__name__, self._describe() if self._fitted is not None else []
        parts = [f"<b>{name}</b>, {'fitted' if self._fitted is not None else 'not fitted'}"]
        facts += [("fitted in", f"{self.seconds:.1f} s")] if self.seconds else []
        parts += [html_table(facts)] if facts else []
        heads, rows = self._list_members() if self._fitted is not None else ((), ())
        parts += [html_fold("Leaderboard", html_table(rows, heads), is_open=True)] if rows else []
        changed = [(name, repr(value)) for name, value in self._changed.items()]
        settings = html_table(changed) if changed else "<p>All are the defaults.</p>"
        return f"<div>{''.join([*parts, html_fold('Settings', settings, is_open=not facts)])}</div>"

    def _describe(self) -> list[tuple[str, object]]:
        """What was fitted, in a few lines."""
        return []

    def _list_members(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        """(heads, rows) of the leaderboard; no row where there is none."""
        return (), ()

    @property
    def _changed(self) -> dict[str, object]:
        """The settings that were given and are not the defaults."""
        defaults = {name: each.default for name, each in inspect.signature(type(self)).parameters.items()}
        return {name: value for name, value in self.get_params().items() if value is not defaults[name]}

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Every setting by name as it was given, as scikit-learn asks for it."""
        return dict(self._given)

    def set_params(self, **params: object) -> Self:
        """Change settings by name; what was fitted with the old ones is forgotten."""
        if params:
            # Another one first: a setting that is refused must change nothing here.
            self.__dict__ = type(self)(**{**self._given, **params}).__dict__
        return self

    def __repr__(self) -> str:
        changed = ", ".join(f"{name}={value!r}" for name, value in self._changed.items())
        return f"{type(self).__name__}({changed})"


ValueT = TypeVar("ValueT", covariant=True)


class Forwarded(Generic[ValueT]):
    """An attribute of a class that is the attribute of the same name of one of its parts."""

    def __init__(self, part: str) -> None:
        self.part = part

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, whole: object, owner: type | None = None) -> ValueT:
        return cast(ValueT, self if whole is None else getattr(getattr(whole, self.part), self.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedNetwork:
    """A trained network and how it was made."""

    spec: NetworkSpec
    plan: Plan
    network: Model
    history: train.History | None
    findings: tuple[Finding, ...]

    @property
    def lookback(self) -> int:
        """Steps the network sees."""
        return self.plan.lookback.value

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the training."""
        return self.history is not None and self.history.ended == "interrupted"

    @property
    def device(self) -> torch.device:
        """The device that it runs on."""
        return torch.device(resolve_device(self.spec.device))

    @property
    def parameters(self) -> int:
        """Number of learned parameters."""
        return sum(weight.numel() for weight in self.network.parameters())


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedPanel(FittedNetwork):
    """A network fitted to the rows of a panel."""

    name: str
    ids: tuple[str, ...]
    columns: tuple[str, ...]
    """Columns the network reads."""
    mean: NDArray[np.float64]
    """[series, column] in (transformed) original units."""
    std: NDArray[np.float64]
    step: str
    notes: tuple[str, ...]
    windows: dict[str, int]
    """Number of windows for training, early stopping and calibration."""

    def scaler(self, panel: Panel) -> Scaler:
        """Training statistics for series that were seen in training, their own for others."""
        return Scaler.known(panel, self.ids, self.mean, self.std)


@dataclass(frozen=True, slots=True)
class Session:
    """Where a training is checkpointed, whether it resumes from there, what receives its progress, and its time."""

    checkpoint: Path | None = None
    resume: bool = False
    progress: train.Progress | bool | None = None
    seconds: float | None = None
    """How long it may train, about; None: as long as its settings say."""


NO_CHECKPOINT = Session()


def fingerprint(panel: Panel, *request: object) -> str:
    """Hash the data and the request of a run, so that a checkpoint is never resumed on other data."""
    digest = hashlib.sha256(repr((*request, panel.columns, panel.targets, panel.known)).encode())
    statics = None if panel.statics is None else panel.statics.values
    for array in (panel.values, panel.observed, panel.centre, panel.offsets, panel.stamps, statics):
        if array is not None:
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()[:12]


def resolve_device(name: str) -> str:
    """Return cpu or cuda for auto, and the name itself otherwise; a device that is not there is refused."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise SettingsError(f"There is no device {name!r}; use auto, cpu or cuda.") from None
    count = torch.cuda.device_count()
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingsError(f"device is {name!r}, but torch sees no CUDA device here; use device='auto' or 'cpu'.")
    if device.type == "cuda" and (device.index or 0) >= count:
        available = "cuda:0 alone" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise SettingsError(f"device is {name!r}, but torch sees {available} here; use one of these or device='auto'.")
    if device.type not in ("cpu", "cuda") and not _holds_numbers(device):
        raise SettingsError(f"device is {name!r}, which torch can't use here; use device='auto', 'cpu' or 'cuda'.")
    return name


def _holds_numbers(device: torch.device) -> bool:
    """Whether torch can put a number on a device and read it back."""
    try:
        return bool(torch.ones((), device=device).item() == 1)
    except (RuntimeError, NotImplementedError, AssertionError, ImportError):
        return False


def create_network(
    name: str,
    *,
    seed: int,
    device: torch.device | str,
    attention: Attention,
    settings: Mapping[str, Any],
    **shape: Any,
) -> Model:
    """Create a network with its first weights, drawn from the seed, on a device; `shape` is what `models.create` asks.

    The caller's random state is left as it was. A network that this machine's memory can't hold is refused.
    """
    arguments = {"attention": attention, **shape, **settings}
    with RandomState(seed).drawing():
        copies = COPIES if torch.device(device).type == "cpu" else 1
        check_memory(outline(name, **arguments), name, settings, copies)
    with RandomState(seed).drawing():
        network = models.create(name, **arguments)
    return network.to(device)


class _Past(Protocol):
    @property
    def past(self) -> Tensor: ...


BatchT = TypeVar("BatchT", bound=_Past)


def train_network(
    network: Model,
    task: train.Task[BatchT],
    source: train.Source[BatchT],
    learned: Tensor,
    held: Tensor,
    settings: train.Settings | None,
    session: Session,
) -> train.History | None:
    """Train a network in place on the windows `learned`, stopped by those held out; None: nothing to train."""
    if settings is None:
        return None
    network.prepare(source.batch(learned[:: max(1, len(learned) // PREPARING)]).past)
    return train.fit(
        network,
        task,
        source,
        learned,
        held if len(held) else None,
        settings,
        checkpoint=session.checkpoint,
        resume=session.resume,
        progress=train.follower(session.progress),
        seconds=session.seconds,
    )


def build_network(name: str, spec: NetworkSpec, plan: Plan, **shape: Any) -> tuple[Model, train.Settings | None]:
    """(a planned network with its first weights, its training settings; None where there is nothing to train)."""
    device, settings = resolve_device(spec.device), plan.model_settings
    network = create_network(name, seed=spec.seed, device=device, attention=spec.attention, settings=settings, **shape)
    return network, training_settings(plan.training, spec.seed) if models.claims(name).trains else None


def training_settings(choices: Choices, seed: int) -> train.Settings:
    """The settings of a training from those that were chosen."""
    values = {name: choice.value for name, choice in choices.items()}
    return settings_from(train.Settings, "Training", {**values, "seed": seed})


def thin_validation(held: Tensor, plan: Plan, learned: int, most: int | None = None) -> tuple[Tensor, tuple[str, ...]]:
    """Keep at most as many held-out windows as an epoch trains on, evenly spaced: validation must not cost more.

    `most` is the number of windows that an epoch of a training cut short trains on.
    """
    epoch = plan.training.get("windows_per_epoch")
    most = most or max(LEAST_STOPPING, learned if epoch is None else cast(int | None, epoch.value) or learned)
    if len(held) <= most:
        return held, ()
    some = held[:: -(-len(held) // most)]
    return some, (f"Early stopping looks at {len(some):,} of {len(held):,} windows, evenly spaced.",)


def warn(sentences: Iterable[str]) -> None:
    """Log sentences as warnings."""
    for sentence in sentences:
        _LOGGER.warning(sentence)


def warn_of_findings(findings: Iterable[Finding]) -> None:
    """Log findings as warnings, but for those that were only inferred."""
    warn(finding.message for finding in findings if finding.kind != "inferred")
