"""The name by which programs of users import `loop.data`: it stays for them."""

from .loop.data import Stream, check_batch

__all__ = [
    "Stream",
    "check_batch",
]
