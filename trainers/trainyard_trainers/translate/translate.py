"""Translates lines of text with a model that the trainer left.

    python -m trainyard_trainers.translate.translate --model RUN/final < text.en > text.de

A line in, a line out, in the same order; empty lines stay empty.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import torch

from trainyard_job.checkpoints import checkpoint

from ..common import config
from ..common.bounds import Bound, Bounded, at_least
from ..common.config import ConfigError
from ..common.meaning import Meaning
from .data import Rows
from .model import Decoding, ModelConfig, Transformer
from .search import beam_search
from .vocabulary import Vocabulary

SCHEMA = "trainyard.translate.v1"


@dataclass(frozen=True)
class SearchConfig(Bounded):
    """How a translation is looked for."""

    beam: Annotated[
        int, at_least(1), Meaning("open hypotheses a sentence; 1: greedy", free=True)
    ] = 4
    length_penalty: Annotated[
        float,
        Bound("would prefer short sentences without end; use 0 or more", ge=0),
        Meaning("how strongly short translations are held back; 0: not at all", free=True),
    ] = 0.6
    sentences: Annotated[int, at_least(1), Meaning("translated at once", free=True)] = 32


@dataclass(frozen=True, kw_only=True)
class TranslateConfig:
    """With what, and where, lines are translated."""

    model: Annotated[Path, Meaning("the `final` directory of a run")]
    device: Annotated[Literal["cpu", "cuda"], Meaning("the CPU, or the first GPU")] = "cpu"
    search: SearchConfig = field(default_factory=SearchConfig)


@torch.no_grad()
def translate(
    model: Transformer, vocabulary: Vocabulary, lines: Sequence[str], search: SearchConfig
) -> list[str]:
    """The lines' translations in the same order.

    Sentences of like length are translated together.
    """
    device, training = model.embedding.weight.device, model.training
    model.eval()
    tokens = dict(enumerate(vocabulary.encode([line.strip() for line in lines])))
    order = sorted(
        (place for place in tokens if lines[place].strip()), key=lambda place: len(tokens[place])
    )
    found = [""] * len(lines)
    for start in range(0, len(order), search.sentences):
        places = order[start : start + search.sentences]
        for place, said in zip(
            places, _batch(model, [tokens[place] for place in places], search, device), strict=True
        ):
            found[place] = vocabulary.decode(said)
    model.train(training)
    return found


def _batch(
    model: Transformer, rows: list[list[int]], search: SearchConfig, device: torch.device
) -> list[list[int]]:
    lengths = [len(row) for row in rows]
    source = (
        Rows([torch.tensor(row, dtype=torch.int32) for row in rows], lengths)
        .padded(torch.arange(len(rows)))
        .to(device)
    )
    limits = [2 * length + 10 for length in lengths]
    step = Decoding(model, source, search.beam)
    return [
        found.tokens
        for found in beam_search(step, limits, search.beam, search.length_penalty, device)
    ]


def model_files(model: Transformer, vocabulary: Vocabulary, **more: object) -> dict[str, object]:
    """What `load` needs, as files of a checkpoint."""
    document = {
        "schema": SCHEMA,
        "model": asdict(model.config),
        "vocabulary": len(vocabulary),
        **more,
    }
    return {
        "config.json": (json.dumps(document, indent=1) + "\n").encode(),
        "vocabulary.json": vocabulary.document.encode(),
        "model.pt": model.state_dict(),
    }


def load(directory: Path, device: torch.device) -> tuple[Transformer, Vocabulary]:
    """A final model, verified against its manifest where it has one. Raises ConfigError."""
    for name in ("config.json", "vocabulary.json", "model.pt"):
        if not (directory / name).is_file():
            raise ConfigError(
                f"model: {directory} has no {name}; give the directory `final` of a run of "
                "trainyard_trainers.translate"
            )
    if (directory / checkpoint.MANIFEST).exists():
        try:
            checkpoint.verify(directory, quick=True)
        except ValueError as error:
            raise ConfigError(f"model: {directory} is not whole: {error}; copy it again") from error
        except OSError as error:
            raise ConfigError(
                f"model: {directory} cannot be read just now: {error}; try again"
            ) from error
    document: dict[str, Any] = json.loads((directory / "config.json").read_bytes())
    if document.get("schema") != SCHEMA:
        raise ConfigError(
            f"model: {directory / 'config.json'} has schema {document.get('schema')!r}, not "
            f"{SCHEMA!r}"
        )
    vocabulary = Vocabulary((directory / "vocabulary.json").read_text(encoding="utf-8"))
    model = Transformer(ModelConfig(**document["model"]), document["vocabulary"])
    model.load_state_dict(torch.load(directory / "model.pt", map_location="cpu", weights_only=True))
    return model.to(device).eval(), vocabulary


def read_lines(stream: BinaryIO) -> list[str]:
    """The lines of UTF-8 text; a line ends at a line feed only. Raises ConfigError."""
    try:
        text = stream.read().decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"standard input: byte {error.start + 1} is not UTF-8") from error
    return text.removesuffix("\n").split("\n") if text else []


def main(argv: list[str] | None = None) -> int:
    """Entry of `python -m trainyard_trainers.translate.translate`."""
    settings = config.parse(TranslateConfig, argv, prog="trainyard_trainers.translate.translate")
    try:
        model, vocabulary = load(settings.model, torch.device(settings.device))
        lines = read_lines(sys.stdin.buffer)
    except ConfigError as error:
        print(f"trainyard_trainers.translate.translate: {error}", file=sys.stderr)
        return 2
    sys.stdout.buffer.write(
        "".join(
            f"{line}\n" for line in translate(model, vocabulary, lines, settings.search)
        ).encode()
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
