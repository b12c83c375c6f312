"""How much memory a piece of work holds at once on a device that keeps no account: the storages alive, operation by
operation."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class StorageCounter(TorchDispatchMode):
    """Counts bytes of storages that come to life under it, and the most at any time.

    What an operation needs inside itself and gives back is not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.most = 0
        self._seen: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {_key(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and _key(leaf) not in given:
                self._count(leaf.untyped_storage())
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._seen:
            return

        def gone(_: Any) -> None:
            del self._seen[key]
            self.now -= size

        self._seen[key] = weakref.ref(storage, gone)
        self.now += size
        self.most = max(self.most, self.now)


def _key(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def peak_bytes(work: Callable[[], Any]) -> int:
    """Bytes at most at once beyond what lay there before."""
    with StorageCounter() as counted:
        work()
    return counted.most
