"""The memory of an update: batches too large for it go through the model in parts, with the gradients of the whole.

What a forward pass keeps for the backward pass is counted in the first update: with one and two windows where a batch
is wide, else with all of them, and then the pass is broken off as soon as it is more than there is room for. Where a
batch does not fit,

- a model that treats each window by itself gets as many at once as fit: sums of losses add up, and so do gradients;
- a model that looks at all windows of a batch (batch norm, DUET's busy experts) still gets them all at once, but its
  blocks keep nothing and do their work again in the backward pass, a few windows at a time
  (`models.blocks.recomputation`). The norms are no part of that: they see the whole batch, and remember its statistics
  once.

What a layer draws once a call it draws once for each part: TOA's stochastic operators (SOR) then differ from part to
part of a batch. A run whose batches fit is as it would have been without: trials leave no trace.

On a CPU every update asks for the same large blocks. glibc returns blocks of more than 32 MiB to the system as soon as
they are freed, and a heap whose end is free as well, so the next update has all pages mapped and zeroed for it again: a
tenth to a fifth of a PatchTST's step. While training runs (`keep_blocks`), they are kept. Other systems and allocators
are left alone.
"""

import ctypes
import gc
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.batchnorm import _BatchNorm

from rearview.models.adapters.contract import AdapterBase
from rearview.models.blocks.stack import FeedBlock
from rearview.models.contract import Model, Shape
from rearview.models.outline import machine_memory
from rearview.train.settings import Settings

GIB = 1 << 30
PEAK = 1.5
"""Peak memory of an update, backward pass included, divided by what its forward pass keeps."""
WIDE = 1 << 16
"""Values in a batch above which a few windows are tried first."""
AUTO_SHARE = 0.25
"""Of the machine's memory, what `memory="auto"` lets an update take."""

# Names and numbers of <malloc.h>.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
_KEEP = {_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: 2**31 - 1}
# Setting any of them ends glibc's own adaptation, so what is left behind is where that adaptation ends at its largest.
_RETURN = {_M_MMAP_MAX: 65_536, _M_MMAP_THRESHOLD: 32 << 20, _M_TRIM_THRESHOLD: 64 << 20}
# Blocks of a MiB and more by themselves: a heap of them has holes as large as what lies between.
_RETURN_EARLY = {**_RETURN, _M_MMAP_THRESHOLD: 1 << 20}


class TooMuch(Exception):
    """A forward pass keeps more than there is room for."""


class Room:
    """The memory an update may take, and the number of windows that go through at once for it."""

    def __init__(self, model: nn.Module, settings: Settings, device: torch.device) -> None:
        self.model = model
        self.device = device
        self.limit = limit(settings, device)
        self.batch = settings.batch
        self.at_once = settings.batch
        """Windows that are handed to the model at once."""
        self.fewer: int | None = None
        """Windows at work at once, where they are fewer than a batch; in evaluation there should be no more either."""
        self.notes: list[str] = []
        self.pending = self.limit is not None
        """Whether it is still open how many windows fit."""
        self._blocks = [part for part in model.modules() if isinstance(part, FeedBlock)]
        self._whole = looks_at_batches(model)
        self._uncut = self._whole and not self._blocks

    @contextmanager
    def watch(self, windows: int) -> Iterator[None]:
        """Watch the first forward pass, of so many windows; too large, it raises `TooMuch` and leaves no trace."""
        if not self.pending or self.limit is None:
            yield
            return
        # A last, smaller batch that is the first of a resumed run stands for a whole one.
        share = min(windows / self.batch, 1)
        before = _Before(self.model)
        try:
            with _count_saved(self.model, share * self.limit / PEAK):
                yield
        except TooMuch:
            before.restore()
            raise
        self.pending = False

    @property
    def wide(self) -> bool:
        """Whether to find out by a few windows, since a pass of the whole batch may overfill memory at a blow."""
        shape = getattr(self.model, "shape", None)
        if not self.pending or self._uncut or not isinstance(shape, Shape):
            return False
        return self.batch * shape.channels * shape.lookback > WIDE

    def make(self, index: Int[Tensor, " window"], loss: Callable[[Int[Tensor, " window"]], object]) -> None:
        """Find how many windows fit, with trials of `loss` on the first of `index`, which leave no trace."""
        if self.limit is None or not len(index):
            return
        self.pending = False
        if self._uncut:
            self._note("can't be split, since the model looks at all windows of a batch at once")
            return
        room = self.limit / PEAK
        one = self._saved_by(index[:1], loss)
        each = self._saved_by(index[:2], loss) - one if len(index) > 1 and one < room else one
        fits = _count_fitting(room, one, each)
        if fits >= self.batch:
            return
        # A pass that has no way back may hold itself, in a circle that only the collector finds.
        gc.collect()
        # Return freed memory at once from now on, and leave no holes.
        _set_allocator(self.device, _RETURN_EARLY, trim=True)
        if not self._whole:
            self.at_once = self.fewer = fits
            self._note(f"went through the model in parts of {fits}")
            return
        # Whole batches are still kept between blocks; what is left for the work inside them is taken as half.
        self.fewer = _count_fitting(room / 2, one, each)
        for block in self._blocks:
            block.part = self.fewer
        many = "one window" if self.fewer == 1 else f"{self.fewer} windows"
        self._note(f"was kept between blocks only, whose work was done again, {many} at a time")

    def leave(self) -> None:
        """Let the model's blocks work on whole batches again."""
        for block in self._blocks:
            block.part = None

    def _saved_by(self, index: Int[Tensor, " few"], loss: Callable[[Int[Tensor, " window"]], object]) -> int:
        before = _Before(self.model)
        with _count_saved(self.model) as count:
            loss(index)
        before.restore()
        return count["bytes"]

    def _note(self, what: str) -> None:
        assert self.limit is not None
        self.notes.append(
            f"A batch of {self.batch:,} windows takes more than the {self.limit / GIB:.3g} GiB of memory it may take, "
            f"and {what}."
        )


def _count_fitting(room: float, one: int, each: int) -> int:
    """The number of windows that fit, where one keeps `one` bytes and each further one `each`."""
    return 1 + int(max(room - one, 0) / max(each, 1))


def limit(settings: Settings, device: torch.device) -> float | None:
    """The bytes that an update may take; None: any number."""
    if settings.memory != "auto":
        return None if settings.memory is None else settings.memory * GIB
    # A GPU says itself when it is full, and what torch compiles keeps other things than what can be counted here.
    counted = device.type == "cpu" and not settings.compile
    return AUTO_SHARE * (machine_memory() or 16 * GIB) if counted else None


def looks_at_batches(model: nn.Module) -> bool:
    """Whether the windows of a batch have to do with one another: by batch norm, or by a penalty on all of them."""
    # An adapter's penalty is that of the network in it.
    alone = (Model.penalty, AdapterBase.penalty)
    return any(
        isinstance(part, _BatchNorm) or (isinstance(part, Model) and type(part).penalty not in alone)
        for part in model.modules()
    )


@contextmanager
def _count_saved(model: nn.Module, room: float = math.inf) -> Iterator[Counter[str]]:
    """Count the bytes kept for the backward pass within, the model's own aside, as long as they fit."""

    def place(tensor: Tensor) -> int:
        return tensor.untyped_storage().data_ptr()

    known = {place(tensor) for tensor in (*model.parameters(), *model.buffers())}
    count = Counter[str]()

    def keep(tensor: Tensor) -> Tensor:
        if place(tensor) not in known:
            known.add(place(tensor))
            count["bytes"] += tensor.untyped_storage().nbytes()
            if count["bytes"] > room:
                raise TooMuch
        # Without the way it came by, which would lead back to whoever keeps it.
        return tensor.detach()

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        yield count


class _Before:
    """Buffers of a model and random states as they are now, to go back to."""

    def __init__(self, model: nn.Module) -> None:
        self.buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
        self.host = torch.get_rng_state()
        places = {tensor.device for tensor in (*model.parameters(), *model.buffers()) if tensor.is_cuda}
        self.devices = [(device, torch.cuda.get_rng_state(device)) for device in places]

    def restore(self) -> None:
        with torch.no_grad():
            for buffer, before in self.buffers:
                buffer.copy_(before)
        torch.set_rng_state(self.host)
        for device, state in self.devices:
            torch.cuda.set_rng_state(state, device)


@contextmanager
def keep_blocks(device: torch.device) -> Iterator[None]:
    """Keep freed memory at hand within, and return it to the system at the end."""
    if not _set_allocator(device, _KEEP):
        yield
        return
    try:
        yield
    finally:
        _set_allocator(device, _RETURN, trim=True)


def _set_allocator(device: torch.device, choices: dict[int, int], *, trim: bool = False) -> bool:
    """Set glibc's allocator; False where there is none to set."""
    if device.type != "cpu":
        return False
    try:
        library = ctypes.CDLL(None)
        # No other C library has this name.
        library.gnu_get_libc_version  # noqa: B018
    except (AttributeError, OSError, TypeError):
        return False
    for name, value in choices.items():
        library.mallopt(name, value)
    if trim:
        library.malloc_trim(0)
    return True
