"""A run as the caller describes it; `rearview.bench.runs.run_spec.resolve` completes it. Needs no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rearview.bench import protocols
from rearview.bench.rows.row import Facts, as_json
from rearview.bench.runs.tuning import Tuning
from rearview.core.errors import SettingsError

Candidates = Sequence[Facts]
"""Settings to try one after the other."""
Part = str | Facts
"""A mechanism, loss or adapter: its name, or a mapping with `name` and settings."""


@dataclass(frozen=True, slots=True)
class Request:
    """One run; None leaves a choice to the protocol, the presets or the network."""

    dataset: str
    model: str
    attention: Part | None = None
    """None: the network's own."""
    lookback: int | None = None
    horizon: int | None = None
    """For forecasting."""
    task: str = protocols.FORECASTING
    protocol: str = "clean"
    seed: int = 0
    settings: Facts = field(default_factory=dict)
    """Of the network, on top of the published ones."""
    training: Facts = field(default_factory=dict)
    """Of the training, on top of the published ones."""
    presets: str | None = None
    """Whose published settings; None: those the protocol names."""
    loss: Part | None = None
    """None: the protocol's."""
    adapters: Part | Sequence[Part] = ()
    candidates: Candidates = ()
    """Settings tried on validation; `rearview.bench.runs.search` explains their names."""
    tuning: Tuning | None = None
    """Settings drawn instead."""
    mode: str | None = None
    """Of detection, as are the following; None: reconstruct."""
    stride: int | None = None
    threshold: str | float | None = None
    """None: quantile."""
    balance: bool | None = None
    """None: True."""

    @property
    def detection(self) -> dict[str, str | int | float | bool]:
        """The options of detection that are given."""
        given = {name: getattr(self, name) for name in ("mode", "lookback", "stride", "threshold", "balance")}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def budget(self) -> dict[str, object]:
        """The search for settings as a row states it before it is made; empty: none."""
        if self.candidates and self.tuning is not None:
            raise SettingsError("Settings are listed or drawn: give candidates or tuning, not both.")
        if self.tuning is not None:
            return self.tuning.budget()
        if not self.candidates:
            return {}
        return {"candidates": [dict(candidate) for candidate in self.candidates], "chosen_by": "validation loss"}

    def columns(self) -> dict[str, object]:
        """The request as a row can state it where it could not be resolved."""
        spec = self.attention or {}
        mechanism = {"name": spec} if isinstance(spec, str) else dict(spec)
        adapters = [self.adapters] if isinstance(self.adapters, str | Mapping) else list(self.adapters)
        plain = ("dataset", "protocol", "mode", "lookback", "horizon", "stride", "model", "seed")
        given: dict[str, object] = {
            **{name: getattr(self, name) for name in plain},
            "balance": None if self.balance is None else int(self.balance),
            "attention": str(mechanism.pop("name", "")),
            "attention_settings": as_json(mechanism),
            "settings": as_json(self.settings),
            "training": as_json(self.training),
            "loss": loss_column(self.loss or "mse"),
            "adapters": as_json(adapters),
            "budget": as_json(self.budget),
        }
        return {name: value for name, value in given.items() if value is not None}


def loss_column(loss: Part) -> str:
    """A loss as rows write it: its name, or JSON where it has settings."""
    if isinstance(loss, str):
        return loss
    return as_json({"loss" if key == "name" else key: value for key, value in loss.items()})


def spell(spec: Facts) -> str:
    """A part with its settings in short: rbca(bias=power_law, alpha=0.5)."""
    words = []
    for key, value in spec.items():
        if key != "name":
            joined = "+".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
            words.append(f"{key}={spell(value) if isinstance(value, Mapping) else joined}")
    name, settings = spec.get("name", ""), ", ".join(words)
    return f"{name}({settings})" if name and settings else str(name or settings)
