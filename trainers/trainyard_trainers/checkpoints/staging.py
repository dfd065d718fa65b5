"""Host memory that the trainer shares with its writing process: a checkpoint's tensors are copied
there, and training goes on.

The copy runs in a thread beside the next forward and backward pass; only the next update of the
weights has to wait for its end.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..common import cgroups

_ALIGNMENT = 64


@dataclass(frozen=True)
class Placed:
    """Where a tensor's copy lies in the shared memory; `offset` in bytes."""

    offset: int
    dtype: torch.dtype
    shape: tuple[int, ...]


def replaced(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same nesting of dicts, lists and tuples with every leaf changed."""
    if isinstance(value, dict):
        return {key: replaced(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [replaced(item, change) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return change(value)


def identity(tensor: Tensor) -> tuple[object, ...]:
    """The same for two tensors that are the same numbers in the same memory."""
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.device


class SharedMemory:
    """Memory of one trainer and its writer, which inherits it by fork.

    It grows with the largest checkpoint and is never given back.
    """

    def __init__(self) -> None:
        self._descriptor = os.memfd_create("trainyard-staging")
        self._map: mmap.mmap | None = None

    def tensor(self, placed: Placed) -> Tensor:
        """The tensor at this place; a view, so the memory must not be staged into again while it is
        read.
        """
        count = torch.Size(placed.shape).numel()
        if count == 0:
            return torch.empty(placed.shape, dtype=placed.dtype)
        mapped = self.mapped(placed.offset + count * placed.dtype.itemsize)
        return torch.frombuffer(mapped, dtype=placed.dtype, count=count, offset=placed.offset).view(
            placed.shape
        )

    def mapped(self, size: int) -> mmap.mmap:
        """The memory, at least `size` bytes of it. Raises OSError when there is not enough."""
        if self._map is None or len(self._map) < size:
            if (more := size - os.fstat(self._descriptor).st_size) > 0:
                _check_room(more)
                os.ftruncate(self._descriptor, size)
            # An older map stays alive as long as a tensor needs it: it shows the same memory.
            self._map = mmap.mmap(self._descriptor, os.fstat(self._descriptor).st_size)
        return self._map


def _check_room(more: int) -> None:
    """Refuse too much shared memory: it has no limit of its own, and the kernel would kill us.

    Raises OSError.
    """
    with open("/proc/meminfo", encoding="ascii") as lines:
        free = next(
            int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")
        )
    of_cgroup = cgroups.free()
    free = free if of_cgroup is None else min(free, of_cgroup)
    if more > free:
        raise OSError(
            errno.ENOMEM,
            f"{more} bytes are needed to stage the checkpoint, and {free} are free; use "
            "asynchronous=false",
        )


class Staged:
    """One checkpoint's content on its way into the shared memory.

    `skeleton` is the content with a `Placed` for every tensor.
    """

    def __init__(self, memory: SharedMemory, content: object) -> None:
        self._copies: list[tuple[Tensor, Placed]] = []
        self._known: dict[tuple[Any, ...], Placed] = {}
        self._size = 0
        self.skeleton = replaced(content, self._place)
        self._memory = memory
        self._memory.mapped(max(self._size, 1))
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._copy, name="staging", daemon=True)

    def _place(self, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        same = identity(leaf)
        if (
            same not in self._known or leaf.numel() == 0
        ):  # tied weights are copied, and later loaded, once
            placed = Placed(self._size, leaf.dtype, tuple(leaf.shape))
            self._size += -(-leaf.numel() * leaf.element_size() // _ALIGNMENT) * _ALIGNMENT
            self._copies.append((leaf.detach(), placed))
            self._known[same] = placed
        return self._known[same]

    def start(self, then: Callable[[], None]) -> None:
        """Copy in a thread; `then` runs there at the end."""
        self._then = then
        self._thread.start()

    def wait(self) -> None:
        """Wait until every tensor is copied: from then on the originals may change.

        Raises what went wrong in the thread.
        """
        if self._thread.is_alive() or self._thread.ident is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _copy(self) -> None:
        try:
            for tensor, placed in self._copies:
                self._memory.tensor(placed).copy_(tensor)
            self._then()
        except (OSError, RuntimeError) as error:
            self._error = error


def tensors(value: Any) -> Iterator[Tensor]:
    """Every tensor of a nested content."""
    found: list[Tensor] = []
    replaced(value, lambda leaf: found.append(leaf) if isinstance(leaf, Tensor) else None)
    return iter(found)
