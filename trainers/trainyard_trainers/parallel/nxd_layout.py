"""Checkpoints in the layout of neuronx-distributed, read and written with torch alone, so that its
users' checkpoints and ours are one kind.

    step_3/checkpoint                                 "1", written first: this is a checkpoint
    step_3/model/dp_rank_00_tp_rank_01_pp_rank_00.pt  TP-local weights by name, one file a tp rank
    step_3/optim/dp_rank_00_tp_rank_01_pp_rank_00.pt  the optimizer; with ZeRO-1 a file a dp rank
    step_3/scheduler.pt, step_3/user_content.pt       of the first rank
    step_3/done                                       "1", written last: it is complete

In the serialized form of torch_xla (xser) a .pt file holds references instead of tensors, a
directory `<name>.pt.tensors/tensor_<n>.pt` the tensors, and `<name>.pt.info.pt` their dtypes and
shapes. Nothing is ever unpickled but tensors and plain data.

Where weights are split over the data-parallel ranks (fsdp) each of them writes its chunk into a
file of its own below model/, and user_content.pt says so. neuronx-distributed has no such kind.
"""

from __future__ import annotations

import os
import pickle
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainyard_job.common.files import fsync_directory

from ..checkpoints.staging import replaced
from ..checkpoints.staging import tensors as tensors_of
from ..checkpoints.writer import content_writer
from . import xser as xser_format
from .partition import tp_dim
from .xser import TensorReference

_TAG = re.compile(r"^step_(\d+)$")
_RANK_FILE = re.compile(r"^dp_rank_(\d+)_tp_rank_(\d+)_pp_rank_(\d+)\.pt$")
_ANY_RANK_FILE = re.compile(r"^dp_rank_\d+_.*rank_\d+\.pt$")
#: Where our own checkpoints say how they were split; nxd hands user content through as it is.
_LAYOUT = "layout"
#: There: that every dp rank wrote its chunk of the weights, which neuronx-distributed does not do.
_SHARDED = "sharded"
#: How many bytes of a checkpoint stay mapped at once: pages that were read count as memory of the
#: process until they are unmapped.
_MAPPED_BYTES = 32 << 20
#: Rows are handed out in blocks of about so many bytes.
BLOCK_BYTES = 8 << 20


@dataclass(frozen=True)
class Ranks:
    """One rank's place in data (dp), tensor (tp) and pipeline (pp) parallelism."""

    dp_rank: int
    dp_size: int
    tp_rank: int
    tp_size: int
    pp_rank: int = 0
    pp_size: int = 1

    @property
    def first(self) -> bool:
        """Whether this rank writes what there is once."""
        return (self.dp_rank, self.tp_rank, self.pp_rank) == (0, 0, 0)


# -- writing -------------------------------------------------------------------------------------
def rank_name(dp_rank: int, tp_rank: int, pp_rank: int = 0) -> str:
    """File name of a rank's part of the model or the optimizer."""
    return f"dp_rank_{dp_rank:02d}_tp_rank_{tp_rank:02d}_pp_rank_{pp_rank:02d}.pt"


def tag_of(step: int) -> str:
    """Name of the checkpoint of this step."""
    return f"step_{step}"


def files(
    tag: str,
    ranks: Ranks,
    *,
    model: Mapping[str, Tensor],
    optimizer: Mapping[str, Any] | None = None,
    zero1: bool = False,
    scheduler: Mapping[str, Any] | None = None,
    user_content: Mapping[str, Any] | None = None,
    xser: bool = False,
    pieces: Mapping[str, Tensor] | None = None,
) -> dict[str, object]:
    """The files that this rank writes, by relative name: bytes, or nested dicts and lists of
    tensors and plain values for torch.save.

    model: TP-local weights by name, in the order of the optimizer's parameters; where
    `ranks.dp_rank` is not 0 only their shapes count, so tensors on the meta device will do.
    optimizer: as torch's `state_dict()` gives it, {"state": {index: {key: tensor}}, "param_groups":
    ...}; with zero1 each tensor is this dp rank's chunk, along dimension 0, of the TP-local one
    (`chunk`, with or without its padding). pieces: this dp rank's chunk of each weight, without
    padding, where every dp rank writes its own; of `model` only the shapes count then.
    """
    return dict(
        iter_files(
            tag,
            ranks,
            model=model,
            optimizer=optimizer,
            zero1=zero1,
            scheduler=scheduler,
            user_content=user_content,
            xser=xser,
            pieces=pieces,
        )
    )


def iter_files(
    tag: str,
    ranks: Ranks,
    *,
    model: Mapping[str, Tensor],
    optimizer: Mapping[str, Any] | None = None,
    zero1: bool = False,
    scheduler: Mapping[str, Any] | None = None,
    user_content: Mapping[str, Any] | None = None,
    xser: bool = False,
    pieces: Mapping[str, Tensor] | None = None,
) -> Iterator[tuple[str, object]]:
    """What `files` gives, one after the other; `model` may be a mapping that loads a tensor when it
    is asked for it.
    """
    if ranks.first:
        yield f"{tag}/checkpoint", b"1"
    name = rank_name(ranks.dp_rank, ranks.tp_rank, ranks.pp_rank)
    if pieces is not None or ranks.dp_rank == 0:
        held = model if pieces is None else pieces
        yield from _content_files(f"{tag}/model/{name}", held, xser)
    if optimizer is not None and (zero1 or ranks.dp_rank == 0):
        content = _zero1(optimizer, model, ranks.dp_size) if zero1 else dict(optimizer)
        yield from _content_files(f"{tag}/optim/{name}", content, xser)
    if ranks.first:
        if scheduler is not None:
            yield f"{tag}/scheduler.pt", dict(scheduler)
        layout = {
            "tp_size": ranks.tp_size,
            "dp_size": ranks.dp_size,
            "pp_size": ranks.pp_size,
            "zero1": zero1,
            **({_SHARDED: True} if pieces is not None else {}),
        }
        yield f"{tag}/user_content.pt", {**(user_content or {}), _LAYOUT: layout}
        yield f"{tag}/done", b"1"


def _zero1(
    optimizer: Mapping[str, Any], model: Mapping[str, Tensor], dp_size: int
) -> dict[str, Any]:
    """torch's optimizer state in the words of torch_xla's ZeroRedundancyOptimizer; every chunk
    padded to the length that all ranks have.
    """
    shapes = dict(enumerate(tuple(tensor.shape) for tensor in model.values()))
    state = {
        index: {
            key: _padded(value, -(-shapes[index][0] // dp_size)) if _is_split(value) else value
            for key, value in values.items()
        }
        for index, values in optimizer["state"].items()
    }
    return {
        "state": {},
        "param_groups": optimizer["param_groups"],
        "base_state": state,
        "shape_info": shapes,
    }


def _is_split(value: Any) -> bool:
    """Whether a value of the optimizer's state belongs to the weight's elements; the step count, a
    scalar, does not.
    """
    return isinstance(value, Tensor) and value.dim() > 0


def to_cpu(content: Any) -> Any:
    """The same content with its tensors in host memory."""
    return replaced(content, lambda leaf: leaf.detach().cpu() if isinstance(leaf, Tensor) else leaf)


def _padded(tensor: Tensor, rows: int) -> Tensor:
    if tensor.shape[0] == rows:
        return tensor
    return torch.cat((tensor, tensor.new_zeros(rows - tensor.shape[0], *tensor.shape[1:])))


def chunk(tensor: Tensor, dp_rank: int, dp_size: int) -> Tensor:
    """A dp rank's part of a TP-local tensor under ZeRO-1: ceil(rows / dp_size) rows, those past the
    end zero.
    """
    rows = -(-tensor.shape[0] // dp_size)
    return _padded(tensor[dp_rank * rows : (dp_rank + 1) * rows], rows)


def _content_files(
    name: str, content: Mapping[str, Any], xser: bool
) -> Iterator[tuple[str, object]]:
    if not xser:
        yield name, dict(content)
        return
    info: dict[int, dict[str, Any]] = {}
    skeleton: dict[str, Any] = {}
    for key, value in content.items():
        first, tensors = len(info), list(tensors_of(value))
        skeleton[key] = replaced(value, partial(_referenced, info=info))
        for tid, tensor in enumerate(tensors, first):
            yield f"{name}.tensors/tensor_{tid}.pt", tensor
    yield name, xser_format.dumps(skeleton)
    yield f"{name}.info.pt", xser_format.dumps(info)


def _referenced(leaf: Any, info: dict[int, dict[str, Any]]) -> Any:
    if not isinstance(leaf, Tensor):
        return leaf
    info[len(info)] = {"dtype": leaf.dtype, "shape": leaf.shape, "expert_model_parallel": False}
    return TensorReference(len(info) - 1)


def write(directory: Path, tag: str, parts: Iterable[tuple[str, object]]) -> Path:
    """Write a checkpoint by itself: `parts` are the files of all ranks (`iter_files`), each written
    before the next is asked for.

    It appears under its name when it is whole, `done` last. Returns its path. Raises
    FileExistsError and OSError; then nothing is left.
    """
    target, temporary = directory / tag, directory / f".tmp-{tag}"
    if target.exists():
        raise FileExistsError(f"{target} exists; give another directory")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        for name, content in parts:
            if name != f"{tag}/done":
                _put(temporary / name, replaced(content, _compact))
        _put(temporary / tag / "done", b"1")
        for place, _, _ in os.walk(temporary):
            fsync_directory(Path(place))
        os.rename(temporary / tag, target)
        fsync_directory(directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def _put(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as stream:
        content_writer(content)(stream)
        stream.flush()
        os.fsync(stream.fileno())


def _compact(leaf: Any) -> Any:
    """torch.save writes the whole memory that a view looks at: copy the part."""
    if not isinstance(leaf, Tensor):
        return leaf
    whole = leaf.untyped_storage().nbytes() == leaf.nbytes
    return leaf.detach() if whole else leaf.detach().clone(memory_format=torch.contiguous_format)


# -- reading -------------------------------------------------------------------------------------
def newest(directory: Path) -> Path | None:
    """The complete checkpoint of the highest step.

    Not the latest: copies have other times than their originals.
    """
    paths = directory.iterdir() if directory.is_dir() else ()
    steps = [
        (int(match[1]), path)
        for path in paths
        if (match := _TAG.match(path.name)) and (path / "done").is_file()
    ]
    return max(steps)[1] if steps else None


def _size(found: Mapping[tuple[int, int], Path], place: int) -> int:
    """How many dp (place 0) or tp (place 1) ranks the file names show."""
    return max((key[place] for key in found), default=-1) + 1


class Checkpoint:
    """A checkpoint `step_N` in either form.

    Tensors are mapped from their files when they are asked for; every error is a ValueError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mapped: dict[Path, Any] = {}
        self._read_bytes = 0
        self._model = self._find("model")
        self._optim = self._find("optim")
        if not self._model:
            raise ValueError(
                f"{path}: there is no model/{rank_name(0, 0)}; this is no checkpoint of "
                "neuronx-distributed's layout"
            )

    def _find(self, kind: str) -> dict[tuple[int, int], Path]:
        found: dict[tuple[int, int], Path] = {}
        for path in sorted((self.path / kind).glob("*.pt")) if (self.path / kind).is_dir() else ():
            match = _RANK_FILE.match(path.name)
            if match and int(match[3]):
                raise ValueError(
                    f"{path}: a part of a pipeline; only checkpoints of one pipeline stage "
                    "(pp_rank_00) are read"
                )
            if match:
                found[int(match[1]), int(match[2])] = path
            elif _ANY_RANK_FILE.match(path.name):
                raise ValueError(
                    f"{path}: neither experts nor other kinds of ranks are read; {rank_name(0, 0)} "
                    "is the form of the name"
                )
        return found

    # -- how it was split -------------------------------------------------------------------------
    @cached_property
    def _layout(self) -> Mapping[str, Any]:
        layout = self._user_content.get(_LAYOUT) if isinstance(self._user_content, dict) else None
        return layout if isinstance(layout, dict) else {}

    @property
    def tp_size(self) -> int:
        """Tensor-parallel ranks of the job that wrote the checkpoint."""
        return int(self._layout.get("tp_size", max(_size(self._model, 1), _size(self._optim, 1))))

    @property
    def dp_size(self) -> int:
        """Data-parallel ranks of the job that wrote the checkpoint, as far as the files show it: a
        checkpoint without ZeRO-1 that another program wrote gives 1.
        """
        return int(self._layout.get("dp_size", max(1, _size(self._optim, 0))))

    @property
    def sharded(self) -> bool:
        """Whether each data-parallel rank wrote its chunk of every weight."""
        return bool(self._layout.get(_SHARDED, False))

    @cached_property
    def zero1(self) -> bool:
        """Whether the optimizer's state is split over the dp ranks."""
        return bool(self._optim) and "base_state" in self._skeleton(self._rank_file("optim", 0, 0))

    @property
    def has_optimizer(self) -> bool:
        """Whether there is any optimizer state; converted checkpoints have none."""
        return bool(self._optim)

    # -- content ----------------------------------------------------------------------------------
    def names(self) -> list[str]:
        """Names of the weights, in the order of the optimizer's parameters."""
        return list(self._skeleton(self._rank_file("model", 0, 0)))

    def model(self, tp_rank: int) -> Mapping[str, Tensor]:
        """TP-local weights of a tp rank by name."""
        if self.sharded:
            return _Joined(self, tp_rank)
        content: Mapping[str, Tensor] = self._content(self._rank_file("model", 0, tp_rank))
        return content

    def optimizer(self, dp_rank: int, tp_rank: int) -> Mapping[str, Any]:
        """The optimizer's file of a rank; without ZeRO-1 that of all dp ranks.

        See `files` for the keys.
        """
        content: Mapping[str, Any] = self._content(
            self._rank_file("optim", dp_rank if self.zero1 else 0, tp_rank)
        )
        return content

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a whole weight."""
        dim, locals_ = (
            tp_dim(name),
            [self._local_shape(name, tp_rank) for tp_rank in range(self.tp_size)],
        )
        shape = list(locals_[0])
        if dim is not None:
            shape[dim] = sum(local[dim] for local in locals_)
        return tuple(shape)

    def dtype(self, name: str) -> torch.dtype:
        """In what a weight is stored."""
        return self._pieces(name, 0)[0].dtype

    def full(self, name: str) -> Tensor:
        """A whole weight, in memory of its own."""
        return torch.cat(list(self.blocks(name)))

    def blocks(self, name: str) -> Iterator[Tensor]:
        """A whole weight in consecutive blocks of rows, about BLOCK_BYTES each; a caller that drops
        them needs no more memory than that.
        """
        dim = tp_dim(name)
        for tp_rank in range(self.tp_size if dim == 0 else 1):
            parts = range(self.tp_size) if dim == 1 else (tp_rank,)
            rows = self._local_shape(name, tp_rank)[0]
            row = self._pieces(name, tp_rank)[0][:1].nbytes
            step = max(1, BLOCK_BYTES // max(1, row * len(parts)))
            for start in range(0, rows, step):
                block = torch.cat(
                    [self._rows(name, part, start, start + step) for part in parts], dim=dim or 0
                )
                self._read(block.nbytes)
                yield block

    def piece(self, name: str, dp_rank: int, tp_rank: int) -> Tensor:
        """What one rank of the job that wrote it held of a weight, mapped; valid until the next one
        is asked for.
        """
        path = self._rank_file("model", dp_rank, tp_rank)
        skeleton = self._skeleton(path)
        if name not in skeleton:
            raise ValueError(f"{path}: there is no weight {name}")
        tensor: Tensor = _resolved(path, skeleton[name])
        return tensor

    def _pieces(self, name: str, tp_rank: int) -> list[Tensor]:
        """A TP-local weight: what all dp ranks hold of it, in a row."""
        holders = range(self.dp_size if self.sharded else 1)
        return [self.piece(name, dp_rank, tp_rank) for dp_rank in holders]

    def _local_shape(self, name: str, tp_rank: int) -> tuple[int, ...]:
        pieces = self._pieces(name, tp_rank)
        return (sum(piece.shape[0] for piece in pieces), *pieces[0].shape[1:])

    def _rows(self, name: str, tp_rank: int, start: int, stop: int) -> Tensor:
        """Some rows of a TP-local weight."""
        found: list[Tensor] = []
        for piece in self._pieces(name, tp_rank):
            found.append(piece[max(start, 0) : max(stop, 0)])
            start, stop = start - len(piece), stop - len(piece)
        return found[0] if len(found) == 1 else torch.cat(found)

    def full_optimizer(self, name: str, key: str) -> Tensor:
        """A whole tensor of the optimizer's state (`exp_avg`, `exp_avg_sq`, or the scalar `step`)
        of a weight.
        """
        pieces = [self._local_state(name, key, tp_rank) for tp_rank in range(self.tp_size)]
        dim = tp_dim(name)
        return pieces[0].clone() if dim is None or pieces[0].dim() == 0 else torch.cat(pieces, dim)

    def _local_state(self, name: str, key: str, tp_rank: int) -> Tensor:
        """The TP-local state of a weight: the dp ranks' chunks in a row without their padding."""
        index = self.names().index(name)
        shape = self._local_shape(name, tp_rank)
        chunks: list[Tensor] = []
        for dp_rank in range(self.dp_size if self.zero1 else 1):
            path = self._rank_file("optim", dp_rank, tp_rank)
            states = self._skeleton(path)["base_state" if self.zero1 else "state"]
            if key not in states.get(index, {}):
                raise ValueError(f"{path}: there is no {key} of parameter {index} ({name})")
            chunks.append(_resolved(path, states[index][key]))
            if chunks[0].dim() == 0:
                return chunks[0]
        whole = torch.cat(chunks)[: shape[0]]
        self._read(whole.nbytes)
        if tuple(whole.shape) != shape:
            raise ValueError(
                f"{self.path / 'optim'}: {key} of parameter {index} has shape "
                f"{tuple(whole.shape)}, but {name} has {shape}"
            )
        return whole

    def scheduler(self) -> Any:
        """What the learning rate's schedule saved; None where there is none."""
        path = self.path / "scheduler.pt"
        return _load(path) if path.exists() else None

    @cached_property
    def _user_content(self) -> Any:
        path = self.path / "user_content.pt"
        return _load(path) if path.exists() else {}

    def user_content(self) -> Any:
        """What the trainer gave to be saved."""
        content = self._user_content
        return (
            {key: value for key, value in content.items() if key != _LAYOUT}
            if isinstance(content, dict)
            else content
        )

    # -- files ------------------------------------------------------------------------------------
    def _rank_file(self, kind: str, dp_rank: int, tp_rank: int) -> Path:
        found = self._model if kind == "model" else self._optim
        if (dp_rank, tp_rank) not in found:
            raise ValueError(f"{self.path / kind / rank_name(dp_rank, tp_rank)} is missing")
        return found[dp_rank, tp_rank]

    def _skeleton(self, path: Path) -> Any:
        """A file's content, references where other files hold the tensors."""
        if path not in self._mapped:
            self._mapped[path] = _load(path)
        return self._mapped[path]

    def _read(self, count: int) -> None:
        """Unmap the files when enough bytes of them were read."""
        self._read_bytes += count
        if self._read_bytes > _MAPPED_BYTES:
            self._mapped.clear()
            self._read_bytes = 0

    def _content(self, path: Path) -> Any:
        return replaced(_load(path), partial(_resolved, path))

    # -- checks -----------------------------------------------------------------------------------
    def validate(self) -> None:
        """Check that it is complete: marker, every rank's file, every tensor of it.

        Raises ValueError that names the file.
        """
        if not (self.path / "done").is_file():
            raise ValueError(
                f"{self.path / 'done'} is missing: whoever wrote this checkpoint did not finish"
            )
        for path in self._wanted():
            _check_tensors(path, self._skeleton(path))
        for path in (path for path in self._wanted() if path.parent.name == "model"):
            if list(self._skeleton(path)) != self.names():
                raise ValueError(f"{path} names other weights than {rank_name(0, 0)}")
        self._check_vocabulary()
        self._mapped.clear()

    def _wanted(self) -> list[Path]:
        wanted = [
            self._rank_file("model", dp_rank, tp_rank)
            for dp_rank in range(self.dp_size if self.sharded else 1)
            for tp_rank in range(self.tp_size)
        ]
        if self.has_optimizer:
            dp_size = self.dp_size if self.zero1 else 1
            wanted += [
                self._rank_file("optim", dp_rank, tp_rank)
                for dp_rank in range(dp_size)
                for tp_rank in range(self.tp_size)
            ]
        return wanted

    def _check_vocabulary(self) -> None:
        """Compare the embedding's rows with the vocabulary: file names alone do not show that the
        last tp ranks are missing.
        """
        config = self._user_content.get("config") if isinstance(self._user_content, dict) else None
        name = "model.embed_tokens.weight"
        if isinstance(config, dict) and "vocab_size" in config and name in self.names():
            rows = self.shape(name)[0]
            if rows != config["vocab_size"]:
                raise ValueError(
                    f"{self.path / 'model'}: {name} has {rows} rows on {self.tp_size} tp ranks, "
                    f"vocab_size is {config['vocab_size']}"
                )


class _Joined(Mapping[str, Tensor]):
    """TP-local weights that several ranks wrote; each is put together when it is asked for."""

    def __init__(self, checkpoint: Checkpoint, tp_rank: int) -> None:
        self._checkpoint, self._tp_rank = checkpoint, tp_rank

    def __getitem__(self, name: str) -> Tensor:
        return torch.cat(self._checkpoint._pieces(name, self._tp_rank))

    def __iter__(self) -> Iterator[str]:
        return iter(self._checkpoint.names())

    def __len__(self) -> int:
        return len(self._checkpoint.names())


def _load(path: Path) -> Any:
    """Tensors and plain data of a file, the tensors mapped. Raises ValueError."""
    try:
        return xser_format.load(path, mmap=True)
    except FileNotFoundError as error:
        raise ValueError(f"{path} is missing") from error
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{path} is damaged, or holds more than tensors and plain data, which is never loaded: "
            f"{_first_line(error)}"
        ) from error
    except (OSError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise ValueError(f"{path} cannot be read: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _tensor_path(path: Path, tid: int) -> Path:
    return path.with_name(f"{path.name}.tensors") / f"tensor_{tid}.pt"


def _resolved(path: Path, leaf: Any) -> Any:
    """The tensor that a reference in the file `path` means; anything else as it is."""
    if not isinstance(leaf, TensorReference):
        return leaf
    where = _tensor_path(path, leaf.tid)
    tensor = _load(where)
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{where} holds {type(tensor).__name__}, not a tensor")
    return tensor


def _check_tensors(path: Path, skeleton: Any) -> None:
    """Every tensor that a file refers to can be read and is what the file's info says."""
    references: list[TensorReference] = []
    replaced(
        skeleton,
        lambda leaf: references.append(leaf) if isinstance(leaf, TensorReference) else None,
    )
    if not references:
        return
    info_path = path.with_name(f"{path.name}.info.pt")
    info = _load(info_path)
    for reference in references:
        tensor, said = _resolved(path, reference), info.get(reference.tid)
        if said is None:
            raise ValueError(f"{info_path} does not name tensor {reference.tid}")
        if (tensor.dtype, tuple(tensor.shape)) != (said["dtype"], tuple(said["shape"])):
            raise ValueError(
                f"{_tensor_path(path, reference.tid)} is {tensor.dtype} {tuple(tensor.shape)}, "
                f"{info_path.name} says {said['dtype']} {tuple(said['shape'])}"
            )
