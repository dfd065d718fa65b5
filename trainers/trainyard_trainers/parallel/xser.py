"""References in torch_xla's serialized form (xser), written and read without torch_xla: a file that
names tensors which lie in other files.
"""

from __future__ import annotations

import io
import pickle
from types import SimpleNamespace
from typing import Any

import torch


class TensorReference:
    """Takes the place of `torch_xla.utils.serialization.TensorReference` in pickles, which then can
    be written and read without torch_xla.
    """

    NAME = "torch_xla.utils.serialization.TensorReference"

    def __init__(self, tid: int) -> None:
        self.tid = tid


class _Pickler(pickle._Pickler):
    """Python's own pickler, which writes our class under the name of torch_xla's."""

    def save_global(self, obj: Any, name: str | None = None) -> None:
        if obj is not TensorReference:
            super().save_global(obj, name)  # type: ignore[misc]
            return
        module, _, qualified = TensorReference.NAME.rpartition(".")
        word = pickle.GLOBAL + f"{module}\n{qualified}\n".encode()
        self.write(word)  # type: ignore[attr-defined]
        self.memoize(obj)  # type: ignore[attr-defined]


_PICKLE = SimpleNamespace(Pickler=_Pickler, Unpickler=pickle.Unpickler, __name__="pickle")


def dumps(content: object) -> bytes:
    """A torch file of nested plain values and references."""
    stream = io.BytesIO()
    torch.save(content, stream, pickle_module=_PICKLE)
    return stream.getvalue()


def load(path: Any, *, mmap: bool) -> Any:
    """Tensors, plain data and references of a file, as `torch.load` gives and raises; nothing else
    is unpickled.
    """
    with torch.serialization.safe_globals([(TensorReference, TensorReference.NAME)]):
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
