"""The name by which programs of users import `common.attempt`: it stays for them."""

from .common.attempt import DAY_SECONDS, Attempt

__all__ = [
    "DAY_SECONDS",
    "Attempt",
]
