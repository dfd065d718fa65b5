"""Trained checkpoints to Hugging Face directories and back, in blocks of rows, so that a model
larger than memory can be converted.

Both ways any number of tensor-parallel ranks will do. What was written is checked before it
appears: the logits of transformers' own model, which reads the Hugging Face directory, against
those of our model, which reads the checkpoint.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from trainyard_job.checkpoints import checkpoint
from trainyard_job.common.files import fsync_directory

from ..common.config import ConfigError
from ..common.packages import needed
from ..parallel import nxd_layout
from ..parallel.layers import PlainLayers
from ..parallel.nxd_layout import Checkpoint
from ..parallel.partition import tp_dim
from . import config as llm_config
from . import lora, safetensors_format, special_tokens
from .config import ModelConfig
from .model import Llama, parameter_shapes
from .safetensors_format import Directory, Entry

Check = Literal["always", "never", "auto"]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
#: Both models of the check are in memory in float32, eight bytes a parameter; `auto` checks up to
#: so many parameters.
AUTO_CHECK_PARAMETERS = 200_000_000
#: Logits may differ by so much of the largest: sums in another order, and nothing else.
TOLERANCE = 1e-4
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "generation_config.json",
)


class CheckFailed(Exception):
    """transformers computes other logits from what was written than our model from what was read;
    nothing was kept.
    """


@dataclass(frozen=True)
class Converted:
    """What was written.

    `difference`: the largest between the logits, None when they were not compared, for the reason
    in `unchecked`. `unknown`: keys of config.json for which nothing named a token.
    """

    path: Path
    tensors: int
    files: int
    bytes: int
    difference: float | None = None
    unchecked: str = ""
    unknown: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = (
            f"logits not compared ({self.unchecked})"
            if self.difference is None
            else f"logits differ by at most {self.difference:.2g}"
        )
        return (
            f"{self.path}: {self.tensors} tensors in {self.files} file(s), {self.bytes / 1e6:.1f} "
            f"MB; {said}{self._left_open()}"
        )

    def _left_open(self) -> str:
        if not self.unknown:
            return ""
        return f"; {' and '.join(self.unknown)} not known: null (--tokenizer or --config name them)"


def open_checkpoint(source: Path) -> Checkpoint:
    """The checkpoint in a Trainyard checkpoint (verified against its manifest), a directory of
    `step_N`, or such a directory itself.

    Raises ValueError that names the file which is not whole.
    """
    if not source.is_dir():
        raise ValueError(f"{source}: there is no such directory")
    if (source / checkpoint.MANIFEST).exists():
        try:
            checkpoint.verify(source)
        except ValueError as error:
            raise ValueError(f"{source} is not a whole checkpoint: {error}") from error
        except OSError as error:
            raise ValueError(f"{source} cannot be read just now: {error}; try again") from error
    place = source if (source / "model").is_dir() else nxd_layout.newest(source)
    if place is None:
        raise ValueError(
            f"{source}: there is no complete step_N (with its file `done`) and no manifest with "
            "one; give a checkpoint's directory"
        )
    found = Checkpoint(place)
    found.validate()
    return found


def read_config(found: Checkpoint, given: Path | None) -> Mapping[str, Any]:
    """The model's config.json: `given`, or what the trainer put into the checkpoint.

    Raises ConfigError.
    """
    if given is not None:
        return _read_json(given / "config.json" if given.is_dir() else given)
    content = found.user_content()
    if isinstance(content, dict) and isinstance(content.get("config"), dict):
        return content["config"]  # type: ignore[no-any-return]
    raise ConfigError(
        f"config: {found.path}/user_content.pt does not say what the model is; give --config FILE, "
        "a Hugging Face config.json"
    )


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"config: {path}: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"config: {path} must hold keys and values")
    return document


#: What older files hold besides the weights, and config.json says anyway.
_DERIVED = "rotary_emb.inv_freq"


# -- to Hugging Face -----------------------------------------------------------------------------
def to_hf(
    source: Path,
    out: Path,
    *,
    dtype: torch.dtype | None = None,
    shard_bytes: int = 5_000_000_000,
    config: Path | None = None,
    tokenizer: Path | None = None,
    base: Path | None = None,
    check: Check = "auto",
) -> Converted:
    """Write a directory that transformers reads. dtype: of the weights, None as they are stored.
    shard_bytes: largest size of a file. base: where the model lies whose adapters `source` holds.

    Raises ValueError and OSError for what does not fit, FileExistsError, CheckFailed; then `out` is
    not there.
    """
    checkpoint = open_checkpoint(source)
    document = read_config(checkpoint, config)
    found = lora.merged(checkpoint, base)
    model = llm_config.from_hf(document, "config")
    shapes = _checked_shapes(found, model).items()
    entries = [Entry(name, dtype or found.dtype(name), shape) for name, shape in shapes]
    with _Output(out) as output:
        shards = _write_shards(output.temporary, entries, shard_bytes, found.blocks)
        stored = str(entries[0].dtype).removeprefix("torch.")
        if tokenizer is not None:
            _copy_tokenizer(tokenizer, output.temporary)
        ids = special_tokens.ids(document, tokenizer)
        _write_config(output.temporary, document, {**llm_config.to_hf(model, stored), **ids})
        reason, difference = _why_unchecked(check, entries), None
        if not reason:
            types = {entry.name: entry.dtype for entry in entries}
            difference = check_logits(
                output.temporary, model, lambda name: found.full(name).to(types[name])
            )
        output.keep()
    size = sum(entry.nbytes for entry in entries)
    unknown = special_tokens.unknown(ids)
    return Converted(out, len(entries), len(shards), size, difference, reason, unknown)


def _write_config(directory: Path, document: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """What the model's own config does not know is kept."""
    text = json.dumps({**document, **ours}, indent=2) + "\n"
    (directory / "config.json").write_text(text)


def _checked_shapes(
    found: Checkpoint | lora.Merged, model: ModelConfig
) -> dict[str, tuple[int, ...]]:
    """The weights to write, in the model's order; a checkpoint that is not of this model is
    refused.
    """
    wanted, present = parameter_shapes(model), set(found.names())
    if model.tie_word_embeddings:
        _check_tied(found, present)
    missing, unknown = (
        [name for name in wanted if name not in present],
        sorted(present - set(wanted)),
    )
    if missing or unknown:
        said = f"lacks {missing[0]}" if missing else f"holds {unknown[0]}"
        raise ValueError(
            f"{found.path} {said}, and the config asks for {len(wanted)} weights by Hugging Face's "
            f"names of {model.model_type}; "
            "fused projections (qkv_proj, gate_up_proj) are not read"
        )
    for name, shape in wanted.items():
        if found.shape(name) != shape:
            raise ValueError(
                f"{found.path}: {name} has shape {found.shape(name)}, the config asks for {shape}"
            )
    return wanted


def _check_tied(found: Checkpoint | lora.Merged, present: set[str]) -> None:
    """Others write the head of tied embeddings, too: it must be the embedding, and is left out."""
    if "lm_head.weight" not in present:
        return
    for one, other in zip(
        found.blocks("lm_head.weight"), found.blocks("model.embed_tokens.weight"), strict=True
    ):
        if not torch.equal(one, other):
            raise ValueError(
                f"{found.path}: tie_word_embeddings is true, but lm_head.weight is not "
                "model.embed_tokens.weight"
            )
    present.discard("lm_head.weight")


def _write_shards(
    directory: Path, entries: Sequence[Entry], limit: int, blocks: Callable[[str], Iterator[Tensor]]
) -> list[str]:
    """Write the tensors into as few files of at most `limit` bytes as their order allows; returns
    the files' names.
    """
    shards = plan_shards(entries, limit)
    names = [safetensors_format.SINGLE]
    if len(shards) > 1:
        names = [
            f"model-{number:05d}-of-{len(shards):05d}.safetensors"
            for number in range(1, len(shards) + 1)
        ]
    for name, shard in zip(names, shards, strict=True):
        safetensors_format.write(directory / name, shard, blocks)
    if len(shards) > 1:
        places = {
            entry.name: name for name, shard in zip(names, shards, strict=True) for entry in shard
        }
        index = {
            "metadata": {"total_size": sum(entry.nbytes for entry in entries)},
            "weight_map": places,
        }
        (directory / safetensors_format.INDEX).write_text(json.dumps(index, indent=2) + "\n")
    return names


def plan_shards(entries: Sequence[Entry], limit: int) -> list[list[Entry]]:
    """In order; a tensor that is larger than the limit has a file of its own."""
    shards: list[list[Entry]] = [[]]
    size = 0
    for entry in entries:
        if shards[-1] and size + entry.nbytes > limit:
            shards.append([])
            size = 0
        shards[-1].append(entry)
        size += entry.nbytes
    return shards


def _copy_tokenizer(source: Path, target: Path) -> None:
    names = [name for name in _TOKENIZER_FILES if (source / name).is_file()]
    if not set(names) & {"tokenizer.json", "tokenizer.model", "vocab.json"}:
        raise ValueError(
            f"tokenizer: {source} holds none of tokenizer.json, tokenizer.model, vocab.json"
        )
    for name in names:
        shutil.copyfile(source / name, target / name)


class _Output:
    """A directory that appears under its name when it is whole, or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.temporary = path.with_name(f".tmp-{path.name}")

    def __enter__(self) -> _Output:
        if self.path.exists():
            raise FileExistsError(f"{self.path} exists; give a directory that does not")
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir(parents=True)
        return self

    def keep(self) -> None:
        for path in self.temporary.rglob("*"):
            if path.is_file():
                with open(path, "rb") as stream:
                    os.fsync(stream.fileno())
        fsync_directory(self.temporary)
        os.rename(self.temporary, self.path)
        fsync_directory(self.path.parent)

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.temporary, ignore_errors=True)


# -- the check -----------------------------------------------------------------------------------
def _why_unchecked(check: Check, entries: Sequence[Entry]) -> str:
    """Empty when the logits are to be compared."""
    if check == "always":
        return ""
    if check == "never":
        return "--check never"
    if importlib.util.find_spec("transformers") is None:
        return "transformers is not installed"
    count = sum(torch.Size(entry.shape).numel() for entry in entries)
    return (
        f"{count:,} parameters; --check always does it with {8 * count / 1e9:.0f} GB"
        if count > AUTO_CHECK_PARAMETERS
        else ""
    )


def check_logits(
    directory: Path,
    model: ModelConfig,
    weight: Callable[[str], Tensor],
    dtype: torch.dtype | None = None,
) -> float:
    """The largest difference between the logits of transformers, from `directory`, and ours, from
    `weight`, computed in float32.

    dtype: what transformers' weights are rounded to first, because ours were. Raises CheckFailed,
    or PackageMissing without transformers.
    """
    tokens = torch.randint(
        model.vocab_size,
        (2, min(64, model.max_position_embeddings)),
        generator=torch.Generator().manual_seed(0),
    )
    with torch.no_grad():
        theirs = _their_logits(directory, tokens, dtype)
        ours = _our_logits(model, weight, tokens)
    difference, largest = float((theirs - ours).abs().max()), float(ours.abs().max())
    if not difference <= TOLERANCE * largest:  # NaN, too
        raise CheckFailed(
            f"transformers' logits differ from ours by {difference:.3g}, of at most {largest:.3g}; "
            f"allowed are {TOLERANCE * largest:.3g}. "
            "Nothing was written"
        )
    return difference


def _their_logits(directory: Path, tokens: Tensor, dtype: torch.dtype | None) -> Tensor:
    transformers = needed("transformers", "the comparison of logits (--check)")
    model = transformers.AutoModelForCausalLM.from_pretrained(directory).float().eval()
    for parameter in (
        model.parameters()
    ):  # not its buffers: the rotary angles are float32 whatever the weights are
        parameter.data = parameter.data.to(dtype or parameter.dtype).float()
    logits: Tensor = model(tokens).logits
    return logits


def _our_logits(model: ModelConfig, weight: Callable[[str], Tensor], tokens: Tensor) -> Tensor:
    with torch.device("meta"):
        ours = Llama(model, PlainLayers())
    ours.load_state_dict(
        {name: weight(name).float() for name in parameter_shapes(model)}, assign=True
    )
    logits: Tensor = ours.eval()(tokens)
    return logits


# -- from Hugging Face ---------------------------------------------------------------------------
def from_hf(
    source: Path,
    out: Path,
    *,
    tp: int,
    xser: bool = False,
    step: int = 0,
    dtype: torch.dtype | None = None,
    check: Check = "auto",
) -> Converted:
    """Write `out/step_<step>` in neuronx-distributed's layout for `tp` ranks, weights only. Raises
    as `to_hf` does.

    With xser a tensor at a time is in memory, without one rank's part of the model.
    """
    document = _read_json(source / "config.json")
    model = llm_config.from_hf(document, str(source / "config.json"))
    if tp < 1:
        raise ConfigError(f"tp: {tp} is too small; use 1 or more")
    model.check_tp(tp)
    directory, shapes = Directory(source), parameter_shapes(model)
    _check_directory(source, directory, model, shapes)
    with _Output(out) as output:
        parts = (
            part
            for rank in range(tp)
            for part in _rank_parts(directory, list(shapes), rank, tp, dtype, xser, step, document)
        )
        path = nxd_layout.write(output.temporary, nxd_layout.tag_of(step), parts)
        written = Checkpoint(path)
        written.validate()
        entries = [Entry(name, written.dtype(name), shape) for name, shape in shapes.items()]
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        reason = _why_unchecked(check, entries)
        converted = Converted(out / path.name, len(entries), tp, size, unchecked=reason)
        if not reason:
            difference = check_logits(source, model, written.full, dtype)
            converted = replace(converted, difference=difference)
        output.keep()
    return converted


def _check_directory(
    source: Path, directory: Directory, model: ModelConfig, shapes: Mapping[str, Sequence[int]]
) -> None:
    """Raises ValueError unless the directory holds the weights of the model, and no others."""
    known = {*shapes, "lm_head.weight"} if model.tie_word_embeddings else set(shapes)
    left = [name for name in sorted(directory.names()) if name not in known]
    for name in left:
        if not name.endswith(_DERIVED):
            raise ValueError(
                f"{source} holds {name}, which a model of its config.json does not have; is "
                "config.json of another model?"
            )
    for name, shape in shapes.items():
        if directory.entry(name).shape != shape:
            raise ValueError(
                f"{source}: {name} has shape {directory.entry(name).shape}, config.json asks for "
                f"{shape}"
            )


def _rank_parts(
    directory: Directory,
    names: list[str],
    rank: int,
    tp: int,
    dtype: torch.dtype | None,
    xser: bool,
    step: int,
    document: Mapping[str, Any],
) -> Iterator[tuple[str, object]]:
    return nxd_layout.iter_files(
        nxd_layout.tag_of(step),
        nxd_layout.Ranks(0, 1, rank, tp),
        model=_Local(directory, names, rank, tp, dtype),
        user_content={"config": dict(document), "step": step},
        xser=xser,
    )


class _Local(Mapping[str, Tensor]):
    """A tp rank's part of a Hugging Face directory; every tensor is read when it is asked for."""

    def __init__(
        self, directory: Directory, names: list[str], rank: int, tp: int, dtype: torch.dtype | None
    ) -> None:
        self._directory, self._names, self._rank, self._tp, self._dtype = (
            directory,
            names,
            rank,
            tp,
            dtype,
        )

    def __getitem__(self, name: str) -> Tensor:
        entry = self._directory.entry(name)
        dim, shape, dtype = tp_dim(name), entry.shape, entry.dtype
        part = [slice(None)] * len(shape)
        if dim is not None:
            length = shape[dim] // self._tp
            part[dim] = slice(self._rank * length, (self._rank + 1) * length)
        first, last, _ = part[0].indices(shape[0])
        target = torch.empty(
            [len(range(*one.indices(length))) for one, length in zip(part, shape, strict=True)],
            dtype=self._dtype or dtype,
        )
        filled = 0
        for block in self._directory.blocks(name, first, last):
            target[filled : filled + len(block)] = block[:, part[1]] if dim == 1 else block
            filled += len(block)
        return target

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
