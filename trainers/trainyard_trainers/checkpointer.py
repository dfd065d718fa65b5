"""The name by which programs of users import `checkpoints.checkpointer`: it stays for them."""

from .checkpoints.checkpointer import (
    FAILED_SAVES_LIMIT,
    Checkpointer,
    Files,
    load,
    load_own,
    rank_file,
)

__all__ = [
    "FAILED_SAVES_LIMIT",
    "Checkpointer",
    "Files",
    "load",
    "load_own",
    "rank_file",
]
