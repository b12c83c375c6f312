"""rearview's own training loop behind a gate; started by train_speed.py."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

import rearview
from _gate import Gate, memory
from rearview import data, models, train
from rearview.bench.runs.provenance import device_words
from rearview.data.scale import Scaler
from rearview.data.windows import Batch, Source, list_windows
from rearview.tasks.objectives import Forecast


class Watched:
    """A source that, when the gate is watching, keeps account of the time it takes."""

    def __init__(self, source: Source, gate: Gate) -> None:
        self.source, self.gate = source, gate

    def batch(self, index: torch.Tensor) -> Batch:
        if not self.gate.watching:
            return self.source.batch(index)
        self.gate.synchronise()
        started = time.perf_counter()
        batch = self.source.batch(index)
        self.gate.synchronise()
        self.gate.parts["data"] = self.gate.parts.get("data", 0.0) + time.perf_counter() - started
        return batch


class Gated(train.Silent):
    """Progress that lets the loop go on only when the gate does."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def step(self, epoch: int, done: int, loss: Callable[[], float]) -> None:
        if not self.gate.step():
            raise KeyboardInterrupt  # the loop's own way to end early


def main(case: dict[str, Any]) -> None:
    gate = Gate()
    cuda = case["device"] == "cuda"
    if cuda:
        gate.synchronise = torch.cuda.synchronize
    panel = data.load(case["file"])
    which = list_windows(panel, case["lookback"], case["horizon"])
    source = Source(
        panel,
        Scaler.fit(panel),
        which,
        case["lookback"],
        case["horizon"],
        device=case["device"],
        calendar=str(panel.step) if case["marks"] else None,
    )
    torch.manual_seed(0)
    network = models.create(
        case["model"],
        channels=source.channels,
        lookback=case["lookback"],
        steps=case["horizon"],
        marks=source.mark_count,
        **case["settings"],
    ).to(case["device"])
    settings = train.Settings(
        epochs=1_000_000,
        batch=case["batch"],
        learning_rate=1e-4,
        optimiser="adam",
        drop_last=True,
        compile=case["compile"],
    )
    gate.answer(
        library="rearview",
        version=rearview.__version__,
        torch=torch.__version__,
        threads=torch.get_num_threads(),
        device=device_words(torch.device(case["device"])),
        parameters=sum(parameter.numel() for parameter in network.parameters()),
    )
    if gate.wait():
        task, order = Forecast(case["horizon"]), torch.arange(len(which))
        train.fit(network, task, Watched(source, gate), order, None, settings, progress=Gated(gate))
    gate.answer(peak=torch.cuda.max_memory_allocated() if cuda else memory("VmHWM"))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
