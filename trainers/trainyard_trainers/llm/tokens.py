"""Tokenized text in files that are mapped into memory, so that training starts at once on any
amount of it.

    python -m trainyard_trainers.llm.tokens pack --input corpus.jsonl \\
        --tokenizer llama-3/ --output tokens/
    python -m trainyard_trainers.llm.tokens check --input tokens/

A shard (`*.tokens`, little-endian):

    offset 0    8 bytes  "TYTOKENS"
           8    uint32   version, 1 or 2
          12    uint32   bytes of a token, 2 or 4
          16    uint64   vocabulary size: every token is below it
          24    uint64   tokens
          32    uint64   documents
          40    uint32   CRC-32 of everything from offset 64 on
          44    uint32   CRC-32 of bytes 0 to 43
          64    the tokens, and zeros up to a multiple of 8
          then  uint64 for each document: the number of its first token, ascending; the first is 0
          then  in version 2 only, a byte for each token: 1 if it counts in the loss, else 0
"""

from __future__ import annotations

import argparse
import mmap
import os
import struct
import sys
import warnings
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from trainyard_job.common.files import replacing, write_json

from ..common.config import ConfigError
from ..common.packages import PackageMissing
from .chat import documents as conversations
from .inputs import texts as inputs_of_text
from .tokenizer import Document, Tokenizer, load_tokenizer

SUFFIX = ".tokens"
_MAGIC, _START = b"TYTOKENS", 64
_PLAIN, _MASKED = 1, 2
_HEADER = struct.Struct("<8sIIQQQI")
_CRC = struct.Struct("<I")
_TYPES = {2: torch.uint16, 4: torch.uint32}
_CODES = {2: "H", 4: "I"}
_SHARD_TOKENS = 100_000_000
_READ_BYTES = 8 << 20


class Header(NamedTuple):
    """What a shard says of itself."""

    width: int
    vocab_size: int
    tokens: int
    documents: int
    crc32: int
    masked: bool = False

    @property
    def index_offset(self) -> int:
        """Where the documents' index begins, in bytes."""
        return _START + -(-self.tokens * self.width // 8) * 8

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return self.mask_offset + (self.tokens if self.masked else 0)

    @property
    def mask_offset(self) -> int:
        """Where the bytes begin that say what counts, if there are any."""
        return self.index_offset + 8 * self.documents

    def packed(self) -> bytes:
        version = _MASKED if self.masked else _PLAIN
        head = _HEADER.pack(
            _MAGIC, version, self.width, self.vocab_size, self.tokens, self.documents, self.crc32
        )
        return (head + _CRC.pack(zlib.crc32(head))).ljust(_START, b"\0")


def read_header(path: Path) -> Header:
    """Raises ConfigError, with file and offset, for a shard that is damaged at its head or not
    whole.
    """
    try:
        with open(path, "rb") as stream:
            raw = stream.read(_START)
            size = os.fstat(stream.fileno()).st_size
    except OSError as error:
        raise ConfigError(f"data: {error}") from error
    if len(raw) < _START:
        raise ConfigError(
            f"data: {path} is truncated: it ends at offset {size}, within its header of {_START} "
            "bytes"
        )
    magic, version, *rest = _HEADER.unpack_from(raw)
    if magic != _MAGIC:
        raise ConfigError(
            f"data: {path} is no token shard: offset 0 has {magic!r}, not {_MAGIC!r}; make shards "
            "with `tokens pack`"
        )
    if _CRC.unpack_from(raw, _HEADER.size)[0] != zlib.crc32(raw[: _HEADER.size]):
        raise ConfigError(
            f"data: {path} is damaged: the header at offset 0 does not have the CRC-32 at offset "
            f"{_HEADER.size}"
        )
    if version not in (_PLAIN, _MASKED):
        raise ConfigError(
            f"data: {path} has version {version}; this program reads versions {_PLAIN} and "
            f"{_MASKED}"
        )
    header = Header(*rest)._replace(masked=version == _MASKED)
    if size != header.size:
        raise ConfigError(f"data: {path} {_misfit(header, size)}")
    return header


def _misfit(header: Header, size: int) -> str:
    if size > header.size:
        return (
            f"is damaged: it goes on after offset {header.size}, where it should end, up to {size}"
        )
    token = (size - _START) // header.width
    place = (
        f"in token {token} of {header.tokens}"
        if size < header.index_offset
        else "in the index of its documents"
    )
    return (
        f"is truncated: it ends at offset {size}, {place}, and should have {header.size} bytes; "
        "make or copy it again"
    )


class Shard:
    """One file.

    `tokens` (count,), `starts` (documents,) and, unless all tokens count, `counts` (count,) are
    read from disk when they are touched.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.header = path, read_header(path)
        with open(path, "rb") as stream:
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # torch warns that this memory cannot be written; no code writes it
            self.tokens = torch.frombuffer(
                mapped, dtype=_TYPES[self.header.width], count=self.header.tokens, offset=_START
            )
            self.starts = torch.frombuffer(
                mapped,
                dtype=torch.int64,
                count=self.header.documents,
                offset=self.header.index_offset,
            )
            self.counts: Tensor | None = None
            if self.header.masked:
                self.counts = torch.frombuffer(
                    mapped,
                    dtype=torch.uint8,
                    count=self.header.tokens,
                    offset=self.header.mask_offset,
                )

    def check(self) -> None:
        """Read all of it. Raises ConfigError when the content is not what was written."""
        found = 0
        with open(self.path, "rb") as stream:
            stream.seek(_START)
            while part := stream.read(_READ_BYTES):
                found = zlib.crc32(part, found)
        if found != self.header.crc32:
            raise ConfigError(
                f"data: {self.path} is damaged: offsets {_START} to {self.header.size} have CRC-32 "
                f"{found:08x}, not {self.header.crc32:08x}"
            )


def open_shards(directory: Path, key: str = "data") -> list[Shard]:
    """All shards of a directory in the order of their names. Raises ConfigError."""
    paths = sorted(directory.glob(f"*{SUFFIX}"))
    if not paths:
        raise ConfigError(
            f"{key}: {directory} has no *{SUFFIX} file; make some with `python -m "
            "trainyard_trainers.llm.tokens pack`"
        )
    shards = [Shard(path) for path in paths]
    for shard in shards:
        if shard.header.vocab_size != shards[0].header.vocab_size:
            raise ConfigError(
                f"data: {shard.path} has a vocabulary of {shard.header.vocab_size}, but "
                f"{shards[0].path} of {shards[0].header.vocab_size}; "
                "make all shards with one tokenizer"
            )
    return shards


def write_shard(path: Path, documents: Iterable[Sequence[int]], vocab_size: int) -> Header:
    """Write one shard of which all tokens count; it appears under its name only when it is whole.

    Raises ValueError for a token outside of the vocabulary.
    """
    return write_documents(
        path, (Document(one, b"") for one in documents), vocab_size, masked=False
    )


def write_documents(
    path: Path, documents: Iterable[Document], vocab_size: int, *, masked: bool
) -> Header:
    """Write one shard as `write_shard` does; `masked`: with what counts."""
    width = 2 if vocab_size <= 1 << 16 else 4
    starts, count, crc32, counts = array("Q"), 0, 0, bytearray()
    with replacing(path, durable=True) as stream:
        stream.write(bytes(_START))
        for document in documents:
            starts.append(count)
            part = _encoded(document.tokens, width, vocab_size)
            crc32 = zlib.crc32(part, crc32)
            stream.write(part)
            count += len(document.tokens)
            counts += document.counts
        if len(counts) != (count if masked else 0):
            raise ValueError(f"{len(counts)} bytes say what counts of {count} tokens")
        tail = bytes(-count * width % 8) + _little(starts) + bytes(counts)
        stream.write(tail)
        header = Header(width, vocab_size, count, len(starts), zlib.crc32(tail, crc32), masked)
        stream.seek(0)
        stream.write(header.packed())
    return header


def _encoded(document: Sequence[int], width: int, vocab_size: int) -> bytes:
    if not document:
        raise ValueError("a document has no token")
    if not 0 <= min(document) <= max(document) < vocab_size:
        wrong = max(document) if max(document) >= vocab_size else min(document)
        raise ValueError(f"token {wrong} is outside of the vocabulary of {vocab_size}")
    return _little(array(_CODES[width], document))


def _little(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers = array(numbers.typecode, numbers)
        numbers.byteswap()
    return numbers.tobytes()


def pack(
    inputs: Iterable[Path],
    tokenizer: Tokenizer,
    output: Path,
    *,
    key: str = "text",
    shard_tokens: int = _SHARD_TOKENS,
) -> list[Header]:
    """Tokenize texts into shards of about `shard_tokens`; a document is never cut, an empty one is
    left out. Raises ConfigError.
    """
    texts = (text for path in inputs for text in inputs_of_text(path, key) if text)
    documents = (Document(_ended(tokenizer.encode(text), tokenizer.end), b"") for text in texts)
    return pack_documents(documents, tokenizer, output, masked=False, shard_tokens=shard_tokens)


def _ended(tokens: list[int], end: int) -> list[int]:
    return tokens if tokens[-1:] == [end] else [*tokens, end]


def pack_documents(
    documents: Iterator[Document],
    tokenizer: Tokenizer,
    output: Path,
    *,
    masked: bool,
    shard_tokens: int = _SHARD_TOKENS,
) -> list[Header]:
    """Write documents, one after the other as they come, into shards. Raises ConfigError."""
    output.mkdir(parents=True, exist_ok=True)
    if any(output.glob(f"*{SUFFIX}")):
        raise ConfigError(f"output: {output} has shards already; give an empty directory")
    headers: list[Header] = []
    for first in documents:
        path = output / f"shard-{len(headers):05d}{SUFFIX}"
        some = _up_to(first, documents, shard_tokens)
        headers.append(write_documents(path, some, tokenizer.vocab_size, masked=masked))
    if not headers:
        raise ConfigError("input: there is no text in it")
    # so that a model trained on these knows where a text ends (special_tokens.py)
    write_json(output / "generation_config.json", {"eos_token_id": tokenizer.end})
    return headers


def _up_to(first: Document, following: Iterator[Document], limit: int) -> Iterator[Document]:
    count, document = 0, first
    while True:
        yield document
        count += len(document.tokens)
        found = next(following, None) if count < limit else None
        if found is None:
            return
        document = found


def window(shard: Shard, start: int, length: int) -> Tensor:
    """Tokens start to start + length as int64, shape (length,).

    Raises ConfigError for a token that is not in the vocabulary.
    """
    tokens = shard.tokens[start : start + length].to(torch.int64)
    if int(tokens.max()) >= shard.header.vocab_size:
        place = start + int((tokens >= shard.header.vocab_size).nonzero()[0])
        raise ConfigError(
            f"data: {shard.path}: token {place} is {int(shard.tokens[place])}, outside of the "
            f"vocabulary of {shard.header.vocab_size}: the shard "
            "is damaged; `python -m trainyard_trainers.llm.tokens check --input DIRECTORY` reads "
            "shards whole; pack it again"
        )
    return tokens


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="trainyard_trainers.llm.tokens", description="Token shards: make them, check them."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="tokenize text into shards")
    packing.add_argument(
        "--input",
        type=Path,
        nargs="+",
        required=True,
        help=".jsonl or .parquet with a text in each row, text files (a document each), a "
        "directory that the package datasets saved, or hf:NAME[:SPLIT] of Hugging Face's hub",
    )
    packing.add_argument(
        "--tokenizer",
        required=True,
        help="a Hugging Face directory with tokenizer.json, or 'bytes'",
    )
    packing.add_argument("--output", type=Path, required=True)
    packing.add_argument("--key", default="text", help="of the text in a row (default text)")
    packing.add_argument(
        "--chat",
        action="store_true",
        help="rows hold conversations (messages, or prompt and completion); only what the "
        "assistant says counts in the loss",
    )
    packing.add_argument(
        "--vocab-size", type=int, default=0, help="of the model, if larger than the tokenizer's"
    )
    packing.add_argument("--shard-tokens", type=int, default=_SHARD_TOKENS)
    commands.add_parser("check", help="read shards whole and compare their sums").add_argument(
        "--input", type=Path, required=True
    )
    return parser


def _packed(given: argparse.Namespace, tokenizer: Tokenizer) -> list[Header]:
    if not given.chat:
        return pack(
            given.input, tokenizer, given.output, key=given.key, shard_tokens=given.shard_tokens
        )
    return pack_documents(
        conversations(given.input, given.tokenizer, tokenizer),
        tokenizer,
        given.output,
        masked=True,
        shard_tokens=given.shard_tokens,
    )


def main(argv: list[str] | None = None) -> int:
    """Entry of `python -m trainyard_trainers.llm.tokens`."""
    given = _parser().parse_args(argv)
    try:
        if given.command == "pack":
            tokenizer = load_tokenizer(given.tokenizer, given.vocab_size)
            headers = _packed(given, tokenizer)
        else:
            shards = open_shards(given.input)
            for shard in shards:
                shard.check()
            headers = [shard.header for shard in shards]
    except (ValueError, PackageMissing) as error:
        print(f"trainyard_trainers.llm.tokens: {error}", file=sys.stderr)
        return 2
    tokens = sum(header.tokens for header in headers)
    documents = sum(header.documents for header in headers)
    print(
        f"{len(headers)} shards: {tokens} tokens, {documents} documents, vocabulary "
        f"{headers[0].vocab_size}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
