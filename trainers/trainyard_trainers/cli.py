"""The command `trainyard-trainers`: what people do with checkpoints besides training.

trainyard-trainers to-hf checkpoints/step-000000000500-attempt-1 out/ --dtype bfloat16
trainyard-trainers from-hf hf-directory out/ --tp 8 --xser
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
_UNITS = {
    "": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}


def size(text: str) -> int:
    """Bytes of a size such as 5GB or 200MiB. Raises argparse.ArgumentTypeError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _UNITS or float(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no size; give one such as 5GB or 500MB")
    return int(float(match[1]) * _UNITS[match[2]])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="trainyard-trainers",
        description="Convert checkpoints to and from Hugging Face directories.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for add in (_add_to_hf, _add_from_hf):
        _add_common(add(commands))
    return parser


def _add_to_hf(commands: Commands) -> argparse.ArgumentParser:
    command = commands.add_parser(
        "to-hf", help="a checkpoint to a directory that transformers reads"
    )
    command.add_argument(
        "checkpoint",
        type=Path,
        help="a Trainyard checkpoint, or a directory in neuronx-distributed's layout",
    )
    command.add_argument("out", type=Path, help="the directory to make")
    command.add_argument(
        "--max-shard-size", type=size, default="5GB", help="largest size of a file (default 5GB)"
    )
    command.add_argument(
        "--config",
        type=Path,
        help="the model's config.json, if the checkpoint does not say what the model is",
    )
    command.add_argument(
        "--tokenizer", type=Path, help="directory whose tokenizer files are copied along"
    )
    command.add_argument(
        "--base",
        type=Path,
        help="the model that a checkpoint of adapters (lora) belongs to, if it lies elsewhere now",
    )
    return command


def _add_from_hf(commands: Commands) -> argparse.ArgumentParser:
    command = commands.add_parser(
        "from-hf", help="a Hugging Face directory to a checkpoint in neuronx-distributed's layout"
    )
    command.add_argument("directory", type=Path, help="with config.json and *.safetensors")
    command.add_argument(
        "out", type=Path, help="the directory to make; the checkpoint is <out>/step_<step>"
    )
    command.add_argument("--tp", type=int, required=True, help="number of tensor-parallel ranks")
    command.add_argument(
        "--step", type=int, default=0, help="the step in the checkpoint's name (default 0)"
    )
    command.add_argument(
        "--xser",
        action="store_true",
        help="one file a tensor, as neuronx-distributed writes with use_xser",
    )
    return command


def _add_common(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "float16"),
        help="of the weights (default: as they are)",
    )
    command.add_argument(
        "--check",
        choices=("auto", "always", "never"),
        default="auto",
        help="compare the logits with those of transformers' own model",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0; 1 when the logits differ; 2 when something that was given does not fit."""
    words = _parser().parse_args(argv)
    from .llm import convert  # torch: not for --help

    dtype = convert.DTYPES[words.dtype] if words.dtype else None
    try:
        if words.command == "to-hf":
            converted = convert.to_hf(
                words.checkpoint,
                words.out,
                dtype=dtype,
                shard_bytes=words.max_shard_size,
                config=words.config,
                tokenizer=words.tokenizer,
                base=words.base,
                check=words.check,
            )
        else:
            converted = convert.from_hf(
                words.directory,
                words.out,
                tp=words.tp,
                xser=words.xser,
                step=words.step,
                dtype=dtype,
                check=words.check,
            )
    except convert.CheckFailed as error:
        print(f"trainyard-trainers {words.command}: {error}", file=sys.stderr)
        return 1
    except (ValueError, OSError, ImportError) as error:
        print(f"trainyard-trainers {words.command}: {error}", file=sys.stderr)
        return 2
    print(converted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
