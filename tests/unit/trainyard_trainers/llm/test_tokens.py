"""Token shards say what is wrong with them; packed windows hold every token once, and mask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from trainyard_trainers.common.config import ConfigError
from trainyard_trainers.llm import tokens
from trainyard_trainers.llm.model import document_mask
from trainyard_trainers.llm.packing import IGNORED, PackedData
from trainyard_trainers.llm.tokenizer import BYTES, load_tokenizer
from trainyard_trainers.llm.tokens import Shard, open_shards, write_shard


@pytest.mark.parametrize(("vocab_size", "dtype"), [(65536, torch.uint16), (65537, torch.uint32)])
def test_a_shard_gives_back_what_was_written(
    tmp_path: Path, vocab_size: int, dtype: torch.dtype
) -> None:
    documents = [[1, 2, vocab_size - 1], [7], [5, 6]]
    header = write_shard(tmp_path / "a.tokens", iter(documents), vocab_size)
    shard = Shard(tmp_path / "a.tokens")
    shard.check()
    assert shard.tokens.dtype == dtype
    assert shard.tokens.tolist() == [1, 2, vocab_size - 1, 7, 5, 6]
    assert shard.starts.tolist() == [0, 3, 4]
    assert (header.size, shard.header) == ((tmp_path / "a.tokens").stat().st_size, header)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (
            lambda raw: raw[:70],
            r"a.tokens is truncated: it ends at offset 70, in token 3 of 6, "
            r"and should have 104 bytes",
        ),
        (
            lambda raw: raw[:90],
            r"is truncated: it ends at offset 90, in the index of its documents",
        ),
        (
            lambda raw: raw[:20],
            r"is truncated: it ends at offset 20, within its header of 64 bytes",
        ),
        (lambda raw: raw + b"x", r"is damaged: it goes on after offset 104"),
        (
            lambda raw: raw[:25] + b"\x09" + raw[26:],
            r"the header at offset 0 does not have the CRC-32 at offset 44",
        ),
        (lambda raw: b"PARQUET1" + raw[8:], r"is no token shard: offset 0 has b'PARQUET1'"),
    ],
)
def test_a_shard_that_is_not_whole_is_refused_with_its_name_and_the_offset(
    tmp_path: Path, harm: object, message: str
) -> None:
    path = tmp_path / "a.tokens"
    write_shard(path, [[1, 2, 3], [7], [5, 6]], 100)
    path.write_bytes(harm(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(ConfigError, match=message):
        Shard(path)


def test_a_flipped_byte_is_found_by_check(tmp_path: Path) -> None:
    path = tmp_path / "a.tokens"
    write_shard(path, [[1, 2, 3]], 100)
    raw = bytearray(path.read_bytes())
    raw[66] ^= 1
    path.write_bytes(raw)
    with pytest.raises(ConfigError, match=r"a.tokens is damaged: offsets 64 to 80 have CRC-32"):
        Shard(path).check()
    assert tokens.main(["check", "--input", str(tmp_path)]) == 2


def test_shards_of_two_vocabularies_and_no_shards_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no \*.tokens file; make some with"):
        open_shards(tmp_path)
    write_shard(tmp_path / "a.tokens", [[1]], 100)
    write_shard(tmp_path / "b.tokens", [[1]], 101)
    with pytest.raises(
        ConfigError, match=r"b.tokens has a vocabulary of 101, but .*a.tokens of 100"
    ):
        open_shards(tmp_path)


def test_a_token_outside_of_the_vocabulary_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="token 100 is outside of the vocabulary of 100"):
        write_shard(tmp_path / "a.tokens", [[1, 100]], 100)
    assert not list(tmp_path.glob("*.tokens"))


def test_pack_makes_shards_of_text_and_never_cuts_a_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["ab", "", "cdé", "f"]
    (tmp_path / "in.jsonl").write_text("\n".join(json.dumps({"body": text}) for text in texts))
    words = [
        "pack",
        "--input",
        str(tmp_path / "in.jsonl"),
        "--tokenizer",
        "bytes",
        "--output",
        str(tmp_path / "out"),
        "--key",
        "body",
    ]
    assert tokens.main([*words, "--shard-tokens", "4"]) == 0
    assert capsys.readouterr().out == "2 shards: 10 tokens, 3 documents, vocabulary 272\n"
    first, second = open_shards(tmp_path / "out")
    assert bytes(first.tokens.tolist()[:2]) == b"ab"
    assert first.tokens.tolist()[2] == BYTES.end
    assert (first.starts.tolist(), second.starts.tolist()) == ([0, 3], [0])
    assert tokens.main(words) == 2
    assert "has shards already" in capsys.readouterr().err


def test_a_hugging_face_tokenizer_ends_every_document_and_brings_the_models_vocabulary(
    tmp_path: Path,
) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    fast = Tokenizer(
        models.WordLevel({"<unk>": 0, "</s>": 1, "red": 2, "blue": 3}, unk_token="<unk>")
    )
    fast.pre_tokenizer = pre_tokenizers.Whitespace()
    fast.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ConfigError, match="names no end of text"):
        load_tokenizer(str(tmp_path))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "</s>"}}))
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 8}))
    tokenizer = load_tokenizer(str(tmp_path))
    assert (tokenizer.encode("blue red green"), tokenizer.end, tokenizer.vocab_size) == (
        [3, 2, 0],
        1,
        8,
    )
    assert load_tokenizer(str(tmp_path), 64).vocab_size == 64
    with pytest.raises(ConfigError, match="vocab-size: 7 is smaller than the 8 of the tokenizer"):
        load_tokenizer(str(tmp_path), 7)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--tokenizer", "{dir}/none"],
            "tokenizer: {dir}/none/tokenizer.json is missing; "
            "give a Hugging Face directory that has it, or 'bytes'",
        ),
        (
            ["--tokenizer", "bytes", "--input", "{dir}/absent.txt"],
            "input: {dir}/absent.txt: [Errno 2]",
        ),
        (
            ["--tokenizer", "bytes", "--key", "words"],
            "input: line 1 of {dir}/in.jsonl has no text under 'words'",
        ),
    ],
)
def test_pack_names_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "x"}\n')
    given = [
        "pack",
        "--input",
        f"{tmp_path}/in.jsonl",
        "--output",
        f"{tmp_path}/out",
        *(word.format(dir=tmp_path) for word in words),
    ]
    assert tokens.main(given) == 2
    assert message.format(dir=tmp_path) in capsys.readouterr().err


DOCUMENTS = [[1, 2, 3, 4, 5], [6, 7], [8, 9, 10, 11, 12, 13, 14, 15], [16], [17, 18, 19]]


def packed(directory: Path, sequence: int, **more: str) -> PackedData:
    if not directory.exists():
        directory.mkdir()
        write_shard(directory / "a.tokens", DOCUMENTS, 100)
        write_shard(directory / "b.tokens", [[50 + number for number in range(9)]], 100)
    return PackedData(directory, sequence, **more)  # type: ignore[arg-type]


def test_windows_hold_every_token_once_and_no_target_crosses_into_another_document(
    tmp_path: Path,
) -> None:
    data = packed(tmp_path / "data", 4)
    assert len(data) == 4 + 2  # the last two of the first shard's 19 tokens are left out
    batch = data.batch(torch.arange(len(data)))
    assert batch.tokens.flatten().tolist() == [*range(1, 17), *range(50, 58)]
    follows = {
        document[place]: document[place + 1]
        for document in DOCUMENTS
        for place in range(len(document) - 1)
    }
    follows |= {number: number + 1 for number in range(50, 58)}
    assert batch.targets.flatten().tolist() == [
        follows.get(token, IGNORED) for token in batch.tokens.flatten().tolist()
    ]
    assert [data.targets(number) for number in range(len(data))] == (batch.targets != IGNORED).sum(
        1
    ).tolist()


def test_positions_begin_anew_with_each_document_and_the_mask_keeps_documents_apart(
    tmp_path: Path,
) -> None:
    batch = packed(tmp_path / "data", 9).batch(torch.tensor([0]))
    assert batch.positions is not None
    assert batch.positions.tolist() == [[0, 1, 2, 3, 4, 0, 1, 0, 1]]
    mask = document_mask(batch.positions)[0, 0]
    belongs = [0, 0, 0, 0, 0, 1, 1, 2, 2]
    assert mask.tolist() == [
        [belongs[row] == belongs[column] and column <= row for column in range(9)]
        for row in range(9)
    ]


def test_plain_packing_counts_every_token_and_needs_no_positions(tmp_path: Path) -> None:
    data = packed(tmp_path / "data", 4, packing="plain")
    batch = data.batch(torch.arange(4))
    assert batch.positions is None
    assert batch.targets.flatten().tolist() == list(range(2, 18))
    assert data.targets(0) == 4


def test_a_window_of_one_document_needs_no_positions(tmp_path: Path) -> None:
    assert packed(tmp_path / "data", 4).batch(torch.tensor([4, 5])).positions is None


def test_a_sequence_longer_than_every_shard_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"sequence: 19 is longer than every shard of .*; use at most 18"
    ):
        packed(tmp_path / "data", 19)
