"""The name by which programs of users import `checkpoints.checkpoint`: it stays for them."""

from .checkpoints.checkpoint import Saved, find_newest, verify

__all__ = [
    "Saved",
    "find_newest",
    "verify",
]
