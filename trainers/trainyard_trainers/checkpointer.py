"""The name by which programs of users import `checkpoints.checkpointer`: it stays for them."""

from .checkpoints.checkpointer import Checkpointer, Files, load, load_own, rank_file

__all__ = [
    "Checkpointer",
    "Files",
    "load",
    "load_own",
    "rank_file",
]
