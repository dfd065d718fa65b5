"""The name by which programs of users import `common.attempt`: it stays for them."""

from .common.attempt import Attempt

__all__ = [
    "Attempt",
]
