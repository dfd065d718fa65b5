"""Of a conversation, what the assistant says counts, and no conversation is divided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from trainyard_trainers.common.config import ConfigError
from trainyard_trainers.llm import chat
from trainyard_trainers.llm.packing import IGNORED, PackedData
from trainyard_trainers.llm.tokenizer import BYTES, Document, load_tokenizer
from trainyard_trainers.llm.tokens import main, open_shards, write_documents

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% if m.role == 'assistant' %}<e>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
#: The same, with transformers' own marks of what the assistant says.
MARKED = (
    "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content }}<e>{% endgeneration %}"
    "{% else %}{{ m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
TALK = [
    {"role": "system", "content": "be kind"},
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "hello"},
    {"role": "user", "content": "1+1?"},
    {"role": "assistant", "content": "2"},
]


def tokenizer_at(directory: Path, template: str | None = TEMPLATE) -> Any:
    """A character is a token, and so is each tag."""
    import tokenizers
    import transformers

    tags = ["<system>", "<user>", "<assistant>", "<e>"]
    words = [*tags, *map(chr, range(32, 127))]
    model = tokenizers.models.WordLevel(
        {word: number for number, word in enumerate(words)}, unk_token=" "
    )
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    made.add_special_tokens(tags)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<e>")
    fast.chat_template = template
    fast.save_pretrained(directory)
    return fast


def counted(document: Document, fast: Any) -> str:
    chosen = [
        token for token, counts in zip(document.tokens, document.counts, strict=True) if counts
    ]
    return "".join(fast.convert_ids_to_tokens(chosen))


def test_the_assistants_words_and_their_end_count_and_nothing_else(tmp_path: Path) -> None:
    fast = tokenizer_at(tmp_path)
    document = chat.Template(str(tmp_path)).document(TALK)
    assert "".join(fast.convert_ids_to_tokens(document.tokens)) == (
        "<system>be kind<user>hi<assistant>hello<e><user>1+1?<assistant>2<e>"
    )
    assert counted(document, fast) == "hello<e>2<e>"


def test_tokens_and_what_counts_are_those_of_transformers_for_a_template_with_marks(
    tmp_path: Path,
) -> None:
    fast = tokenizer_at(tmp_path, MARKED)
    theirs = fast.apply_chat_template(
        TALK, return_dict=True, return_assistant_tokens_mask=True, tokenize=True
    )
    document = chat.Template(str(tmp_path)).document(TALK)
    assert document.tokens == list(theirs["input_ids"])
    assert list(document.counts) == list(theirs["assistant_masks"])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "a"}, "line 2 of .*: 'messages' must be a list of messages"),
        ({"messages": []}, "'messages' must be a list of messages"),
        ({"messages": "hi"}, "'messages' must be a list of messages"),
        ({"messages": TALK[:2]}, "no message is of role 'assistant'"),
        (7, "a row must hold keys and values"),
    ],
)
def test_a_row_without_a_conversation_is_named_by_its_line(
    tmp_path: Path, row: object, message: str
) -> None:
    tokenizer_at(tmp_path)
    rows = tmp_path / "talk.jsonl"
    rows.write_text(json.dumps({"messages": TALK}) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(ConfigError, match=message):
        list(chat.documents([rows], str(tmp_path), load_tokenizer(str(tmp_path))))


def test_a_template_that_rewrites_what_was_said_is_refused(tmp_path: Path) -> None:
    rewriting = "{{ messages|length }}" + TEMPLATE
    tokenizer_at(tmp_path, rewriting)
    with pytest.raises(ValueError, match="writes the messages before message 3 differently"):
        chat.Template(str(tmp_path)).document(TALK)


def test_without_a_template_the_completion_counts(tmp_path: Path) -> None:
    rows = tmp_path / "pairs.jsonl"
    rows.write_text(json.dumps({"prompt": "ab", "completion": "c"}) + "\n")
    found = list(chat.documents([rows], "bytes", BYTES))
    assert found == [Document([*b"abc", 256], b"\0\0\1\1")]
    rows.write_text(json.dumps({"messages": TALK}) + "\n")
    with pytest.raises(ConfigError, match="has no chat template, so texts under 'prompt' and"):
        list(chat.documents([rows], "bytes", BYTES))


def test_the_command_packs_conversations_with_what_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fast = tokenizer_at(tmp_path / "tokenizer")
    rows, output = tmp_path / "talk.jsonl", tmp_path / "tokens"
    pair = {"prompt": "why", "completion": "so"}
    rows.write_text(json.dumps({"messages": TALK}) + "\n" + json.dumps(pair) + "\n")
    words = ["--input", str(rows), "--tokenizer", str(tmp_path / "tokenizer")]
    assert main(["pack", *words, "--chat", "--output", str(output)]) == 0
    assert "1 shards: " in capsys.readouterr().out
    (shard,) = open_shards(output)
    shard.check()
    assert shard.counts is not None
    said = shard.tokens.to(torch.int64)[shard.counts.bool()].tolist()
    assert "".join(fast.convert_ids_to_tokens(said)) == "hello<e>2<e>so<e>"
    assert json.loads((output / "generation_config.json").read_text()) == {"eos_token_id": 3}


DOCUMENTS = [
    Document([1, 2, 3, 4], b"\0\0\1\1"),
    Document([5, 6, 7], b"\0\1\1"),
    Document([*range(10, 22)], bytes(2) + b"\1" * 10),
    Document([8, 9], b"\0\1"),
]


@pytest.fixture
def whole(tmp_path: Path) -> PackedData:
    write_documents(tmp_path / "a.tokens", DOCUMENTS, 30, masked=True)
    return PackedData(tmp_path, 8, "whole")


def test_a_window_holds_whole_documents_and_predicts_what_counts_in_them(whole: PackedData) -> None:
    assert len(whole) == 3
    batch = whole.batch(torch.tensor([0, 1, 2]))
    assert batch.tokens.tolist() == [
        [1, 2, 3, 4, 5, 6, 7, 0],
        [10, 11, 12, 13, 14, 15, 16, 17],
        [8, 9, 0, 0, 0, 0, 0, 0],
    ]
    no = IGNORED
    assert batch.targets.tolist() == [
        [no, 3, 4, no, 6, 7, no, no],
        [no, 12, 13, 14, 15, 16, 17, no],
        [9, no, no, no, no, no, no, no],
    ]
    assert batch.positions is not None
    assert batch.positions.tolist() == [
        [0, 1, 2, 3, 0, 1, 2, 0],
        [0, 1, 2, 3, 4, 5, 6, 7],
        [0, 1, 0, 0, 0, 0, 0, 0],
    ]


def test_the_tokens_that_count_are_counted_and_a_document_that_is_cut_is_told(
    whole: PackedData,
) -> None:
    assert [whole.targets(number) for number in range(3)] == [4, 6, 1]
    assert whole.cut == 1
    assert whole.identity()["packing"] == "whole"


def test_what_does_not_count_is_left_out_of_divided_windows_too(tmp_path: Path) -> None:
    write_documents(tmp_path / "a.tokens", DOCUMENTS[:2], 30, masked=True)
    data = PackedData(tmp_path, 6)
    assert data.batch(torch.tensor([0])).targets.tolist() == [
        [IGNORED, 3, 4, IGNORED, 6, 7],
    ]
    assert data.targets(0) == 4


def test_a_shard_that_lost_its_last_bytes_is_refused(tmp_path: Path) -> None:
    write_documents(path := tmp_path / "a.tokens", DOCUMENTS, 30, masked=True)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ConfigError, match="is truncated"):
        open_shards(tmp_path)
    with pytest.raises(ValueError, match="3 bytes say what counts of 4 tokens"):
        write_documents(path, [Document([1, 2, 3, 4], bytes(3))], 30, masked=True)
