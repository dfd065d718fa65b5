"""A BERT of a few thousand random weights with a small vocabulary, as a Hugging Face directory."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.repository import ROOT

SAMPLES = ROOT / "tests/data" / "mrpc"


def write_vocabulary(path: Path) -> None:
    """Every word of the sample, and every letter at the beginning of a word and within one."""
    text = (SAMPLES / "train.tsv").read_text(encoding="utf-8").lower()
    words = sorted({word.strip('.,"') for word in text.split() if len(word.strip('.,"')) > 1})
    letters = sorted(set(text) - set(" \t\n"))
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    path.write_text(
        "\n".join([*special, *letters, *(f"##{letter}" for letter in letters), *words]) + "\n",
        encoding="utf-8",
    )


def make(directory: Path, *, seed: int = 0, positions: int = 64) -> Path:
    """The directory: config.json, model.safetensors, tokenizer. The model has no head yet."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizer

    directory.mkdir()
    write_vocabulary(directory / "vocab.txt")
    tokenizer = BertTokenizer(str(directory / "vocab.txt"))
    tokenizer.save_pretrained(directory)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=positions,
    )
    BertModel(config).save_pretrained(directory)
    return directory


if __name__ == "__main__":
    print(make(Path(sys.argv[1])))
