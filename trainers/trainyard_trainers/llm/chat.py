"""Conversations as the tokenizer's chat template writes them, and which of their tokens count: what
the assistant says, and nothing that it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..common.config import ConfigError
from ..common.packages import needed
from .inputs import rows
from .tokenizer import Document, Tokenizer

Messages = Sequence[Mapping[str, Any]]


def documents(paths: Iterable[Path], directory: str, plain: Tokenizer) -> Iterator[Document]:
    """A document for each row that holds a conversation. Raises ConfigError, which names the row.

    A row has `messages` (role and content each), or `prompt` and `completion`. Without a chat
    template the latter two are written one after the other.
    """
    template = Template(directory) if directory != "bytes" else None
    for path in paths:
        for number, row in rows(path):
            where = f"input: line {number} of {path}"
            try:
                yield _document(row, template, plain)
            except ValueError as error:
                raise ConfigError(f"{where}: {error}") from error


def _document(row: Any, template: Template | None, plain: Tokenizer) -> Document:
    if not isinstance(row, Mapping):
        raise ValueError("a row must hold keys and values")
    if template is not None and template.is_there:
        return template.document(_messages(row))
    prompt, completion = row.get("prompt"), row.get("completion")
    if not isinstance(prompt, str) or not isinstance(completion, str):
        raise ValueError(
            "the tokenizer has no chat template, so texts under 'prompt' and 'completion' are "
            f"wanted; there are {', '.join(map(str, row))}"
        )
    given, said = plain.encode(prompt), [*plain.encode(completion), plain.end]
    return Document([*given, *said], bytes(len(given)) + b"\1" * len(said))


def _messages(row: Mapping[str, Any]) -> Messages:
    if "messages" not in row and {"prompt", "completion"} <= row.keys():
        pair = (("user", row["prompt"]), ("assistant", row["completion"]))
        return [{"role": role, "content": content} for role, content in pair]
    found = row.get("messages")
    well_formed = isinstance(found, Sequence) and all(
        isinstance(one, Mapping) and isinstance(one.get("role"), str) for one in found
    )
    if not found or isinstance(found, str) or not well_formed:
        raise ValueError(
            "'messages' must be a list of messages, each with 'role' and 'content'; or give "
            "'prompt' and 'completion'"
        )
    return list(found)


class Template:
    """The chat template of a Hugging Face directory; needs the package transformers."""

    def __init__(self, directory: str) -> None:
        transformers = needed("transformers", f"the chat template of {directory}")
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
        except (OSError, ValueError) as error:
            raise ConfigError(f"tokenizer: {directory} cannot be read: {error}") from error
        self.is_there = bool(getattr(self._tokenizer, "chat_template", None))

    def _written(self, messages: Messages, *, asks: bool = False) -> str:
        try:
            text = self._tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=asks
            )
        except Exception as error:  # a template is a program of its own, and fails as it likes
            raise ValueError(f"the chat template refuses it: {error}") from error
        return str(text)

    def document(self, messages: Messages) -> Document:
        """The tokens of a conversation. Raises ValueError where it cannot be seen what the
        assistant says: its words must follow the text before them.
        """
        text = self._written(messages)
        spans = [
            self._span(text, messages, number)
            for number, message in enumerate(messages)
            if message["role"] == "assistant"
        ]
        if not spans:
            raise ValueError("no message is of role 'assistant', so there is nothing to learn")
        encoded = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        counts = bytes(
            any(first <= start < end for first, end in spans)
            for start, _ in encoded["offset_mapping"]
        )
        return Document(list(encoded["input_ids"]), counts)

    def _span(self, text: str, messages: Messages, number: int) -> tuple[int, int]:
        """Where, in the whole text, a message of the assistant begins and ends."""
        before = self._written(messages[:number], asks=True)
        after = self._written(messages[: number + 1])
        if not (after.startswith(before) and text.startswith(after)):
            raise ValueError(
                f"the chat template writes the messages before message {number + 1} differently "
                "when more follow, so it cannot be seen which words are the assistant's; split the "
                "conversation so that the assistant speaks last and once, or give another template"
            )
        return len(before), len(after)
