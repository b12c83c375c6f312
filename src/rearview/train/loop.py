"""The one training loop: epochs of updates, validation, early stopping, checkpoints.

It knows models, tasks and sources by their contracts alone. Everything random is either derived from (seed, epoch) or
drawn from the run's own state, which a checkpoint holds: a run that was killed and resumed on a CPU ends with the
weights, bit for bit, of the run that was not, and runs in several threads end as each would alone. Runs on a GPU wait
for each other, draw the same numbers, and are as equal as the GPU's sums are.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from rearview.core.errors import InputError, RearviewWarning, SettingsError
from rearview.core.random_state import RandomState
from rearview.train import checkpoint as checkpoints
from rearview.train import memory, optimisation, parallel
from rearview.train.contract import Batch, Diverged, Source, Task, TrainingError
from rearview.train.evaluation import Evaluation, device_of
from rearview.train.history import Epoch, History
from rearview.train.optimisation import rate
from rearview.train.progress import Line, Progress, Silent
from rearview.train.settings import Settings
from rearview.train.updates import Update, Updates


def fit(
    model: nn.Module,
    task: Task[Batch],
    source: Source[Batch],
    train: Int[Tensor, " window"],
    validation: Int[Tensor, " other"] | None,
    settings: Settings,
    *,
    checkpoint: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    seconds: float | None = None,
) -> History:
    """Train the model in place on the windows `train` and return what happened.

    With `validation` windows the model ends with the weights of its best epoch, otherwise (or with `keep_last`) with
    its last ones; in both cases in evaluation mode. Ctrl-C ends training early, always with the best. With `checkpoint`
    the run is kept in that file; `resume` goes on from it if it is there (and returns at once if that run had ended),
    and refuses a file of a run with other settings, another model or other windows. `progress` defaults to one line on
    the terminal. After `seconds` training ends as it does by Ctrl-C. The caller's random state is left as it was.
    """
    _check_windows("training", train)
    if validation is not None:
        _check_windows("validation", validation)
    if resume and checkpoint is None:
        raise SettingsError("resume=True needs the checkpoint to go on from; give its path as checkpoint.")
    parallel.begin(device_of(model))
    shown = Silent() if parallel.rank() else progress or Line()
    run = _Run(model, task, source, train, validation, settings, checkpoint, shown, seconds)
    products = float32_products(run.device, settings.tf32)
    # On a GPU from the first update to the last: what is captured there, and how products are made, is all threads'.
    alone = run.random.drawing() if run.device.type == "cuda" else nullcontext()
    with alone, memory.keep_blocks(run.device), products:
        if resume and checkpoint is not None and checkpoint.exists():
            run.restore(checkpoint)
        return run.run()


def epoch_order(windows: int, settings: Settings, epoch: int) -> Int[Tensor, " visited"]:
    """The positions of the windows an epoch visits, in order: a function of the seed and the epoch's number alone."""
    seed = np.random.SeedSequence([settings.seed, epoch]).generate_state(1, np.uint64)
    generator = torch.Generator().manual_seed(int(seed[0]))
    visited, _ = _plan(windows, settings)
    rounds = [torch.randperm(windows, generator=generator) for _ in range(-(-visited // windows))]
    return torch.cat(rounds)[:visited]


@dataclass(eq=False)
class _Run(Generic[Batch]):
    model: nn.Module
    task: Task[Batch]
    source: Source[Batch]
    train: Int[Tensor, " window"]
    held_out: Int[Tensor, " other"] | None
    settings: Settings
    checkpoint: Path | None
    progress: Progress
    seconds: float | None = None

    def __post_init__(self) -> None:
        # Before the optimiser is built, for which torch loads its compiler.
        self.until = math.inf if self.seconds is None else time.perf_counter() + self.seconds
        model, task, source, settings = self.model, self.task, self.source, self.settings
        self.device = device_of(model)
        self.train = self.train.cpu()
        self.validation = None
        if self.held_out is not None:
            at_once = settings.validation_batch or 4 * settings.batch
            self.validation = Evaluation(model, task, source, self.held_out, at_once, settings.precision)
        self.visited, self.updates = _plan(len(self.train), settings)
        self.optimiser = optimisation.build(model, settings)
        self.random = RandomState(settings.seed + parallel.rank(), self.device)
        self.step = Update(model, task, source, self.optimiser, settings)
        self.update = Updates(self.step, self.visited)
        self.identity: checkpoints.Facts = {}
        if self.checkpoint:
            self.identity = checkpoints.fingerprint(model, settings, self.train, self.held_out)
            try:
                self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
            except OSError as problem:
                raise InputError(
                    f"The folder of the checkpoint {self.checkpoint} can't be made ({problem}); give a path that "
                    "can be written to."
                ) from problem
        self.standing = checkpoints.BestSoFar()
        # The epoch under way and its updates done: one tuple, so that an interrupt never finds a new one beside an old.
        self.place = (1, 0)
        # Moved into the past by what earlier sessions of a resumed run took.
        self.started = self.epoch_started = time.perf_counter()
        self.late = False

    def restore(self, path: Path) -> None:
        """Go back to where the checkpoint was written."""
        with self.random.drawing():
            saved = checkpoints.load(path, self.identity, self.model, self.optimiser, self.step.pool)
        self.standing = saved.standing
        self.place = (len(saved.standing.epochs) + 1, saved.position)
        self.started -= saved.seconds
        self.epoch_started -= saved.epoch_seconds
        if self.standing.ended is None and (why := checkpoints.find_inexact(saved.made_with, self.device)):
            warnings.warn(
                f"The run goes on from {path}, but {why}: its numbers can differ in their last digits from those of a "
                "run that was not cut off.",
                RearviewWarning,
                stacklevel=2,
            )
        if parallel.rank():
            # The file is the first process's: its sums are added once, and its random state is not for the others.
            self.step.pool.clear()
            self.random = RandomState(self.settings.seed + parallel.rank() + 1_000 * self.place[0], self.device)

    def run(self) -> History:
        self.progress.begin(self.settings.epochs, self.visited, self._steps_and_windows()[1])
        try:
            try:
                parallel.broadcast(self.model)
                self.model.train()
                self.optimiser.zero_grad()
                while self.standing.ended is None and not self.late:
                    epoch = len(self.standing.epochs) + 1
                    whole = self._visit(epoch)
                    if whole or epoch == 1:
                        self._close(epoch)
                    self.late = time.perf_counter() > self.until
                self._settle()
            except KeyboardInterrupt:
                # Whatever epochs have settled stands; a second Ctrl-C, in here, goes through.
                self._settle()
            except torch.OutOfMemoryError as problem:
                self._settle()
                batch, accumulate = self.settings.batch, self.settings.accumulate
                remedy = f"batch={batch // 2} with accumulate={accumulate * 2}" if batch % 2 == 0 else "a smaller batch"
                raise TrainingError(
                    f"The device ran out of memory in epoch {len(self.standing.epochs) + 1} with batch={batch}; "
                    f"use {remedy}, precision='bfloat16', or memory= with the GiB that an update may take."
                ) from problem
        finally:
            self.step.room.leave()
            self.progress.end()
        steps, windows = self._steps_and_windows()
        parts = (self.update,) if self.validation is None else (self.update, self.validation)
        return History(
            epochs=self.standing.epochs,
            best_epoch=len(self.standing.epochs) if self._keeps_last() else self.standing.best_epoch,
            ended=self.standing.ended or ("time" if self.late else "interrupted"),
            steps=steps,
            windows=windows,
            seconds=time.perf_counter() - self.started,
            compiled=self.update.compiled,
            captured=self.update.captured,
            preparing_seconds=sum(part.preparing_seconds for part in parts),
            notes=(*self.step.room.notes, *(note for part in parts for note in part.notes)),
        )

    def _visit(self, epoch: int) -> bool:
        """Make the updates of an epoch; False where time was up before its end."""
        order = self.train[epoch_order(len(self.train), self.settings, epoch)].to(self.device)
        size, every = parallel.windows_per_update(self.settings), self.settings.checkpoint_every
        first = self.place[1] if self.place[0] == epoch else 0
        with self.random.drawing():
            self.update.begin(order, [rate(self.settings, epoch, u, self.updates) for u in range(self.updates)], first)
        for update in range(first, self.updates):
            with self.random.drawing():
                self.update(update)
            self.place = (epoch, update + 1)
            self.progress.step(epoch, min((update + 1) * size, self.visited), self.step.pool.mean)
            if every and (update + 1) % every == 0 and update + 1 < self.updates:
                self._save(update + 1)
            if time.perf_counter() > self.until:
                return update + 1 == self.updates
        return True

    def _close(self, epoch: int) -> None:
        parallel.sum_up(self.step.pool.tensors)
        parallel.broadcast(self.model)
        if self.step.pool.empty:
            raise InputError(
                f"None of the {self.visited:,} training windows of epoch {epoch} holds an observed cell, so there is "
                "nothing to learn from; use windows with observed values."
            )
        train_loss = self._finite(epoch, "training", self.step.pool.mean())
        validation_loss = None
        if self.validation is not None:
            with self.random.drawing():
                loss = self.validation(capture=self.update.captured, at_once=self.step.room.fewer)
            validation_loss = self._finite(epoch, "validation", loss)
        now = time.perf_counter()
        last = rate(self.settings, epoch, self.updates - 1, self.updates)
        record = Epoch(epoch, train_loss, validation_loss, last.learning_rate, now - self.epoch_started)
        self.standing = self.standing.after(record, self.model, self.settings)
        self.epoch_started = now
        self.step.pool.clear()
        self._save(0)
        self.progress.epoch(record)

    def _finite(self, epoch: int, kind: str, loss: float) -> float:
        if math.isfinite(loss):
            return loss
        self._settle()
        best = self.standing.best_epoch
        raise Diverged(
            f"The {kind} loss of epoch {epoch} is {loss}: training has diverged. "
            f"Usual remedies: a lower learning_rate (it is {self.settings.learning_rate:g}), clip=1.0, "
            f"precision='float32', and a look at the inputs for huge values."
            + ("" if best is None else f" The model holds the weights of epoch {best}, the best before.")
        )

    def _settle(self) -> None:
        """Leave the model as the caller gets it; doing it twice does no harm."""
        if self.standing.best is not None and not self._keeps_last():
            self.model.load_state_dict(self.standing.best)
        self.model.eval()
        self.optimiser.zero_grad()

    def _keeps_last(self) -> bool:
        """Whether the last weights are what is wanted and the run came to its end."""
        return self.settings.keep_last and self.standing.ended is not None

    def _save(self, position: int) -> None:
        if self.checkpoint is None or parallel.rank():
            return
        now = time.perf_counter()
        snapshot = checkpoints.Snapshot(self.standing, position, now - self.started, now - self.epoch_started)
        try:
            with self.random.drawing():
                checkpoints.save(self.checkpoint, self.identity, snapshot, self.model, self.optimiser, self.step.pool)
        except OSError as problem:
            # A full disk must not cost the hours of training that a checkpoint is there to protect.
            warnings.warn(
                f"The checkpoint {self.checkpoint} could not be written ({problem.strerror or problem}); training "
                "goes on without it.",
                RearviewWarning,
                stacklevel=2,
            )

    def _steps_and_windows(self) -> tuple[int, int]:
        whole = len(self.standing.epochs)
        partial = self.place[1] if self.place[0] > whole else 0
        windows = min(partial * parallel.windows_per_update(self.settings), self.visited)
        return whole * self.updates + partial, whole * self.visited + windows


def _plan(windows: int, settings: Settings) -> tuple[int, int]:
    """Windows and updates of an epoch."""
    size = parallel.windows_per_update(settings)
    if settings.updates_per_epoch is not None:
        return settings.updates_per_epoch * size, settings.updates_per_epoch
    chosen = min(windows, settings.windows_per_epoch or windows)
    visited = chosen - chosen % size if settings.drop_last else chosen
    if not visited:
        raise SettingsError(
            f"drop_last leaves nothing to train on: an update takes {size:,} windows (batch x accumulate), but an "
            f"epoch has {chosen:,}; use a smaller batch or drop_last=False."
        )
    return visited, -(-visited // size)


def _check_windows(kind: str, index: Tensor) -> None:
    if index.ndim != 1 or index.is_floating_point():
        raise InputError(
            f"The {kind} windows must be a list of whole numbers, one a window, not a tensor of {index.dtype} with "
            f"shape {tuple(index.shape)}."
        )
    if not len(index):
        rather = "" if kind == "training" else ", or None to train without validation"
        raise InputError(f"There are no {kind} windows; give at least one{rather}.")


@contextmanager
def float32_products(device: torch.device, tf32: bool) -> Iterator[None]:
    """Multiply float32 matrices on a GPU's tensor cores within, if `tf32`, else exactly; as before at the end.

    On a CPU nothing changes: there the same switch would make results depend on the processor.
    """
    if device.type != "cuda":
        yield
        return
    put: Callable[[str], None] = torch.set_float32_matmul_precision
    try:
        before, wanted = torch.get_float32_matmul_precision(), "high" if tf32 else "highest"
    except RuntimeError:
        # From 2.9 on torch has a second switch, and once that is used it refuses to read the first.
        matmul = torch.backends.cuda.matmul
        put = partial(setattr, matmul, "fp32_precision")
        before, wanted = matmul.fp32_precision, "tf32" if tf32 else "ieee"
    put(wanted)
    try:
        yield
    finally:
        put(before)
