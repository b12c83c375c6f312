"""Our own training step by mode: plain, compiled, captured in a CUDA graph, both; with any attention, in one process.

It is the real loop that is timed, gathers of windows and the turn of an epoch included; what compiling and capturing
took stands beside it.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from _rows import Row, origin
from rearview import models, train
from rearview.bench import presets
from rearview.bench.papers import catalogue as experiments
from rearview.bench.papers import costs
from rearview.bench.runs.forecasting import split
from rearview.bench.runs.provenance import device_words
from rearview.core.errors import SettingsError
from rearview.data.datasets import catalogue, stand_ins
from rearview.data.panel import Panel
from rearview.data.scale import Scaler
from rearview.data.windows import Source, list_windows
from rearview.tasks.objectives import Forecast

MODES: dict[str, dict[str, Any]] = {
    "plain": {"capture": False, "compile": False},
    "compiled": {"capture": False, "compile": True},
    "captured": {"capture": True, "compile": False},
    "compiled+captured": {"capture": True, "compile": True},
}
ATTENTIONS: dict[str, dict[str, Any]] = {
    "softmax": {"name": "softmax"},
    "rbca": {"name": "rbca"},
    "toa-softmax": {"name": "toa", "kind": "softmax"},
    "toa-relu": {"name": "toa", "kind": "relu"},
    "toa-gated": {"name": "toa", "kind": "gated"},
    "mica-shared": {"name": "mica", "gate": "shared"},
    "mica-channelwise": {"name": "mica", "gate": "channelwise"},
    "mica-layerwise": {"name": "mica", "gate": "layerwise"},
    "mica-layerwise-channelwise": {"name": "mica", "gate": "layerwise_channelwise"},
    "mica-mlp": {"name": "mica", "gate": "mlp"},
    "mica-mlp-query": {"name": "mica", "gate": "mlp_query"},
    "caps": {"name": "caps"},
    "prime": {"name": "prime"},
    "none": {},
}
"""By the names that rows have; `none` is for networks without attention."""
MIB = 1 << 20
ROWS = 4_000
"""Of the panel that stands in for a data set of other channels: a step costs the same with more."""


@dataclass(frozen=True, slots=True)
class Host:
    """A network of the comparison with the peers' step."""

    name: str
    model: str
    lookback: int
    settings: dict[str, Any] = field(default_factory=dict)
    batch: int = 128
    horizon: int = 96
    peer: float | None = None
    """Milliseconds of the peer's own step on an H200."""
    wanted: float | None = None
    """Milliseconds asked for there, with softmax."""
    marks: bool = False
    """Calendar features as four more tokens."""
    channels: int | None = None
    """None: those of the panel that is given."""
    mechanisms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of mechanisms, by name, on top of those above."""


def _hosts() -> dict[str, Host]:
    small = {"width": 16, "heads": 4, "feed_forward": 128, "depth": 3, "dropout": 0.2, "patch": 16, "stride": 8}
    large = {**small, "width": 128, "heads": 16, "feed_forward": 256}
    variates = {"width": 256, "heads": 8, "feed_forward": 256, "depth": 2, "dropout": 0.2}
    hosts = (
        Host("patchtst-16", "patchtst_tslib", 336, small, peer=17.05, wanted=1.5),
        Host("patchtst-128", "patchtst_tslib", 336, large, peer=15.74, wanted=4.0),
        Host("itransformer-256", "itransformer", 96, variates, peer=11.70, wanted=0.8),
        Host("itransformer-256-calendar", "itransformer", 96, variates, peer=11.70, wanted=0.8, marks=True),
        # Batch norms, residual scores and no dropout of attention's weights: no peer was measured with these.
        Host("official-16", "patchtst", 336, small),
        Host("official-128", "patchtst", 336, large),
    )
    return {host.name: host for host in hosts}


HOSTS = _hosts()


def mica_hosts() -> dict[str, Host]:
    """The networks of the MICA paper's table 15 at its sizes, in the batches that it trains with, by name."""
    mechanisms = experiments.costs("mica")["mechanisms"]
    batch = presets.entries("mica")["patchtst"][0].training["batch"]
    return {
        cell.host: Host(
            cell.host,
            cell.model,
            cell.lookback or 0,
            dict(cell.settings or {}),
            batch=batch,
            horizon=cell.horizon or 0,
            channels=catalogue.get(cell.dataset).channels,
            mechanisms=mechanisms,
        )
        for cell in costs.cells("mica", "T15")
    }


@dataclass(frozen=True, slots=True)
class Timing:
    """What all measurements have in common."""

    device: str
    portions: int
    steps: int
    """Of a portion."""
    tf32: bool = True


class Stopwatch(train.Silent):
    """Times portions of a run, after one that is not counted, and ends it."""

    def __init__(self, timing: Timing) -> None:
        self.timing = timing
        self.left = timing.steps
        self.started: float | None = None
        self.taken: list[float] = []

    def step(self, epoch: int, done: int, loss: Callable[[], float]) -> None:
        self.left -= 1
        if self.left:
            return
        if self.timing.device == "cuda":
            torch.cuda.synchronize()
        now = time.perf_counter()
        if self.started is not None:
            self.taken.append((now - self.started) / self.timing.steps)
        if len(self.taken) == self.timing.portions:
            raise KeyboardInterrupt  # the loop's own way to end early
        self.left, self.started = self.timing.steps, now


def measure_mode(host: Host, attention: str, mode: str, panel: Panel, timing: Timing) -> Row:
    """The row of one host with one attention in one mode."""
    if host.channels is not None:
        panel = stand_ins.make(ROWS, host.channels, panel.step, of="Traffic")
    which = list_windows(panel, host.lookback, host.horizon)
    calendar = str(panel.step) if host.marks else None
    source = Source(
        panel, Scaler.fit(panel), which, host.lookback, host.horizon, calendar=calendar, device=timing.device
    )
    network = _network(host, attention, source)
    settings = train.Settings(
        epochs=1_000_000,
        batch=host.batch,
        learning_rate=1e-4,
        optimiser="adam",
        drop_last=True,
        tf32=timing.tf32,
        **MODES[mode],
    )
    if timing.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    watch = Stopwatch(timing)
    order = torch.arange(len(which))
    history = train.fit(network, Forecast(host.horizon), source, order, None, settings, progress=watch)
    return {
        "host": host.name,
        "model": host.model,
        "attention": attention,
        "mode": mode,
        "ms_per_step": 1000 * statistics.median(watch.taken),
        "ms_least": 1000 * min(watch.taken),
        "ms_most": 1000 * max(watch.taken),
        "windows_per_second": host.batch / statistics.median(watch.taken),
        "preparing_seconds": history.preparing_seconds,
        "captured": history.captured,
        "compiled": history.compiled,
        "note": " ".join(history.notes),
        "peak_mib": torch.cuda.max_memory_allocated() / MIB if timing.device == "cuda" else None,
        "wanted_ms": host.wanted if attention == "softmax" and timing.device == "cuda" else None,
        "peer_ms": host.peer if attention == "softmax" and timing.device == "cuda" else None,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "tf32": timing.tf32,
        "portions": timing.portions,
        "steps": timing.steps,
        "device": device_words(torch.device(timing.device)),
        "torch": torch.__version__,
        **origin(),
    }


def train_whole(host: Host, attention: str, mode: str, folder: Path, timing: Timing, epochs: int) -> Row:
    """The row of a whole training on ETTh1 from this folder, with the published borders."""
    panel = catalogue.load("ETTh1", folder)
    parts = split(panel, catalogue.get("ETTh1"), host.lookback, host.horizon)
    which = parts.train + parts.validation
    calendar = str(panel.step) if host.marks else None
    source = Source(panel, parts.scaler, which, host.lookback, host.horizon, calendar=calendar, device=timing.device)
    learned, selected = torch.split(torch.arange(len(which)), [len(parts.train), len(parts.validation)])
    network = _network(host, attention, source)
    settings = train.Settings(
        epochs=epochs,
        batch=host.batch,
        learning_rate=1e-4,
        optimiser="adam",
        schedule="type3",
        patchtst_compat=host.model != "itransformer",
        patience=epochs,
        tf32=timing.tf32,
        **MODES[mode],
    )
    task = Forecast(host.horizon)
    history = train.fit(network, task, source, learned, selected, settings, progress=train.Silent())
    return {
        "host": host.name,
        "attention": attention,
        "mode": mode,
        "train_seconds": history.seconds,
        "preparing_seconds": history.preparing_seconds,
        "epochs": len(history.epochs),
        "steps": history.steps,
        "windows_per_second": history.windows / history.seconds,
        "validation_loss": min(epoch.validation_loss or float("inf") for epoch in history.epochs),
        "captured": history.captured,
        "compiled": history.compiled,
        "note": " ".join(history.notes),
        "tf32": timing.tf32,
        "device": device_words(torch.device(timing.device)),
        "torch": torch.__version__,
        **origin(),
    }


def _network(host: Host, attention: str, source: Source) -> models.Model:
    """The host with its first weights, prepared, on the source's device."""
    torch.manual_seed(0)
    network = _build(host, ATTENTIONS[attention], source.channels, source.mark_count).to(source.device)
    network.prepare(source.pasts(torch.arange(0, len(source), 16)).past)
    return network


def _build(host: Host, attention: dict[str, Any], channels: int, marks: int = 0) -> models.Model:
    spec = {**attention, **host.mechanisms.get(attention.get("name", ""), {})}
    return models.create(
        host.model,
        channels=channels,
        lookback=host.lookback,
        steps=host.horizon,
        **({"attention": spec} if spec else {}),
        **({"marks": marks} if marks else {}),
        **host.settings,
    )


def fits(host: Host, attention: str) -> bool:
    """Whether the host takes the attention, or has none and gets none."""
    if attention == "none":
        return not models.claims(host.model).attention
    try:
        _build(host, ATTENTIONS[attention], channels=1)
    except SettingsError:
        return False
    return True


def describe(row: Row) -> str:
    """A row in a few words."""
    if "ms_per_step" in row:
        words = f"{row['ms_per_step']:.3f} ms a step"
    else:
        words = f"{row['train_seconds']:.2f} s for {row['epochs']} epochs"
    return f"{words}, {row['preparing_seconds']:.1f} s to compile and capture. {row['note']}".rstrip()
