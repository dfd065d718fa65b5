"""Memory that the ranks of a node share.

It has no name (`memfd`), so it is gone with its last user, however that user dies, and nothing of
another attempt can be in the way. The other ranks open it through /proc. A random token proves to
them that it is the memory that the first rank meant.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
import socket
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..common.agreement import exchange

#: Where the memory is free to use: the token lies before it.
START = 64
TOKEN_BYTES = 16


def node() -> str:
    """The same for all ranks of a node and for them alone.

    Nodes that are simulated on one machine differ in GROUP_RANK.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            machine = file.read().strip()
    except OSError:
        machine = socket.gethostname()
    return f"{machine}/{os.environ.get('GROUP_RANK', '')}"


def create(name: str, size: int) -> tuple[int, dict[str, Any]]:
    """A descriptor of `size` bytes, to be closed when all ranks have attached, and the words by
    which they attach. Raises OSError, AttributeError.
    """
    descriptor = os.memfd_create(name)
    try:
        os.ftruncate(descriptor, size)
        token = secrets.token_bytes(TOKEN_BYTES)
        os.write(descriptor, token)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor, {"pid": os.getpid(), "descriptor": descriptor, "token": token.hex()}


def attach(offer: dict[str, Any], size: int) -> mmap.mmap:
    """The memory that another rank of this node, or this one, created. Raises OSError."""
    descriptor = os.open(f"/proc/{offer['pid']}/fd/{offer['descriptor']}", os.O_RDWR)
    try:
        memory = mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)
    if memory[:TOKEN_BYTES].hex() != offer["token"]:
        memory.close()
        raise OSError("the memory of this node's first rank is another one's")
    return memory


def rows(count: int, width: int) -> Tensor | None:
    """Memory (count, width) of float32 zeros that all ranks share, or None where they cannot share
    any. Collective.
    """
    size = START + count * width * torch.float32.itemsize
    own: dict[str, Any] = {"node": node()}
    memory: mmap.mmap | None = None
    failure = ""
    with contextlib.ExitStack() as until_all_have_it:
        try:
            if dist.get_rank() == 0:
                descriptor, offer = create("trainyard-weights", size)
                until_all_have_it.callback(os.close, descriptor)
                own |= offer
        except (OSError, AttributeError) as error:
            failure = str(error)
        offers = exchange(own)
        first = offers[0]
        several_nodes = any(one["node"] != first["node"] for one in offers)
        try:
            if "descriptor" in first and not several_nodes:
                memory = attach(first, size)
        except (OSError, ValueError) as error:  # ValueError: what is opened is smaller
            failure = str(error)
        failures = exchange(failure)
    if several_nodes:
        return None
    if failed := [f"rank {rank}: {reason}" for rank, reason in enumerate(failures) if reason]:
        if dist.get_rank() == 0:
            print(
                "trainyard: the ranks cannot share memory and use gloo, which is slower: "
                f"{'; '.join(failed)}",
                file=sys.stderr,
                flush=True,
            )
        return None
    assert memory is not None
    return torch.frombuffer(memory, dtype=torch.float32, offset=START).view(count, width)
