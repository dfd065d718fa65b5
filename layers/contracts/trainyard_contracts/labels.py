"""Labels: what people write on runs and clusters, to find them again."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Annotated, TypeVar

from pydantic import Field

from .base import judged

V = TypeVar("V")
#: Labels of one run or cluster.
MOST_LABELS = 20
#: Letters of a label's key, once it is normalised.
LONGEST_KEY = 63
#: Letters of a label's value, once it is normalised.
LONGEST_VALUE = 128
#: In a key, beside letters, digits and the marks that belong to letters.
_KEY_SIGNS = frozenset("_./:@-")
#: Control characters, halves of characters, and line ends.
_REFUSED = frozenset({"Cc", "Cs", "Zl", "Zp"})
#: These change the order in which what follows them is read: a list would show another text.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
#: In words of Persian and of languages of India, and in emoji.
_JOINERS = frozenset("\u200c\u200d")


def label_key(text: str) -> str:
    """The key in its one form (NFC). Raises ValueError with what would be right."""
    key = unicodedata.normalize("NFC", text)
    if not 1 <= len(key) <= LONGEST_KEY:
        raise ValueError(f"key {_shown(text)} must have 1 to {LONGEST_KEY} letters")
    if not key[0].isalnum() or not all(_of_key(sign) for sign in key):
        raise ValueError(
            f"key {_shown(text)} must begin with a letter or digit, and have only letters, digits "
            "and _ . / : @ -"
        )
    return key


def label_value(key: str, text: str) -> str:
    """The value in its one form (NFC). Raises ValueError with what would be right."""
    value = unicodedata.normalize("NFC", text)
    if len(value) > LONGEST_VALUE:
        raise ValueError(
            f"the value of {_shown(key)} must have at most {LONGEST_VALUE} letters, not "
            f"{len(value)}"
        )
    for sign in value:
        if unicodedata.category(sign) in _REFUSED or sign in _TURNING:
            raise ValueError(
                f"the value of {_shown(key)} has U+{ord(sign):04X}; control characters, line ends "
                "and signs that turn the direction of text are not taken: remove it"
            )
    return value


def normal_labels(given: Mapping[str, str]) -> dict[str, str]:
    """All of them in their one form. Raises ValueError with what would be right."""
    if len(given) > MOST_LABELS:
        raise ValueError(f"has {len(given)} labels; at most {MOST_LABELS} are taken")
    return {key: label_value(key, value) for key, value in _by_key(given).items()}


def with_changes(labels: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """The labels after some were set, and those taken away whose value is None.

    Raises ValueError with what would be right.
    """
    normal = _by_key(changes)
    taken_away = {key for key, value in normal.items() if value is None}
    given = {key: value for key, value in normal.items() if value is not None}
    kept = {key: value for key, value in labels.items() if key not in taken_away}
    return normal_labels({**kept, **given})


def _by_key(given: Mapping[str, V]) -> dict[str, V]:
    found: dict[str, V] = {}
    for text, value in given.items():
        key = label_key(text)
        if key in found:
            raise ValueError(f"key {_shown(text)} is there twice, written in two ways; keep one")
        found[key] = value
    return found


Labels = Annotated[
    dict[str, str],
    Field(
        json_schema_extra={"maxProperties": MOST_LABELS},
        description=f"to find it by: at most {MOST_LABELS}; keys of 1 to {LONGEST_KEY} letters, "
        f"digits and _ . / : @ -, values of at most {LONGEST_VALUE} letters of any script, without "
        "control characters; kept in Unicode's form NFC",
    ),
    judged(normal_labels),
]


def _of_key(sign: str) -> bool:
    return (
        sign.isalnum()
        or sign in _KEY_SIGNS
        or sign in _JOINERS
        or unicodedata.category(sign).startswith("M")
    )


def _shown(text: str) -> str:
    return ascii(text[:LONGEST_KEY]) if not text.isprintable() else f"'{text[:LONGEST_KEY]}'"
