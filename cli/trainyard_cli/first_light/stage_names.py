"""The names of a first run's stages, by which the world, the looks and the file speak of them."""

from __future__ import annotations

from typing import Literal

#: In the order in which they come. docs/operations.md says what each proves.
StageName = Literal[
    "account",
    "price",
    "create",
    "ready",
    "command",
    "train",
    "resume",
    "export",
    "teardown",
    "nothing-left",
]
