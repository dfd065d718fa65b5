"""The name by which programs of users import `common.progress`: it stays for them."""

from .common.progress import Progress, StepReport

__all__ = [
    "Progress",
    "StepReport",
]
