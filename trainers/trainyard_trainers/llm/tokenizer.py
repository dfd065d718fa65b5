"""Text to tokens and back, by the tokenizer of a Hugging Face directory or as bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..common.config import ConfigError
from ..common.packages import needed


class Document(NamedTuple):
    """A text's tokens, and of each of them a byte: 1 if it counts in the loss."""

    tokens: Sequence[int]
    counts: bytes


def _bytes_to_text(tokens: Sequence[int]) -> str:
    return bytes(token for token in tokens if token < 256).decode(errors="replace")


class Tokenizer(NamedTuple):
    """Text to tokens and back. `end` follows every document."""

    encode: Callable[[str], list[int]]
    end: int
    vocab_size: int
    decode: Callable[[Sequence[int]], str] = _bytes_to_text


#: The 256 bytes, the end of a document, and room up to a number that tensor parallelism can split
#: 16 ways.
BYTES = Tokenizer(lambda text: list(text.encode()), 256, 272)


def load_tokenizer(name: str, vocab_size: int = 0) -> Tokenizer:
    """`bytes`, or the tokenizer of a Hugging Face directory. Raises ConfigError; needs the package
    tokenizers for a directory.

    vocab_size: of the model, if larger than the tokenizer's; a config.json in the directory says
    it, too.
    """
    found = BYTES if name == "bytes" else _from_directory(Path(name))
    if vocab_size and vocab_size < found.vocab_size:
        raise ConfigError(
            f"vocab-size: {vocab_size} is smaller than the {found.vocab_size} of the tokenizer "
            f"{name}"
        )
    return found._replace(vocab_size=vocab_size or found.vocab_size)


def _from_directory(directory: Path) -> Tokenizer:
    path = directory / "tokenizer.json"
    if not path.is_file():
        raise ConfigError(
            f"tokenizer: {path} is missing; give a Hugging Face directory that has it, or 'bytes'"
        )
    fast = needed("tokenizers", f"reading {path}").Tokenizer.from_file(str(path))
    config, tokenizer_config = (
        _json(directory / "config.json"),
        _json(directory / "tokenizer_config.json"),
    )
    largest = max(fast.get_vocab_size(), int(config.get("vocab_size") or 0))

    def encode(text: str) -> list[int]:
        return list(fast.encode(text).ids)

    def decode(tokens: Sequence[int]) -> str:
        return str(fast.decode(list(tokens)))

    end = _end_token(directory, fast, config, tokenizer_config)
    return Tokenizer(encode, end, largest, decode)


def _json(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def _end_token(
    directory: Path, fast: Any, config: dict[str, Any], tokenizer_config: dict[str, Any]
) -> int:
    text = tokenizer_config.get("eos_token")
    number = (
        fast.token_to_id(text["content"] if isinstance(text, dict) else text)
        if text
        else config.get("eos_token_id")
    )
    number = number[0] if isinstance(number, list) else number
    if number is None:
        raise ConfigError(
            f"tokenizer: {directory} names no end of text; put eos_token into its "
            "tokenizer_config.json"
        )
    return int(number)
