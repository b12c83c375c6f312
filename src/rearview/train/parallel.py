"""One run on several processes: each takes its share of every update, and gradients are summed over all of them.

    torchrun --nproc-per-node 2 -m rearview bench --dataset ETTh1 --model itransformer

Losses travel as sums with their number of cells, so two processes with batch=32 make the update of one with batch=64,
whatever cells are missing. `batch` is what one process holds. Batch norm sees its own process's windows alone; its
running statistics are those of the first process. Every process validates with the same weights, so all of them stop
at the same epoch; the first one writes.
"""

import atexit
import os
from importlib import import_module

import torch
from torch import Tensor, distributed, nn

from rearview.core.errors import SettingsError
from rearview.train.settings import Settings


def begin(device: torch.device) -> None:
    """Join the other processes if torchrun started this one; alone, nothing happens."""
    if "WORLD_SIZE" not in os.environ or not distributed.is_available() or distributed.is_initialized():
        return
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise SettingsError(
            f"WORLD_SIZE is set but {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not; "
            "start the processes with torchrun."
        )
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    # Imported later, as optimisers do, its functions would hold the group as a default: it would never be given up.
    import_module("torch.distributed.nn.functional")
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    atexit.register(end)


def end() -> None:
    """Leave the other processes; a thread of the group that outlives Python's objects would abort the process."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def size() -> int:
    """The number of processes that share a run."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def rank() -> int:
    """The number of this process; the first is 0."""
    return distributed.get_rank() if size() > 1 else 0


def windows_per_update(settings: Settings) -> int:
    """The windows of an update, over all processes."""
    return settings.windows_per_update * size()


def share(index: Tensor) -> Tensor:
    """This process's windows of an update; possibly none of a last, small one."""
    return index if size() == 1 else index[rank() :: size()]


def sum_gradients(parameters: list[Tensor], cells: Tensor) -> Tensor:
    """Sum gradients over all processes in place, and hand back the sum of their cells."""
    if size() == 1:
        return cells
    for parameter in parameters:
        if parameter.grad is None:
            # A process without a window in this update must still take part in the sum.
            parameter.grad = torch.zeros_like(parameter)
        distributed.all_reduce(parameter.grad)
    cells = cells.clone()
    distributed.all_reduce(cells)
    return cells


def broadcast(model: nn.Module) -> None:
    """Give every process the first one's weights and statistics."""
    if size() == 1:
        return
    for tensor in (*model.parameters(), *model.buffers()):
        distributed.broadcast(tensor.data, src=0)


def sum_up(tensors: tuple[Tensor, ...]) -> None:
    """Sum what each process has added up, in place."""
    if size() > 1:
        for tensor in tensors:
            distributed.all_reduce(tensor)
