"""The name by which programs of users import `common.signals`: it stays for them."""

from .common.signals import FORWARDED, Requests

__all__ = [
    "FORWARDED",
    "Requests",
]
