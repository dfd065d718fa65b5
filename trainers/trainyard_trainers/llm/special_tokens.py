"""Which tokens begin, end and pad a text, for config.json: taken from what says it, never invented.

Where config.json leaves them out, transformers takes those of Llama 2 (1 and 2), and generation
ends at the wrong word. So what is not known is written as null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .config import TOKEN_IDS


def ids(document: Mapping[str, Any], tokenizer: Path | None) -> dict[str, Any]:
    """Of a model's config.json, and where that says nothing of a tokenizer's directory."""
    found = of_tokenizer(tokenizer) if tokenizer is not None else {}
    return {
        name: document[name] if document.get(name) is not None else found.get(name)
        for name in TOKEN_IDS
    }


def unknown(found: Mapping[str, Any]) -> tuple[str, ...]:
    """Those that people should know of: most models pad with no token of their own."""
    return tuple(name for name in ("bos_token_id", "eos_token_id") if found[name] is None)


def of_tokenizer(directory: Path) -> dict[str, Any]:
    """What the files of a Hugging Face directory say: the ids in generation_config.json and
    config.json, and the texts in tokenizer_config.json.
    """
    found: dict[str, Any] = {}
    for source in ("config.json", "generation_config.json"):
        document = _read(directory / source)
        found |= {name: document[name] for name in TOKEN_IDS if document.get(name) is not None}
    settings = _read(directory / "tokenizer_config.json")
    texts = {
        name: _content(settings.get(name.removesuffix("_id")))
        for name in TOKEN_IDS
        if name not in found
    }
    if any(texts.values()):  # a file of many megabytes
        by_text = _by_text(directory)
        found |= {name: by_text[text] for name, text in texts.items() if text in by_text}
    return found


def _content(token: Any) -> str:
    content = token.get("content") if isinstance(token, Mapping) else token
    return content if isinstance(content, str) else ""


def _by_text(directory: Path) -> dict[str, int]:
    """Special tokens of tokenizer.json, and the whole vocabulary where it is a plain table."""
    document = _read(directory / "tokenizer.json")
    added = {
        token["content"]: int(token["id"])
        for token in document.get("added_tokens") or ()
        if isinstance(token, Mapping) and "content" in token and "id" in token
    }
    model = document.get("model")
    vocabulary = model.get("vocab") if isinstance(model, Mapping) else None
    return {**(vocabulary if isinstance(vocabulary, dict) else {}), **added}


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return found if isinstance(found, dict) else {}
