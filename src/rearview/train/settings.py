"""The settings of training, each checked when it is set."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from numbers import Integral, Real
from typing import Any, Literal, get_args

from rearview.core.errors import SettingsError, did_you_mean
from rearview.core.settings import matches_type, type_in_words, words_of_type

Optimiser = Literal["adamw", "adam", "radam"]
ScheduleName = Literal["constant", "cosine", "halving", "onecycle", "type1", "type3"]
Anneal = Literal["cosine", "linear"]
Precision = Literal["float32", "bfloat16"]

_COUNT = ("a whole number of at least 1", lambda value: 1 <= value < 2**63)
_RANGES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "seed": ("a whole number of at least 0", lambda value: 0 <= value < 2**63),
    "learning_rate": ("a number above 0", lambda value: value > 0),
    "weight_decay": ("a number of at least 0", lambda value: value >= 0),
    "minimum_delta": ("a number of at least 0", lambda value: value >= 0),
    "warmup": ("a share from 0 up to, not including, 1", lambda value: 0 <= value < 1),
    "pct_start": ("a share from 0 up to, not including, 1", lambda value: 0 <= value < 1),
    "betas": ("two numbers from 0 up to, not including, 1", lambda it: len(it) == 2 and 0 <= min(it) <= max(it) < 1),
    "divide": ("a number of at least 1", lambda value: value >= 1),
    "clip": ("a number above 0, or None", lambda value: value > 0),
    "memory": ("a number of GiB above 0, 'auto' or None", lambda value: value > 0),
    "capture": ("True, False or None", bool),
}
"""The range of each setting whose type alone does not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of training. A value out of range is refused with the field, the value and what is allowed."""

    epochs: int = 20
    """Passes over the training windows, at most."""
    batch: int = 32
    """Windows that go through the model at once."""
    accumulate: int = 1
    """Batches per update. Their losses are pooled, so batch=8 with accumulate=4 is the update of batch=32 in less
    memory (but for batch norm, which sees 8 windows at a time)."""
    learning_rate: float = 1e-3
    """The highest rate of the schedule."""
    optimiser: Optimiser = "adamw"
    """"adamw" decays weights apart from the gradient, "adam" through it; "radam" is Adam with a rectified start."""
    weight_decay: float = 0.0
    """Strength of the decay."""
    decay_all: bool = True
    """Decay every parameter, as torch does; False spares biases, norms and everything else of one axis."""
    decay_head: bool = True
    """Decay the weights of a network's `head` too; False spares them, as Powerformer's supplement has it."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Memory of the first and second moments. "onecycle" and `patchtst_compat` drive the first themselves."""
    schedule: ScheduleName = "constant"
    """"constant"; "cosine" (to zero, update by update); "halving" (by updates, see `halve_every`); "onecycle" (up, then
    down to nearly zero, beta1 the other way); "type1" (halved before each epoch from the third); "type3" (times 0.9
    before each epoch from the fifth)."""
    halve_every: int | None = None
    """Updates between two halvings; for "halving"."""
    warmup: float = 0.0
    """Share of all updates over which the rate rises from zero; for "constant" and "cosine"."""
    pct_start: float = 0.3
    """Share of all updates on the way up; for "onecycle"."""
    anneal: Anneal = "cosine"
    """Shape of the way up and down; for "onecycle"."""
    divide: float = 25.0
    """learning_rate / divide is where "onecycle" begins (and `patchtst_compat` spends epoch 1)."""
    schedule_epochs: int | None = None
    """Epochs over which "cosine" and "onecycle" are laid out; None: `epochs`."""
    patchtst_compat: bool = False
    """Repeat what PatchTST's released code does by accident with "constant", "type1" and "type3": epoch 1 runs at
    learning_rate / divide and beta1 is 0.95 throughout."""
    clip: float | None = None
    """Largest global norm of the gradients; None: as they come."""
    clip_halve_every: int | None = None
    """Updates after which `clip` is halved, again and again; None: never. CAPS's released code does so by accident with
    clip=1.5e-5 every 2,000: it clips gradients before it undoes a loss scale that doubles."""
    patience: int | None = 10
    """Epochs without improvement of the validation loss before training stops; None: never."""
    minimum_delta: float = 0.0
    """By how much the validation loss must fall to count as an improvement."""
    ties_improve: bool = False
    """An equal validation loss counts as an improvement, as in the Time-Series-Library."""
    keep_last: bool = False
    """End with the weights of the last epoch instead of the best one on validation."""
    windows_per_epoch: int | None = None
    """An epoch visits this many windows, drawn anew each time; None: all."""
    updates_per_epoch: int | None = None
    """An epoch has this many updates, whether that visits some of the windows or all of them more than once; None: as
    many as its windows fill."""
    drop_last: bool = False
    """Leave out the last, smaller update of an epoch."""
    validation_batch: int | None = None
    """Windows at once in validation; None: four times `batch`."""
    precision: Precision = "float32"
    """"bfloat16" runs the forward pass under autocast, in validation too; weights stay as they are."""
    tf32: bool = True
    """Let a GPU multiply float32 matrices on its tensor cores, with 10 bits of mantissa instead of 23; nothing on a
    CPU."""
    compile: bool = False
    """Run full batches of training through torch.compile: up to minutes of warm-up, faster steps. Smaller batches and
    validation run as they are."""
    capture: bool | None = None
    """Replay full updates from a CUDA graph, which spares a small network most of its step. None: on a GPU, where there
    are enough updates to pay for it; True: however few there are. What can't be captured runs without, and the history
    says why."""
    memory: float | Literal["auto"] | None = "auto"
    """GiB that an update may take beside the model. Where a batch takes more, its windows go through in parts, with the
    gradients of the whole batch; networks with batch norm, which needs the whole batch, do work again instead of
    keeping it. The history says so. "auto": on a CPU a quarter of the machine's memory, on a GPU and with `compile`
    any; None: any."""
    seed: int = 0
    """Fixes the order of the windows and every random draw: on CPU two runs of one seed are equal bit for bit."""
    checkpoint_every: int | None = None
    """Updates between checkpoints within an epoch; None: at the end of each epoch only."""

    def __post_init__(self) -> None:
        for field in fields(self):
            name, value, whole = field.name, getattr(self, field.name), int in (field.type, *get_args(field.type))
            allowed, fits = _RANGES.get(name, _COUNT if whole else (type_in_words(field.type), lambda value: True))
            if not matches_type(value, field.type) or not (isinstance(value, bool | str | None) or fits(value)):
                near = did_you_mean(value, words_of_type(field.type)) if isinstance(value, str) else ""
                raise SettingsError(f"{name} must be {allowed}, not {value!r}.{near}")
            if not isinstance(value, bool) and isinstance(value, Real):
                object.__setattr__(self, name, int(value) if isinstance(value, Integral) and whole else float(value))
        object.__setattr__(self, "betas", (float(self.betas[0]), float(self.betas[1])))
        if self.warmup and self.schedule not in ("constant", "cosine"):
            raise SettingsError(
                f"warmup={self.warmup} goes with the schedules 'constant' and 'cosine', but schedule is "
                f"{self.schedule!r}, which fixes its own first updates; leave warmup at 0."
            )
        if self.clip_halve_every is not None and self.clip is None:
            raise SettingsError("clip_halve_every halves clip; give clip too, or leave both out.")
        if self.schedule == "halving" and self.halve_every is None:
            raise SettingsError("schedule='halving' needs halve_every, the updates between two halvings.")
        if self.updates_per_epoch is not None and self.windows_per_epoch is not None:
            raise SettingsError(
                f"updates_per_epoch={self.updates_per_epoch} and windows_per_epoch={self.windows_per_epoch} both say "
                "how long an epoch is; give one of them, and None for the other."
            )
        if self.patchtst_compat and (self.schedule in ("cosine", "halving") or self.warmup):
            raise SettingsError(
                "patchtst_compat repeats PatchTST's released code, which has no cosine schedule, no halving by updates "
                "and no warm-up; use 'constant', 'onecycle', 'type1' or 'type3' with warmup=0, or leave "
                "patchtst_compat off."
            )
        if self.schedule_epochs is not None and self.schedule_epochs < self.epochs:
            raise SettingsError(
                f"schedule_epochs={self.schedule_epochs} ends before the {self.epochs} epochs do; "
                "give at least as many, or None."
            )

    def to_dict(self) -> dict[str, object]:
        """Every setting by name, ready for JSON."""
        return {**asdict(self), "betas": list(self.betas)}

    @property
    def windows_per_update(self) -> int:
        return self.batch * self.accumulate
