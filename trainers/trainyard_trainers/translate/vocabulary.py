"""One subword vocabulary for both languages: byte-pair encoding of bytes, so that every text has
tokens and comes back as it was.

R. Sennrich, B. Haddow, A. Birch, "Neural Machine Translation of Rare Words with Subword Units"
(2016). Trained and run by the package `tokenizers`; the file it writes is part of every checkpoint
and of the final model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..common import packages
from ..common.config import ConfigError

#: Tokens of our own, before those of the package: no text can spell them.
PAD, BEGIN, END = range(3)
_OWN = 3
_BYTES = 256
#: A pair of subwords that comes less often than this is not worth a token.
_LEAST_PAIRS = 2


class Vocabulary:
    """Subwords and their numbers; `document` is the JSON text that makes the same vocabulary
    again.
    """

    def __init__(self, document: str) -> None:
        self.document = document
        self._tokenizer: Any = packages.needed(
            "tokenizers", "trainyard_trainers.translate"
        ).Tokenizer.from_str(document)

    @classmethod
    def train(cls, lines: Iterable[str], size: int) -> Vocabulary:
        """Of the text; the same text gives the same vocabulary.

        A short text may give fewer tokens than `size`.
        """
        if size < _OWN + _BYTES:
            raise ConfigError(
                f"vocabulary_size: {size} is too small for every byte to have a token; use "
                f"{_OWN + _BYTES} or more"
            )
        tokenizers = packages.needed("tokenizers", "trainyard_trainers.translate")
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=size - _OWN,
            min_frequency=_LEAST_PAIRS,
            initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
            special_tokens=[],
            show_progress=False,
        )
        tokenizer.train_from_iterator(lines, trainer)
        return cls(tokenizer.to_str())

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size()) + _OWN

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Tokens of each line, with END behind them."""
        return [
            [*(token + _OWN for token in one.ids), END]
            for one in self._tokenizer.encode_batch(list(lines))
        ]

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens, in one line; PAD, BEGIN and END are left out."""
        text: str = self._tokenizer.decode([token - _OWN for token in tokens if token >= _OWN])
        return " ".join(text.removeprefix(" ").splitlines())
